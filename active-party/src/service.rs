//! The gRPC service of the active party.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};
use vfl_core::data::table::StoreError as FeatureError;
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{TrainingConfig, TrainingMode};
use vfl_core::types::{FeatureBlock, RecordIds};
use vfl_features::features::Features;
use vfl_party::training::{
    Importer, Participant, PrivateAccess, RecordSource, SourceFuture, TrainingEvent,
    TrainingRecords,
};
use vfl_protocol::alignment::Progress;
use vfl_protocol::pb::active_party_server::{ActiveParty, ActivePartyServer};
use vfl_protocol::pb::{align_job_event, train_job_event};
use vfl_protocol::reconstruct::ReconstructionRequest;
use vfl_protocol::training::messages::{LabelledChunk, PublishedVersion, Reply, Start};
use vfl_protocol::{
    LIST_CHUNK_RECORDS, MAX_MESSAGE_BYTES, Refusal, RefusalKind, WireError, encode_statuses, pb,
    require,
};
use vfl_server::cli::PartySettings as _;
use vfl_server::monitoring::traces::{Context, Traces};
use vfl_server::monitoring::{Endpoint, EndpointError, Monitor};
use vfl_server::service::{
    Credentials, PeerIdentity, ServeError, TlsError, caller, serve_with_health,
};
use vfl_state::common_rules::RulesError;
use vfl_state::disjoint_sets::DisjointSets;
use vfl_state::state_file::StateFileError;
use vfl_state::state_folder::{FolderError, hold_if_folder};
use vfl_state::{ShareStore, Staging, StoreError};

use crate::align::Alignments;
use crate::client::Coordinator;
use crate::config::Settings;
use crate::fallback::is_marked;
use crate::inference::{Inference, follow};
pub use crate::predict::MAX_SCORE_RECORDS;
use crate::predict::{ClientRequest, Predictor, ReadyFallback, check_answer};
use crate::publish::publish;
use crate::reconstruct::{self, Reconstructor, ReconstructorError};
use crate::scoring::{ModelDescription, Scorer, ended_early};
use crate::training_labels::{NumberSource, OwnLabels};

/// The longest time to wait for the next ids of an alignment.
const LIST_PATIENCE: Duration = Duration::from_secs(30);

/// The message to a second training or publication.
const BUSY: &str = "another training or publication is under way; try again when it has ended";

/// Errors from starting or running the active party.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder of the state.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The rules that other processes serve under.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The store of the features.
    #[error("[data]: {0}")]
    Features(#[from] FeatureError),
    /// An address or a certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The record of alignments.
    #[error("the record of alignments: {0}")]
    Alignments(StateFileError),
    /// The sets of records whose accuracy was reported.
    #[error("the sets of earlier audits: {0}")]
    Audits(StateFileError),
    /// A passive party's address.
    #[error(transparent)]
    Reconstructor(#[from] ReconstructorError),
    /// The address for metrics.
    #[error(transparent)]
    Metrics(#[from] EndpointError),
    /// The transport of gRPC.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

struct Service {
    credentials: Credentials,
    predictor: Arc<Predictor>,
    scorer: Arc<Scorer>,
    reconstructor: Arc<Reconstructor>,
    audits_allowed: bool,
    alignments: Arc<Alignments>,
    importer: Arc<Importer>,
    class_names: Vec<String>,
    numbers: Option<NumberSource>,
    training: Arc<tokio::sync::Mutex<()>>,
    privacy: Option<PrivacyConfig>,
    stop: CancellationToken,
}

/// Serves on a bound listener until `shutdown` completes.
///
/// # Errors
/// [`RunError`] that names what is wrong with the state directory, an address or the transport.
pub async fn run(
    settings: Settings,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let identity = settings.credentials.identity();
    let monitor = Monitor::new(identity.role().as_str(), identity.name().as_str());
    let traced = settings.monitoring.traces.as_ref();
    let traces = Traces::open(traced, identity.role().as_str(), identity.name().as_str(), &monitor);
    let store = ShareStore::open(&settings.state_dir)?;
    let _held = hold_if_folder(&settings.state_dir)?;
    let agreed = settings.rules().agree(&settings.state_dir)?;
    settings.features.check().await?;
    let class_names = settings.features.schema().output_names();
    tracing::info!(features = ?settings.features, "the active party starts");
    ShareStore::warn_of_other_schemas(&settings.state_dir, settings.features.schema());
    let credentials = &settings.credentials;
    let coordinator =
        Coordinator::new(credentials, settings.coordinator.clone(), settings.peer_timeout)?;
    let alignments =
        Arc::new(Alignments::open(&settings, coordinator).map_err(RunError::Alignments)?);
    let scorer = Scorer::new(
        credentials,
        settings.coordinator,
        settings.features,
        store,
        settings.peer_timeout,
    )?;
    let scorer = Arc::new(scorer.measured(&monitor));
    let sets = DisjointSets::open(&settings.state_dir).map_err(RunError::Audits)?;
    let (passive, timeout) = (&settings.passive_parties, settings.peer_timeout);
    let reconstructor = Reconstructor::new(credentials, scorer.clone(), passive, timeout, sets)?;
    let reconstructor = Arc::new(reconstructor.knowing(settings.known).within(settings.audit_time));
    let staging = Staging::of(&settings.state_dir);
    let importer = Arc::new(Importer::of_active(
        staging,
        scorer.store.clone(),
        scorer.features.schema().clone(),
    ));
    let identity = credentials.identity().clone();
    let (measured, tracer) = (monitor.predictions().clone(), traces.tracer());
    let ready = |rules| ReadyFallback::new(rules, credentials, settings.peer_timeout);
    let fallback = settings.fallback.map(ready).transpose()?;
    let predictor = Predictor::new(identity, scorer.clone(), fallback, (measured, tracer));
    let predictor = Arc::new(predictor);
    let service = |stop| Service {
        credentials: credentials.clone(),
        predictor: predictor.clone(),
        scorer,
        reconstructor,
        audits_allowed: settings.audits_allowed,
        alignments,
        importer,
        class_names,
        numbers: settings.numbers,
        training: Arc::default(),
        privacy: settings.privacy,
        stop,
    };
    let routes = |stop: CancellationToken, health| {
        tokio::spawn(follow(predictor.clone(), health, stop.clone()));
        Routes::new(
            ActivePartyServer::new(service(stop))
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
        )
        .add_service(Inference::serve(predictor.clone()))
    };
    let _metrics = Endpoint::open(settings.monitoring.metrics, &monitor).await?;
    let mut replaced = false;
    let shutdown = async {
        tokio::select! {
            () = shutdown => {}
            () = agreed.replaced() => replaced = true,
        }
    };
    let served =
        serve_with_health(listener, credentials, &settings.limits, &monitor, routes, shutdown)
            .await;
    traces.close().await;
    served?;
    if replaced { Err(RulesError::Replaced.into()) } else { Ok(()) }
}

impl Service {
    fn own(&self, caller: &PeerIdentity) -> Result<(), Refusal> {
        self.predictor.own(caller)
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl ActiveParty for Service {
    async fn predict(
        &self,
        request: Request<pb::ScoreRequest>,
    ) -> Result<Response<pb::ScoreResponse>, Status> {
        self.own(&caller(&request)?)?;
        let parent = Context::of(request.metadata());
        let is_fallback = is_marked(request.metadata());
        let request = request.into_inner();
        let work = async {
            let ids = RecordIds::try_from(require("ids", request.ids)?)?;
            let admit = |model: &ModelDescription| check_answer(ids.len(), &model.class_names);
            let (ids, request_id) = (&ids, request.request_id.as_str());
            let request = ClientRequest { ids, request_id, is_fallback, any_version: true };
            let scored = self.predictor.predict(request, admit).await?;
            Ok(Response::new(pb::ScoreResponse {
                model_version: scored.version().to_owned(),
                row_status: encode_statuses(&scored.status),
                class_names: scored.class_names,
                release: Some(scored.released.into()),
            }))
        };
        self.predictor.traced(parent, work).await
    }

    type TrainStream = Responses<pb::TrainJobEvent>;

    async fn train(
        &self,
        request: Request<pb::TrainJobRequest>,
    ) -> Result<Response<Self::TrainStream>, Status> {
        self.own(&caller(&request)?)?;
        let request = request.into_inner();
        let config = TrainingConfig::try_from(&require("config", request.config)?)?;
        let ids = match request.ids {
            Some(ids) if !ids.is_empty() => RecordIds::try_from(ids)?,
            _ => {
                self.scorer.features.ids().await.map_err(|e| vfl_features::features::refusal(&e))?
            }
        };
        let numbers = self.numbers.as_ref();
        let labels = OwnLabels::read(&self.scorer, numbers, (&config, &ids)).await?;
        let config = labels.scale(config)?;
        let busy = self
            .training
            .clone()
            .try_lock_owned()
            .map_err(|_| Refusal::new(RefusalKind::Aborted, BUSY))?;
        let (events, outgoing) = mpsc::channel(64);
        let (scorer, class_names, stop) =
            (self.scorer.clone(), self.class_names.clone(), self.stop.clone());
        let (credentials, privacy) = (self.credentials.clone(), self.privacy);
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = train(&scorer, &config, class_names, (ids, labels), (&credentials, privacy), &events) => ended,
                () = stop.cancelled() => Err(Refusal::unavailable("the active party is stopping")),
                () = events.closed() => Err(Refusal::unavailable("nobody waits for the training any more")),
            };
            // Before the last event goes out: its receiver may ask for the next training at once.
            drop(busy);
            let last = match ended {
                Ok(published) => Ok(pb::TrainJobEvent {
                    event: published
                        .map(|published| train_job_event::Event::Published(published.into())),
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
        let _busy =
            self.training.try_lock().map_err(|_| Refusal::new(RefusalKind::Aborted, BUSY))?;
        let unknown = self
            .scorer
            .features
            .missing(&ids)
            .await
            .map_err(|e| vfl_features::features::refusal(&e))?;
        let name = self.credentials.identity().name();
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

    type AlignStream = Responses<pb::AlignJobEvent>;

    async fn align(
        &self,
        request: Request<Streaming<pb::AlignJobRequest>>,
    ) -> Result<Response<Self::AlignStream>, Status> {
        self.own(&caller(&request)?)?;
        self.alignments.allows()?;
        let mut messages = request.into_inner();
        let (events, outgoing) = mpsc::channel(64);
        let (alignments, stop) = (self.alignments.clone(), self.stop.clone());
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = align(&alignments, &mut messages, &events) => ended,
                () = stop.cancelled() => Err(Refusal::unavailable("the active party is stopping")),
                () = events.closed() => Err(Refusal::unavailable("nobody waits for the alignment any more")),
            };
            if let Err(refusal) = ended {
                tracing::warn!(reason = %refusal, "an alignment ended early");
                let _ = events.send(Err(refusal.into())).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    type ReconstructStream = Responses<pb::ReconstructEvent>;

    async fn reconstruct(
        &self,
        request: Request<pb::ReconstructRequest>,
    ) -> Result<Response<Self::ReconstructStream>, Status> {
        let auditor = caller(&request)?;
        if !self.audits_allowed {
            let message =
                "audits are not allowed here; the operator may set `allowed = true` in [audit]";
            return Err(Refusal::new(RefusalKind::PermissionDenied, message).into());
        }
        let job = reconstruct::check(ReconstructionRequest::try_from(request.into_inner())?)?;
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
        let outgoing =
            ReceiverStream::new(outgoing).map(|event| event.map(Into::into).map_err(Into::into));
        Ok(Response::new(Box::pin(outgoing)))
    }
}

/// Runs one alignment: reads the passive party's name and the ids, then reports progress and the
/// result.
async fn align(
    alignments: &Alignments,
    messages: &mut Streaming<pb::AlignJobRequest>,
    events: &mpsc::Sender<Result<pb::AlignJobEvent, Status>>,
) -> Result<(), Refusal> {
    let mut next = async || {
        let message = tokio::time::timeout(LIST_PATIENCE, messages.message()).await;
        let message = message.map_err(|_| {
            let reason = format!("no further ids came in {} s", LIST_PATIENCE.as_secs());
            Refusal::new(RefusalKind::DeadlineExceeded, reason)
        })?;
        message
            .map_err(|status| Refusal::new(RefusalKind::from_code(status.code()), status.message()))
    };
    let first = next()
        .await?
        .ok_or_else(|| Refusal::invalid("an alignment begins with the passive party's name"))?;
    let passive = WireError::party_name("passive_party", first.passive_party)?;
    let (mut list, mut chunk) = (alignments.list(), first.ids);
    loop {
        if let Some(ids) = chunk {
            list.take(&RecordIds::try_from(ids)?).await?;
        }
        let Some(message) = next().await? else { break };
        if !message.passive_party.is_empty() {
            return Err(Refusal::invalid("whom to align with stands in the first message alone"));
        }
        chunk = message.ids;
    }
    let ids = list.finish().await?;
    let event = |event| Ok(pb::AlignJobEvent { event: Some(event) });
    let mut tell = |progress: Progress| {
        // A client too slow to read the progress misses some of it; the alignment does not wait for
        // it.
        let _ = events.try_send(event(align_job_event::Event::Progress(progress.into())));
    };
    let completed = alignments.run(&passive, &ids, &mut tell).await?;
    let gone = |_| {
        Refusal::unavailable("nobody waits for the ids any more; they are in the state directory")
    };
    let common = &completed.common.ids;
    for from in (0..common.len()).step_by(LIST_CHUNK_RECORDS) {
        let ids = common.slice(from, from + LIST_CHUNK_RECORDS);
        events.send(event(align_job_event::Event::Common(ids.into()))).await.map_err(gone)?;
    }
    let done = align_job_event::Event::Done(completed.summary.into());
    events.send(event(done)).await.map_err(gone)
}

/// Runs one training: opens the coordinator's stream, sends the records and labels, then answers as
/// any party does. Returns the published model.
async fn train(
    scorer: &Scorer,
    config: &TrainingConfig,
    class_names: Vec<String>,
    (ids, labels): (RecordIds, OwnLabels),
    (credentials, privacy): (&Credentials, Option<PrivacyConfig>),
    events: &mpsc::Sender<Result<pb::TrainJobEvent, Status>>,
) -> Result<Option<PublishedVersion>, Refusal> {
    let (replies, receiver) = mpsc::channel(16);
    let private = config.values().mode == TrainingMode::Private;
    let start = Start { config: config.clone(), class_names, record_count: ids.len() as u32 };
    let gone = |_| ended_early(scorer.coordinator().peer());
    replies.send(Ok(Reply::Start(start).into())).await.map_err(gone)?;
    let commands = scorer.coordinator().train(receiver).await?;
    let feed = async {
        for from in (0..ids.len()).step_by(LIST_CHUNK_RECORDS) {
            let to = (from + LIST_CHUNK_RECORDS).min(ids.len());
            // The labels of a private training stay here.
            let labels = if private { Vec::new() } else { labels.classes(from..to).to_vec() };
            let chunk = LabelledChunk { ids: ids.slice(from, to), labels };
            if replies.send(Ok(Reply::Labelled(chunk).into())).await.is_err() {
                // The coordinator has ended the stream; the participant reads the reason.
                return;
            }
        }
    };
    let names = scorer.feature_names();
    let participant = Participant {
        coordinator: scorer.coordinator().peer().to_string(),
        store: &scorer.store,
        feature_names: &names,
        known_records: Some(ids.clone()),
        source: scorer,
        gate: None,
        privacy,
        private: private.then(|| PrivateAccess { credentials, labels: Some(labels.of_training()) }),
    };
    let tell = |event| {
        if let TrainingEvent::Progress(progress) = event {
            // A client too slow to read the progress misses some of it; training does not wait for
            // it.
            let event = train_job_event::Event::Progress(progress.into());
            let _ = events.try_send(Ok(pb::TrainJobEvent { event: Some(event) }));
        }
    };
    let (outcome, ()) = tokio::join!(participant.run(commands, &replies, tell), feed);
    let outcome = outcome?;
    tracing::info!(version = %outcome.version, "this party's share is stored and in service");
    Ok(outcome.published)
}

/// The records of a training: a block in memory, or a batch at a time. The labels were read before,
/// so every record is held.
impl RecordSource for Scorer {
    fn open<'a>(&'a self, ids: &'a RecordIds) -> SourceFuture<'a, TrainingRecords> {
        Box::pin(async move {
            match &self.features {
                Features::Memory(_) => Ok(TrainingRecords::Here(self.fetch(ids).await?)),
                Features::Remote(store) => {
                    Ok(TrainingRecords::Elsewhere { features: store.schema().len() })
                }
            }
        })
    }

    fn fetch<'a>(&'a self, ids: &'a RecordIds) -> SourceFuture<'a, FeatureBlock> {
        Box::pin(async move {
            self.features.fetch(ids).await.map_err(|e| vfl_features::features::refusal(&e))
        })
    }
}
