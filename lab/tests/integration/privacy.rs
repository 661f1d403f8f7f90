//! Differential privacy of a party's parameters: what it says of it, what it refuses, and how much noise there is.

use nalgebra::DMatrix;
use vfl_coordinator::registry::Manifest;
use vfl_core::model::privacy::{PrivacyConfig, PrivacyStatement, PrivacyValues};
use vfl_core::model::{Combiner, ModelConfig, TrainingConfig, TrainingValues};
use vfl_core::types::ModelVersion;
use vfl_datasets::Dataset;
use vfl_protocol::{RefusalKind, pb};
use vfl_server::service::Role;
use vfl_state::ShareStore;
use vfl_state::journal::Journal;
use vfl_testbed::deployment::{Deployment, DeploymentSpec};

use super::support::{config, coordinator_client, dataset, spec, split, training_ids};

fn privacy(clip: f64, noise: f64, max_epsilon: Option<f64>) -> PrivacyConfig {
    PrivacyConfig::try_from(PrivacyValues { clip, noise, delta: 1e-5, max_epsilon }).unwrap()
}

/// Two passive parties with so many features each.
async fn deploy(
    dir: &std::path::Path,
    dataset: &Dataset,
    change: impl FnOnce(&mut DeploymentSpec),
) -> Deployment {
    let mut spec = spec(dir, dataset, &split(dataset, 2, 3));
    change(&mut spec);
    Deployment::start(spec).await.unwrap()
}

/// What the coordinator says of each party, the active party's first.
async fn described(deployment: &Deployment) -> Vec<Option<PrivacyStatement>> {
    let mut coordinator = coordinator_client(deployment, Role::ActiveParty);
    let model = coordinator.describe_model(pb::DescribeModelRequest {}).await.unwrap().into_inner();
    let parties = model.passive_parties.iter().map(|party| party.privacy);
    let read =
        |wire: Option<pb::Privacy>| wire.map(|wire| PrivacyStatement::try_from(&wire).unwrap());
    [model.active_privacy].into_iter().chain(parties).map(read).collect()
}

fn manifest(deployment: &Deployment, version: &ModelVersion) -> (Manifest, String) {
    let path = deployment.party_dir("coordinator").join("models").join(format!("{version}.json"));
    let text = std::fs::read_to_string(path).unwrap();
    (serde_json::from_str(&text).unwrap(), text)
}

/// The passive parties alone, then the active party alone, then nobody: manifest, description and the last word of a training say the
/// same, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_private_training_says_what_it_costs() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let ids = training_ids(&dataset);
    let passive = privacy(1.0, 4.0, None);
    let deployment =
        deploy(dir.path(), &dataset, |spec| spec.consent.privacy = Some(passive)).await;
    let published = deployment.train(&config(6), &ids, |_| ()).await.unwrap();
    // A record takes part in one update of each epoch.
    let steps = u64::from(published.epochs);
    let epsilon = passive.epsilon(steps);
    let says = PrivacyStatement { clip: 1.0, noise: 4.0, epsilon, delta: 1e-5, steps };
    let names: Vec<&str> = published.privacy.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["passive-1", "passive-2"]);
    assert!(published.privacy.iter().all(|(_, said)| *said == says), "{:?}", published.privacy);
    assert_eq!(described(&deployment).await, [None, Some(says), Some(says)]);
    let (written, _) = manifest(&deployment, &published.version);
    assert_eq!(written.active_party.privacy, None);
    assert!(written.passive_parties.iter().all(|party| party.privacy == Some(says)));
    deployment.stop().await.unwrap();

    let active = privacy(0.5, 8.0, None);
    let deployment = deploy(dir.path(), &dataset, |spec| spec.active_privacy = Some(active)).await;
    // Restarted, and what is in service is as it was.
    assert_eq!(described(&deployment).await, [None, Some(says), Some(says)]);
    let published = deployment.train(&config(2), &ids, |_| ()).await.unwrap();
    let said = published.privacy.first().unwrap();
    assert_eq!((said.0.as_str(), said.1.steps, said.1.epsilon), ("active", 2, active.epsilon(2)));
    assert_eq!(described(&deployment).await, [Some(said.1), None, None]);
    deployment.stop().await.unwrap();

    let deployment = deploy(dir.path(), &dataset, |_| ()).await;
    let published = deployment.train(&config(2), &ids, |_| ()).await.unwrap();
    assert!(published.privacy.is_empty());
    assert_eq!(described(&deployment).await, [None, None, None]);
    assert!(!manifest(&deployment, &published.version).1.contains("privacy"));
    deployment.stop().await.unwrap();
}

/// Nothing is written down, and the message says what to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_training_beyond_the_largest_epsilon_is_refused() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let ids = training_ids(&dataset);
    let most = privacy(1.0, 4.0, None).epsilon(3);
    let bounded = Some(privacy(1.0, 4.0, Some(most)));
    let deployment = deploy(dir.path(), &dataset, |spec| spec.consent.privacy = bounded).await;
    let refused = deployment.train(&config(4), &ids, |_| ()).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::FailedPrecondition);
    for part in [
        "passive party",
        "4 epochs would make epsilon",
        "`max_epsilon`",
        "at most 3 epochs",
        "`noise`",
    ] {
        assert!(refused.message.contains(part), "{refused}");
    }
    for party in ["coordinator", "passive-1", "passive-2"] {
        assert!(
            Journal::list(&deployment.party_dir(party).join("trainings")).unwrap().is_empty(),
            "{party}"
        );
    }
    let published = deployment.train(&config(3), &ids, |_| ()).await.unwrap();
    assert!(
        published.privacy.iter().all(|(_, said)| said.epsilon <= most),
        "{:?}",
        published.privacy
    );
    deployment.stop().await.unwrap();

    let deployment = deploy(dir.path(), &dataset, |spec| spec.active_privacy = bounded).await;
    let refused = deployment.train(&config(4), &ids, |_| ()).await.unwrap_err();
    assert!(refused.message.contains("at most 3 epochs"), "{refused}");
    deployment.stop().await.unwrap();
}

/// Batch norm mixes the records of a batch. Each party's features are an image of one row.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_mixes_records_is_refused() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let settings = serde_json::json!({ "height": 1, "blocks": 1, "filters": [4] });
    let model = ModelConfig::new(
        Combiner::Concat,
        "residual",
        Some(4),
        settings.as_object().unwrap().clone(),
    )
    .unwrap();
    let training =
        TrainingConfig::try_from(TrainingValues { epochs: 1, model, ..Default::default() })
            .unwrap();
    let deployment =
        deploy(dir.path(), &dataset, |spec| spec.consent.privacy = Some(privacy(1.0, 4.0, None)))
            .await;
    let refused = deployment.train(&training, &training_ids(&dataset), |_| ()).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::FailedPrecondition);
    for part in [
        "passive party",
        "`residual` cannot be trained under [training.privacy]",
        "mixes the records",
    ] {
        assert!(refused.message.contains(part), "{refused}");
    }
    deployment.stop().await.unwrap();
}

/// Adam's step size in the trainings below.
const STEP: f64 = 0.01;

/// The gradient of the only update of a softmax regression from zero: Adam's first step is −STEP · g / (|g| + 1e-8).
fn gradient(deployment: &Deployment, party: &str, version: &ModelVersion) -> DMatrix<f64> {
    let share = ShareStore::open(&deployment.party_dir(party)).unwrap().load(version).unwrap();
    share.linear().unwrap().weights().map(|w| {
        let moved = (w / STEP).abs();
        -w.signum() * 1e-8 * moved / (1.0 - moved)
    })
}

/// One update with all records: with the same seed two trainings differ by their noise alone, whose deviation is σ γ / B in each of
/// them. 3 parties have 66 weights or more, so that the deviation is known to 9 %.
#[tokio::test(flavor = "multi_thread")]
async fn trainings_of_the_same_seed_differ_by_noise_of_the_right_scale() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let ids = training_ids(&dataset);
    let (clip, noise) = (0.5, 4.0);
    let private = Some(privacy(clip, noise, None));
    let deployment = deploy(dir.path(), &dataset, |spec| {
        spec.consent.privacy = private;
        spec.active_privacy = private;
    })
    .await;
    let training = TrainingConfig::try_from(TrainingValues {
        epochs: 1,
        batch_size: 65_536,
        learning_rate: STEP,
        l2: 0.0,
        validation_share: 0.0,
        ..Default::default()
    })
    .unwrap();
    let first = deployment.train(&training, &ids, |_| ()).await.unwrap();
    let second = deployment.train(&training, &ids, |_| ()).await.unwrap();
    assert_eq!((first.steps, second.steps), (1, 1));
    assert_ne!(first.version, second.version);
    let mut differences = Vec::new();
    for party in ["active", "passive-1", "passive-2"] {
        let [one, other] =
            [&first, &second].map(|published| gradient(&deployment, party, &published.version));
        differences.extend((one - other).iter().copied());
    }
    assert!(differences.len() >= 66, "{}", differences.len());
    let squares = differences.iter().map(|d| d * d).sum::<f64>() / (2.0 * differences.len() as f64);
    let expected = noise * clip / ids.len() as f64;
    let ratio = squares.sqrt() / expected;
    // Four deviations of what is estimated.
    let tolerance = 4.0 / (2.0 * differences.len() as f64).sqrt();
    assert!(
        (ratio - 1.0).abs() < tolerance,
        "{ratio} of {expected}, from {} differences",
        differences.len()
    );
    deployment.stop().await.unwrap();
}
