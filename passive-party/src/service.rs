//! The gRPC face of the passive party.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};
use vfl_shared::data::FeatureStore;
use vfl_shared::files;
use vfl_shared::model::{ShareStore, StoreError};
use vfl_shared::rpc::pb::evaluate_reconstruction_request::Message as Ask;
use vfl_shared::rpc::pb::evaluate_reconstruction_response::Message as Answer;
use vfl_shared::rpc::pb::passive_party_server::{PassiveParty, PassivePartyServer};
use vfl_shared::rpc::{MAX_MESSAGE_BYTES, Refusal, RefusalKind, WireError, decode_columns, pb, require};
use vfl_shared::service::{PeerIdentity, ServeError, caller, serve};
use vfl_shared::training::Participant;
use vfl_shared::types::{FeatureBlock, RecordIds};

use crate::config::{Settings, check_release};
use crate::evaluation::{EvaluationError, Evaluations};
use crate::logits::LogitServer;
use crate::release::ReleaseError;
use crate::showing::Showing;
use crate::training_map::{self, TrainingMapError};
use crate::transform::TransformError;

/// Why the passive party cannot start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Two processes would each make releases and count scorings without knowing of the other's.
    #[error(
        "state_dir {} is in use by another passive party; stop that process, or give each a state_dir of its own", .0.display()
    )]
    InUse(PathBuf),
    /// The lock.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The releases.
    #[error(transparent)]
    Releases(#[from] ReleaseError),
    /// The record of scorings.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// The release policy.
    #[error("[release]: {0}")]
    Release(String),
    /// The map that features go through before training.
    #[error("[training]: {0}")]
    TrainingMap(#[from] TrainingMapError),
    /// A map that is not of these features.
    #[error("[training]: {0}")]
    Transform(#[from] TransformError),
    /// The transport.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

struct Service {
    identity: PeerIdentity,
    logits: Arc<LogitServer>,
    showing: Arc<Showing>,
    audits_allowed: bool,
    evaluations: Arc<Evaluations>,
    stop: tokio_util::sync::CancellationToken,
}

/// Serves on a bound listener until `shutdown` completes.
///
/// # Errors
/// [`RunError`] naming what is wrong with the state directory or the transport.
pub async fn run(
    settings: Settings,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let store = ShareStore::open(&settings.state_dir)?;
    let path = settings.state_dir.join("lock");
    let lock = match files::lock(&path) {
        Ok(Some(lock)) => Arc::new(lock),
        Ok(None) => return Err(RunError::InUse(settings.state_dir)),
        Err(source) => return Err(RunError::Lock { path, source }),
    };
    let evaluations = Arc::new(Evaluations::open(&settings.state_dir, settings.audit.max_scorings)?);
    let table = settings.table;
    let features = table.schema().len();
    check_release(&settings.release, features).map_err(RunError::Release)?;
    let map = training_map::open(&settings.state_dir, &settings.training.transform, features)?;
    let mut logits = LogitServer::new(table.clone(), store);
    if let Some(map) = &map {
        logits = logits.with_map(map)?;
    }
    let showing = Showing::open(&settings.state_dir, &lock, settings.release, settings.training.transform)?;
    tracing::info!(records = table.len(), features, "serving logit shares");
    let stop = tokio_util::sync::CancellationToken::new();
    let service = Service {
        identity: settings.credentials.identity().clone(),
        showing: Arc::new(showing),
        logits: Arc::new(logits),
        audits_allowed: settings.audit.allowed,
        evaluations,
        stop: stop.clone(),
    };
    let routes = Routes::new(
        PassivePartyServer::new(service)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES),
    );
    let shutdown = async move {
        shutdown.await;
        stop.cancel();
    };
    let served = serve(listener, &settings.credentials, routes, shutdown).await;
    drop(lock);
    Ok(served?)
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl PassiveParty for Service {
    async fn describe_features(
        &self,
        _request: Request<pb::DescribeFeaturesRequest>,
    ) -> Result<Response<pb::DescribeFeaturesResponse>, Status> {
        let feature = |f: &vfl_shared::data::FeatureSpec| pb::describe_features_response::Feature {
            name: f.name.clone(),
            kind: f.kind.to_string(),
            min: f.min,
            max: f.max,
        };
        Ok(Response::new(pb::DescribeFeaturesResponse {
            party: self.identity.name().as_str().to_owned(),
            features: self.logits.table.schema().features().iter().map(feature).collect(),
        }))
    }

    async fn compute_logits(
        &self,
        request: Request<pb::ComputeLogitsRequest>,
    ) -> Result<Response<pb::ComputeLogitsResponse>, Status> {
        Ok(Response::new(self.logits.compute(request.into_inner())?))
    }

    type ComputeLogitsStreamStream = Responses<pb::ComputeLogitsResponse>;

    async fn compute_logits_stream(
        &self,
        request: Request<Streaming<pb::ComputeLogitsRequest>>,
    ) -> Result<Response<Self::ComputeLogitsStreamStream>, Status> {
        let logits = self.logits.clone();
        let answers = request
            .into_inner()
            .map(move |message| Ok(logits.compute(message?)?))
            .take_until(self.stop.clone().cancelled_owned());
        Ok(Response::new(Box::pin(answers)))
    }

    type TrainStream = Responses<pb::TrainingReply>;

    async fn train(
        &self,
        request: Request<Streaming<pb::TrainingCommand>>,
    ) -> Result<Response<Self::TrainStream>, Status> {
        let coordinator = caller(&request)?;
        let commands = request.into_inner();
        let (replies, outgoing) = mpsc::channel(16);
        let logits = self.logits.clone();
        let stop = self.stop.clone();
        tokio::spawn(async move {
            let names = logits.feature_names();
            let source = |ids: &RecordIds| training_block(&logits, ids);
            let participant = Participant {
                coordinator: coordinator.words(),
                store: &logits.store,
                feature_names: &names,
                known_records: None,
                source: &source,
            };
            let ended = tokio::select! {
                ended = participant.run(commands, &replies, |_| ()) => ended,
                () = stop.cancelled() => Err(Refusal::unavailable("the passive party is stopping")),
            };
            match ended {
                Ok(outcome) => tracing::info!(version = %outcome.version, "this party's share is stored and confirmed"),
                Err(refusal) => {
                    tracing::warn!(caller = %coordinator, reason = %refusal, "training ended without a model");
                    let _ = replies.send(Err(refusal.into())).await;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn release_parameters(
        &self,
        request: Request<pb::ReleaseParametersRequest>,
    ) -> Result<Response<pb::ReleaseParametersResponse>, Status> {
        let caller = caller(&request)?;
        let version = request.into_inner().model_version;
        let answer = self.showing.release(&self.logits, caller.role(), version).await?;
        tracing::info!(caller = %caller, "parameters released");
        Ok(Response::new(answer))
    }

    type EvaluateReconstructionStream = Responses<pb::EvaluateReconstructionResponse>;

    async fn evaluate_reconstruction(
        &self,
        request: Request<Streaming<pb::EvaluateReconstructionRequest>>,
    ) -> Result<Response<Self::EvaluateReconstructionStream>, Status> {
        let auditor = caller(&request)?;
        if !self.audits_allowed {
            let message = "audits are not allowed here; the operator may set `allowed = true` in [audit]";
            return Err(Refusal::new(RefusalKind::PermissionDenied, message).into());
        }
        let mut asks = request.into_inner();
        let (logits, evaluations, showing) = (self.logits.clone(), self.evaluations.clone(), self.showing.clone());
        let (answers, outgoing) = mpsc::channel(4);
        tokio::spawn(async move {
            if let Err(status) = evaluate(&logits, &evaluations, &showing, &mut asks, &answers).await {
                tracing::info!(auditor = %auditor, reason = %status.message(), "scoring refused");
                let _ = answers.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }
}

async fn evaluate(
    logits: &Arc<LogitServer>,
    evaluations: &Arc<Evaluations>,
    showing: &Showing,
    asks: &mut Streaming<pb::EvaluateReconstructionRequest>,
    answers: &mpsc::Sender<Result<pb::EvaluateReconstructionResponse, Status>>,
) -> Result<(), Status> {
    let answer = |message| pb::EvaluateReconstructionResponse { message: Some(message) };
    let first = asks.message().await?;
    let Some(pb::EvaluateReconstructionRequest { message: Some(Ask::Ids(ids)), model_version }) = first else {
        return Err(Refusal::invalid("the first message of a scoring names the records").into());
    };
    let ids = RecordIds::try_from(ids)?;
    let version = match model_version.as_str() {
        "" => None,
        _ => Some(WireError::model_version(model_version)?),
    };
    // What may be refused comes before the set is counted.
    let shown = showing.described(logits, version.as_ref()).await?;
    // Counting on disk waits for the disk: not on the threads that answer predictions.
    let (held, counted) = (logits.clone(), evaluations.clone());
    let evaluation = off_thread(move || counted.start(&held.table, &ids)).await?;
    let evaluation = Arc::new(evaluation);
    let (d, n) = evaluation.shape();
    let (half, column_mean) = evaluation.baselines();
    let opened = pb::EvaluationOpened {
        shown: Some(shown),
        feature_names: logits.feature_names(),
        half: Some(half),
        column_mean: Some(column_mean),
        scorings_left: evaluation.scorings_left(),
    };
    let gone = |_| Status::cancelled("the auditor has gone away");
    answers.send(Ok(answer(Answer::Opened(opened)))).await.map_err(gone)?;
    while let Some(message) = asks.message().await? {
        let Ask::Estimates(matrix) = require("message", message.message)? else {
            return Err(Refusal::invalid("the records of a scoring are fixed by its first message").into());
        };
        let estimates = decode_columns("estimates", &matrix, n, Some(d))?;
        let scored = evaluation.clone();
        let error = off_thread(move || scored.score(&estimates)).await?;
        answers.send(Ok(answer(Answer::Error(error)))).await.map_err(gone)?;
    }
    Ok(())
}

/// Runs work that waits for the disk on a thread of its own.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::internal("the work failed"))?
}

fn training_block(logits: &LogitServer, ids: &RecordIds) -> Result<FeatureBlock, Refusal> {
    let held: Vec<usize> = ids.iter().filter_map(|id| logits.table.position(id)).collect();
    let missing = ids.len() - held.len();
    if missing > 0 {
        let message =
            format!("{missing} of the {} training records are not held here; align the parties first", ids.len());
        return Err(Refusal::new(RefusalKind::NotFound, message));
    }
    logits.rows(&held)
}
