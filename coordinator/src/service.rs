//! The gRPC service of the coordinator.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};
use vfl_core::types::ModelVersion;
use vfl_defense::Policy;
use vfl_party::computation::release::ServingMode;
use vfl_protocol::alignment::Frame;
use vfl_protocol::audit::{OpenSession, Promise, SessionRequest};
use vfl_protocol::pb::coordinator_server::{Coordinator, CoordinatorServer};
use vfl_protocol::{
    MAX_MESSAGE_BYTES, PredictionRequest, Refusal, RefusalKind, WireError, pb, peer_failure, rough,
};
use vfl_server::monitoring::traces::{Context, Tracer, Traces};
use vfl_server::monitoring::{Endpoint, Monitor, traces};
use vfl_server::service::{
    PeerIdentity, Role, TlsError, Unread, caller, own_task, serve, until_stopped,
};

use crate::account::Account;
use crate::align::Relay;
use crate::catalogue::Catalogue;
use crate::client::PassiveParty;
use crate::config::{Settings, policy_in_bits};
use crate::engine::Engine;
use crate::import::ImportDriver;
use crate::ledger::{FingerprintLookup, LedgerConfig, LedgerMeter};
use crate::meter::{Meter, tell_model};
use crate::policy::{Policies, Purpose};
use crate::private_release::PrivateReleases;
use crate::publish::published;
use crate::registry::{Registry, read_manifest};
use crate::replicas::Replicas;
pub use crate::run_error::RunError;
use crate::secret::noise_secret;
use crate::sessions::Sessions;
use crate::share::ShareKey;
use crate::training::TrainingDriver;
use crate::window::answers;

struct Service {
    engine: Arc<Engine>,
    tracer: Tracer,
    driver: Arc<TrainingDriver>,
    imports: Arc<ImportDriver>,
    relay: Arc<Relay>,
    private: Arc<PrivateReleases>,
    stop: tokio_util::sync::CancellationToken,
}

/// Serves on a bound listener until `shutdown` completes.
///
/// # Errors
/// [`RunError`] naming what is wrong with the state directory, the config or the transport.
pub async fn run(
    settings: Settings,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), RunError> {
    let identity = settings.credentials.identity();
    let monitor = Monitor::new(identity.role().as_str(), identity.name().as_str());
    let traced = settings.monitoring.traces.as_ref();
    let traces = Traces::open(traced, identity.role().as_str(), identity.name().as_str(), &monitor);
    let registry = Arc::new(Registry::open(&settings.state_dir)?);
    // If the ledger is not shared, its lock keeps a second coordinator away.
    let shared = settings.ledger.as_ref().is_some_and(|ledger| ledger.shared);
    let lock = if shared { Some(hold(&settings.state_dir)?) } else { None };
    let passive = settings
        .passive_parties
        .iter()
        .map(|peer| {
            let party =
                PassiveParty::new(&settings.credentials, peer.clone(), settings.peer_timeout)?;
            Ok(Arc::new(party.measured(&monitor)))
        })
        .collect::<Result<Vec<_>, TlsError>>()?;
    let derive = Some(derive(&settings.state_dir));
    let terms = settings.terms();
    let meter = LedgerMeter::default();
    monitor.register(|registry| meter.register(registry));
    let ledger =
        settings.ledger.clone().map(|config| LedgerConfig { derive, terms, meter, ..config });
    let secret = noise_secret(&settings.state_dir, ledger.as_ref()).await?;
    tracing::info!(policy = %settings.policy(), noise_secret = %secret.fingerprint(), "what is released");
    tell_bits(&settings.policy(), registry.current().map(|model| model.classes()));
    let account = Account::open(ledger.as_ref(), &secret.fingerprint()).await?;
    let replicas = match &ledger {
        Some(ledger) if ledger.shared => Some(Arc::new(Replicas::new(&ledger.url)?)),
        _ => None,
    };
    let catalogue = Arc::new(match &replicas {
        Some(replicas) => Catalogue::shared(registry.clone(), replicas.clone()).await?,
        None => Catalogue::alone(registry.clone()),
    });
    let serving = match &ledger {
        Some(ledger) => settings.serving.within(&ledger.budgets),
        None => settings.serving,
    };
    match registry.current() {
        Some(model) => {
            serving.check_bits(&settings.policy(), model.classes()).map_err(RunError::Bits)?;
            tracing::info!(version = %model.manifest.version, "serving a published model");
        }
        None => tracing::info!("no model is published yet"),
    }
    tell_model(&monitor, catalogue.clone());
    let share_key = ShareKey::new(&secret, account.share_hash());
    let engine = Arc::new(Engine {
        catalogue: catalogue.clone(),
        passive: passive.clone(),
        policies: Policies::new(settings.policy(), serving, secret, registry, passive.clone()),
        audits: Sessions::new(settings.audit, &settings.state_dir, replicas)
            .await
            .map_err(RunError::Audits)?,
        serving,
        release: settings.release,
        account,
        share_key,
        meter: Meter::of(&monitor),
    });
    let live = engine.policies.live().clone();
    let relay = Arc::new(Relay::new(passive.clone(), settings.active_party.clone()));
    let private = Arc::new(PrivateReleases::new(
        engine.clone(),
        settings.credentials.clone(),
        settings.training.computing_party.clone(),
        settings.peer_timeout,
    ));
    let driver = Arc::new(TrainingDriver {
        catalogue: catalogue.clone(),
        passive,
        policy: settings.training,
        active_party: settings.active_party,
        live: live.clone(),
        credentials: settings.credentials.clone(),
    });
    let imports =
        Arc::new(ImportDriver { training: driver.clone(), policy: settings.publishing, live });
    let tracer = traces.tracer();
    let service =
        |stop| Service { engine: engine.clone(), tracer, driver, imports, relay, private, stop };
    let routes = |stop| {
        Routes::new(
            CoordinatorServer::new(service(stop))
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
        )
    };
    let _metrics = Endpoint::open(settings.monitoring.metrics, &monitor).await?;
    let served =
        serve(listener, &settings.credentials, &settings.limits, &monitor, routes, shutdown);
    let ended = tokio::select! {
        ended = served => ended,
        () = catalogue.watch() => Ok(()),
    };
    engine.account.close().await;
    traces.close().await;
    drop(lock);
    Ok(ended?)
}

/// Logs how many bits of a record the policy tells, and warns where there is no bound.
fn tell_bits(policy: &Policy, classes: Option<usize>) {
    let said = policy_in_bits(policy, classes.as_slice());
    match policy.leakage(classes.unwrap_or(2)).bits() {
        Some(_) if classes.is_none() => {}
        Some(_) => tracing::info!("{said}"),
        None => tracing::warn!("{said}"),
    }
}

/// Takes the lock of a state directory: several coordinators share a database, and each has a
/// directory of its own.
fn hold(state_dir: &std::path::Path) -> Result<std::fs::File, RunError> {
    let path = state_dir.join("lock");
    match vfl_state::files::lock(&path) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(RunError::InUse(state_dir.to_owned())),
        Err(source) => Err(RunError::Lock { path, source }),
    }
}

/// Returns the source of passive fingerprints of the versions that an older ledger names.
fn derive(state_dir: &std::path::Path) -> FingerprintLookup {
    let state_dir = state_dir.to_owned();
    FingerprintLookup::new(move |version| {
        let version = ModelVersion::new(version).ok()?;
        read_manifest(&state_dir, &version).ok()?.map(|manifest| manifest.passive_fingerprint())
    })
}

impl Service {
    /// Does the work of a call on a task of its own, until it ends, the caller goes away or the
    /// coordinator stops. Tells the caller and the log why it failed; `failed` says in the log what
    /// that means.
    fn work<T: Send + 'static>(
        &self,
        (failed, caller): (&'static str, PeerIdentity),
        commands: mpsc::Sender<Result<T, Status>>,
        work: impl Future<Output = Result<(), Refusal>> + Send + 'static,
    ) {
        let stop = self.stop.clone();
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = work => ended,
                () = stop.cancelled() => Err(Refusal::unavailable("the coordinator is stopping")),
                // Nobody is left to work for.
                () = commands.closed() => Err(Refusal::unavailable("the caller went away")),
            };
            if let Err(refusal) = ended {
                tracing::warn!(caller = %caller, reason = %refusal, "{failed}");
                let _ = commands.send(Err(refusal.into())).await;
            }
        });
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Coordinator for Service {
    async fn describe_model(
        &self,
        _request: Request<pb::DescribeModelRequest>,
    ) -> Result<Response<pb::DescribeModelResponse>, Status> {
        // The newest state, if the database answers; otherwise what is known here.
        let _ = self.engine.catalogue.look().await;
        let model = self.engine.model()?;
        let m = &model.manifest;
        let party = |e: &crate::registry::PartyEntry| pb::describe_model_response::PassiveParty {
            name: e.name.as_str().to_owned(),
            features: e.features,
            privacy: e.privacy.as_ref().map(Into::into),
        };
        Ok(Response::new(pb::DescribeModelResponse {
            model_version: m.version.as_str().to_owned(),
            class_names: m.class_names.clone(),
            passive_parties: m.passive_parties.iter().map(party).collect(),
            policy: Some(self.engine.policies.live().into()),
            active_features: m.active_party.features,
            active_privacy: m.active_party.privacy.as_ref().map(Into::into),
            model: Some((&model.spec).into()),
            top_shown: self.engine.shows_top(&model),
            private_release: self.engine.serving.mode == ServingMode::Private,
            training: Some(
                published(&m.version, m.training.as_ref(), model.training_records()).into(),
            ),
        }))
    }

    type TrainStream = Responses<pb::TrainingCommand>;

    async fn train(
        &self,
        request: Request<Streaming<pb::TrainingReply>>,
    ) -> Result<Response<Self::TrainStream>, Status> {
        let caller = caller(&request)?;
        let driver = self.driver.clone();
        let (commands, outgoing) = mpsc::channel(16);
        let (replies, tell, who) = (request.into_inner(), commands.clone(), caller.clone());
        let work = async move { driver.run(&caller, replies, tell).await };
        self.work(("training ended without a model", who), commands, work);
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    type PublishStream = Responses<pb::PublishCommand>;

    async fn publish(
        &self,
        request: Request<Streaming<pb::PublishReply>>,
    ) -> Result<Response<Self::PublishStream>, Status> {
        let caller = caller(&request)?;
        let driver = self.imports.clone();
        let (commands, outgoing) = mpsc::channel(4);
        let (replies, tell, who) = (request.into_inner(), commands.clone(), caller.clone());
        let work = async move { driver.run(&caller, replies, tell).await };
        self.work(("imported parameters were not published", who), commands, work);
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    type AlignStream = Responses<pb::AlignmentFrame>;

    async fn align(
        &self,
        request: Request<Streaming<pb::AlignmentFrame>>,
    ) -> Result<Response<Self::AlignStream>, Status> {
        let caller = caller(&request)?;
        let who = caller.words();
        let frames = request.into_inner().map(move |frame| {
            let frame = frame.map_err(|status| peer_failure(&who, &status))?;
            Ok(Frame::try_from(frame)?)
        });
        let (relay, stop) = (self.relay.clone(), self.stop.clone());
        let (out, outgoing) = mpsc::channel(4);
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = relay.run(&caller, Box::pin(frames), &out) => ended,
                () = stop.cancelled() => Err(Refusal::unavailable("the coordinator is stopping")),
                () = out.closed() => Err(Refusal::unavailable(format!("{} went away", caller.words()))),
            };
            if let Err(refusal) = ended {
                tracing::warn!(caller = %caller, reason = %refusal, "an alignment ended early");
                let _ = out.send(Err(refusal)).await;
            }
        });
        let outgoing = ReceiverStream::new(outgoing);
        Ok(Response::new(Box::pin(outgoing.map(|frame| frame.map(Into::into).map_err(Into::into)))))
    }

    async fn release_top_model(
        &self,
        request: Request<pb::ReleaseTopModelRequest>,
    ) -> Result<Response<pb::ReleaseTopModelResponse>, Status> {
        let caller = caller(&request)?;
        let version = WireError::model_version(request.into_inner().model_version)?;
        let top = self.engine.release_top(&caller, &version).await?;
        tracing::info!(%version, caller = %caller, "the top model is shown");
        Ok(Response::new(pb::ReleaseTopModelResponse { top_model: top.to_wire() }))
    }

    async fn predict(
        &self,
        request: Request<pb::PredictRequest>,
    ) -> Result<Response<pb::PredictResponse>, Status> {
        let caller = caller(&request)?;
        let parent = Context::of(request.metadata());
        // Boxed, here and below: the future is large and is handed on several times before it runs.
        let work = Box::pin(async {
            let request = PredictionRequest::try_from(request.into_inner())?;
            Ok(Response::new(self.engine.predict(&caller, request).await?.into()))
        });
        self.tracer.serve(traces::SpanName::Predict, parent, work).await
    }

    type PredictStreamStream = Responses<pb::PredictResponse>;

    async fn predict_stream(
        &self,
        request: Request<Streaming<pb::PredictRequest>>,
    ) -> Result<Response<Self::PredictStreamStream>, Status> {
        let caller = caller(&request)?;
        let unread = Unread::of(&request);
        // All messages of the stream belong to one trace.
        let parent = Context::of(request.metadata());
        let (engine, tracer) = (self.engine.clone(), self.tracer.clone());
        // A stop shows in the answers as an error: an end without one would look like the end of
        // all answers.
        let messages = until_stopped(request.into_inner(), self.stop.clone(), "the coordinator");
        // Under a top model a small message may have a large answer.
        let classes = self.engine.model().map_or(0, |model| model.classes());
        let bytes_of = move |message: &pb::PredictRequest| bytes_of(message, classes);
        let answer = move |message| {
            let (engine, caller, tracer) = (engine.clone(), caller.clone(), tracer.clone());
            let answer = async move {
                let work = Box::pin(async {
                    let request = PredictionRequest::try_from(message)?;
                    Ok::<pb::PredictResponse, Status>(
                        engine.predict(&caller, request).await?.into(),
                    )
                });
                tracer.serve(traces::SpanName::Predict, parent, work).await
            };
            async move { own_task(answer).await? }
        };
        Ok(Response::new(Box::pin(answers(messages, bytes_of, unread, answer))))
    }

    type ReleasePrivatelyStream = Responses<pb::PrivateReleaseCommand>;

    async fn release_privately(
        &self,
        request: Request<Streaming<pb::PrivateReleaseReply>>,
    ) -> Result<Response<Self::ReleasePrivatelyStream>, Status> {
        let caller = caller(&request)?;
        let private = self.private.clone();
        let (commands, outgoing) = mpsc::channel(16);
        let (replies, tell, who) = (request.into_inner(), commands.clone(), caller.clone());
        let work = async move { private.run(&caller, replies, tell).await };
        self.work(("a session of private releases ended", who), commands, work);
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn describe_ledger(
        &self,
        request: Request<pb::DescribeLedgerRequest>,
    ) -> Result<Response<pb::DescribeLedgerResponse>, Status> {
        let caller = caller(&request)?;
        let wanted = match request.into_inner().active_party {
            name if name.is_empty() => None,
            name => Some(WireError::party_name("active_party", name)?),
        };
        let wanted = match (caller.role(), wanted) {
            (Role::ActiveParty, Some(name)) if name != *caller.name() => {
                let message =
                    format!("an active party sees its own entries, not those of `{name}`");
                return Err(Refusal::new(RefusalKind::PermissionDenied, message).into());
            }
            (Role::ActiveParty, _) => Some(caller.name().clone()),
            (_, wanted) => wanted,
        };
        Ok(Response::new(self.engine.account.describe(wanted.as_ref()).await?.into()))
    }

    async fn open_audit(
        &self,
        request: Request<pb::OpenAuditRequest>,
    ) -> Result<Response<pb::OpenAuditResponse>, Status> {
        let auditor = caller(&request)?;
        let request = request.into_inner();
        // Checked first: a caller that may not audit learns nothing about anybody.
        self.engine.audits.allowed()?;
        let SessionRequest { version, policy, ids, active_party } =
            SessionRequest::try_from(request)?;
        let model = self.engine.model_named(&version).await?;
        self.engine.audits.check(&ids)?;
        let trained = self
            .engine
            .catalogue
            .registry()
            .trained_on(&model, ids.iter())
            .into_iter()
            .filter(|t| *t)
            .count();
        if trained > 0 && !self.engine.serving.training_records {
            let message = format!(
                "{} of the {} records were used in training; audit others",
                rough(trained),
                ids.len()
            );
            tracing::warn!(auditor = %auditor, trained, records = ids.len(), "audit session refused: training records");
            return Err(Refusal::precondition(message).into());
        }
        self.engine.check_audit_policy(&model, &policy)?;
        let ready = self.engine.policies.prepare(&model, &policy, Purpose::Audit).await?;
        let contract = ready.contract();
        let promise = Promise {
            keeps_arg_max: contract.keeps_arg_max,
            keeps_ranking: contract.keeps_ranking,
            randomised: contract.randomised,
            bits: ready.bits(),
            notes: ready.notes(),
        };
        let (name, row_budget) = self.engine.audits.open(&model, active_party, ready, &ids).await?;
        tracing::info!(auditor = %auditor, policy = %policy, records = ids.len(), "audit session opened");
        Ok(Response::new(OpenSession { name, row_budget, promise }.into()))
    }

    async fn close_audit(
        &self,
        request: Request<pb::CloseAuditRequest>,
    ) -> Result<Response<pb::CloseAuditResponse>, Status> {
        let pb::CloseAuditRequest { audit_session, without_summary } = request.into_inner();
        let closed = self.engine.audits.close(audit_session, without_summary).await?;
        Ok(Response::new(self.engine.summary(closed).into()))
    }
}

/// Returns about how many bytes a message takes in memory, or its answer if that is more: a row of
/// scores, or of outputs of that many classes, for each record.
fn bytes_of(request: &pb::PredictRequest, classes: usize) -> usize {
    let pb::PredictRequest { model_version, ids, logit_shares, audit_session, request_id } =
        request;
    let records = ids.as_ref().map_or(0, |ids| ids.len());
    let ids = ids.as_ref().map_or(0, |ids| ids.text().len() + 4 * ids.len());
    let shares = logit_shares.as_ref().map_or(0, |shares| shares.values.len());
    let request = ids + shares + model_version.len() + audit_session.len() + request_id.len();
    request.max(records * (8 * classes + 1))
}

#[cfg(test)]
mod tests;
