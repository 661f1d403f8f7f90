//! The coordinator's end of one party's training stream, in domain types.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;
use vfl_core::types::{LogitShare, PartyName};
use vfl_protocol::pb::training_reply::Reply;
use vfl_protocol::training::computation::{ComputationPiece, EpochCounts};
use vfl_protocol::training::messages::{Command, LabelledChunk, Ready, ShareStored, Start};
use vfl_protocol::{Refusal, RefusalKind, WireError, pb, peer_failure, require};

use crate::client::PassiveParty;

/// The stream of replies of the party that opened a training.
pub trait ReplyStream: Stream<Item = Result<pb::TrainingReply, Status>> + Send + 'static {}

impl<S: Stream<Item = Result<pb::TrainingReply, Status>> + Send + 'static> ReplyStream for S {}

/// The channel for commands to a party.
pub type CommandSender = mpsc::Sender<Result<pb::TrainingCommand, Status>>;

/// A reply of a party while it computes.
pub(super) enum ComputationReply {
    /// A piece for another party.
    Piece(ComputationPiece),
    /// The end of the computation there.
    Computed(EpochCounts),
}

/// The link to one party in one training.
pub(super) struct Link {
    pub(super) name: PartyName,
    /// The party in words, such as "passive party `p`".
    pub(super) who: String,
    commands: CommandSender,
    replies: Pin<Box<dyn Stream<Item = Result<pb::TrainingReply, Status>> + Send>>,
    pub(super) timeout: Duration,
    /// The last request to the parties, for messages.
    pub(super) stage: String,
}

impl Link {
    /// Creates the link to the party that opened the training.
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
            Err(_) => {
                return Err(Refusal::new(
                    RefusalKind::DeadlineExceeded,
                    format!("{who} did not answer in time"),
                ));
            }
        };
        let name = party.peer().name.clone();
        Ok(Self {
            name,
            who,
            commands,
            replies: Box::pin(replies),
            timeout,
            stage: "consent".into(),
        })
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

    /// Receives the active party's first message.
    pub(super) async fn start(&mut self) -> Result<Start, Refusal> {
        match self.receive().await? {
            Reply::Start(start) => Ok(start.try_into()?),
            _ => Err(self.unexpected("start")),
        }
    }

    /// Receives the active party's next chunk of records.
    pub(super) async fn labelled(&mut self) -> Result<LabelledChunk, Refusal> {
        match self.receive().await? {
            Reply::Labelled(labelled) => Ok(labelled.try_into()?),
            _ => Err(self.unexpected("records")),
        }
    }

    /// Waits until a passive party has said that it takes part.
    pub(super) async fn consent(&mut self) -> Result<(), Refusal> {
        match self.receive().await? {
            Reply::Consent(_) => Ok(()),
            _ => Err(self.unexpected("consent")),
        }
    }

    /// Receives the party's description of itself before the first step.
    pub(super) async fn ready(&mut self) -> Result<Ready, Refusal> {
        match self.receive().await? {
            Reply::Ready(ready) => Ready::try_from(ready).map_err(|e| self.wrong(&e)),
            _ => Err(self.unexpected("ready")),
        }
    }

    /// Receives the shares of a step, of `records` records with `width` numbers each.
    pub(super) async fn shares(
        &mut self,
        step: u64,
        records: usize,
        width: usize,
    ) -> Result<LogitShare, Refusal> {
        let Reply::Shares(reply) = self.receive().await? else {
            return Err(self.unexpected("logit shares"));
        };
        if reply.step != step {
            return Err(self.unexpected(&format!("step {step}")));
        }
        vfl_protocol::read_share("shares", reply.shares.as_ref(), records, Some(width))
            .map_err(|e| self.wrong(&e))
    }

    /// Returns the channel for commands to the party.
    pub(super) fn commands(&self) -> &CommandSender {
        &self.commands
    }

    /// Receives a piece of a private computation, or its end, however long that takes: the
    /// computation has deadlines of its own.
    pub(super) async fn computation_reply(&mut self) -> Result<ComputationReply, Refusal> {
        let reply = self.replies.next().await;
        match self.read(reply)? {
            Reply::Piece(piece) => {
                let piece = piece.try_into().map_err(|e: WireError| self.wrong(&e))?;
                Ok(ComputationReply::Piece(piece))
            }
            Reply::Computed(computed) => Ok(ComputationReply::Computed(computed.into())),
            _ => Err(self.unexpected("a piece of the computation")),
        }
    }

    /// Receives the report of the share on disk.
    pub(super) async fn stored(&mut self) -> Result<ShareStored, Refusal> {
        match self.receive().await? {
            Reply::Stored(stored) => ShareStored::try_from(stored).map_err(|e| self.wrong(&e)),
            _ => Err(self.unexpected("stored")),
        }
    }

    /// Receives the confirmation that the share is bound to the version.
    pub(super) async fn published(&mut self) -> Result<(), Refusal> {
        match self.receive().await? {
            Reply::Published(_) => Ok(()),
            _ => Err(self.unexpected("published")),
        }
    }

    /// Receives the next reply. Its content is read only once it is known to be the one that is
    /// due.
    async fn receive(&mut self) -> Result<Reply, Refusal> {
        match tokio::time::timeout(self.timeout, self.replies.next()).await {
            Ok(reply) => self.read(reply),
            Err(_) => Err(self.silent()),
        }
    }

    fn read(&self, reply: Option<Result<pb::TrainingReply, Status>>) -> Result<Reply, Refusal> {
        match reply {
            Some(Ok(message)) => Ok(require("reply", message.reply)?),
            Some(Err(status)) => {
                let mut refusal = peer_failure(&self.who, &status);
                refusal.message =
                    format!("training stopped at {}: {}", self.stage, refusal.message);
                Err(refusal)
            }
            None => Err(self.gone()),
        }
    }

    /// Returns the refusal of a wrong message from the party.
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

    fn unexpected(&self, wanted: &str) -> Refusal {
        Refusal::invalid(format!("training protocol: expected {wanted} from {}", self.who))
    }
}
