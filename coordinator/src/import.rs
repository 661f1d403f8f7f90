//! Publishes parameters that the parties' operators have imported: no record, no step, no gradient.
//!
//! The active party opens a stream and says what it has staged. Phase one: every passive party says what its operator has staged
//! for that active party. Phase two: the active party, then the passive parties, bind their shares to the version; then the
//! coordinator switches, as after a training.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};
use tonic::{Response, Status};
use vfl_shared::policy::Policy;
use vfl_shared::rpc::pb::{self, publish_command::Command, publish_reply::Reply};
use vfl_shared::rpc::{Refusal, RefusalKind, WireError, peer_failure, require};
use vfl_shared::service::PeerIdentity;
use vfl_shared::types::{RecordIds, RecordIdsBuilder};

use crate::config::PublishingPolicy;
use crate::passive::PassiveParty;
use crate::policy::fitted_defense;
use crate::publish::{check_class_names, check_features, published, put_in_service};
use crate::registry::{Manifest, PartyEntry};
use crate::training::TrainingDriver;

/// The most training ids of an imported model.
const MAX_RECORDS: u32 = 10_000_000;

/// What publishing imported parameters needs of the coordinator.
#[derive(Debug)]
pub struct ImportDriver {
    /// Registry, passive parties, and the lock that one training or publication holds.
    pub training: Arc<TrainingDriver>,
    /// What the operator allows.
    pub policy: PublishingPolicy,
    /// The policy of the live service, which must be able to serve the model.
    pub live: Policy,
}

/// The active party's stream.
struct Active {
    who: String,
    replies: Pin<Box<dyn Stream<Item = Result<pb::PublishReply, Status>> + Send>>,
    commands: mpsc::Sender<Result<pb::PublishCommand, Status>>,
    timeout: Duration,
}

impl Active {
    fn gone(&self) -> Refusal {
        Refusal::unavailable(format!("publishing stopped: {} went away", self.who))
    }

    async fn send(&mut self, command: Command) -> Result<(), Refusal> {
        let message = pb::PublishCommand { command: Some(command) };
        match tokio::time::timeout(self.timeout, self.commands.send(Ok(message))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.gone()),
            Err(_) => Err(silent(&self.who, self.timeout)),
        }
    }

    async fn receive(&mut self) -> Result<Reply, Refusal> {
        match tokio::time::timeout(self.timeout, self.replies.next()).await {
            Ok(Some(Ok(message))) => Ok(require("reply", message.reply)?),
            Ok(Some(Err(status))) => Err(peer_failure(&self.who, &status)),
            Ok(None) => Err(self.gone()),
            Err(_) => Err(silent(&self.who, self.timeout)),
        }
    }

    fn unexpected(&self, wanted: &str) -> Refusal {
        Refusal::invalid(format!("publishing protocol: expected {wanted} from {}", self.who))
    }
}

fn silent(who: &str, timeout: Duration) -> Refusal {
    let message = format!("publishing stopped: {who} did not answer in {} s", timeout.as_secs());
    Refusal::new(RefusalKind::DeadlineExceeded, message)
}

/// What the active party opened the publication with.
struct Job {
    class_names: Vec<String>,
    features: u32,
    digest: String,
    training_ids: RecordIds,
}

impl ImportDriver {
    /// Publishes what the parties have staged, for the active party behind the two streams.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that has staged nothing that fits, went away, or refused. The model in service stays in service.
    pub async fn run(
        &self,
        caller: &PeerIdentity,
        replies: impl Stream<Item = Result<pb::PublishReply, Status>> + Send + 'static,
        commands: mpsc::Sender<Result<pb::PublishCommand, Status>>,
    ) -> Result<(), Refusal> {
        if !self.policy.allowed {
            let message = "publishing imported parameters is not allowed here; the operator may set `allowed = true` in \
                           [publishing]";
            return Err(Refusal::new(RefusalKind::PermissionDenied, message));
        }
        if let Some(defense) = fitted_defense(&self.live) {
            return Err(Refusal::precondition(format!(
                "the coordinator's [defense] is `{defense}`, which is fitted on scores of a training here, and imported \
                 parameters have none; configure another defense, or train the model here"
            )));
        }
        let (driver, timeout) = (&*self.training, Duration::from_secs(self.training.policy.step_timeout_s));
        let busy = driver.busy.try_lock().map_err(|_| {
            let message = "another training or publication is under way; try again when it has ended";
            Refusal::new(RefusalKind::Aborted, message)
        })?;
        driver.check_caller(caller.name(), "publish another")?;
        let mut active = Active { who: caller.words(), replies: Box::pin(replies), commands, timeout };
        // Each message has its time, and so have all of them together: a trickle must not keep others from training.
        let job = tokio::time::timeout(10 * timeout, receive_job(&mut active)).await.map_err(|_| {
            let message = format!("the training ids did not arrive in {} s", 10 * timeout.as_secs());
            Refusal::new(RefusalKind::DeadlineExceeded, message)
        })??;
        tracing::info!(caller = %caller, training_ids = job.training_ids.len(), "publishing imported parameters");
        let asked = driver.passive.iter().map(|party| describe(party, caller, &job, timeout));
        let passive = try_join_all(asked).await?;
        let entry = PartyEntry { name: caller.name().clone(), features: job.features, share: job.digest.clone() };
        let manifest = Manifest::new(job.class_names.clone(), entry, passive, None, &job.training_ids);
        let version = manifest.version.clone();
        if driver.registry.current().is_some_and(|model| model.manifest.version == version) {
            let message = format!("these very parameters are in service already, as model {version}; stage others");
            return Err(Refusal::precondition(message));
        }
        let entries = manifest.passive_parties.clone();
        let confirmed = async {
            let model_version = version.as_str().to_owned();
            // Before the passive parties: if it cannot, their operators' consent is not used up.
            active.send(Command::Publish(pb::PublishShare { model_version, digest: job.digest.clone() })).await?;
            let Reply::Published(_) = active.receive().await? else { return Err(active.unexpected("published")) };
            let told = driver.passive.iter().zip(&entries).map(|(party, entry)| {
                let request = pb::PublishStagedRequest {
                    active_party: caller.name().as_str().to_owned(),
                    class_names: job.class_names.clone(),
                    model_version: version.as_str().to_owned(),
                    digest: entry.share.clone(),
                };
                let mut client = party.client();
                async move { answered(party, timeout, client.publish_staged(request)).await }
            });
            try_join_all(told).await.map(drop)
        };
        put_in_service(&driver.registry, manifest, None, confirmed).await?;
        // Before the last word goes out: who has heard it may publish or train again at once.
        drop(busy);
        let published = published(&version, None, job.training_ids.len());
        // The model is in service, whether or not the active party is still there to hear it.
        if let Err(refusal) = active.send(Command::Published(published)).await {
            tracing::warn!(reason = %refusal, "the active party was not told that its model is in service");
        }
        Ok(())
    }
}

/// What a passive party has staged for the caller, as the manifest has it.
async fn describe(
    party: &PassiveParty,
    caller: &PeerIdentity,
    job: &Job,
    timeout: Duration,
) -> Result<PartyEntry, Refusal> {
    let request = pb::DescribeStagedRequest {
        active_party: caller.name().as_str().to_owned(),
        class_names: job.class_names.clone(),
    };
    let mut client = party.client();
    let staged = answered(party, timeout, client.describe_staged(request)).await?;
    let wrong = |e: WireError| Refusal::internal(format!("{} answered with {e}", party.peer()));
    check_share(&staged.digest, staged.features).map_err(wrong)?;
    Ok(PartyEntry { name: party.peer().name.clone(), features: staged.features, share: staged.digest })
}

/// One call of a passive party, with its deadline and its name on what goes wrong.
async fn answered<T>(
    party: &PassiveParty,
    timeout: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Refusal> {
    let who = party.peer().to_string();
    match tokio::time::timeout(timeout, call).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => {
            let mut refusal = peer_failure(&who, &status);
            refusal.message = format!("publishing stopped: {}", refusal.message);
            Err(refusal)
        }
        Err(_) => Err(silent(&who, timeout)),
    }
}

fn check_share(digest: &str, features: u32) -> Result<(), WireError> {
    let hex = digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if !hex {
        return Err(WireError::Range { field: "digest", reason: "a SHA-256 in lower-case hexadecimal" });
    }
    check_features(features)
}

async fn receive_job(active: &mut Active) -> Result<Job, Refusal> {
    let Reply::Start(start) = active.receive().await? else { return Err(active.unexpected("start")) };
    check_class_names(&start.class_names)?;
    check_share(&start.digest, start.features)?;
    if start.training_id_count > MAX_RECORDS {
        return Err(WireError::Range { field: "training_id_count", reason: "at most 10 million" }.into());
    }
    let expected = start.training_id_count as usize;
    let (mut ids, mut received) = (RecordIdsBuilder::default(), 0);
    while received < expected {
        let Reply::TrainingIds(chunk) = active.receive().await? else { return Err(active.unexpected("training ids")) };
        let chunk = RecordIds::try_from(chunk)?;
        received += chunk.len();
        if chunk.is_empty() || received > expected {
            return Err(WireError::Size { field: "training_ids", unit: "records", expected, got: received }.into());
        }
        chunk.iter().for_each(|id| ids.push(id));
    }
    let training_ids = ids.finish().map_err(|source| WireError::Ids { field: "training_ids", source })?;
    Ok(Job { class_names: start.class_names, features: start.features, digest: start.digest, training_ids })
}
