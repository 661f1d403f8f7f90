//! Transformed parameters over the sockets: predictions stay, releases stay, and nobody is told more than the policy says.

use nalgebra::{DMatrix, DVector};
use tonic::Code;
use vfl_attack::Method;
use vfl_auditor::audit;
use vfl_auditor::audit::{Findings, Plan};
use vfl_auditor::report::{
    Audit, DefenseKnowledge, Errors, Observations, Outcome, ParameterKnowledge,
};
use vfl_core::model::TrainingConfig;
use vfl_core::types::{ModelVersion, ReleasedScores};
use vfl_defense::Policy;
use vfl_numerics::{PseudoInverse, row_differences, three_significant_digits};
use vfl_passive_party::config::{AuditPolicy, Grant, Settings, TrainingPolicy};
use vfl_passive_party::release::{release_table, releases};
use vfl_protocol::pb::evaluate_reconstruction_request::Message as Ask;
use vfl_protocol::pb::evaluate_reconstruction_response::Message as Answer;
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_protocol::pb::reconstruct_event::Event;
use vfl_protocol::pb::release_parameters_response::Kind;
use vfl_protocol::{ShownParameters, decode_columns, pb};
use vfl_server::service::{Peer, Role, channel};
use vfl_state::{ShareStore, StoredShare};
use vfl_testbed::deployment::{Deployment, DeploymentSpec};
use vfl_transform::TransformConfig;

use super::support::{
    Trained, config, coordinator_client, credentials, dataset, score, spec, split, test_ids,
    trained, training_ids,
};

const NONE: TransformConfig = TransformConfig::None {};

fn shown(transform: TransformConfig) -> impl FnOnce(&mut DeploymentSpec) {
    move |spec| spec.release.to_active_party = Grant::Transformed(transform)
}

fn passive_client(
    deployment: &Deployment,
    peer: &Peer,
    role: Role,
) -> PassivePartyClient<tonic::transport::Channel> {
    PassivePartyClient::new(channel(&credentials(deployment, role), peer).unwrap())
}

async fn released(
    here: &Trained,
    role: Role,
) -> Result<pb::ReleaseParametersResponse, tonic::Status> {
    let peer = here.deployment.passive_peers().remove(0);
    let request = pb::ReleaseParametersRequest { model_version: here.version.clone() };
    Ok(passive_client(&here.deployment, &peer, role)
        .release_parameters(request)
        .await?
        .into_inner())
}

/// The share of the first passive party, from its own disk.
fn share(here: &Trained) -> StoredShare {
    let version = ModelVersion::new(here.version.as_str()).unwrap();
    ShareStore::open(&here.deployment.party_dir("passive-1")).unwrap().load(&version).unwrap()
}

/// W_pas of the first passive party.
fn true_weights(here: &Trained) -> DMatrix<f64> {
    share(here).linear().unwrap().weights().clone()
}

fn of_weights(answer: &pb::ReleaseParametersResponse) -> Option<TransformConfig> {
    answer.of_weights.as_ref().map(|transform| transform.try_into().unwrap())
}

fn weights(answer: &pb::ReleaseParametersResponse) -> DMatrix<f64> {
    let matrix = answer.weights.as_ref().unwrap();
    decode_columns("weights", matrix, matrix.rows as usize, None).unwrap().transpose()
}

/// Predictions come from the true parameters, to the bit; what is released is −W, and W 1 for the bias; the coordinator goes on
/// with the true ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_complement_release_is_of_the_complement_and_moves_no_prediction() {
    let here = trained(2, 3, 4).await;
    let ids = test_ids(&here.dataset, 0, 100);
    let before = score(&here.deployment, &ids).await.unwrap();
    let here = here.again(shown(TransformConfig::Complement {})).await;
    assert_eq!(score(&here.deployment, &ids).await.unwrap(), before, "to the last bit");

    let w = true_weights(&here);
    let answer = released(&here, Role::ActiveParty).await.unwrap();
    assert_eq!(answer.kind(), Kind::Transformed);
    assert_eq!(of_weights(&answer), Some(TransformConfig::Complement {}));
    assert_eq!(weights(&answer), -&w);
    let shift = DVector::from_vec(answer.bias_shift.clone());
    assert!((shift - w.column_sum()).amax() < 1e-14);
    let g = 4.0 * w.norm_squared() / w.len() as f64;
    assert!((answer.interpretability.unwrap() - g).abs() < 1e-12 * g, "‖W − (−W)‖² = 4 ‖W‖²");

    let to_coordinator = released(&here, Role::Coordinator).await.unwrap();
    assert_eq!((to_coordinator.kind(), weights(&to_coordinator)), (Kind::True, w));
    for role in [Role::Auditor, Role::PassiveParty] {
        assert_eq!(
            released(&here, role).await.unwrap_err().code(),
            Code::PermissionDenied,
            "{role}"
        );
    }
    // Noise at the logits needs the true A, and gets it.
    let mut auditor = coordinator_client(&here.deployment, Role::Auditor);
    let open = pb::OpenAuditRequest {
        model_version: here.version.clone(),
        policy: Some((&"logit_noise (alpha = 2.0, scheme = 1)".parse::<Policy>().unwrap()).into()),
        ids: Some((&ids).into()),
        active_party: "active".into(),
    };
    auditor.open_audit(open).await.unwrap();
    here.deployment.stop().await.unwrap();
}

/// A secret transform is drawn once: concurrent first calls, later calls and calls after a restart get the same bytes. Another
/// transform of the same model is refused, of the next one it is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_made_once_and_another_one_is_refused() {
    let here = trained(1, 3, 2).await;
    let mut here = here.again(shown(TransformConfig::RandomOrthonormal {})).await;
    let peer = here.deployment.passive_peers().remove(0);
    let client = passive_client(&here.deployment, &peer, Role::ActiveParty);
    let calls = (0..12).map(|_| {
        let (mut client, model_version) = (client.clone(), here.version.clone());
        tokio::spawn(async move {
            client
                .release_parameters(pb::ReleaseParametersRequest { model_version })
                .await
                .unwrap()
                .into_inner()
        })
    });
    let mut answers = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        answers.push(call.await.unwrap());
    }
    let first = answers.remove(0);
    assert!(answers.iter().all(|a| *a == first), "one release for all callers");
    let of = (of_weights(&first), first.interpretability);
    assert_eq!(
        of,
        (Some(TransformConfig::RandomOrthonormal {}), None),
        "g would be an equation on the secret"
    );
    let w = true_weights(&here);
    assert!(
        (weights(&first).norm() - w.norm()).abs() < 1e-9 * w.norm(),
        "an orthonormal matrix keeps the norm"
    );
    assert!((weights(&first) - &w).norm() > 1e-3 * w.norm(), "and is not the identity");
    let dir = here.deployment.party_dir("passive-1");
    let file = dir.join("releases").join(format!("{}-active-party.json", share(&here).digest));
    let content = std::fs::read(&file).unwrap();

    here.deployment.stop_passive(0).await;
    here.deployment.restart_passive(0).await.unwrap();
    assert_eq!(released(&here, Role::ActiveParty).await.unwrap(), first, "after a restart");
    assert_eq!(std::fs::read(&file).unwrap(), content, "nothing was written anew");
    let facts = releases(&dir).unwrap();
    assert_eq!((facts.len(), facts[0].version.as_str()), (1, here.version.as_str()));
    assert_eq!(facts[0].transform, TransformConfig::RandomOrthonormal {});
    assert!(release_table(&facts).contains("random_orthonormal"));

    // The config changes: refused for this model, and the stored release stays.
    for other in [TransformConfig::Complement {}, NONE] {
        here = here.again(shown(other)).await;
        let refused = released(&here, Role::ActiveParty).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        for says in ["new model", "set [release] back"] {
            assert!(refused.message().contains(says), "{}", refused.message());
        }
        assert_names_nothing(&refused);
        assert_eq!(std::fs::read(&file).unwrap(), content);
    }
    here = here
        .again(|spec| {
            spec.release.to_active_party = Grant::Transformed(TransformConfig::Complement {});
            spec.release.disclosed = false;
        })
        .await;
    let refused = released(&here, Role::ActiveParty).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_names_nothing(&refused);
    // The auditor is refused too, and the records it named are not taken for scored.
    let refused = opened(&here).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_names_nothing(&refused);
    assert!(!dir.join("evaluations.json").exists());
    here = here.again(shown(TransformConfig::Complement {})).await;
    let next =
        here.deployment.train(&config(3), &training_ids(&here.dataset), |_| ()).await.unwrap();
    let old = std::mem::replace(&mut here.version, next.version.into());
    let next = released(&here, Role::ActiveParty).await.unwrap();
    assert_eq!(of_weights(&next), Some(TransformConfig::Complement {}));
    here.version = old;

    // A damaged file is refused, by its name in the log alone, and never replaced.
    here = here.again(shown(TransformConfig::RandomOrthonormal {})).await;
    let text = String::from_utf8(content).unwrap();
    let at = text.find("\"weights\":[[").unwrap() + 13;
    let digit = text[at..].find(|c: char| ('1'..='8').contains(&c)).unwrap() + at;
    let mut bytes = text.into_bytes();
    bytes[digit] += 1;
    std::fs::write(&file, &bytes).unwrap();
    let refused = released(&here, Role::ActiveParty).await.unwrap_err();
    assert!(
        refused.code() == Code::Internal && refused.message().contains("log says"),
        "{refused}"
    );
    assert_names_nothing(&refused);
    for hidden in ["json", dir.to_str().unwrap()] {
        assert!(!refused.message().contains(hidden), "{refused}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    here.deployment.stop().await.unwrap();
}

/// No transform in what another party is told of a refusal.
fn assert_names_nothing(refused: &tonic::Status) {
    for hidden in ["random_orthonormal", "complement", "`none`"] {
        assert!(!refused.message().contains(hidden), "{refused}");
    }
}

/// Another process on the directory of a running party is refused by name; after a stop the directory is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_directory_serves_one_party_at_a_time() {
    // Trained, so that the party is known to have started.
    let Trained { dir, dataset, split, mut deployment, .. } = trained(1, 2, 1).await;
    let state_dir = deployment.party_dir("passive-1");
    assert!(state_dir.join("releases").is_dir(), "made before the first release is");
    let settings = Settings {
        credentials: deployment.credentials(Role::PassiveParty, "passive-1").unwrap(),
        limits: Default::default(),
        monitoring: Default::default(),
        state_dir: (&state_dir).into(),
        features: spec(dir.path(), &dataset, &split).tables.passive.remove(0).1.into(),
        release: vfl_testbed::deployment::white_box(),
        serving: Default::default(),
        training: TrainingPolicy::default(),
        audit: AuditPolicy::default(),
        collusion: Default::default(),
        alignment: Default::default(),
        outputs: None,
    };
    let run = async |until: bool| {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let shutdown = async move {
            if !until {
                std::future::pending().await
            }
        };
        vfl_passive_party::service::run(settings.clone(), listener, shutdown).await
    };
    let refused = run(false).await.unwrap_err().to_string();
    for says in [state_dir.to_str().unwrap(), "in use", "state_dir"] {
        assert!(refused.contains(says), "{refused}");
    }
    deployment.stop_passive(0).await;
    run(true).await.unwrap();
    deployment.restart_passive(0).await.unwrap();
    deployment.stop().await.unwrap();
}

/// A model of mapped features is not served on plain ones, whatever was lost of the map or of the config.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_served_under_the_map_it_was_trained_under_or_not_at_all() {
    let transform = TransformConfig::RandomOrthonormal {};
    let here = trained_on(transform.clone()).await;
    let ids = test_ids(&here.dataset, 0, 50);
    let before = score(&here.deployment, &ids).await.unwrap();
    let map = here.deployment.party_dir("passive-1").join("feature_map.json");
    let content = std::fs::read(&map).unwrap();
    std::fs::remove_file(&map).unwrap();
    let here = here.again(|_| ()).await;
    let refused = score(&here.deployment, &ids).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("other settings"), "{refused}");
    assert!(
        !refused.message().contains("map") && !refused.message().contains("orthonormal"),
        "{refused}"
    );
    let refused = released(&here, Role::ActiveParty).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    std::fs::write(&map, &content).unwrap();
    let here = here.again(|spec| spec.training_transform = transform).await;
    assert_eq!(score(&here.deployment, &ids).await.unwrap(), before, "with the map restored");
    here.deployment.stop().await.unwrap();
}

async fn described(here: &Trained) -> ShownParameters {
    (&opened(here).await.unwrap()).try_into().unwrap()
}

async fn opened(here: &Trained) -> Result<pb::ShownParameters, tonic::Status> {
    let peer = here.deployment.passive_peers().remove(0);
    let first = pb::EvaluateReconstructionRequest {
        message: Some(Ask::Ids((&test_ids(&here.dataset, 0, 100)).into())),
        model_version: here.version.clone(),
    };
    let mut client = passive_client(&here.deployment, &peer, Role::Auditor);
    let mut answers =
        client.evaluate_reconstruction(tokio_stream::iter([first])).await.unwrap().into_inner();
    match answers.message().await?.unwrap().message {
        Some(Answer::Opened(opened)) => Ok(opened.shown.unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Undisclosed, the active party is told the same whether parameters are transformed or true; the auditor knows.
#[tokio::test(flavor = "multi_thread")]
async fn undisclosed_says_nothing_to_the_active_party_and_all_to_the_auditor() {
    let here = trained(1, 3, 2).await;
    let w = true_weights(&here);
    let told = |answer: &pb::ReleaseParametersResponse| pb::ReleaseParametersResponse {
        weights: None,
        ..answer.clone()
    };
    let mut here = here
        .again(|spec| {
            spec.release.to_active_party = Grant::Transformed(TransformConfig::Complement {});
            spec.release.disclosed = false;
        })
        .await;
    let transformed = released(&here, Role::ActiveParty).await.unwrap();
    assert_eq!(transformed.kind(), Kind::Undisclosed);
    assert_eq!(weights(&transformed), -&w);
    assert!(transformed.bias_shift.is_empty());
    assert_eq!((&transformed.of_weights, &transformed.of_features), (&None, &None));
    assert_eq!(transformed.interpretability, None);
    let seen = described(&here).await;
    assert!(seen.granted && !seen.disclosed && !seen.trained_on_transformed());
    assert_eq!(seen.of_weights, Some(TransformConfig::Complement {}));
    let g = 4.0 * w.norm_squared() / w.len() as f64;
    assert_eq!(seen.interpretability, Some(three_significant_digits(g)));
    for says in ["transformed: complement, g = ", "told only that parameters may be transformed"] {
        assert!(seen.to_string().contains(says), "{seen}");
    }

    // The same model, of which the true parameters are shown as the first and only release: another state of that file.
    std::fs::remove_dir_all(here.deployment.party_dir("passive-1").join("releases")).unwrap();
    here = here.again(|spec| spec.release.disclosed = false).await;
    let plain = released(&here, Role::ActiveParty).await.unwrap();
    assert_eq!(weights(&plain), w);
    assert_eq!(told(&plain), told(&transformed));
    assert!(described(&here).await.to_string().starts_with("true parameters"));

    here = here.again(|spec| spec.release.to_active_party = Grant::Nothing).await;
    assert_eq!(
        released(&here, Role::ActiveParty).await.unwrap_err().code(),
        Code::PermissionDenied
    );
    assert_eq!(described(&here).await.to_string(), "nothing");
    here.deployment.stop().await.unwrap();
}

async fn audit(here: &Trained, records: usize, attacks: &[Method], aware: bool) -> Findings {
    let plan = Plan {
        ids: test_ids(&here.dataset, 0, records),
        training_ids: None,
        aware,
        queries: 1,
        rho: None,
        metrics: None,
        help: Default::default(),
        policies: vec![Policy::default()],
        attacks: attacks.iter().copied().map(Into::into).collect(),
        features: Default::default(),
        schema: true,
        seed: 11,
    };
    audit::run(&here.deployment.targets(), &plan, |_, _, _| ()).await.unwrap()
}

fn errors(audit: &Audit, attack: &str) -> Errors {
    let result = audit.attacks.iter().find(|a| a.name == attack).unwrap();
    match &result.outcome {
        Outcome::Ran { errors, .. } => errors.clone(),
        other => panic!("{attack} did not run: {other:?}"),
    }
}

/// x − ½ of the first passive party's features of the first test records, d × n.
fn centred(here: &Trained, records: usize) -> DMatrix<f64> {
    let columns = &here.split.passive()[0].columns;
    let positions = &here.dataset.split().test[..records];
    DMatrix::from_fn(columns.len(), records, |i, j| {
        here.dataset.x()[(columns[i], positions[j])] - 0.5
    })
}

/// Up to the rounding of the scorer to three significant digits.
fn agrees(reported: f64, exact: f64) {
    assert!(
        (reported - exact).abs() <= 5.001e-3 * exact,
        "reported {reported}, closed form {exact}"
    );
}

/// The error of half_star on a complement release is that on the true one plus (4/d) Tr(P K_½) (R section VIII-D).
#[tokio::test(flavor = "multi_thread")]
async fn a_complement_release_adds_what_the_closed_form_says() {
    let records = 150;
    for (d, attack) in [(8, Method::HalfStar), (3, Method::ClampedHalfStar)] {
        let here = trained(1, d, 4).await.again(shown(TransformConfig::Complement {})).await;
        let a = row_differences(&true_weights(&here));
        let p = PseudoInverse::new(&a).unwrap().matrix * &a;
        let u = centred(&here, records);
        let per = (d * records) as f64;
        // Tr(P K_½) is the mean of ‖P u‖².
        let base = (&u - &p * &u).norm_squared() / per;
        let closed = base + 4.0 * (&p * &u).norm_squared() / per;
        assert!(d < 4 || base > 1e-4, "with 8 features the null space counts");
        let findings = audit(&here, records, &[attack], true).await;
        assert_eq!(findings.parameters(), ParameterKnowledge::Transformed);
        let found = &findings.audits[0];
        assert_eq!(found.threat_model.parameters, ParameterKnowledge::Transformed);
        agrees(errors(found, attack.as_str()).mse, closed);
        assert!(findings.shown[0].to_string().starts_with("transformed: complement, g = "));
        // Whoever is told of it turns it back, and is where the true parameters would have led.
        let aware = findings
            .audits
            .iter()
            .find(|a| a.threat_model.defense == DefenseKnowledge::Known)
            .unwrap();
        let undone = errors(aware, "undo_transform").mse;
        if d < 4 {
            assert!(undone < 1e-12, "{undone:e}");
        } else {
            // Clipped, which can only bring estimates nearer.
            assert!(undone <= base * 1.005 && undone > 0.5 * base, "{undone} against {base}");
        }
        assert!(
            aware
                .remarks
                .iter()
                .any(|r| r.contains("undone as told") && r.contains("passive-1: complement"))
        );
        here.deployment.stop().await.unwrap();
    }
}

fn scores(answer: &pb::ScoreResponse, classes: usize) -> DMatrix<f64> {
    match vfl_protocol::read_release(answer.release.as_ref(), answer.row_status.len(), classes)
        .unwrap()
    {
        ReleasedScores::Probabilities(scores) => scores,
        other => panic!("{other:?}"),
    }
}

async fn trained_on(transform: TransformConfig) -> Trained {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let split = split(&dataset, 1, 3);
    let spec =
        DeploymentSpec { training_transform: transform, ..spec(dir.path(), &dataset, &split) };
    let deployment = Deployment::start(spec).await.unwrap();
    let version =
        deployment.train(&config(4), &training_ids(&dataset), |_| ()).await.unwrap().version.into();
    Trained { dir, dataset, split, deployment, version }
}

/// Training on −x or on columns in another order gives the same model in other coordinates; on 1 − x it gives nearly that. The
/// map outlives a restart, and the truth that estimates are scored against is that of the features themselves.
#[tokio::test(flavor = "multi_thread")]
async fn models_of_transformed_features_predict_alike_and_are_attacked_in_vain() {
    let plain = trained_on(NONE).await;
    let k = plain.dataset.class_names().len();
    let ids = test_ids(&plain.dataset, 0, 200);
    let expected = scores(&score(&plain.deployment, &ids).await.unwrap(), k);
    assert!(!plain.deployment.party_dir("passive-1").join("feature_map.json").exists());
    plain.deployment.stop().await.unwrap();

    for transform in
        [TransformConfig::Permute {}, TransformConfig::Negate {}, TransformConfig::Complement {}]
    {
        let name = transform.name();
        let here = trained_on(transform.clone()).await;
        let answer = score(&here.deployment, &ids).await.unwrap();
        let got = scores(&answer, k);
        let variation = 0.5 * (&got - &expected).abs().sum() / ids.len() as f64;
        match transform {
            // Adam takes other steps from another origin.
            TransformConfig::Complement {} => assert!(variation < 0.05, "{name}: {variation}"),
            _ => {
                assert!((&got - &expected).amax() < 1e-9, "{name}: {:e}", (&got - &expected).amax())
            }
        }
        let here = here.again(|spec| spec.training_transform = transform.clone()).await;
        assert_eq!(score(&here.deployment, &ids).await.unwrap(), answer, "{name}: the map is kept");

        let release = released(&here, Role::ActiveParty).await.unwrap();
        assert_eq!(release.kind(), Kind::True, "of the model as trained");
        assert_eq!(weights(&release), true_weights(&here));
        assert_eq!(of_weights(&release), None);
        let told = release.of_features.as_ref().map(|map| TransformConfig::try_from(map).unwrap());
        assert_eq!(told.as_ref(), Some(&transform));
        let findings = audit(&here, 150, &[Method::LeastSquares], false).await;
        assert_eq!(findings.parameters(), ParameterKnowledge::Transformed);
        assert_eq!(
            findings.shown[0].to_string(),
            format!("trained on transformed features: {name}")
        );
        // Three features of k − 1 ≥ 3: what comes back is H x + t itself.
        let u = centred(&here, 150);
        let wrong = match transform {
            // −x lies outside [0, 1] and is scored as 0.
            TransformConfig::Negate {} => Some(u.map(|u| u + 0.5)),
            TransformConfig::Complement {} => Some(u.map(|u| 2.0 * u)),
            _ => None,
        };
        if let Some(wrong) = wrong {
            agrees(
                errors(&findings.audits[0], "least_squares").mse,
                wrong.norm_squared() / wrong.len() as f64,
            );
        }

        // Another map in the same directory is refused before anything is served.
        let other = TransformConfig::Selective { features: vec![0] };
        let settings = Settings {
            credentials: here.deployment.credentials(Role::PassiveParty, "passive-1").unwrap(),
            limits: Default::default(),
            monitoring: Default::default(),
            state_dir: (&here.deployment.party_dir("passive-1")).into(),
            features: spec(here.dir.path(), &here.dataset, &here.split)
                .tables
                .passive
                .remove(0)
                .1
                .into(),
            release: vfl_testbed::deployment::white_box(),
            serving: Default::default(),
            training: TrainingPolicy { transform: other, ..Default::default() },
            audit: AuditPolicy::default(),
            collusion: Default::default(),
            alignment: Default::default(),
            outputs: None,
        };
        here.deployment.stop().await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let refused = vfl_passive_party::service::run(settings, listener, std::future::pending())
            .await
            .unwrap_err();
        for says in [name, "selective", "state_dir"] {
            assert!(refused.to_string().contains(says), "{refused}");
        }
    }
}

fn reconstruct(here: &Trained, attacks: &[(&str, &[(&str, &str)])]) -> pb::ReconstructRequest {
    let spec = |(name, settings): &(&str, &[(&str, &str)])| pb::AttackSpec {
        name: (*name).into(),
        settings: settings
            .iter()
            .map(|(key, value)| pb::attack_spec::Setting {
                key: (*key).into(),
                value: (*value).into(),
            })
            .collect(),
    };
    pb::ReconstructRequest {
        audit_session: String::new(),
        model_version: here.version.clone(),
        ids: Some((&test_ids(&here.dataset, 0, 100)).into()),
        attacks: attacks.iter().map(spec).collect(),
        seed: 1,
        ..Default::default()
    }
}

/// Records of which no score is asked for: the attack runs without a session and leaves no trace at the coordinator; nothing else
/// does.
#[tokio::test(flavor = "multi_thread")]
async fn the_agnostic_attack_alone_runs_without_a_session() {
    let here = trained(1, 3, 4).await;
    let auditor =
        channel(&credentials(&here.deployment, Role::Auditor), &here.deployment.active_peer())
            .unwrap();
    let mut active = pb::active_party_client::ActivePartyClient::new(auditor)
        .max_decoding_message_size(16 << 20);
    type Asked<'a> = &'a [(&'a str, &'a [(&'a str, &'a str)])];
    let refused: [Asked; 3] = [
        &[("half_star", &[])],
        &[("agnostic", &[("observed", "10")])],
        &[("agnostic", &[]), ("half", &[])],
    ];
    for attacks in refused {
        let status = active.reconstruct(reconstruct(&here, attacks)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("`audit_session` is missing"), "{status}");
    }
    let too_many: [(&str, &[(&str, &str)]); 1] = [("agnostic", &[("observed", "101")])];
    let request =
        pb::ReconstructRequest { audit_session: "0".repeat(32), ..reconstruct(&here, &too_many) };
    let status = active.reconstruct(request).await.unwrap_err();
    assert!(
        status.code() == Code::InvalidArgument && status.message().contains("`observed`"),
        "{status}"
    );

    let ledger = || async {
        let mut auditor = coordinator_client(&here.deployment, Role::Auditor);
        let request = pb::DescribeLedgerRequest { active_party: "active".into() };
        auditor.describe_ledger(request).await.unwrap().into_inner()
    };
    let before = ledger().await;
    let mut events =
        active.reconstruct(reconstruct(&here, &[("agnostic", &[])])).await.unwrap().into_inner();
    let (mut results, mut scored) = (Vec::new(), false);
    while let Some(event) = events.message().await.unwrap() {
        match event.event {
            Some(Event::Result(result)) => results.push(result),
            Some(Event::Scores(_)) => scored = true,
            _ => {}
        }
    }
    assert!(!scored, "no score was asked for");
    assert_eq!(results.len(), 1);
    assert!(
        results[0].refusal.is_empty() && results[0].blocks.len() == 1,
        "{:?}",
        results[0].refusal
    );
    let estimated = results[0].estimated_scores.as_ref().unwrap();
    assert!(estimated.labelled > 0 && estimated.seen == 0, "{estimated:?}");
    assert_eq!(ledger().await, before);
    here.deployment.stop().await.unwrap();
}

/// The audit runs it on records never asked about, on the same having asked for some, and on records of the training.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_attacks_records_without_a_score() {
    let here = trained(1, 3, 4).await;
    // Everybody may know how the model was trained, and the active party attacks accordingly: else it would say so.
    let mut coordinator = coordinator_client(&here.deployment, Role::Auditor);
    let described =
        coordinator.describe_model(pb::DescribeModelRequest {}).await.unwrap().into_inner();
    let told = described.training.unwrap().config.unwrap();
    assert_eq!(TrainingConfig::try_from(&told).unwrap(), config(4));
    let attacks = vec![Method::LeastSquares.into(), Method::Agnostic.into()];
    let plan = Plan {
        training_ids: Some(training_ids(&here.dataset).slice(0, 150)),
        ..Plan::of(test_ids(&here.dataset, 0, 200), vec![Policy::default()], attacks, 11)
    };
    let findings = audit::run(&here.deployment.targets(), &plan, |_, _, _| ()).await.unwrap();
    let names: Vec<String> = findings.audits.iter().map(|a| a.policy.label()).collect();
    assert_eq!(
        names,
        ["none", "nothing", "nothing (observed = 100)", "nothing (records = \"training\")"]
    );
    let seen: Vec<&Observations> =
        findings.audits.iter().map(|a| &a.threat_model.observations).collect();
    let some = Observations::ScoresOfSome { records: 100 };
    assert_eq!(
        seen,
        [&Observations::OneScorePerRecord, &Observations::NoScore, &some, &Observations::NoScore]
    );
    assert!(
        errors(&findings.audits[0], "least_squares").mse < 1e-12,
        "asked about, everything comes back"
    );
    for audit in &findings.audits[1..] {
        let mse = errors(audit, "agnostic").mse;
        assert!(mse > 1e-6 && mse < 1.0, "{}: {mse}", audit.policy.label());
        assert_eq!(audit.utility.accuracy, None);
        assert!(
            audit.remarks.iter().all(|remark| !remark.contains("is not known")),
            "{:?}",
            audit.remarks
        );
    }
    assert_eq!(findings.audits[3].records, 150);
    here.deployment.stop().await.unwrap();
}
