//! The coordinator's messages in a publication of imported parameters: the active party's stream,
//! and calls of passive parties.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};
use tonic::{Response, Status};
use vfl_core::types::PartyName;
use vfl_protocol::training::messages::{Binding, PublishCommand, PublishReply, StagedShare};
use vfl_protocol::{Refusal, RefusalKind, pb, peer_failure};

use crate::client::PassiveParty;

/// The replies of the active party that opened a publication.
pub trait ReplyStream: Stream<Item = Result<pb::PublishReply, Status>> + Send + 'static {}

impl<S: Stream<Item = Result<pb::PublishReply, Status>> + Send + 'static> ReplyStream for S {}

/// The channel for commands to the active party.
pub type CommandSender = mpsc::Sender<Result<pb::PublishCommand, Status>>;

/// The active party's stream.
pub(super) struct ActiveStream {
    who: String,
    replies: Pin<Box<dyn Stream<Item = Result<pb::PublishReply, Status>> + Send>>,
    commands: CommandSender,
    timeout: Duration,
}

impl ActiveStream {
    pub(super) fn new(
        who: String,
        replies: impl ReplyStream,
        commands: CommandSender,
        timeout: Duration,
    ) -> Self {
        Self { who, replies: Box::pin(replies), commands, timeout }
    }

    fn gone(&self) -> Refusal {
        Refusal::unavailable(format!("publishing stopped: {} went away", self.who))
    }

    pub(super) async fn send(&mut self, command: PublishCommand) -> Result<(), Refusal> {
        match tokio::time::timeout(self.timeout, self.commands.send(Ok(command.into()))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.gone()),
            Err(_) => Err(silent(&self.who, self.timeout)),
        }
    }

    pub(super) async fn receive(&mut self) -> Result<PublishReply, Refusal> {
        match tokio::time::timeout(self.timeout, self.replies.next()).await {
            Ok(Some(Ok(message))) => Ok(PublishReply::try_from(message)?),
            Ok(Some(Err(status))) => Err(peer_failure(&self.who, &status)),
            Ok(None) => Err(self.gone()),
            Err(_) => Err(silent(&self.who, self.timeout)),
        }
    }

    pub(super) fn unexpected(&self, wanted: &str) -> Refusal {
        Refusal::invalid(format!("publishing protocol: expected {wanted} from {}", self.who))
    }
}

fn silent(who: &str, timeout: Duration) -> Refusal {
    let message = format!("publishing stopped: {who} did not answer in {} s", timeout.as_secs());
    Refusal::new(RefusalKind::DeadlineExceeded, message)
}

/// Asks a passive party what its operator has staged for an active party.
pub(super) async fn staged(
    party: &PassiveParty,
    active_party: &PartyName,
    class_names: &[String],
    timeout: Duration,
) -> Result<StagedShare, Refusal> {
    let request = pb::DescribeStagedRequest {
        active_party: active_party.as_str().to_owned(),
        class_names: class_names.to_vec(),
    };
    let mut client = party.client();
    let answer = answered(party, timeout, client.describe_staged(request)).await?;
    StagedShare::try_from(answer)
        .map_err(|e| Refusal::internal(format!("{} answered with {e}", party.peer())))
}

/// Has a passive party bind what its operator has staged for an active party.
pub(super) async fn bind(
    party: &PassiveParty,
    active_party: &PartyName,
    class_names: &[String],
    binding: Binding,
    timeout: Duration,
) -> Result<(), Refusal> {
    let request = pb::PublishStagedRequest {
        active_party: active_party.as_str().to_owned(),
        class_names: class_names.to_vec(),
        model_version: binding.version.as_str().to_owned(),
        digest: binding.digest,
    };
    let mut client = party.client();
    answered(party, timeout, client.publish_staged(request)).await.map(drop)
}

/// Makes one call of a passive party, with a deadline; an error names the party.
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
