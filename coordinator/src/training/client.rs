//! The coordinator's end of one party's training stream, in domain types.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;
use vfl_shared::rpc::pb::{self, training_reply};
use vfl_shared::rpc::{Refusal, RefusalKind, peer_failure};
use vfl_shared::training::messages::{BatchShares, Command, Reply};
use vfl_shared::types::PartyName;

use crate::client::PassiveParty;

/// The replies of the party that opened a training.
pub trait ReplyStream: Stream<Item = Result<pb::TrainingReply, Status>> + Send + 'static {}

impl<S: Stream<Item = Result<pb::TrainingReply, Status>> + Send + 'static> ReplyStream for S {}

/// Where commands to a party go.
pub type CommandSender = mpsc::Sender<Result<pb::TrainingCommand, Status>>;

/// One party in one training.
pub(super) struct Link {
    pub(super) name: PartyName,
    /// "passive party `p`"
    pub(super) who: String,
    commands: CommandSender,
    replies: Pin<Box<dyn Stream<Item = Result<pb::TrainingReply, Status>> + Send>>,
    timeout: Duration,
    /// What was last asked of the parties, for messages.
    pub(super) stage: String,
}

impl Link {
    /// The link to the party that opened the training.
    pub(super) fn to_caller(
        (name, who): (PartyName, String),
        replies: impl ReplyStream,
        commands: CommandSender,
        timeout: Duration,
    ) -> Self {
        Self { name, who, commands, replies: Box::pin(replies), timeout, stage: "start".into() }
    }

    /// Opens a passive party's training stream.
    pub(super) async fn open(party: &PassiveParty, timeout: Duration) -> Result<Self, Refusal> {
        let who = party.peer().words();
        let (commands, outgoing) = mpsc::channel::<Result<pb::TrainingCommand, Status>>(16);
        let outgoing = ReceiverStream::new(outgoing).filter_map(Result::ok);
        let opened = tokio::time::timeout(timeout, async {
            let mut client = party.client();
            client.train(outgoing).await
        });
        let replies = match opened.await {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return Err(peer_failure(&who, &status)),
            Err(_) => return Err(Refusal::new(RefusalKind::DeadlineExceeded, format!("{who} did not answer in time"))),
        };
        let name = party.peer().name.clone();
        Ok(Self { name, who, commands, replies: Box::pin(replies), timeout, stage: "the list of records".into() })
    }

    pub(super) async fn send(&mut self, command: Command) -> Result<(), Refusal> {
        let sent = tokio::time::timeout(self.timeout, self.commands.send(Ok(command.into()))).await;
        match sent.map_err(|_| self.silent())? {
            Ok(()) => Ok(()),
            // The other side has ended the stream: its status says why.
            Err(_) => match self.receive().await {
                Err(refusal) => Err(refusal),
                Ok(_) => Err(self.gone()),
            },
        }
    }

    pub(super) async fn receive(&mut self) -> Result<Reply, Refusal> {
        match tokio::time::timeout(self.timeout, self.replies.next()).await {
            Ok(Some(Ok(pb::TrainingReply { reply: Some(training_reply::Reply::Shares(shares)) }))) => {
                BatchShares::try_from(shares).map(Reply::Shares).map_err(|e| self.wrong(&e))
            }
            Ok(Some(Ok(message))) => Ok(Reply::try_from(message)?),
            Ok(Some(Err(status))) => {
                let mut refusal = peer_failure(&self.who, &status);
                refusal.message = format!("training stopped at {}: {}", self.stage, refusal.message);
                Err(refusal)
            }
            Ok(None) => Err(self.gone()),
            Err(_) => Err(self.silent()),
        }
    }

    /// What the party sent is not what it should be.
    pub(super) fn wrong(&self, error: &dyn std::fmt::Display) -> Refusal {
        Refusal::invalid(format!("{}: {error}", self.who))
    }

    fn silent(&self) -> Refusal {
        let (who, s, stage) = (&self.who, self.timeout.as_secs(), &self.stage);
        let message = format!("training stopped at {stage}: {who} did not answer in {s} s");
        Refusal::new(RefusalKind::DeadlineExceeded, message)
    }

    fn gone(&self) -> Refusal {
        Refusal::unavailable(format!("training stopped at {}: {} went away", self.stage, self.who))
    }

    pub(super) fn unexpected(&self, wanted: &str) -> Refusal {
        Refusal::invalid(format!("training protocol: expected {wanted} from {}", self.who))
    }
}
