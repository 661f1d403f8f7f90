//! The wire messages of training and publishing, and a party's end of a training stream.

use std::pin::Pin;

use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;
use vfl_core::model::privacy::PrivacyStatement;
use vfl_core::model::{SubModelSpec, TrainingConfig};
use vfl_core::types::{OutputGradient, PartyName, RecordIds};

use super::computation::ComputationLayout;
use super::messages::{
    BatchShares, Begin, Binding, Command, LabelledChunk, Progress, PublishCommand, PublishReply,
    PublishStart, PublishedVersion, Ready, Reply, ShareStored, StagedShare, Start, Step,
};
use crate::pb::{training_command, training_published, training_reply};
use crate::{
    Refusal, RefusalKind, WireError, decode_columns, encode_columns, pb, peer_failure, require,
};

/// The maximum number of classes of a model.
const MAX_CLASSES: u32 = 65_536;

/// The stream of the coordinator's commands.
pub trait CommandStream: Stream<Item = Result<pb::TrainingCommand, Status>> + Send {}

impl<S: Stream<Item = Result<pb::TrainingCommand, Status>> + Send> CommandStream for S {}

/// The channel for a party's replies.
pub type ReplySender = mpsc::Sender<Result<pb::TrainingReply, Status>>;

/// A party's end of a training stream, in domain types.
pub struct Conversation<'a, S> {
    /// The coordinator's name for messages: "the coordinator `c` at …".
    coordinator: &'a str,
    commands: Pin<&'a mut S>,
    replies: &'a ReplySender,
}

impl<'a, S: CommandStream> Conversation<'a, S> {
    /// Creates the conversation from its two streams; `coordinator` is the name for messages.
    pub fn new(coordinator: &'a str, commands: Pin<&'a mut S>, replies: &'a ReplySender) -> Self {
        Self { coordinator, commands, replies }
    }

    /// Returns the channel for this party's replies.
    #[must_use]
    pub fn replies(&self) -> &ReplySender {
        self.replies
    }

    /// Receives the next command.
    ///
    /// # Errors
    /// [`Refusal`] if the stream ended or failed, or the message is none.
    pub async fn next(&mut self) -> Result<Command, Refusal> {
        match self.commands.next().await {
            Some(Ok(message)) => Ok(Command::try_from(message)?),
            Some(Err(status)) => Err(training_failure(self.coordinator, &status)),
            None => {
                let message =
                    format!("{} ended the training before a model was published", self.coordinator);
                Err(Refusal::unavailable(message))
            }
        }
    }

    /// Sends a reply. If the coordinator no longer accepts replies, its last message gives the
    /// reason.
    ///
    /// # Errors
    /// [`Refusal`] with that reason.
    pub async fn reply(&mut self, reply: Reply) -> Result<(), Refusal> {
        if self.replies.send(Ok(reply.into())).await.is_ok() {
            return Ok(());
        }
        loop {
            self.next().await?;
        }
    }
}

/// Converts a failure of the stream. The coordinator's report on a third party is passed on
/// unchanged; a failure of the coordinator itself names it.
fn training_failure(coordinator: &str, status: &Status) -> Refusal {
    let relayed = RefusalKind::from_code(status.code());
    let message = status.message();
    if !message.is_empty() && std::error::Error::source(status).is_none() {
        return Refusal::new(relayed, message.to_owned());
    }
    peer_failure(coordinator, status)
}

impl TryFrom<pb::TrainingCommand> for Command {
    type Error = WireError;

    fn try_from(message: pb::TrainingCommand) -> Result<Self, WireError> {
        use training_command::Command as Wire;
        Ok(match require("command", message.command)? {
            Wire::Begin(begin) => Self::Begin(begin.try_into()?),
            Wire::Records(ids) => Self::Records(ids.try_into()?),
            Wire::Step(step) => Self::Step(step.try_into()?),
            Wire::Store(pb::StoreShare { from_checkpoint }) => Self::Store { from_checkpoint },
            Wire::Publish(publish) => Self::Publish(publish.try_into()?),
            Wire::Progress(progress) => Self::Progress(progress.into()),
            Wire::Published(published) => Self::Published(published.try_into()?),
            Wire::Compute(pb::PrivateComputation { features }) => Self::Compute { features },
            Wire::Piece(piece) => Self::Piece(piece.try_into()?),
        })
    }
}

impl From<Command> for pb::TrainingCommand {
    fn from(command: Command) -> Self {
        use training_command::Command as Wire;
        let command = match command {
            Command::Begin(begin) => Wire::Begin(begin.into()),
            Command::Records(ids) => Wire::Records(ids.into()),
            Command::Step(step) => Wire::Step(step.into()),
            Command::Store { from_checkpoint } => Wire::Store(pb::StoreShare { from_checkpoint }),
            Command::Publish(binding) => Wire::Publish(binding.into()),
            Command::Progress(progress) => Wire::Progress(progress.into()),
            Command::Published(published) => Wire::Published(published.into()),
            Command::Compute { features } => Wire::Compute(pb::PrivateComputation { features }),
            Command::Piece(piece) => Wire::Piece(piece.into()),
        };
        Self { command: Some(command) }
    }
}

impl TryFrom<pb::LabelledRecords> for LabelledChunk {
    type Error = WireError;

    fn try_from(message: pb::LabelledRecords) -> Result<Self, WireError> {
        Ok(Self { ids: RecordIds::try_from(require("ids", message.ids)?)?, labels: message.labels })
    }
}

impl TryFrom<pb::TrainingReady> for Ready {
    type Error = WireError;

    fn try_from(message: pb::TrainingReady) -> Result<Self, WireError> {
        let pb::TrainingReady { features, sub_model } = message;
        Ok(Self {
            features,
            sub_model: sub_model.as_ref().map(SubModelSpec::try_from).transpose()?,
        })
    }
}

impl TryFrom<pb::ShareStored> for ShareStored {
    type Error = WireError;

    fn try_from(message: pb::ShareStored) -> Result<Self, WireError> {
        let pb::ShareStored { digest, privacy } = message;
        Ok(Self { digest, privacy: privacy.as_ref().map(PrivacyStatement::try_from).transpose()? })
    }
}

impl From<ShareStored> for pb::ShareStored {
    fn from(stored: ShareStored) -> Self {
        let ShareStored { digest, privacy } = stored;
        Self { digest, privacy: privacy.as_ref().map(Into::into) }
    }
}

impl From<Reply> for pb::TrainingReply {
    fn from(reply: Reply) -> Self {
        use training_reply::Reply as Wire;
        let reply = match reply {
            Reply::Start(Start { config, class_names, record_count }) => {
                Wire::Start(pb::TrainingStart {
                    config: Some((&config).into()),
                    class_names,
                    record_count,
                })
            }
            Reply::Labelled(LabelledChunk { ids, labels }) => {
                Wire::Labelled(pb::LabelledRecords { ids: Some(ids.into()), labels })
            }
            Reply::Consent => Wire::Consent(pb::TrainingConsent {}),
            Reply::Ready(Ready { features, sub_model }) => Wire::Ready(pb::TrainingReady {
                features,
                sub_model: sub_model.as_ref().map(Into::into),
            }),
            Reply::Shares(BatchShares { step, share }) => {
                Wire::Shares(pb::BatchShares { step, shares: Some(share.into()) })
            }
            Reply::Stored(stored) => Wire::Stored(stored.into()),
            Reply::Published => Wire::Published(pb::SharePublished {}),
            Reply::Piece(piece) => Wire::Piece(piece.into()),
            Reply::Computed(counts) => Wire::Computed(counts.into()),
        };
        Self { reply: Some(reply) }
    }
}

impl TryFrom<pb::TrainingStart> for Start {
    type Error = WireError;

    fn try_from(start: pb::TrainingStart) -> Result<Self, WireError> {
        let pb::TrainingStart { config, class_names, record_count } = start;
        Ok(Self {
            config: TrainingConfig::try_from(&require("config", config)?)?,
            class_names,
            record_count,
        })
    }
}

impl TryFrom<pb::TrainingBegin> for Begin {
    type Error = WireError;

    fn try_from(begin: pb::TrainingBegin) -> Result<Self, WireError> {
        let pb::TrainingBegin { config, classes, record_count, active_party, class_names, layout } =
            begin;
        let config = TrainingConfig::try_from(&require("config", config)?)?;
        let link = config.values().model.link();
        let link = link.map_err(|_| WireError::Range { field: "config", reason: "a model" })?;
        let valid = if link.is_numeric() { 1..=1 } else { 2..=MAX_CLASSES };
        if !valid.contains(&classes) {
            let reason = "2 to 65536, or 1 for a model of a number";
            return Err(WireError::Range { field: "classes", reason });
        }
        if class_names.len() != classes as usize {
            let (expected, got) = (classes as usize, class_names.len());
            return Err(WireError::Size { field: "class_names", unit: "names", expected, got });
        }
        let active_party = match active_party.as_str() {
            "" => None,
            _ => Some(WireError::party_name("active_party", active_party)?),
        };
        let layout = layout.map(ComputationLayout::try_from).transpose()?;
        Ok(Self { config, class_names, record_count, active_party, layout })
    }
}

impl From<Begin> for pb::TrainingBegin {
    fn from(begin: Begin) -> Self {
        let Begin { config, class_names, record_count, active_party, layout } = begin;
        Self {
            config: Some((&config).into()),
            classes: class_names.len() as u32,
            record_count,
            active_party: active_party.map(String::from).unwrap_or_default(),
            class_names,
            layout: layout.map(Into::into),
        }
    }
}

impl TryFrom<pb::TrainingStep> for Step {
    type Error = WireError;

    /// Converts a step. The party itself checks the width of the gradient: it knows its own.
    fn try_from(message: pb::TrainingStep) -> Result<Self, WireError> {
        let pb::TrainingStep { step, gradient, batch, evaluation, checkpoint, restore } = message;
        let gradient = match gradient {
            Some(gradient) => {
                let columns = decode_columns("gradient", &gradient, gradient.rows as usize, None)?;
                Some(OutputGradient::new(columns))
            }
            None => None,
        };
        Ok(Self { number: step, gradient, batch, evaluation, checkpoint, restore })
    }
}

impl From<Step> for pb::TrainingStep {
    fn from(step: Step) -> Self {
        let Step { number, gradient, batch, evaluation, checkpoint, restore } = step;
        let gradient = gradient.as_ref().map(encode_columns);
        Self { step: number, gradient, batch, evaluation, checkpoint, restore }
    }
}

impl TryFrom<pb::PublishShare> for Binding {
    type Error = WireError;

    fn try_from(message: pb::PublishShare) -> Result<Self, WireError> {
        let pb::PublishShare { model_version, digest } = message;
        Ok(Self { version: WireError::model_version(model_version)?, digest })
    }
}

impl From<Binding> for pb::PublishShare {
    fn from(binding: Binding) -> Self {
        Self { model_version: binding.version.as_str().to_owned(), digest: binding.digest }
    }
}

impl From<pb::TrainingProgress> for Progress {
    fn from(message: pb::TrainingProgress) -> Self {
        let pb::TrainingProgress {
            epoch,
            epochs,
            training_loss,
            validation_loss,
            validation_accuracy,
        } = message;
        Self { epoch, epochs, training_loss, validation_loss, validation_accuracy }
    }
}

impl From<Progress> for pb::TrainingProgress {
    fn from(progress: Progress) -> Self {
        let Progress { epoch, epochs, training_loss, validation_loss, validation_accuracy } =
            progress;
        Self { epoch, epochs, training_loss, validation_loss, validation_accuracy }
    }
}

impl TryFrom<pb::TrainingPublished> for PublishedVersion {
    type Error = WireError;

    fn try_from(message: pb::TrainingPublished) -> Result<Self, WireError> {
        let pb::TrainingPublished {
            model_version,
            epochs,
            best_epoch,
            steps,
            training_records,
            validation_records,
            imported,
            config,
            privacy,
        } = message;
        let version = WireError::model_version(model_version)?;
        let config = config.as_ref().map(TrainingConfig::try_from).transpose()?;
        let privacy = privacy.into_iter().map(party_privacy).collect::<Result<_, _>>()?;
        Ok(Self {
            version,
            epochs,
            best_epoch,
            steps,
            training_records,
            validation_records,
            imported,
            config,
            privacy,
        })
    }
}

fn party_privacy(
    message: training_published::PartyPrivacy,
) -> Result<(PartyName, PrivacyStatement), WireError> {
    let training_published::PartyPrivacy { party, privacy } = message;
    let name = WireError::party_name("party", party)?;
    Ok((name, PrivacyStatement::try_from(&require("privacy", privacy)?)?))
}

impl From<PublishedVersion> for pb::TrainingPublished {
    fn from(published: PublishedVersion) -> Self {
        let PublishedVersion {
            version,
            epochs,
            best_epoch,
            steps,
            training_records,
            validation_records,
            imported,
            config,
            privacy,
        } = published;
        let of_party =
            |(party, privacy): (PartyName, PrivacyStatement)| training_published::PartyPrivacy {
                party: party.into(),
                privacy: Some((&privacy).into()),
            };
        Self {
            model_version: version.as_str().to_owned(),
            epochs,
            best_epoch,
            steps,
            training_records,
            validation_records,
            imported,
            config: config.as_ref().map(Into::into),
            privacy: privacy.into_iter().map(of_party).collect(),
        }
    }
}

impl TryFrom<pb::PublishReply> for PublishReply {
    type Error = WireError;

    fn try_from(message: pb::PublishReply) -> Result<Self, WireError> {
        use pb::publish_reply::Reply as Wire;
        Ok(match require("reply", message.reply)? {
            Wire::Start(pb::PublishStart {
                class_names,
                features,
                digest,
                training_id_count,
                sub_model,
            }) => {
                let sub_model = sub_model.as_ref().map(SubModelSpec::try_from).transpose()?;
                Self::Start(PublishStart {
                    class_names,
                    features,
                    digest,
                    training_id_count,
                    sub_model,
                })
            }
            Wire::TrainingIds(ids) => Self::TrainingIds(ids.try_into()?),
            Wire::Published(pb::SharePublished {}) => Self::Published,
        })
    }
}

impl From<PublishReply> for pb::PublishReply {
    fn from(reply: PublishReply) -> Self {
        use pb::publish_reply::Reply as Wire;
        let reply = match reply {
            PublishReply::Start(PublishStart {
                class_names,
                features,
                digest,
                training_id_count,
                sub_model,
            }) => {
                let sub_model = sub_model.as_ref().map(Into::into);
                Wire::Start(pb::PublishStart {
                    class_names,
                    features,
                    digest,
                    training_id_count,
                    sub_model,
                })
            }
            PublishReply::TrainingIds(ids) => Wire::TrainingIds(ids.into()),
            PublishReply::Published => Wire::Published(pb::SharePublished {}),
        };
        Self { reply: Some(reply) }
    }
}

impl TryFrom<pb::PublishCommand> for PublishCommand {
    type Error = WireError;

    fn try_from(message: pb::PublishCommand) -> Result<Self, WireError> {
        use pb::publish_command::Command as Wire;
        Ok(match require("command", message.command)? {
            Wire::Publish(publish) => Self::Publish(publish.try_into()?),
            Wire::Published(published) => Self::Published(published.try_into()?),
        })
    }
}

impl From<PublishCommand> for pb::PublishCommand {
    fn from(command: PublishCommand) -> Self {
        use pb::publish_command::Command as Wire;
        let command = match command {
            PublishCommand::Publish(binding) => Wire::Publish(binding.into()),
            PublishCommand::Published(published) => Wire::Published(published.into()),
        };
        Self { command: Some(command) }
    }
}

impl TryFrom<pb::DescribeStagedResponse> for StagedShare {
    type Error = WireError;

    fn try_from(message: pb::DescribeStagedResponse) -> Result<Self, WireError> {
        let pb::DescribeStagedResponse { digest, features, sub_model } = message;
        Ok(Self {
            digest,
            features,
            sub_model: sub_model.as_ref().map(SubModelSpec::try_from).transpose()?,
        })
    }
}

impl From<StagedShare> for pb::DescribeStagedResponse {
    fn from(staged: StagedShare) -> Self {
        let sub_model = staged.sub_model.as_ref().map(Into::into);
        Self { digest: staged.digest, features: staged.features, sub_model }
    }
}
