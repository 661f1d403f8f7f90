//! An honest active party that keeps what it receives in training.

use nalgebra::DMatrix;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use vfl_core::model::{PartyLearner, Schedule, TrainingConfig, TrainingValues};
use vfl_core::types::{FeatureBlock, RecordIds};
use vfl_protocol::pb::training_command::Command;
use vfl_protocol::pb::training_reply::Reply;
use vfl_protocol::{decode_columns, pb};
use vfl_server::service::Role;
use vfl_studies::transcript::optimiser_gauge::recover;
use vfl_studies::transcript::{Transcript, accuracy, reconstruct, record};
use vfl_testbed::deployment::Deployment;

use super::support::{coordinator_client, dataset, deploy, split, training_ids};

/// Takes part in a training over the sockets exactly as the protocol asks, with its own learner, and keeps every batch with
/// its own shares and the gradient that came back. Leaves before anything is published.
async fn train_and_keep(
    deployment: &Deployment,
    config: &TrainingConfig,
    class_names: &[String],
    ids: &RecordIds,
    labels: &[u32],
    own: &FeatureBlock,
) -> Transcript {
    let classes = class_names.len();
    let (replies, receiver) = mpsc::channel(64);
    let say = |reply| pb::TrainingReply { reply: Some(reply) };
    let start = pb::TrainingStart {
        config: Some(config.into()),
        class_names: class_names.to_vec(),
        record_count: ids.len() as u32,
    };
    replies.send(say(Reply::Start(start))).await.unwrap();
    let labelled = pb::LabelledRecords { ids: Some(ids.into()), labels: labels.to_vec() };
    replies.send(say(Reply::Labelled(labelled))).await.unwrap();
    let mut client = coordinator_client(deployment, Role::ActiveParty);
    let mut commands = client.train(ReceiverStream::new(receiver)).await.unwrap().into_inner();

    let mut learner = PartyLearner::new(config, classes, own.clone(), true).unwrap();
    let mut transcript = Transcript::new(config, classes, labels.to_vec(), own.matrix().clone());
    let mut pending = None;
    loop {
        let message =
            commands.message().await.unwrap().expect("the coordinator ended the training");
        match message.command.unwrap() {
            Command::Begin(_) => {
                let ready =
                    pb::TrainingReady { features: learner.features() as u32, sub_model: None };
                replies.send(say(Reply::Ready(ready))).await.unwrap();
            }
            Command::Step(step) => {
                if let Some(gradient) = &step.gradient {
                    let gradient =
                        decode_columns("gradient", gradient, gradient.rows as usize, Some(classes))
                            .unwrap();
                    let (batch, share): (Vec<u32>, DMatrix<f64>) = pending.take().unwrap();
                    transcript.push(&batch, &share, &gradient);
                    learner.update(&gradient).unwrap();
                }
                if step.checkpoint {
                    learner.checkpoint();
                }
                if step.restore {
                    learner.restore().unwrap();
                }
                if !step.batch.is_empty() {
                    let share = learner.shares(&step.batch, step.evaluation).unwrap();
                    let answer =
                        pb::BatchShares { step: step.step, shares: Some(share.clone().into()) };
                    if !step.evaluation {
                        pending = Some((step.batch, share.matrix().clone()));
                    }
                    replies.send(say(Reply::Shares(answer))).await.unwrap();
                }
            }
            Command::Progress(_) => transcript.end_epoch(),
            Command::Store(_) => return transcript,
            other => panic!("{other:?}"),
        }
    }
}

/// A training over the sockets, as its active party saw it, and what it did not see.
struct LiveTraining {
    config: TrainingConfig,
    classes: usize,
    labels: Vec<u32>,
    own: FeatureBlock,
    received: Transcript,
    /// The passive features of the training's list.
    truth: DMatrix<f64>,
}

/// Trains with eight passive features in one deployment.
async fn live_training(values: TrainingValues) -> LiveTraining {
    let dataset = dataset();
    let split = split(&dataset, 1, 8);
    let ids = training_ids(&dataset);
    let dir = tempfile::tempdir().unwrap();
    let deployment = deploy(dir.path(), &dataset, &split).await;
    let config = TrainingConfig::try_from(values).unwrap();
    let records = &dataset.split().train;
    let labels: Vec<u32> = records.iter().map(|&r| dataset.labels()[r]).collect();
    let rows = |columns: &[usize]| dataset.x().select_rows(columns).select_columns(records);
    let own = FeatureBlock::new(rows(split.active())).unwrap();
    let truth = rows(&split.passive()[0].columns);
    let names = dataset.class_names();
    let received = train_and_keep(&deployment, &config, names, &ids, &labels, &own).await;
    deployment.stop().await.unwrap();
    LiveTraining { config, classes: names.len(), labels, own, received, truth }
}

/// What `cloison transcript` measures is what an active party receives over the sockets, number for number; and six epochs of
/// it, with eight known records, give the eight passive features of all other records.
#[tokio::test(flavor = "multi_thread")]
async fn an_honest_transcript_gives_the_passive_features() {
    let values = TrainingValues { epochs: 6, patience: 6, seed: 5, ..Default::default() };
    let LiveTraining { config, classes, labels, own, received, truth } =
        live_training(values).await;

    let block = FeatureBlock::new(truth.clone()).unwrap();
    let computed = record(&config, classes, own, vec![block], labels.clone()).unwrap();
    assert_eq!(received.steps.len(), computed.steps.len());
    for (a, b) in received.steps.iter().zip(&computed.steps) {
        assert_eq!(a.positions, b.positions);
        assert!((&a.logits - &b.logits).amax() < 1e-12);
    }
    assert!(
        received.steps.last().unwrap().logits.amax() > 0.5,
        "the comparison is of a model that has learned"
    );

    let trained: Vec<usize> =
        Schedule::new(&config, labels.len()).training().iter().map(|&p| p as usize).collect();
    let (known, others) = trained.split_at(8);
    let told = truth.select_columns(known);
    let estimates = reconstruct(&received, received.first(6), known, &told, 150);
    let found = accuracy(&estimates.x, &truth, others);
    assert!(found.error_over_variance < 0.05, "{found:?}");
    assert!(found.records_within_0_01 > 0.1, "{found:?}");
}

/// Sixteen steps of one batch over the sockets give all eight passive features without any known record.
#[tokio::test(flavor = "multi_thread")]
async fn an_honest_transcript_gives_the_features_without_a_known_record() {
    let values = TrainingValues {
        epochs: 16,
        patience: 16,
        batch_size: 10_000,
        learning_rate: 0.05,
        seed: 5,
        ..Default::default()
    };
    let LiveTraining { received, truth, .. } = live_training(values).await;
    let found = recover(&received, &received.steps, 8, 300, 1).unwrap();
    let truth = truth.select_columns(&found.records);
    let matched = truth
        .row_iter()
        .filter(|x| found.features.row_iter().any(|estimate| (estimate - x).amax() < 1e-3));
    assert_eq!((found.features.nrows(), matched.count()), (8, 8), "{found:?}");
}
