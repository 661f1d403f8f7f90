//! The gRPC service of the passive party.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::{StreamExt, future, stream};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};
use vfl_core::types::RecordIds;
use vfl_party::training::{Importer, Participant, PrivateAccess};
use vfl_protocol::alignment::Frame;
use vfl_protocol::pb::passive_party_server::{PassiveParty, PassivePartyServer};
use vfl_protocol::training::messages::StagedShare;
use vfl_protocol::{
    MAX_MESSAGE_BYTES, Refusal, RefusalKind, ShareAnswer, ShareRequest, WireError, pb,
    peer_failure, require, stream_answer,
};
use vfl_server::cli::PartySettings as _;
use vfl_server::monitoring::traces::{Context, Tracer, Traces};
use vfl_server::monitoring::{Endpoint, Monitor, Predictions, traces};
use vfl_server::service::{
    Credentials, Unread, caller, off_thread, own_task, serve, until_stopped,
};
use vfl_state::common_rules::RulesError;
use vfl_state::state_folder::hold_if_folder;
use vfl_state::{ShareStore, Staging};

use crate::align::Alignments;
use crate::collusion::Collusion;
use crate::config::{Settings, check_release, check_training};
use crate::consent::Consent;
use crate::disclosure::Disclosure;
use crate::evaluation::Evaluations;
use crate::evaluation::service::evaluate;
use crate::logits::{LogitServer, MAX_ROWS};
use crate::private_release::PrivateReleases;
pub use crate::run_error::RunError;
use crate::training_map;

/// The number of questions of one stream that are looked up side by side. More wait in transit.
const SIDE_BY_SIDE: usize = 8;

struct Service {
    credentials: Credentials,
    logits: Arc<LogitServer>,
    predictions: Predictions,
    tracer: Tracer,
    importer: Arc<Importer>,
    private: Arc<PrivateReleases>,
    disclosure: Arc<Disclosure>,
    collusion: Collusion,
    audits_allowed: bool,
    evaluations: Arc<Evaluations>,
    consent: Arc<Consent>,
    alignments: Arc<Alignments>,
    stop: tokio_util::sync::CancellationToken,
}

/// Serves on a bound listener until `shutdown` completes.
///
/// # Errors
/// [`RunError`] that names what is wrong with the state directory or the transport.
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
    let lock = Arc::new(hold_if_folder(&settings.state_dir)?);
    let agreed = settings.rules().agree(&settings.state_dir)?;
    settings.audit.check().map_err(RunError::Audit)?;
    let evaluations = Arc::new(Evaluations::open(&settings.state_dir, settings.audit)?);
    settings.alignment.check(&settings.features).map_err(RunError::Alignment)?;
    settings.features.check().await?;
    let alignments = Arc::new(Alignments::open(&settings)?);
    let features = settings.features.schema().len();
    check_release(&settings.release, features).map_err(RunError::Release)?;
    settings.serving.check().map_err(RunError::Serving)?;
    check_training(&settings.training).map_err(RunError::Training)?;
    let consent = Consent::open(&settings.state_dir, settings.training.clone(), features)?;
    let map = training_map::open(&settings.state_dir, &settings.training.transform, features)?;
    let mut logits = LogitServer::new(settings.features, store).with_outputs(settings.outputs);
    if let Some(map) = &map {
        logits = logits.with_map(map)?;
    }
    let disclosure = Disclosure::open(
        &settings.state_dir,
        &lock,
        settings.release,
        settings.training.transform,
    )?;
    tracing::info!(features = ?logits.features, "serving logit shares");
    ShareStore::warn_of_other_schemas(&settings.state_dir, logits.features.schema());
    let staging = Staging::of(&settings.state_dir);
    let importer = Importer::of_passive(
        staging,
        logits.store.clone(),
        logits.features.schema().clone(),
        map.is_some(),
    );
    let logits = Arc::new(logits);
    let private = PrivateReleases::new(
        settings.credentials.clone(),
        logits.clone(),
        monitor.predictions().clone(),
        settings.state_dir.clone(),
        settings.serving,
    );
    let service = |stop| Service {
        credentials: settings.credentials.clone(),
        disclosure: Arc::new(disclosure),
        private: Arc::new(private),
        logits,
        predictions: monitor.predictions().clone(),
        tracer: traces.tracer(),
        importer: Arc::new(importer),
        collusion: settings.collusion,
        audits_allowed: settings.audit.allowed,
        evaluations,
        consent,
        alignments,
        stop,
    };
    let routes = |stop| {
        Routes::new(
            PassivePartyServer::new(service(stop))
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
        )
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
        serve(listener, &settings.credentials, &settings.limits, &monitor, routes, shutdown).await;
    traces.close().await;
    drop(lock);
    served?;
    if replaced { Err(RulesError::Replaced.into()) } else { Ok(()) }
}

/// Computes logit shares for the coordinator, and counts them.
async fn shares(
    logits: &LogitServer,
    predictions: &Predictions,
    request: &ShareRequest,
) -> Result<ShareAnswer, Refusal> {
    let began = Instant::now();
    traces::note_rows(request.ids.len());
    let answer = logits.compute(request).await?;
    predictions.answered(&answer.status, began.elapsed());
    Ok(answer)
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl PassiveParty for Service {
    async fn describe_features(
        &self,
        _request: Request<pb::DescribeFeaturesRequest>,
    ) -> Result<Response<pb::DescribeFeaturesResponse>, Status> {
        let features = self.logits.features.schema().features();
        Ok(Response::new(pb::DescribeFeaturesResponse {
            party: self.credentials.identity().name().as_str().to_owned(),
            features: features.iter().map(Into::into).collect(),
        }))
    }

    async fn compute_logits(
        &self,
        request: Request<pb::ComputeLogitsRequest>,
    ) -> Result<Response<pb::ComputeLogitsResponse>, Status> {
        let parent = Context::of(request.metadata());
        let work = Box::pin(async {
            self.private.check_plain()?;
            let request = ShareRequest::try_from(request.into_inner())?;
            Ok(Response::new(shares(&self.logits, &self.predictions, &request).await?.into()))
        });
        self.tracer.serve(traces::SpanName::ComputeShares, parent, work).await
    }

    type ComputeLogitsStreamStream = Responses<pb::ComputeLogitsResponse>;

    async fn compute_logits_stream(
        &self,
        request: Request<Streaming<pb::ComputeLogitsRequest>>,
    ) -> Result<Response<Self::ComputeLogitsStreamStream>, Status> {
        self.private.check_plain()?;
        let (logits, predictions, tracer) =
            (self.logits.clone(), self.predictions.clone(), self.tracer.clone());
        let unread = Unread::of(&request);
        let messages = until_stopped(request.into_inner(), self.stop.clone(), "the passive party");
        // The status that ends the questions is sent last, after the answers to all that were
        // taken.
        let ended = Arc::new(Mutex::new(None));
        let last = ended.clone();
        let questions = messages.scan((), move |(), message| {
            if let Err(status) = &message {
                *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(status.clone());
            }
            future::ready(message.ok())
        });
        let last =
            stream::once(async move { last.lock().unwrap_or_else(PoisonError::into_inner).take() });
        let shares_of = logits.clone();
        let questions = questions.then(move |message: pb::ComputeLogitsRequest| {
            let records = message.ids.as_ref().map_or(0, |ids| ids.len());
            let bytes = shares_of.answer_bytes(&message.model_version, records);
            let unread = unread.clone();
            async move {
                let room = match unread {
                    Some(unread) => Some(unread.room(bytes).await),
                    None => None,
                };
                (message, room)
            }
        });
        let answers = questions.map(move |(message, room)| {
            let (logits, predictions, tracer) =
                (logits.clone(), predictions.clone(), tracer.clone());
            async move {
                let question = message.question;
                // The stream carries all predictions, so each question names its own trace.
                let parent = Context::from_wire(&message.trace_context);
                let answer = async move {
                    let shares = Box::pin(async {
                        let request = ShareRequest::try_from(message)?;
                        shares(&logits, &predictions, &request).await
                    });
                    tracer.serve(traces::SpanName::ComputeShares, parent, shares).await
                };
                let answered = own_task(answer).await.and_then(|answered| answered);
                Ok::<_, Status>((stream_answer(question, answered), room))
            }
        });
        let answers = answers
            .buffer_unordered(SIDE_BY_SIDE)
            .map(|answered| answered.map(|(answer, _)| answer));
        Ok(Response::new(Box::pin(
            answers.chain(last.filter_map(|status| future::ready(status.map(Err)))),
        )))
    }

    type ReleasePrivatelyStream = Responses<pb::PrivateReleaseReply>;

    async fn release_privately(
        &self,
        request: Request<Streaming<pb::PrivateReleaseCommand>>,
    ) -> Result<Response<Self::ReleasePrivatelyStream>, Status> {
        let coordinator = caller(&request)?;
        let commands = request.into_inner();
        let (replies, outgoing) = mpsc::channel(16);
        let (stop, private) = (self.stop.clone(), self.private.clone());
        tokio::spawn(async move {
            let words = coordinator.words();
            let ended = tokio::select! {
                ended = private.run(&words, commands, replies.clone()) => ended,
                () = stop.cancelled() => Err(Refusal::unavailable("the passive party is stopping")),
                () = replies.closed() => Ok(()),
            };
            if let Err(refusal) = ended {
                tracing::warn!(caller = %coordinator, reason = %refusal, "a session of private releases ended");
                let _ = replies.send(Err(refusal.into())).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
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
        let credentials = self.credentials.clone();
        tokio::spawn(async move {
            let names = logits.feature_names();
            let participant = Participant {
                coordinator: coordinator.words(),
                store: &logits.store,
                feature_names: &names,
                known_records: None,
                source: &*logits,
                privacy: consent.privacy(),
                private: Some(PrivateAccess { credentials: &credentials, labels: None }),
                gate: Some(consent),
            };
            let ended = tokio::select! {
                ended = participant.run(commands, &replies, |_| ()) => ended,
                () = stop.cancelled() => Err(Refusal::unavailable("the passive party is stopping")),
            };
            match ended {
                Ok(outcome) => {
                    tracing::info!(version = %outcome.version, "this party's share is stored and confirmed")
                }
                Err(refusal) => {
                    tracing::warn!(caller = %coordinator, reason = %refusal, "training ended without a model");
                    let _ = replies.send(Err(refusal.into())).await;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    type AlignStream = Responses<pb::AlignmentFrame>;

    async fn align(
        &self,
        request: Request<Streaming<pb::AlignmentFrame>>,
    ) -> Result<Response<Self::AlignStream>, Status> {
        let coordinator = caller(&request)?;
        let who = coordinator.words();
        let frames = request.into_inner().map(move |frame| {
            let frame = frame.map_err(|status| peer_failure(&who, &status))?;
            Ok(Frame::try_from(frame)?)
        });
        let (alignments, stop) = (self.alignments.clone(), self.stop.clone());
        let (out, outgoing) = mpsc::channel(4);
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = alignments.run(Box::pin(frames), out.clone()) => ended,
                () = stop.cancelled() => Err(Refusal::unavailable("the passive party is stopping")),
                () = out.closed() => Err(Refusal::unavailable("the coordinator went away")),
            };
            if let Err(refusal) = ended {
                tracing::warn!(caller = %coordinator, reason = %refusal, "an alignment ended early");
                let _ = out.send(Err(refusal)).await;
            }
        });
        let outgoing = ReceiverStream::new(outgoing);
        Ok(Response::new(Box::pin(outgoing.map(|frame| frame.map(Into::into).map_err(Into::into)))))
    }

    async fn describe_staged(
        &self,
        request: Request<pb::DescribeStagedRequest>,
    ) -> Result<Response<pb::DescribeStagedResponse>, Status> {
        let request = request.into_inner();
        let party = WireError::party_name("active_party", request.active_party)?;
        let importer = self.importer.clone();
        let (staged, share) =
            off_thread("publishing", move || importer.staged(&party, &request.class_names)).await?;
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
        off_thread("publishing", move || {
            importer.publish(&of, &request.class_names, &named, &request.digest)
        })
        .await?;
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
        // Checked before anything else is said about versions and records.
        self.collusion.allows(&caller)?;
        let request = request.into_inner();
        let ids = RecordIds::try_from(require("ids", request.ids)?)?;
        if !(1..=MAX_ROWS).contains(&ids.len()) {
            return Err(Refusal::invalid(format!(
                "a request takes 1 to {MAX_ROWS} records, {} came",
                ids.len()
            ))
            .into());
        }
        let version = WireError::model_version(request.model_version)?;
        let lent = self.collusion.lend(&self.logits, &caller, &version, &ids).await?;
        Ok(Response::new(pb::LendSharesResponse { logit_shares: Some(lent.into()) }))
    }

    type EvaluateReconstructionStream = Responses<pb::EvaluateReconstructionResponse>;

    async fn evaluate_reconstruction(
        &self,
        request: Request<Streaming<pb::EvaluateReconstructionRequest>>,
    ) -> Result<Response<Self::EvaluateReconstructionStream>, Status> {
        let auditor = caller(&request)?;
        if !self.audits_allowed {
            let message =
                "audits are not allowed here; the operator may set `allowed = true` in [audit]";
            return Err(Refusal::new(RefusalKind::PermissionDenied, message).into());
        }
        let mut asks = request.into_inner();
        let (logits, evaluations, disclosure) =
            (self.logits.clone(), self.evaluations.clone(), self.disclosure.clone());
        let (answers, outgoing) = mpsc::channel(4);
        tokio::spawn(async move {
            if let Err(status) =
                evaluate(&logits, &evaluations, &disclosure, &mut asks, &answers).await
            {
                tracing::info!(auditor = %auditor, reason = %status.message(), "scoring refused");
                let _ = answers.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }
}
