//! An active party has many versions trained, and asks each about the same record with a share of its choice.
//!
//! Behind `class_label` one answer tells on which side of the share a record's margin is. Shares are bound, so one version
//! answers one share. When binding and noise went by the version, forty versions that differed in the names of their classes
//! gave forty shares for one record, and by bisection its margin to nine digits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nalgebra::DMatrix;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use vfl_coordinator::ledger;
use vfl_coordinator::registry::read_manifest;
use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_core::types::{FeatureBlock, LogitShare, ModelVersion, RecordIds};
use vfl_datasets::Dataset;
use vfl_defense::{DefenseConfig, Policy};
use vfl_party::training::Participant;
use vfl_protocol::pb::RowStatus;
use vfl_protocol::pb::release::Kind;
use vfl_protocol::pb::training_command::Command;
use vfl_protocol::pb::training_reply::Reply;
use vfl_protocol::{LIST_CHUNK_RECORDS, decode_columns, pb};
use vfl_server::service::Role;
use vfl_state::ShareStore;
use vfl_testbed::deployment::{Deployment, DeploymentSpec};

use super::support::{config, coordinator_client, dataset, spec, split, test_ids, training_ids};

/// All that the active party chooses of a training.
#[derive(Clone)]
struct Choice {
    class_names: Vec<String>,
    config: TrainingValues,
    labels: Vec<u32>,
    /// Moves the digest of the active party's own parameters, as importing others would.
    feature_name: String,
    /// Added to the logit of class 0 in the shares that no gradient comes of: those that calibration scores are made of.
    calibration_shift: f64,
}

struct Attack {
    dir: tempfile::TempDir,
    dataset: Dataset,
    deployment: Deployment,
}

impl Attack {
    async fn on(defense: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let dataset = dataset();
        let defenses: Vec<DefenseConfig> = defense.parse::<Policy>().unwrap().defenses;
        let spec =
            DeploymentSpec { defenses, ..spec(dir.path(), &dataset, &split(&dataset, 1, 2)) };
        let deployment = Deployment::start(spec).await.unwrap();
        Self { dir, dataset, deployment }
    }

    fn honest(&self) -> Choice {
        let train = &self.dataset.split().train;
        Choice {
            class_names: (0..self.dataset.class_names().len())
                .map(|k| format!("class {k}"))
                .collect(),
            config: TrainingValues { epochs: 1, batch_size: 1024, ..config(1).values().clone() },
            labels: train.iter().map(|&p| self.dataset.labels()[p]).collect(),
            feature_name: "y".into(),
            calibration_shift: 0.0,
        }
    }

    /// Speaks `Coordinator.Train` itself, with one feature of its own that is 0 for every record.
    async fn train(&self, choice: &Choice) -> ModelVersion {
        let ids = training_ids(&self.dataset);
        let config = TrainingConfig::try_from(choice.config.clone()).unwrap();
        let (replies, receiver) = tokio::sync::mpsc::channel(64);
        let class_names = choice.class_names.clone();
        let start = pb::TrainingStart {
            config: Some((&config).into()),
            class_names,
            record_count: ids.len() as u32,
        };
        let reply = |reply| Ok(pb::TrainingReply { reply: Some(reply) });
        replies.send(reply(Reply::Start(start))).await.unwrap();
        for from in (0..ids.len()).step_by(LIST_CHUNK_RECORDS) {
            let to = (from + LIST_CHUNK_RECORDS).min(ids.len());
            let labels = choice.labels[from..to].to_vec();
            let chunk = pb::LabelledRecords { ids: Some(ids.slice(from, to).into()), labels };
            replies.send(reply(Reply::Labelled(chunk))).await.unwrap();
        }
        let mut client = coordinator_client(&self.deployment, Role::ActiveParty);
        let evaluated = Arc::new(AtomicBool::new(false));
        let (shift, asked) = (choice.calibration_shift, evaluated.clone());
        let outgoing = ReceiverStream::new(receiver)
            .filter_map(Result::<_, tonic::Status>::ok)
            .map(move |mut reply| {
                if let Some(Reply::Shares(batch)) = &mut reply.reply
                    && asked.load(Ordering::SeqCst)
                {
                    let shares = batch.shares.as_ref().unwrap();
                    let (rows, columns) = (shares.rows as usize, shares.columns as usize);
                    let mut moved = decode_columns("shares", shares, rows, Some(columns)).unwrap();
                    moved.row_mut(0).add_scalar_mut(shift);
                    batch.shares = Some(LogitShare::new(moved).unwrap().into());
                }
                reply
            });
        let commands = client.train(outgoing).await.unwrap().into_inner();
        let commands = commands.map(move |command| {
            if let Ok(pb::TrainingCommand { command: Some(Command::Step(step)) }) = &command {
                evaluated.store(step.evaluation, Ordering::SeqCst);
            }
            command
        });
        let own = tempfile::tempdir().unwrap();
        let source = |ids: &RecordIds| Ok(FeatureBlock::new(DMatrix::zeros(1, ids.len())).unwrap());
        let participant = Participant {
            coordinator: "the coordinator".into(),
            store: &ShareStore::open(own.path()).unwrap(),
            feature_names: std::slice::from_ref(&choice.feature_name),
            known_records: Some(ids),
            source: &source,
            gate: None,
            privacy: None,
            private: None,
        };
        participant.run(commands, &replies, |_| ()).await.unwrap().version
    }

    /// Asks the live service, with the same share for every record.
    async fn ask(
        &self,
        version: &ModelVersion,
        ids: &RecordIds,
        share: &[f64],
    ) -> (Vec<RowStatus>, Kind) {
        let shares = DMatrix::from_fn(share.len(), ids.len(), |k, _| share[k]);
        let request = pb::PredictRequest {
            model_version: version.as_str().into(),
            ids: Some(ids.into()),
            logit_shares: Some(LogitShare::new(shares).unwrap().into()),
            ..Default::default()
        };
        let answer =
            coordinator_client(&self.deployment, Role::ActiveParty).predict(request).await.unwrap();
        let answer = answer.into_inner();
        let status = answer.row_status.iter().map(|s| RowStatus::try_from(*s).unwrap()).collect();
        (status, answer.release.unwrap().kind.unwrap())
    }

    /// The label of one record, or why there is none.
    async fn label(
        &self,
        version: &ModelVersion,
        record: &RecordIds,
        share: &[f64],
    ) -> Result<u32, RowStatus> {
        match self.ask(version, record, share).await {
            (status, Kind::Labels(labels)) if status == [RowStatus::Ok] => Ok(labels.labels[0]),
            (status, _) => Err(status[0]),
        }
    }

    fn ledger(&self) -> String {
        format!("sqlite:{}", self.dir.path().join("coordinator/ledger.sqlite").display())
    }
}

/// The margin of class 0 over class 1 in the passive part of a record's logits, between −4 and 4, halved with each answer.
struct Bisection {
    low: f64,
    high: f64,
    answers: usize,
}

impl Bisection {
    fn new() -> Self {
        Self { low: -4.0, high: 4.0, answers: 0 }
    }

    /// A share under which the label says on which side of the middle the margin is.
    fn share(&self, classes: usize) -> Vec<f64> {
        let mut share = vec![-1e6; classes];
        (share[0], share[1]) = (-(self.low + self.high) / 2.0, 0.0);
        share
    }

    fn learn(&mut self, label: u32) {
        let middle = (self.low + self.high) / 2.0;
        if label == 0 {
            self.low = middle
        } else {
            self.high = middle
        }
        self.answers += 1;
    }
}

/// Class names, the configuration where it changes nothing, the active party's own parameters: each makes another version of
/// the same passive parameters. None of them gives a second share.
#[tokio::test(flavor = "multi_thread")]
async fn versions_that_differ_in_names_answer_one_share() {
    let attack = Attack::on("class_label").await;
    let record = test_ids(&attack.dataset, 0, 1);
    let k = attack.dataset.class_names().len();
    let mut bisection = Bisection::new();
    let mut versions = Vec::new();
    let mut first = None;
    for round in 0..40 {
        let mut choice = attack.honest();
        match round % 3 {
            // Patience plays no part where there is one epoch.
            1 => choice.config.patience = 5 + round,
            2 => choice.feature_name = format!("y{round}"),
            _ => choice.class_names.iter_mut().for_each(|name| *name += &format!(" {round}")),
        }
        let version = attack.train(&choice).await;
        assert!(!versions.contains(&version), "round {round} has a version of its own");
        let share = bisection.share(k);
        match attack.label(&version, &record, &share).await {
            Ok(label) => {
                first = Some((share, label));
                bisection.learn(label);
            }
            Err(status) => assert_eq!(status, RowStatus::ShareChanged, "round {round}"),
        }
        versions.push(version);
    }
    assert_eq!(bisection.answers, 1, "the margin is known to {:e}", bisection.high - bisection.low);
    // The bound share gets the one answer, as often as the record's budget says: ten times in all, counted across versions.
    let (share, label) = first.unwrap();
    let last = versions.last().unwrap();
    for _ in 1..10 {
        assert_eq!(attack.label(last, &record, &share).await, Ok(label));
    }
    assert_eq!(attack.label(last, &record, &share).await, Err(RowStatus::BudgetSpent));
    attack.deployment.stop().await.unwrap();
}

/// What does move the passive parameters is counted: two models of a record, and a further one when the operator approves it.
#[tokio::test(flavor = "multi_thread")]
async fn trainings_that_differ_a_little_answer_twice() {
    let attack = Attack::on("class_label").await;
    let record = test_ids(&attack.dataset, 0, 1);
    let k = attack.dataset.class_names().len();
    let mut bisection = Bisection::new();
    let mut last = None;
    for round in 0..40u32 {
        let mut choice = attack.honest();
        match round % 3 {
            0 => choice.config.learning_rate += 1e-9 * f64::from(round + 1),
            1 => choice.config.seed += u64::from(round),
            _ => {
                let label = &mut choice.labels[round as usize];
                *label = (*label + 1) % k as u32;
            }
        }
        let version = attack.train(&choice).await;
        match attack.label(&version, &record, &bisection.share(k)).await {
            Ok(label) => bisection.learn(label),
            Err(status) => assert_eq!(status, RowStatus::ModelBudgetSpent, "round {round}"),
        }
        last = Some(version);
    }
    assert_eq!(bisection.answers, 2, "the margin is known to {:e}", bisection.high - bisection.low);
    let version = last.unwrap();
    let share = bisection.share(k);
    assert_eq!(attack.label(&version, &record, &share).await, Err(RowStatus::ModelBudgetSpent));
    let manifest =
        read_manifest(&attack.dir.path().join("coordinator"), &version).unwrap().unwrap();
    let now = std::time::SystemTime::now();
    assert!(
        ledger::approve(&attack.ledger(), &version, &manifest.passive_fingerprint(), now)
            .await
            .unwrap()
    );
    let label = attack.label(&version, &record, &share).await.unwrap();
    bisection.learn(label);
    assert_eq!(
        attack.label(&version, &record, &bisection.share(k)).await,
        Err(RowStatus::ShareChanged)
    );
    // A record that was not asked about before has its two models still.
    let fresh = test_ids(&attack.dataset, 1, 2);
    assert!(attack.label(&version, &fresh, &share).await.is_ok());
    attack.deployment.stop().await.unwrap();
}

/// The same bytes under a renamed version: no second draw of noise, and no codebook fitted anew on other calibration scores.
#[tokio::test(flavor = "multi_thread")]
async fn noise_and_codebooks_do_not_change_with_names() {
    for defense in ["gaussian_noise (sigma = 0.1)", "codebook (size = 16)"] {
        let attack = Attack::on(defense).await;
        let records = test_ids(&attack.dataset, 0, 50);
        let share = vec![0.0; attack.dataset.class_names().len()];
        let honest = attack.honest();
        let first = attack.train(&honest).await;
        let (status, released) = attack.ask(&first, &records, &share).await;
        assert_eq!(status, vec![RowStatus::Ok; 50]);
        for round in 0..4 {
            let mut choice = honest.clone();
            choice.class_names[0] = format!("renamed {round}");
            choice.feature_name = format!("y{round}");
            // Within what the coordinator takes for shares of a training this short.
            choice.calibration_shift = 0.1 * f64::from(round);
            let version = attack.train(&choice).await;
            assert_ne!(version, first);
            assert_eq!(
                attack.ask(&version, &records, &share).await.1,
                released,
                "{defense}, round {round}"
            );
        }
        // Other passive parameters are another model, with noise of its own.
        let mut choice = honest.clone();
        choice.config.seed += 1;
        let other = attack.train(&choice).await;
        assert_ne!(attack.ask(&other, &records, &share).await.1, released, "{defense}");
        attack.deployment.stop().await.unwrap();
    }
}
