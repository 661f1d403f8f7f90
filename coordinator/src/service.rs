//! The gRPC face of the coordinator.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};
use vfl_shared::policy::Policy;
use vfl_shared::rpc::pb::coordinator_server::{Coordinator, CoordinatorServer};
use vfl_shared::rpc::{MAX_MESSAGE_BYTES, Refusal, RefusalKind, WireError, pb, require, rough};
use vfl_shared::service::{Role, ServeError, TlsError, caller, serve, until_stopped};
use vfl_shared::state_file::StateFileError;
use vfl_shared::types::{ModelVersion, RecordIds};

use crate::account::Account;
use crate::audit::Audits;
use crate::client::PassiveParty;
use crate::config::Settings;
use crate::defense::DefenseError;
use crate::engine::{Engine, Prediction};
use crate::import::ImportDriver;
use crate::ledger::{Derive, LedgerConfig, LedgerError};
use crate::policy::Policies;
use crate::publish::published;
use crate::registry::{Registry, RegistryError, read_manifest};
use crate::secret::{SecretError, noise_secret};
use crate::share::ShareKey;
use crate::training::TrainingDriver;
use crate::wire::described;

/// Chunks of one bulk stream under way at once.
const PIPELINE: usize = 8;

/// Why the coordinator cannot start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state directory.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// An address or a certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The configured defense.
    #[error(transparent)]
    Defense(#[from] DefenseError),
    /// The query ledger.
    #[error("ledger: {0}")]
    Ledger(#[from] LedgerError),
    /// The sets of records that audits were summarised over.
    #[error("the sets of earlier audits: {0}")]
    Audits(StateFileError),
    /// The secret that noise is keyed by.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The transport.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

struct Service {
    engine: Arc<Engine>,
    driver: Arc<TrainingDriver>,
    imports: Arc<ImportDriver>,
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
    let registry = Arc::new(Registry::open(&settings.state_dir)?);
    let passive = settings
        .passive_parties
        .iter()
        .map(|peer| PassiveParty::new(&settings.credentials, peer.clone(), settings.peer_timeout).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()?;
    match registry.current() {
        Some(model) => tracing::info!(version = %model.manifest.version, "serving a published model"),
        None => tracing::info!("no model is published yet"),
    }
    let ledger =
        settings.ledger.clone().map(|config| LedgerConfig { derive: Some(derive(&settings.state_dir)), ..config });
    let secret = noise_secret(&settings.state_dir, ledger.as_ref()).await?;
    tracing::info!(policy = %settings.policy(), noise_secret = %secret.fingerprint(), "what is released");
    let account = Account::open(ledger.as_ref(), &secret.fingerprint()).await?;
    let share_key = ShareKey::new(&secret);
    let engine = Arc::new(Engine {
        registry: registry.clone(),
        passive: passive.clone(),
        policies: Policies::new(settings.policy(), secret, registry.clone(), passive.clone()),
        audits: Arc::new(Audits::new(settings.audit, &settings.state_dir).map_err(RunError::Audits)?),
        serving: settings.serving,
        release: settings.release,
        account,
        share_key,
    });
    let live = engine.policies.live().clone();
    let driver = Arc::new(TrainingDriver {
        registry,
        passive,
        policy: settings.training,
        active_party: settings.active_party,
        live: live.clone(),
        busy: tokio::sync::Mutex::new(()),
    });
    let imports = Arc::new(ImportDriver { training: driver.clone(), policy: settings.publishing, live });
    let service = |stop| Service { engine: engine.clone(), driver, imports, stop };
    let routes = |stop| {
        Routes::new(
            CoordinatorServer::new(service(stop))
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
        )
    };
    let ended = serve(listener, &settings.credentials, &settings.limits, routes, shutdown).await;
    engine.account.close().await;
    Ok(ended?)
}

/// Finds the passive fingerprint of a version that an older ledger names.
fn derive(state_dir: &std::path::Path) -> Derive {
    let state_dir = state_dir.to_owned();
    Derive::new(move |version| {
        let version = ModelVersion::new(version).ok()?;
        read_manifest(&state_dir, &version).ok()?.map(|manifest| manifest.passive_fingerprint())
    })
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Coordinator for Service {
    async fn describe_model(
        &self,
        _request: Request<pb::DescribeModelRequest>,
    ) -> Result<Response<pb::DescribeModelResponse>, Status> {
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
            training: Some(published(&m.version, m.training.as_ref(), model.training_records()).into()),
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
        let replies = request.into_inner();
        let stop = self.stop.clone();
        tokio::spawn(async move {
            let run = driver.run(&caller, replies, commands.clone());
            let ended = tokio::select! {
                ended = run => ended,
                () = stop.cancelled() => Err(Refusal::unavailable("the coordinator is stopping")),
                // The active party has gone: nobody is left to train for.
                () = commands.closed() => Err(Refusal::unavailable(format!("{} went away", caller.words()))),
            };
            if let Err(refusal) = ended {
                tracing::warn!(caller = %caller, reason = %refusal, "training ended without a model");
                let _ = commands.send(Err(refusal.into())).await;
            }
        });
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
        let replies = request.into_inner();
        let stop = self.stop.clone();
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = driver.run(&caller, replies, commands.clone()) => ended,
                () = stop.cancelled() => Err(Refusal::unavailable("the coordinator is stopping")),
                () = commands.closed() => Err(Refusal::unavailable(format!("{} went away", caller.words()))),
            };
            if let Err(refusal) = ended {
                tracing::warn!(caller = %caller, reason = %refusal, "imported parameters were not published");
                let _ = commands.send(Err(refusal.into())).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn release_top_model(
        &self,
        request: Request<pb::ReleaseTopModelRequest>,
    ) -> Result<Response<pb::ReleaseTopModelResponse>, Status> {
        let caller = caller(&request)?;
        let version = WireError::model_version(request.into_inner().model_version)?;
        let top = self.engine.release_top(&caller, &version)?;
        tracing::info!(%version, caller = %caller, "the top model is shown");
        Ok(Response::new(pb::ReleaseTopModelResponse { top_model: top.to_wire() }))
    }

    async fn predict(&self, request: Request<pb::PredictRequest>) -> Result<Response<pb::PredictResponse>, Status> {
        let caller = caller(&request)?;
        let request = Prediction::try_from(request.into_inner())?;
        Ok(Response::new(self.engine.predict(&caller, request).await?.into()))
    }

    type PredictStreamStream = Responses<pb::PredictResponse>;

    async fn predict_stream(
        &self,
        request: Request<Streaming<pb::PredictRequest>>,
    ) -> Result<Response<Self::PredictStreamStream>, Status> {
        let caller = caller(&request)?;
        let engine = self.engine.clone();
        // A stop shows in the answers as an error: an end without one would read as all of them.
        let answers = until_stopped(request.into_inner(), self.stop.clone(), "the coordinator")
            .map(move |message| {
                let (engine, caller) = (engine.clone(), caller.clone());
                async move {
                    let request = Prediction::try_from(message?)?;
                    Ok(engine.predict(&caller, request).await?.into())
                }
            })
            .buffered(PIPELINE)
            // The first error ends the stream: what follows it could not be told from an answer to it.
            .scan(false, |failed, answer: Result<_, Status>| {
                let ended = *failed;
                *failed |= answer.is_err();
                futures_util::future::ready((!ended).then_some(answer))
            });
        Ok(Response::new(Box::pin(answers)))
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
                let message = format!("an active party sees its own entries, not those of `{name}`");
                return Err(Refusal::new(RefusalKind::PermissionDenied, message).into());
            }
            (Role::ActiveParty, _) => Some(caller.name().clone()),
            (_, wanted) => wanted,
        };
        Ok(Response::new(described(self.engine.account.describe(wanted.as_ref()).await?)))
    }

    async fn open_audit(
        &self,
        request: Request<pb::OpenAuditRequest>,
    ) -> Result<Response<pb::OpenAuditResponse>, Status> {
        let auditor = caller(&request)?;
        let request = request.into_inner();
        // First: who may not audit is told nothing of anybody.
        self.engine.audits.allowed()?;
        let model = self.engine.model_named(&WireError::model_version(request.model_version)?)?;
        let policy = Policy::try_from(&require("policy", request.policy)?)?;
        let ids = RecordIds::try_from(require("ids", request.ids)?)?;
        let active = WireError::party_name("active_party", request.active_party)?;
        self.engine.audits.check(&ids)?;
        let trained = self.engine.registry.trained_on(&model, ids.iter()).into_iter().filter(|t| *t).count();
        if trained > 0 && !self.engine.serving.training_records {
            let message =
                format!("{} of the {} records were used in training; audit others", rough(trained), ids.len());
            tracing::warn!(auditor = %auditor, trained, records = ids.len(), "audit session refused: training records");
            return Err(Refusal::precondition(message).into());
        }
        let ready = self.engine.policies.prepare(&model, &policy).await?;
        let contract = ready.pipeline().contract();
        let promise = pb::Promise {
            keeps_arg_max: contract.keeps_arg_max,
            keeps_ranking: contract.keeps_ranking,
            randomised: contract.randomised,
            // Whoever may choose its shares learns more with each of them.
            bits: contract.bits.filter(|_| !policy.unbound_shares),
            notes: ready.pipeline().notes(),
        };
        let version = model.manifest.version.clone();
        let (audit_session, row_budget) =
            self.engine.audits.open(version, &model.passive_fingerprint, active, ready, &ids)?;
        tracing::info!(auditor = %auditor, policy = %policy, records = ids.len(), "audit session opened");
        Ok(Response::new(pb::OpenAuditResponse { audit_session, row_budget, promise: Some(promise) }))
    }

    async fn close_audit(
        &self,
        request: Request<pb::CloseAuditRequest>,
    ) -> Result<Response<pb::CloseAuditResponse>, Status> {
        let pb::CloseAuditRequest { audit_session, without_summary } = request.into_inner();
        let audits = self.engine.audits.clone();
        let closed = tokio::task::spawn_blocking(move || audits.close(&audit_session, without_summary)).await;
        let closed = closed.map_err(|_| Refusal::internal("closing the session failed"))??;
        Ok(Response::new(closed.into()))
    }
}
