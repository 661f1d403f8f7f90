//! Trainings on secret shares, over sockets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nalgebra::DMatrix;
use vfl_core::model::contract::start_of;
use vfl_core::model::{Activation, ModelConfig, TrainingConfig, TrainingMode, TrainingValues};
use vfl_core::types::PartyName;
use vfl_datasets::private_training::{train_in_the_clear, train_network_in_the_clear};
use vfl_defense::Policy;
use vfl_protocol::{RefusalKind, pb};
use vfl_server::service::Role;
use vfl_state::ShareStore;
use vfl_state::journal::Journal;
use vfl_testbed::deployment::Deployment;

use super::limited_line::{AtTheLimit, LimitedLine, WHOLE};
use super::networks::{embeddings, mlp};
use super::support::{
    coordinator_client, dataset, deploy, score, spec, split, test_ids, training_ids,
};

/// The largest difference of a parameter between shares and the clear: the steps round to 2⁻²⁰.
const ROUNDING: f64 = 2e-3;
/// The same with relu, whose slope jumps at zero. A record with a unit's input within the rounding
/// of zero counts with either slope, at random: such a record moves the logits by 5e-3.
const JUMP: f64 = 2e-2;

fn private(epochs: u32, validation_share: f64) -> TrainingConfig {
    let mode = TrainingMode::Private;
    let values = TrainingValues {
        mode,
        epochs,
        validation_share,
        patience: 5,
        seed: 5,
        l2: 1e-4,
        ..Default::default()
    };
    TrainingConfig::try_from(values).unwrap()
}

/// With one, two and four passive parties, of which one computes, every party has the parameters
/// that the same steps in the clear give, after the same epochs.
#[tokio::test(flavor = "multi_thread")]
async fn shares_give_the_parameters_of_the_steps_in_the_clear() {
    let dataset = dataset();
    let positions = &dataset.split().train;
    let x = dataset.x().select_columns(positions);
    let labels: Vec<u32> = positions.iter().map(|&p| dataset.labels()[p]).collect();
    let classes = dataset.class_names().len();
    for (parties, validation_share) in [(1, 0.0), (1, 0.2), (2, 0.2), (4, 0.0)] {
        let config = private(30, validation_share);
        let split = split(&dataset, parties, 2);
        let clear = train_in_the_clear(&config, classes, (&x, &labels), &split).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let deployment = deploy(dir.path(), &dataset, &split).await;
        let mut reports = Vec::new();
        let published = deployment
            .train(&config, &training_ids(&dataset), |progress| reports.push(*progress))
            .await
            .unwrap();
        let epochs = (published.epochs as usize, published.best_epoch as usize);
        assert_eq!(epochs, (clear.epochs, clear.best_epoch), "{parties} parties");
        assert!(reports.iter().all(|p| p.training_loss.is_none() && p.validation_loss.is_none()));
        assert_eq!(reports.last().unwrap().epoch, published.epochs);
        assert_eq!(published.config.as_ref().unwrap().values().mode, TrainingMode::Private);
        let (weights, bias) = deployment.whole_model(&dataset, &split, &published.version).unwrap();
        let worst = (&weights - &clear.weights).amax().max((&bias - &clear.bias).amax());
        assert!(worst < ROUNDING, "{parties} parties: {worst:e}");
        assert!(weights.amax() > 0.3, "the model has learned: {}", weights.amax());
        // `ranking` is fitted on scores, which all parties of the testbed consent to give.
        let open = pb::OpenAuditRequest {
            model_version: published.version.as_str().to_owned(),
            policy: Some((&"ranking".parse::<Policy>().unwrap()).into()),
            ids: Some((&test_ids(&dataset, 0, 100)).into()),
            active_party: "active".into(),
        };
        coordinator_client(&deployment, Role::Auditor).open_audit(open).await.unwrap();
        let answer = score(&deployment, &test_ids(&dataset, 0, 20)).await.unwrap();
        assert_eq!(answer.row_status.len(), 20);
        for party in ["coordinator", "passive-1"] {
            let list = Journal::list(&deployment.party_dir(party).join("trainings")).unwrap();
            assert_eq!(list.len(), 1, "{party}");
            assert_eq!(list[0].published.as_ref(), Some(&published.version), "{party}");
        }
        deployment.stop().await.unwrap();
    }
}

/// The same of networks: with exact activations the parameters that the parties store give the
/// logits of the network that the same steps in the clear give, in the coordinates of the steps.
#[tokio::test(flavor = "multi_thread")]
async fn networks_on_shares_are_those_of_the_steps_in_the_clear() {
    let dataset = dataset();
    let positions = &dataset.split().train;
    let x = dataset.x().select_columns(positions);
    let labels: Vec<u32> = positions.iter().map(|&p| dataset.labels()[p]).collect();
    let classes = dataset.class_names().len();
    for (parties, model) in
        [(1, mlp(&[8, 8], "sigmoid")), (2, mlp(&[5], "relu")), (2, mlp(&[4], "tanh"))]
    {
        let values = TrainingValues { model, ..private(3, 0.2).values().clone() };
        let config = TrainingConfig::try_from(values).unwrap();
        let hidden = config.values().model.private_layers().unwrap().unwrap();
        let split = split(&dataset, parties, 2);
        let seeds = vec![start_of(config.values().seed); parties + 1];
        let data = (&x, &labels[..]);
        let clear =
            train_network_in_the_clear(&config, &hidden, classes, data, &split, &seeds).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let deployment = deploy(dir.path(), &dataset, &split).await;
        let published = deployment.train(&config, &training_ids(&dataset), |_| ()).await.unwrap();
        let epochs = (published.epochs as usize, published.best_epoch as usize);
        assert_eq!(epochs, (clear.epochs, clear.best_epoch), "{hidden:?}");
        let mut logits = DMatrix::zeros(classes, x.ncols());
        let blocks = std::iter::once(("active", split.active()));
        let passive = split.passive().iter().map(|party| (party.name.as_str(), &party.columns[..]));
        for (name, rows) in blocks.chain(passive) {
            let store = ShareStore::open(&deployment.party_dir(name)).unwrap();
            let stored = store.load(&published.version).unwrap();
            logits += stored.model().outputs(&x.select_rows(rows)).unwrap().matrix();
        }
        let expected = clear.logits(&x);
        let worst = (&logits - &expected).amax();
        let most = if hidden.activation == Activation::Relu { JUMP } else { ROUNDING };
        assert!(worst < most, "{hidden:?}: {worst:e}");
        assert!(expected.amax() > 0.5, "{hidden:?}: {}", expected.amax());
        let answer = score(&deployment, &test_ids(&dataset, 0, 20)).await.unwrap();
        assert_eq!(answer.row_status.len(), 20);
        for party in ["coordinator", "passive-1"] {
            let list = Journal::list(&deployment.party_dir(party).join("trainings")).unwrap();
            assert_eq!(list[0].published.as_ref(), Some(&published.version), "{party}");
        }
        deployment.stop().await.unwrap();
    }
}

/// Models that are not trained on shares are refused before a party is asked.
#[test]
fn models_that_are_not_trained_on_shares_are_refused_by_name() {
    let image = serde_json::json!({ "height": 1, "blocks": 1, "filters": [4] });
    let image = image.as_object().unwrap().clone();
    let residual = ModelConfig::new(vfl_core::model::Combiner::Sum, "residual", None, image);
    for (model, says) in [
        (residual.unwrap(), "kind `softmax_regression`, `mlp` or `generalized_linear`"),
        (embeddings(&[4], 3, &[]), "a top model is not trained on shares"),
        (mlp(&[], "relu"), "with a hidden layer"),
    ] {
        let values = TrainingValues { model, ..private(3, 0.2).values().clone() };
        let refused = TrainingConfig::try_from(values).unwrap_err().to_string();
        assert!(refused.contains("`mode` is private with kind"), "{refused}");
        assert!(refused.contains(says), "{refused}");
    }
    let values = TrainingValues {
        model: mlp(&[4], "relu"),
        batch_size: 1025,
        ..private(3, 0.2).values().clone()
    };
    let refused = TrainingConfig::try_from(values).unwrap_err().to_string();
    assert!(refused.contains("1 to 1024 for a network in the private mode"), "{refused}");
}

async fn refusal(deployment: &Deployment, config: &TrainingConfig) -> vfl_protocol::Refusal {
    let dataset = dataset();
    let trained = deployment.train(config, &training_ids(&dataset), |_| ()).await;
    trained.unwrap_err()
}

/// A passive party says in its settings whom it trusts with shares, and whether a plain training
/// may give its features away.
#[tokio::test(flavor = "multi_thread")]
async fn a_passive_party_consents_to_the_mode_and_to_the_party_that_computes() {
    let dataset = dataset();
    let split = split(&dataset, 2, 2);
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut spec_ = spec(dir.path(), &dataset, &split);
    spec_.consent.mode = TrainingMode::Private;
    spec_.consent.plain_consent = None;
    let deployment = Deployment::start(spec_).await.unwrap();
    let plain = super::support::config(2);
    let refused = refusal(&deployment, &plain).await;
    assert_eq!(refused.kind, RefusalKind::PermissionDenied);
    assert!(refused.message.contains("`mode` in [training] is `private`"), "{refused}");
    deployment.train(&private(2, 0.0), &training_ids(&dataset), |_| ()).await.unwrap();
    deployment.stop().await.unwrap();
    let mut spec_ = spec(dir.path(), &dataset, &split);
    spec_.consent.calibration = false;
    let deployment = Deployment::start(spec_).await.unwrap();
    let refused = refusal(&deployment, &private(2, 0.0)).await;
    assert_eq!(refused.kind, RefusalKind::PermissionDenied);
    assert!(refused.message.contains("`calibration = true` in [training] here"), "{refused}");
    deployment.stop().await.unwrap();
    let mut spec_ = spec(other.path(), &dataset, &split);
    spec_.consent.computing_party = Some(PartyName::new("somebody").unwrap());
    let deployment = Deployment::start(spec_).await.unwrap();
    let refused = refusal(&deployment, &private(2, 0.0)).await;
    assert_eq!(refused.kind, RefusalKind::PermissionDenied);
    assert!(
        refused.message.contains("`computing_party` in [training] does not name it"),
        "{refused}"
    );
    deployment.stop().await.unwrap();
}

/// Whichever passive party goes away while shares are computed on, the others are told its name,
/// and what was in service stays in service.
#[tokio::test(flavor = "multi_thread")]
async fn a_party_that_goes_away_ends_the_computation_by_name() {
    let dataset = dataset();
    let split = split(&dataset, 2, 2);
    for gone in [0, 1] {
        let dir = tempfile::tempdir().unwrap();
        let mut deployment = deploy(dir.path(), &dataset, &split).await;
        let before =
            deployment.train(&private(2, 0.0), &training_ids(&dataset), |_| ()).await.unwrap();
        let started = Arc::new(tokio::sync::Notify::new());
        let (ids, config, begun) = (training_ids(&dataset), private(100_000, 0.0), started.clone());
        let mut client = deployment.active_client().unwrap();
        let training = tokio::spawn(async move {
            client
                .train(&config, &ids, move |p| {
                    if p.epoch == 3 {
                        begun.notify_one()
                    }
                })
                .await
        });
        tokio::time::timeout(Duration::from_secs(30), started.notified()).await.unwrap();
        deployment.stop_passive(gone).await;
        let ended = tokio::time::timeout(Duration::from_secs(60), training).await.unwrap();
        let refused = ended.unwrap().unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Unavailable, "{refused}");
        let name = format!("`passive-{}`", gone + 1);
        assert!(refused.message.contains(&name), "{refused}");
        let entries =
            Journal::list(&deployment.party_dir("coordinator").join("trainings")).unwrap();
        assert_eq!(entries.len(), 2);
        assert!(entries[1].published.is_none() && entries[1].steps >= 2, "{entries:?}");
        let in_service = deployment.whole_model(&dataset, &split, &before.version);
        assert!(in_service.is_ok());
    }
}

/// The line between coordinator and passive party, which the messages of all three pass, breaks or
/// falls silent at any of its bytes. The training ends in time, with an error that names the party,
/// or its model is in service; records are scored afterwards, and the next training runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_ends_at_any_byte_leaves_a_whole_model_in_service() {
    let dataset = dataset();
    let split = split(&dataset, 1, 2);
    let dir = tempfile::tempdir().unwrap();
    let mut spec = spec(dir.path(), &dataset, &split);
    spec.consent.max_per_day = 100;
    spec.consent.max_total = 100;
    let mut lines = Vec::new();
    let patience = Duration::from_secs(2);
    let deployment = Deployment::start_with(spec, |_, settings| {
        settings.peer_timeout = patience;
        let peer = &mut settings.passive_parties[0];
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let line = LimitedLine::open(listener, peer.address.parse()?);
        peer.address = line.address.to_string();
        lines.push(line);
        Ok(())
    })
    .await
    .unwrap();
    let line = lines.pop().unwrap();
    let (ids, asked) = (training_ids(&dataset), test_ids(&dataset, 0, 20));
    let config = private(3, 0.2);
    let train = || deployment.train(&config, &ids, |_| ());
    let before = line.carried();
    let mut in_service = train().await.unwrap().version;
    let all = line.carried() - before;
    let mut broken = 0;
    for (share, end) in [
        (0.0, AtTheLimit::Closed),
        (0.005, AtTheLimit::Closed),
        (0.1, AtTheLimit::Silent),
        (0.3, AtTheLimit::Closed),
        (0.5, AtTheLimit::Silent),
        (0.8, AtTheLimit::Closed),
        (0.95, AtTheLimit::Closed),
        (0.99, AtTheLimit::Closed),
        (0.998, AtTheLimit::Closed),
    ] {
        line.set((all as f64 * share) as u64, end);
        let began = Instant::now();
        let trained = train().await;
        let took = began.elapsed();
        line.set(WHOLE, AtTheLimit::Closed);
        assert!(took < 6 * patience, "{share} {end:?}: {took:?}");
        if let Err(refused) = &trained {
            broken += 1;
            assert!(refused.message.contains("`passive-1`"), "{share} {end:?}: {refused}");
        }
        let until = Instant::now() + 4 * patience;
        let answer = loop {
            match score(&deployment, &asked).await {
                Err(_) if Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(50)).await
                }
                answer => break answer.unwrap(),
            }
        };
        let version = answer.model_version.clone();
        match trained {
            Ok(published) => in_service = published.version,
            // The model of before, or the new one if the last word alone was lost.
            Err(_) if share < 0.95 => assert_eq!(version, in_service.as_str(), "{share} {end:?}"),
            Err(_) => {}
        }
        let whole = deployment.whole_model(&dataset, &split, &version.parse().unwrap());
        assert!(whole.is_ok(), "{share} {end:?}");
    }
    assert!(broken >= 6, "{broken} of the lines broke a training");
    let published = train().await.unwrap();
    let answer = score(&deployment, &asked).await.unwrap();
    assert_eq!(answer.model_version, published.version.as_str());
    deployment.stop().await.unwrap();
}
