//! An honest passive party that keeps what it receives in training: it reads the active party's labels from it.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use vfl_core::model::{Combiner, ModelConfig, Schedule, Settings, TrainingConfig, TrainingValues};
use vfl_core::types::{FeatureBlock, PartyName, RecordIds};
use vfl_party::training::Participant;
use vfl_passive_party::config::ReleasePolicy;
use vfl_passive_party::logits::LogitServer;
use vfl_protocol::pb::passive_party_server::{PassiveParty, PassivePartyServer};
use vfl_protocol::pb::training_command::Command;
use vfl_protocol::{decode_columns, pb};
use vfl_server::monitoring::Monitor;
use vfl_server::service::{Credentials, Limits, Peer, Role, serve};
use vfl_state::ShareStore;
use vfl_studies::labels::{PassiveTranscript, Step, gradient_direction, gradient_sign, observe};
use vfl_testbed::deployment::Deployment;

use super::support::{dataset, spec, split, training_ids};

/// What a passive party notes beside taking part.
#[derive(Default)]
struct Notes {
    /// The ids of the training's list.
    ids: Vec<String>,
    steps: Vec<Step>,
    /// The last training batch, whose gradient is to come.
    pending: Option<Vec<u32>>,
}

impl Notes {
    fn note(&mut self, command: &Command) {
        match command {
            Command::Records(ids) => {
                self.ids.extend(RecordIds::try_from(ids.clone()).unwrap().iter().map(str::to_owned))
            }
            Command::Step(step) => {
                if let Some(gradient) = &step.gradient {
                    let gradient =
                        decode_columns("gradient", gradient, gradient.rows as usize, None).unwrap();
                    self.steps.push(Step { positions: self.pending.take().unwrap(), gradient });
                }
                if !step.batch.is_empty() && !step.evaluation {
                    self.pending = Some(step.batch.clone());
                }
            }
            _ => {}
        }
    }
}

/// A passive party with the parties' own code, which writes down what it is sent.
struct Curious {
    logits: Arc<LogitServer>,
    notes: Arc<Mutex<Notes>>,
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn not_here<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not in this test"))
}

#[tonic::async_trait]
impl PassiveParty for Curious {
    async fn describe_features(
        &self,
        _: Request<pb::DescribeFeaturesRequest>,
    ) -> Result<Response<pb::DescribeFeaturesResponse>, Status> {
        not_here()
    }

    async fn compute_logits(
        &self,
        _: Request<pb::ComputeLogitsRequest>,
    ) -> Result<Response<pb::ComputeLogitsResponse>, Status> {
        not_here()
    }

    type ComputeLogitsStreamStream = Responses<pb::ComputeLogitsResponse>;

    async fn compute_logits_stream(
        &self,
        _: Request<Streaming<pb::ComputeLogitsRequest>>,
    ) -> Result<Response<Self::ComputeLogitsStreamStream>, Status> {
        not_here()
    }

    type ReleasePrivatelyStream = Responses<pb::PrivateReleaseReply>;

    async fn release_privately(
        &self,
        _: Request<Streaming<pb::PrivateReleaseCommand>>,
    ) -> Result<Response<Self::ReleasePrivatelyStream>, Status> {
        not_here()
    }

    type TrainStream = Responses<pb::TrainingReply>;

    async fn train(
        &self,
        request: Request<Streaming<pb::TrainingCommand>>,
    ) -> Result<Response<Self::TrainStream>, Status> {
        let notes = self.notes.clone();
        let commands = request.into_inner().map(move |message| {
            if let Ok(pb::TrainingCommand { command: Some(command) }) = &message {
                notes.lock().unwrap().note(command);
            }
            message
        });
        let (replies, outgoing) = mpsc::channel(16);
        let logits = self.logits.clone();
        tokio::spawn(async move {
            let names = logits.feature_names();
            let participant = Participant {
                coordinator: "the coordinator".into(),
                store: &logits.store,
                feature_names: &names,
                known_records: None,
                source: &*logits,
                gate: None,
                privacy: None,
                private: None,
            };
            participant.run(commands, &replies, |_| ()).await.unwrap();
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    type AlignStream = Responses<pb::AlignmentFrame>;

    async fn align(
        &self,
        _: Request<Streaming<pb::AlignmentFrame>>,
    ) -> Result<Response<Self::AlignStream>, Status> {
        not_here()
    }

    async fn describe_staged(
        &self,
        _: Request<pb::DescribeStagedRequest>,
    ) -> Result<Response<pb::DescribeStagedResponse>, Status> {
        not_here()
    }

    async fn publish_staged(
        &self,
        _: Request<pb::PublishStagedRequest>,
    ) -> Result<Response<pb::PublishStagedResponse>, Status> {
        not_here()
    }

    async fn lend_shares(
        &self,
        _: Request<pb::LendSharesRequest>,
    ) -> Result<Response<pb::LendSharesResponse>, Status> {
        not_here()
    }

    async fn release_parameters(
        &self,
        _: Request<pb::ReleaseParametersRequest>,
    ) -> Result<Response<pb::ReleaseParametersResponse>, Status> {
        not_here()
    }

    type EvaluateReconstructionStream = Responses<pb::EvaluateReconstructionResponse>;

    async fn evaluate_reconstruction(
        &self,
        _: Request<Streaming<pb::EvaluateReconstructionRequest>>,
    ) -> Result<Response<Self::EvaluateReconstructionStream>, Status> {
        not_here()
    }
}

/// Trains over the sockets with one passive party that keeps notes, and compares these with what `cloison labels` attacks; gives the
/// notes, the true labels by position, and the positions that steps were made on.
async fn train_beside_a_curious_party(
    model: ModelConfig,
) -> (PassiveTranscript, Vec<u32>, Vec<usize>) {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let split = split(&dataset, 1, 8);
    let notes = Arc::new(Mutex::new(Notes::default()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut spec = spec(dir.path(), &dataset, &split);
    spec.release = ReleasePolicy::default();
    let (name, table) = spec.tables.passive.pop().unwrap();
    let store = ShareStore::open(&dir.path().join("curious")).unwrap();
    let curious = Curious {
        logits: Arc::new(LogitServer::new(Arc::new(table), store)),
        notes: notes.clone(),
    };
    let stop = tokio_util::sync::CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    let deployment = Deployment::start_with(spec, |authority, settings| {
        let credentials = Credentials::new(
            &authority.issue(Role::PassiveParty, &PartyName::new(name.as_str())?)?,
        )?;
        let routes = tonic::service::Routes::new(PassivePartyServer::new(curious));
        let monitor = Monitor::new("passive-party", name.as_str());
        tokio::spawn(async move {
            serve(listener, &credentials, &Limits::default(), &monitor, |_| routes, stopped).await
        });
        settings.passive_parties.push(Peer { role: Role::PassiveParty, name, address });
        Ok(())
    })
    .await
    .unwrap();
    let values = TrainingValues { epochs: 2, patience: 2, seed: 5, model, ..Default::default() };
    let config = TrainingConfig::try_from(values).unwrap();
    let ids = training_ids(&dataset);
    deployment.train(&config, &ids, |_| ()).await.unwrap();
    deployment.stop().await.unwrap();
    stop.cancel();

    let records = &dataset.split().train;
    let labels: Vec<u32> = records.iter().map(|&r| dataset.labels()[r]).collect();
    let block = |columns: &[usize]| {
        FeatureBlock::new(dataset.x().select_rows(columns).select_columns(records)).unwrap()
    };
    let blocks = [block(split.active()), block(&split.passive()[0].columns)];
    let computed = observe(&config, dataset.class_names().len(), &blocks, &labels, None, &[])
        .unwrap()
        .received;
    let notes = std::mem::take(&mut *notes.lock().unwrap());
    assert!(
        notes.ids.iter().map(String::as_str).eq(ids.iter()),
        "a passive party has the ids of its batches"
    );
    assert_eq!(notes.steps.len(), computed.steps.len());
    for (received, computed) in notes.steps.iter().zip(&computed.steps) {
        assert_eq!(received.positions, computed.positions);
        assert!((&received.gradient - &computed.gradient).amax() < 1e-12);
    }
    let trained =
        Schedule::new(&config, ids.len()).training().iter().map(|&p| p as usize).collect();
    (PassiveTranscript { steps: notes.steps, ..computed }, labels, trained)
}

/// What `cloison labels` attacks is what a passive party receives over the sockets; under `sum` it names every label.
#[tokio::test(flavor = "multi_thread")]
async fn under_sum_an_honest_passive_party_reads_every_label() {
    let (received, labels, trained) = train_beside_a_curious_party(ModelConfig::default()).await;
    let named = gradient_sign(&received);
    assert!(trained.len() > 1000);
    for position in trained {
        assert_eq!(named[position], Some(labels[position]));
    }
    // With the labels it has the scores of the training records, before any defense.
    for step in &received.steps {
        let mut scores = &step.gradient * step.positions.len() as f64;
        for (mut column, &position) in scores.column_iter_mut().zip(&step.positions) {
            column[named[position as usize].unwrap() as usize] += 1.0;
            assert!((column.sum() - 1.0).abs() < 1e-12 && column.min() >= -1e-12);
        }
    }
}

/// Under a top model one known label of each class gives most of the others.
#[tokio::test(flavor = "multi_thread")]
async fn under_a_top_model_a_label_of_each_class_gives_the_others() {
    let settings: Settings =
        serde_json::json!({ "hidden": [8], "activation": "tanh" }).as_object().unwrap().clone();
    let model = ModelConfig::new(Combiner::Concat, "mlp", Some(6), settings).unwrap();
    let (received, labels, trained) = train_beside_a_curious_party(model).await;
    let classes = 1 + labels.iter().copied().max().unwrap();
    let first_of = |class| trained.iter().copied().find(|&p| labels[p] == class).unwrap();
    let known: Vec<(usize, u32)> = (0..classes).map(|class| (first_of(class), class)).collect();
    let named = gradient_direction(&received.epochs(2), &known, classes as usize, labels.len());
    let right = trained.iter().filter(|&&p| named[p] == Some(labels[p])).count();
    assert!(right as f64 > 0.8 * trained.len() as f64, "{right} of {}", trained.len());
}
