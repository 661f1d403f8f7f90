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
use vfl_shared::model::{ShareStore, Staging, StoreError};
use vfl_shared::rpc::pb::passive_party_server::{PassiveParty, PassivePartyServer};
use vfl_shared::rpc::{MAX_MESSAGE_BYTES, Refusal, RefusalKind, WireError, pb, require, rough};
use vfl_shared::service::{PeerIdentity, ServeError, caller, serve, until_stopped};
use vfl_shared::training::journal::JournalError;
use vfl_shared::training::messages::StagedShare;
use vfl_shared::training::{Importer, Participant};
use vfl_shared::types::{FeatureBlock, RecordIds, ShareRequest};

use crate::collusion::Collusion;
use crate::config::{Settings, check_release, check_training};
use crate::consent::Consent;
use crate::disclosure::Disclosure;
use crate::evaluation::service::{evaluate, off_thread};
use crate::evaluation::{EvaluationError, Evaluations};
use crate::logits::{LogitServer, MAX_ROWS};
use crate::release::ReleaseError;
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
    /// The audit policy.
    #[error("[audit]: {0}")]
    Audit(String),
    /// The release policy.
    #[error("[release]: {0}")]
    Release(String),
    /// The rules for trainings.
    #[error("[training]: {0}")]
    Training(String),
    /// The journal of trainings.
    #[error(transparent)]
    Journal(#[from] JournalError),
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
    importer: Arc<Importer>,
    disclosure: Arc<Disclosure>,
    collusion: Collusion,
    audits_allowed: bool,
    evaluations: Arc<Evaluations>,
    consent: Arc<Consent>,
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
    settings.audit.check().map_err(RunError::Audit)?;
    let evaluations = Arc::new(Evaluations::open(&settings.state_dir, settings.audit)?);
    let table = settings.table;
    let features = table.schema().len();
    check_release(&settings.release, features).map_err(RunError::Release)?;
    check_training(&settings.training).map_err(RunError::Training)?;
    let consent = Consent::open(&settings.state_dir, settings.training.clone(), features)?;
    let map = training_map::open(&settings.state_dir, &settings.training.transform, features)?;
    let mut logits = LogitServer::new(table.clone(), store);
    if let Some(map) = &map {
        logits = logits.with_map(map)?;
    }
    let disclosure = Disclosure::open(&settings.state_dir, &lock, settings.release, settings.training.transform)?;
    tracing::info!(records = table.len(), features, "serving logit shares");
    let staging = Staging::of(&settings.state_dir);
    let importer = Importer::of_passive(staging, logits.store.clone(), logits.feature_names(), map.is_some());
    let service = |stop| Service {
        identity: settings.credentials.identity().clone(),
        disclosure: Arc::new(disclosure),
        logits: Arc::new(logits),
        importer: Arc::new(importer),
        collusion: settings.collusion,
        audits_allowed: settings.audit.allowed,
        evaluations,
        consent,
        stop,
    };
    let routes = |stop| {
        Routes::new(
            PassivePartyServer::new(service(stop))
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
        )
    };
    let served = serve(listener, &settings.credentials, &settings.limits, routes, shutdown).await;
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
        let request = ShareRequest::try_from(request.into_inner())?;
        Ok(Response::new(self.logits.compute(&request)?.into()))
    }

    type ComputeLogitsStreamStream = Responses<pb::ComputeLogitsResponse>;

    async fn compute_logits_stream(
        &self,
        request: Request<Streaming<pb::ComputeLogitsRequest>>,
    ) -> Result<Response<Self::ComputeLogitsStreamStream>, Status> {
        let logits = self.logits.clone();
        let answers = until_stopped(request.into_inner(), self.stop.clone(), "the passive party")
            .map(move |message| Ok(logits.compute(&ShareRequest::try_from(message?)?)?.into()));
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
        let (stop, consent) = (self.stop.clone(), self.consent.clone());
        tokio::spawn(async move {
            let names = logits.feature_names();
            let source = |ids: &RecordIds| training_block(&logits, ids);
            let participant = Participant {
                coordinator: coordinator.words(),
                store: &logits.store,
                feature_names: &names,
                known_records: None,
                source: &source,
                privacy: consent.privacy(),
                gate: Some(consent),
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

    async fn describe_staged(
        &self,
        request: Request<pb::DescribeStagedRequest>,
    ) -> Result<Response<pb::DescribeStagedResponse>, Status> {
        let request = request.into_inner();
        let party = WireError::party_name("active_party", request.active_party)?;
        let importer = self.importer.clone();
        let (staged, share) = off_thread(move || importer.staged(&party, &request.class_names)).await?;
        let features = share.model().features() as u32;
        let sub_model = Some(share.model().spec().clone());
        Ok(Response::new(StagedShare { digest: staged.digest, features, sub_model }.into()))
    }

    async fn publish_staged(
        &self,
        request: Request<pb::PublishStagedRequest>,
    ) -> Result<Response<pb::PublishStagedResponse>, Status> {
        let coordinator = caller(&request)?;
        let request = request.into_inner();
        let party = WireError::party_name("active_party", request.active_party)?;
        let version = WireError::model_version(request.model_version)?;
        let (importer, named, of) = (self.importer.clone(), version.clone(), party.clone());
        off_thread(move || importer.publish(&of, &request.class_names, &named, &request.digest)).await?;
        tracing::info!(%version, active_party = %party, caller = %coordinator, "imported parameters are confirmed");
        Ok(Response::new(pb::PublishStagedResponse {}))
    }

    async fn release_parameters(
        &self,
        request: Request<pb::ReleaseParametersRequest>,
    ) -> Result<Response<pb::ReleaseParametersResponse>, Status> {
        let caller = caller(&request)?;
        let version = WireError::model_version(request.into_inner().model_version)?;
        let released = self.disclosure.release(&self.logits, caller.role(), &version).await?;
        tracing::info!(caller = %caller, "parameters released");
        Ok(Response::new((&released).into()))
    }

    async fn lend_shares(
        &self,
        request: Request<pb::LendSharesRequest>,
    ) -> Result<Response<pb::LendSharesResponse>, Status> {
        let caller = caller(&request)?;
        // Before anything else is said of versions and records.
        self.collusion.allows(&caller)?;
        let request = request.into_inner();
        let ids = RecordIds::try_from(require("ids", request.ids)?)?;
        if !(1..=MAX_ROWS).contains(&ids.len()) {
            return Err(Refusal::invalid(format!("a request takes 1 to {MAX_ROWS} records, {} came", ids.len())).into());
        }
        let version = WireError::model_version(request.model_version)?;
        let lent = self.collusion.lend(&self.logits, &caller, &version, &ids)?;
        Ok(Response::new(pb::LendSharesResponse { logit_shares: Some(lent.to_wire()) }))
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
        let (logits, evaluations, disclosure) =
            (self.logits.clone(), self.evaluations.clone(), self.disclosure.clone());
        let (answers, outgoing) = mpsc::channel(4);
        tokio::spawn(async move {
            if let Err(status) = evaluate(&logits, &evaluations, &disclosure, &mut asks, &answers).await {
                tracing::info!(auditor = %auditor, reason = %status.message(), "scoring refused");
                let _ = answers.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }
}

fn training_block(logits: &LogitServer, ids: &RecordIds) -> Result<FeatureBlock, Refusal> {
    let held: Vec<usize> = ids.iter().filter_map(|id| logits.table.position(id)).collect();
    let missing = ids.len() - held.len();
    if missing > 0 {
        let (missing, all) = (rough(missing), ids.len());
        let message = format!("{missing} of the {all} training records are not held here; align the parties first");
        return Err(Refusal::new(RefusalKind::NotFound, message));
    }
    logits.rows(&held)
}
