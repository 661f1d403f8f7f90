//! The gRPC face of the active party.

use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use vfl_shared::data::FeatureStore;
use vfl_shared::disjoint_sets::DisjointSets;
use vfl_shared::model::privacy::PrivacyConfig;
use vfl_shared::model::{ShareStore, Staging, StoreError, TrainingConfig};
use vfl_shared::rpc::pb::active_party_server::{ActiveParty, ActivePartyServer};
use vfl_shared::rpc::pb::train_job_event;
use vfl_shared::rpc::{
    LIST_CHUNK_RECORDS, MAX_MESSAGE_BYTES, Refusal, RefusalKind, WireError, encode_statuses, pb, require,
};
use vfl_shared::service::{PeerIdentity, ServeError, TlsError, caller, serve};
use vfl_shared::state_file::StateFileError;
use vfl_shared::training::messages::{Labelled, Published, Reply, Start};
use vfl_shared::training::{Importer, Participant, TrainingEvent};
use vfl_shared::types::{FeatureBlock, RecordIds};

use crate::config::Settings;
use crate::publish::publish;
use crate::reconstruct::{Asked, Reconstructor, ReconstructorError};
use crate::scoring::{Scorer, ended_early};

/// The most records of one call of `Predict`; the command line sends more in several calls.
pub const MAX_SCORE_RECORDS: usize = 65_536;

/// The longest name of a request, in bytes; what goes on to the coordinator is a little longer.
const MAX_REQUEST_ID: usize = 100;

/// What a second training or publication is told.
const BUSY: &str = "another training or publication is under way; try again when it has ended";

/// Why the active party cannot start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An address or a certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The sets of records whose accuracy was told.
    #[error("the sets of earlier audits: {0}")]
    Audits(StateFileError),
    /// A passive party's address.
    #[error(transparent)]
    Reconstructor(#[from] ReconstructorError),
    /// The transport.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

struct Service {
    identity: PeerIdentity,
    scorer: Arc<Scorer>,
    reconstructor: Arc<Reconstructor>,
    audits_allowed: bool,
    importer: Arc<Importer>,
    class_names: Vec<String>,
    training: Arc<tokio::sync::Mutex<()>>,
    privacy: Option<PrivacyConfig>,
    stop: tokio_util::sync::CancellationToken,
}

/// Serves on a bound listener until `shutdown` completes.
///
/// # Errors
/// [`RunError`] naming what is wrong with the state directory, an address or the transport.
pub async fn run(
    settings: Settings,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let store = ShareStore::open(&settings.state_dir)?;
    let class_names = settings.table.schema().label().map(|l| l.classes.clone()).unwrap_or_default();
    tracing::info!(records = settings.table.len(), features = settings.table.schema().len(), "the active party starts");
    let credentials = &settings.credentials;
    let scorer =
        Arc::new(Scorer::new(credentials, settings.coordinator, settings.table, store, settings.peer_timeout)?);
    let sets = DisjointSets::open(&settings.state_dir.join("audited.sets")).map_err(RunError::Audits)?;
    let (passive, timeout) = (&settings.passive_parties, settings.peer_timeout);
    let reconstructor = Reconstructor::new(credentials, scorer.clone(), passive, timeout, sets)?;
    let reconstructor = Arc::new(reconstructor.knowing(settings.known));
    let staging = Staging::of(&settings.state_dir);
    let importer = Arc::new(Importer::of_active(staging, scorer.store.clone(), scorer.feature_names()));
    let identity = credentials.identity().clone();
    let service = |stop| Service {
        identity,
        scorer,
        reconstructor,
        audits_allowed: settings.audits_allowed,
        importer,
        class_names,
        training: Arc::default(),
        privacy: settings.privacy,
        stop,
    };
    let routes = |stop| {
        Routes::new(
            ActivePartyServer::new(service(stop))
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
        )
    };
    Ok(serve(listener, credentials, &settings.limits, routes, shutdown).await?)
}

impl Service {
    /// The role is not enough: another active party of the deployment has no business with this one's records.
    fn own(&self, caller: &PeerIdentity) -> Result<(), Refusal> {
        if *caller == self.identity {
            return Ok(());
        }
        let message = format!("this service is for {} alone, the caller is {}", self.identity.words(), caller.words());
        Err(Refusal::new(RefusalKind::PermissionDenied, message))
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl ActiveParty for Service {
    async fn predict(&self, request: Request<pb::ScoreRequest>) -> Result<Response<pb::ScoreResponse>, Status> {
        self.own(&caller(&request)?)?;
        let request = request.into_inner();
        let ids = RecordIds::try_from(require("ids", request.ids)?)?;
        if request.request_id.len() > MAX_REQUEST_ID {
            let reason = "at most 100 bytes";
            return Err(WireError::Range { field: "request_id", reason }.into());
        }
        if !(1..=MAX_SCORE_RECORDS).contains(&ids.len()) {
            let message = format!("a request takes 1 to {MAX_SCORE_RECORDS} records, {} came", ids.len());
            return Err(Refusal::invalid(message).into());
        }
        let asked = async {
            let model = self.scorer.describe().await?;
            let scored = self.scorer.score(&model, &ids, "", &request.request_id).await?;
            Ok((model, scored))
        };
        let (model, scored) = asked.await.inspect_err(|refusal: &Refusal| {
            tracing::warn!(records = ids.len(), reason = %refusal, "records were not scored");
        })?;
        Ok(Response::new(pb::ScoreResponse {
            model_version: model.version.as_str().to_owned(),
            class_names: model.class_names,
            row_status: encode_statuses(&scored.row_status),
            release: Some((&scored.released).into()),
        }))
    }

    type TrainStream = Responses<pb::TrainJobEvent>;

    async fn train(&self, request: Request<pb::TrainJobRequest>) -> Result<Response<Self::TrainStream>, Status> {
        self.own(&caller(&request)?)?;
        let request = request.into_inner();
        let config = TrainingConfig::try_from(&require("config", request.config)?)?;
        let ids = match request.ids {
            Some(ids) if !ids.ends.is_empty() => RecordIds::try_from(ids)?,
            _ => self.scorer.table.ids().clone(),
        };
        let labels = self.scorer.labels(&ids).ok_or_else(|| {
            let missing = ids.iter().filter(|id| self.scorer.table.position(id).is_none()).count();
            let message = format!("{missing} of the {} training records are not held here", ids.len());
            Refusal::new(RefusalKind::NotFound, message)
        })?;
        let busy = self.training.clone().try_lock_owned().map_err(|_| Refusal::new(RefusalKind::Aborted, BUSY))?;
        let (events, outgoing) = mpsc::channel(64);
        let (scorer, class_names, stop) = (self.scorer.clone(), self.class_names.clone(), self.stop.clone());
        let privacy = self.privacy;
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = train(&scorer, &config, class_names, (ids, labels), privacy, &events) => ended,
                () = stop.cancelled() => Err(Refusal::unavailable("the active party is stopping")),
                () = events.closed() => Err(Refusal::unavailable("nobody waits for the training any more")),
            };
            // Before the last word goes out: who has heard it may ask for the next training at once.
            drop(busy);
            let last = match ended {
                Ok(published) => Ok(pb::TrainJobEvent {
                    event: published.map(|published| train_job_event::Event::Published(published.into())),
                }),
                Err(refusal) => {
                    tracing::warn!(reason = %refusal, "training ended without a model");
                    Err(refusal.into())
                }
            };
            let _ = events.send(last).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn publish(
        &self,
        request: Request<pb::PublishJobRequest>,
    ) -> Result<Response<pb::PublishJobResponse>, Status> {
        self.own(&caller(&request)?)?;
        let ids = match request.into_inner().training_ids {
            Some(ids) => RecordIds::try_from(ids)?,
            None => RecordIds::default(),
        };
        let _busy = self.training.try_lock().map_err(|_| Refusal::new(RefusalKind::Aborted, BUSY))?;
        let unknown = ids.iter().filter(|id| self.scorer.table.position(id).is_none()).count();
        let name = self.identity.name();
        let ended = tokio::select! {
            ended = publish(&self.scorer, &self.importer, name, &self.class_names, &ids) => ended,
            () = self.stop.cancelled() => Err(Refusal::unavailable("the active party is stopping")),
        };
        let published = ended.inspect_err(|refusal| {
            tracing::warn!(reason = %refusal, "imported parameters were not published");
        })?;
        Ok(Response::new(pb::PublishJobResponse {
            published: Some(published.into()),
            unknown_training_ids: unknown as u32,
        }))
    }

    type ReconstructStream = Responses<pb::ReconstructEvent>;

    async fn reconstruct(
        &self,
        request: Request<pb::ReconstructRequest>,
    ) -> Result<Response<Self::ReconstructStream>, Status> {
        let auditor = caller(&request)?;
        if !self.audits_allowed {
            let message = "audits are not allowed here; the operator may set `allowed = true` in [audit]";
            return Err(Refusal::new(RefusalKind::PermissionDenied, message).into());
        }
        let job = Asked::try_from(request.into_inner())?.check()?;
        let (events, outgoing) = mpsc::channel(16);
        let (reconstructor, stop) = (self.reconstructor.clone(), self.stop.clone());
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = reconstructor.run(job, &events) => ended,
                () = stop.cancelled() => Err(Refusal::unavailable("the active party is stopping")),
                () = events.closed() => Err(Refusal::unavailable("the auditor has gone away")),
            };
            if let Err(refusal) = ended {
                tracing::warn!(auditor = %auditor, reason = %refusal, "reconstruction ended early");
                let _ = events.send(Err(refusal)).await;
            }
        });
        let outgoing = ReceiverStream::new(outgoing).map(|event| event.map(Into::into).map_err(Into::into));
        Ok(Response::new(Box::pin(outgoing)))
    }
}

/// One training: opens the coordinator's stream, sends the records and labels, then answers as any party does. Gives what
/// was published.
async fn train(
    scorer: &Scorer,
    config: &TrainingConfig,
    class_names: Vec<String>,
    (ids, labels): (RecordIds, Vec<u32>),
    privacy: Option<PrivacyConfig>,
    events: &mpsc::Sender<Result<pb::TrainJobEvent, Status>>,
) -> Result<Option<Published>, Refusal> {
    let (replies, receiver) = mpsc::channel(16);
    let start = Start { config: config.clone(), class_names, record_count: ids.len() as u32 };
    let gone = |_| ended_early(scorer.coordinator().peer());
    replies.send(Ok(Reply::Start(start).into())).await.map_err(gone)?;
    let commands = scorer.coordinator().train(receiver).await?;
    let feed = async {
        for from in (0..ids.len()).step_by(LIST_CHUNK_RECORDS) {
            let to = (from + LIST_CHUNK_RECORDS).min(ids.len());
            let chunk = Labelled { ids: ids.slice(from, to), labels: labels[from..to].to_vec() };
            if replies.send(Ok(Reply::Labelled(chunk).into())).await.is_err() {
                // The coordinator has ended the stream; the participant reads why.
                return;
            }
        }
    };
    let names = scorer.feature_names();
    let source = |ids: &RecordIds| -> Result<FeatureBlock, Refusal> {
        let block = scorer.table.fetch(ids);
        block.map_err(|e| WireError::Content { field: "records", reason: e.to_string() }.into())
    };
    let participant = Participant {
        coordinator: scorer.coordinator().peer().to_string(),
        store: &scorer.store,
        feature_names: &names,
        known_records: Some(ids.clone()),
        source: &source,
        gate: None,
        privacy,
    };
    let tell = |event| {
        if let TrainingEvent::Progress(progress) = event {
            // A client too slow to read the progress misses some of it; training does not wait for it.
            let event = train_job_event::Event::Progress(progress.into());
            let _ = events.try_send(Ok(pb::TrainJobEvent { event: Some(event) }));
        }
    };
    let (outcome, ()) = tokio::join!(participant.run(commands, &replies, tell), feed);
    let outcome = outcome?;
    tracing::info!(version = %outcome.version, "this party's share is stored and in service");
    Ok(outcome.published)
}
