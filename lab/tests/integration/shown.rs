//! Sub-models and top models that their owners show: attacked over the sockets as in one place, and shown to nobody else.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use tonic::Code;
use vfl_attack as attack;
use vfl_attack::{AdversaryView, AttackConfig, KnownModel, KnownNetwork, Method, Replacement};
use vfl_auditor::report::{Outcome, ParameterKnowledge, Refused};
use vfl_coordinator::config::TopGrant;
use vfl_core::model::{Combiner, ModelConfig, SubModel, heads};
use vfl_core::types::{ConfidenceScores, FeatureBlock, ModelVersion, ReleasedScores};
use vfl_passive_party::config::{Grant, ReleasePolicy};
use vfl_passive_party::release::releases;
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_protocol::{MAX_MESSAGE_BYTES, ReleasedSubModel, ShownModel, pb};
use vfl_server::service::{Role, channel};
use vfl_state::{ShareStore, StoredShare};
use vfl_testbed::deployment::{Deployment, white_box};
use vfl_transform::TransformConfig;

use super::helped::{RECORDS, errors, near, plan, report, run, values};
use super::networks::{config, embeddings, mlp, top_model, trained};
use super::support::{Trained, coordinator_client, credentials};

fn share(here: &Trained, party: &str) -> StoredShare {
    let store = ShareStore::open(&here.deployment.party_dir(party)).unwrap();
    store.load(&ModelVersion::new(here.version.as_str()).unwrap()).unwrap()
}

fn passive_shares(here: &Trained) -> Vec<StoredShare> {
    here.split.passive().iter().map(|party| share(here, party.name.as_str())).collect()
}

/// The model's settings as they are trained.
fn spec_of(model: &ModelConfig, here: &Trained) -> vfl_core::model::ModelSpec {
    let k = here.dataset.class_names().len() as u32;
    let party = model.sub_model(k).unwrap();
    model.model(k, party.clone(), vec![party; here.split.passive().len()]).unwrap()
}

/// Mean squared error of gradient inversion on the first records, with all of the model and the scores worked out here.
fn in_one_place(here: &Trained, model: &ModelConfig, attack: &AttackConfig) -> f64 {
    let (k, spec) = (here.dataset.class_names().len(), spec_of(model, here));
    let y = values(here, here.split.active(), 0, RECORDS);
    let own = share(here, "active").model().outputs(&y).unwrap();
    let shares = passive_shares(here);
    let mut outputs = vec![own.clone()];
    let mut truth = Vec::new();
    for (party, share) in here.split.passive().iter().zip(&shares) {
        let x = values(here, &party.columns, 0, RECORDS);
        outputs.push(share.model().outputs(&x).unwrap());
        truth.push(x);
    }
    let top = spec.top().map(|_| top_model(here));
    let stored = top
        .as_ref()
        .map(|top| vfl_core::model::Parameters::of(top.model(), top.model().snapshot()));
    let logits =
        heads::restore(&spec, k as u32, stored.as_ref()).unwrap().combine(outputs).unwrap();
    let released = ReleasedScores::Probabilities(ConfidenceScores::softmax(logits).into_matrix());

    let restored = |share: &StoredShare| -> Arc<dyn SubModel> {
        let shown = ShownModel::of(share.model(), &share.feature_names).unwrap();
        ShownModel::from_wire(&shown.to_wire(), share.model().spec(), share.model().features())
            .unwrap()
            .1
            .into()
    };
    let parts = shares.iter().map(&restored).collect();
    let network = match &top {
        None => KnownNetwork::summed(parts),
        Some(top) => KnownNetwork::under_top(parts, restored(top)).unwrap(),
    };
    let (own, d) = (own.into_matrix(), y.nrows());
    let below =
        DMatrix::from_fn(
            d + own.nrows(),
            RECORDS,
            |i, j| if i < d { y[(i, j)] } else { own[(i - d, j)] },
        );
    let w_act =
        DMatrix::from_fn(
            k,
            below.nrows(),
            |i, j| if top.is_none() && j == d + i { 1.0 } else { 0.0 },
        );
    let known = KnownModel::of_network(w_act, DVector::zeros(k), network).unwrap();
    let below = FeatureBlock::new(below).unwrap();
    let view = AdversaryView::new(&known, &below, &released, Replacement::default()).unwrap();
    let found =
        attack::run(&*attack.method().build(attack.settings()), &view, 1).unwrap().estimates;
    let mut from = 0;
    let mut squares = 0.0;
    for x in &truth {
        squares += (found.rows(from, x.nrows()) - x).norm_squared();
        from += x.nrows();
    }
    squares / (from * RECORDS) as f64
}

/// Gradient inversion through networks, summed and under a top model, gives over the sockets what it gives in one place; without the
/// parameters it does not run, and the report says which.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_shown_is_attacked_as_in_one_place() {
    for model in [mlp(&[8, 8], "sigmoid"), embeddings(&[8], 6, &[9])] {
        let here = trained(2, 1, &config(model.clone(), 20)).await;
        let gradient_inversion =
            AttackConfig::new(Method::GradientInversion, [("steps", "4000"), ("start", "half")])
                .unwrap();
        let generative =
            AttackConfig::new(Method::GenerativeRegression, [("epochs", "20")]).unwrap();
        let asked = |here: &Trained| {
            plan(
                here,
                vec![
                    gradient_inversion.clone(),
                    generative.clone(),
                    Method::HalfStarLayerwise.into(),
                    Method::HalfStar.into(),
                    Method::Half.into(),
                ],
                Default::default(),
            )
        };
        let findings = run(&here, &asked(&here)).await.unwrap();
        assert_eq!(findings.parameters(), ParameterKnowledge::Hidden);
        let refused = |name: &str| {
            let attacks = &findings.audits[0].attacks;
            match &attacks.iter().find(|attack| attack.name.starts_with(name)).unwrap().outcome {
                Outcome::NotRun { why, .. } => *why,
                other => panic!("{name}: {other:?}"),
            }
        };
        assert_eq!(refused("gradient_inversion"), Refused::ParametersHidden);
        assert_eq!(refused("generative_regression"), Refused::ParametersHidden);

        let here = here.again(|spec| spec.release = white_box()).await;
        let findings = run(&here, &asked(&here)).await.unwrap();
        assert_eq!(findings.parameters(), ParameterKnowledge::True);
        let audit = &findings.audits[0];
        assert_eq!(audit.threat_model.parameters, ParameterKnowledge::True);
        let name = gradient_inversion.to_string();
        let expected = in_one_place(&here, &model, &gradient_inversion);
        near(errors(audit, &name).mse, expected);
        let guess = errors(audit, "half").mse;
        // It is trained on what it attacks, in an order and with noise of its own.
        let learnt = errors(audit, &generative.to_string()).mse;
        assert!(
            (learnt - in_one_place(&here, &model, &generative)).abs() < 0.3 * guess,
            "{learnt}"
        );
        assert!(expected < 0.3 * guess, "{model:?}: {expected}, {guess}");
        let Outcome::NotRun { why, reason } =
            &audit.attacks.iter().find(|attack| attack.name == "half_star").unwrap().outcome
        else {
            panic!("half_star ran on a network")
        };
        assert_eq!(*why, Refused::Unsuitable);
        assert!(reason.contains("gradient_inversion"), "{reason}");
        report(&findings);
        // What was shown is on record, once for each party.
        for party in here.split.passive() {
            let shown = releases(&here.deployment.party_dir(party.name.as_str())).unwrap();
            assert_eq!(shown.len(), 1);
            assert_eq!(
                (shown[0].role.as_str(), &shown[0].transform),
                ("active-party", &TransformConfig::None {})
            );
        }
        here.deployment.stop().await.unwrap();
    }
}

async fn sub_model(
    deployment: &Deployment,
    role: Role,
    version: &str,
) -> Result<pb::ReleaseParametersResponse, tonic::Status> {
    let peer = &deployment.passive_peers()[0];
    let client = PassivePartyClient::new(channel(&credentials(deployment, role), peer).unwrap());
    let request = pb::ReleaseParametersRequest { model_version: version.to_owned() };
    let mut client = client.max_decoding_message_size(MAX_MESSAGE_BYTES);
    client.release_parameters(request).await.map(tonic::Response::into_inner)
}

async fn top_of(
    deployment: &Deployment,
    version: &str,
) -> Result<pb::ReleaseTopModelResponse, tonic::Status> {
    let request = pb::ReleaseTopModelRequest { model_version: version.to_owned() };
    let mut client = coordinator_client(deployment, Role::ActiveParty);
    client.release_top_model(request).await.map(tonic::Response::into_inner)
}

/// What is shown is the sub-model to the bit, to the active party alone, and under no transform of weights; the top model is the
/// coordinator's own to show.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_is_shown_as_it_is_or_not_at_all() {
    let model = embeddings(&[8], 6, &[9]);
    let here = trained(1, 3, &config(model.clone(), 3)).await;
    let spec = spec_of(&model, &here);
    let nothing = sub_model(&here.deployment, Role::ActiveParty, &here.version).await.unwrap_err();
    assert_eq!(nothing.code(), Code::PermissionDenied);
    let nothing = top_of(&here.deployment, &here.version).await.unwrap_err();
    assert!(
        nothing.code() == Code::PermissionDenied && nothing.message().contains("[release]"),
        "{nothing}"
    );

    let here = here.again(|spec| spec.release = white_box()).await;
    let answer = sub_model(&here.deployment, Role::ActiveParty, &here.version).await.unwrap();
    let shown = ReleasedSubModel::model_from_wire(&answer, &spec.passive()[0], 3).unwrap();
    assert_eq!(shown.snapshot(), share(&here, "passive-1").model().snapshot());
    let top = top_of(&here.deployment, &here.version).await.unwrap().top_model;
    let (_, top) = ShownModel::from_wire(&top, spec.top().unwrap(), 12).unwrap();
    assert_eq!(top.snapshot(), top_model(&here).model().snapshot());
    let refused = sub_model(&here.deployment, Role::Coordinator, &here.version).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    assert!(refused.message().contains("nothing of such a model is released"), "{refused}");

    // Sub-models without the top model: embeddings that nothing is known of stand between them and the scores.
    here.deployment.stop().await.unwrap();
    let again = super::support::spec(here.dir.path(), &here.dataset, &here.split);
    let hidden = Deployment::start_with(again, |_, settings| {
        settings.release.to_active_party = TopGrant::Nothing;
        Ok(())
    });
    let here = Trained { deployment: hidden.await.unwrap(), ..here };
    let findings =
        run(&here, &plan(&here, vec![Method::GradientInversion.into()], Default::default()))
            .await
            .unwrap();
    assert_eq!(findings.parameters(), ParameterKnowledge::Hidden);
    assert!(findings.shown[0].granted, "the passive party shows its part all the same");
    let outcome = &findings.audits[0].attacks[0].outcome;
    assert!(
        matches!(outcome, Outcome::NotRun { why: Refused::ParametersHidden, .. }),
        "{outcome:?}"
    );

    let here = here
        .again(|spec| {
            let negated = Grant::Transformed(TransformConfig::Negate {});
            spec.release = ReleasePolicy { to_active_party: negated, ..white_box() };
        })
        .await;
    let refused = sub_model(&here.deployment, Role::ActiveParty, &here.version).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    assert!(refused.message().contains("nothing of such a model is released"), "{refused}");
    assert_eq!(spec.combiner(), Combiner::Concat);
    here.deployment.stop().await.unwrap();
}
