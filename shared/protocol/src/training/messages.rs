//! The messages between coordinator and parties while a model is trained and published.

use super::computation::{ComputationLayout, ComputationPiece, EpochCounts};
use vfl_core::model::privacy::PrivacyStatement;
use vfl_core::model::{SubModelSpec, TrainingConfig};
use vfl_core::types::{LogitShare, ModelVersion, OutputGradient, PartyName, RecordIds};

/// A command from the coordinator to a party that takes part in training.
#[derive(Debug, Clone)]
pub enum Command {
    /// The first command.
    Begin(Begin),
    /// A chunk of the list of records, which batches refer to by position.
    Records(RecordIds),
    /// One round trip of the training.
    Step(Step),
    /// The first phase of publishing: the party writes its share to disk.
    Store {
        /// True for the parameters of the checkpoint, false for the last ones.
        from_checkpoint: bool,
    },
    /// The second phase of publishing: the share stored under `digest` belongs to this version.
    Publish(Binding),
    /// The result of an epoch, for the active party alone.
    Progress(Progress),
    /// The last command, for the active party alone.
    Published(PublishedVersion),
    /// The start of a private computation.
    Compute {
        /// The number of features of each party: the active one, then the passive ones in their
        /// order.
        features: Vec<u32>,
    },
    /// A piece of a private computation, with its sender.
    Piece(ComputationPiece),
}

impl Command {
    /// Names the command, for messages about the protocol.
    #[must_use]
    pub fn words(&self) -> &'static str {
        match self {
            Self::Begin(_) => "begin",
            Self::Records(_) => "records",
            Self::Step(_) => "a step",
            Self::Store { .. } => "store",
            Self::Publish(_) => "publish",
            Self::Progress(_) => "progress",
            Self::Published(_) => "published",
            Self::Compute { .. } => "compute",
            Self::Piece(_) => "a piece of a computation",
        }
    }
}

/// A reply to the coordinator from a party that takes part in training.
#[derive(Debug, Clone)]
pub enum Reply {
    /// The first reply, from the active party alone.
    Start(Start),
    /// Chunks of labelled records, from the active party alone, until all records of the start are
    /// sent.
    Labelled(LabelledChunk),
    /// From a passive party alone, first: it takes part, whatever the records are.
    Consent,
    /// The party is ready for steps.
    Ready(Ready),
    /// The answer to a step.
    Shares(BatchShares),
    /// The share is on disk.
    Stored(ShareStored),
    /// The share is bound to the version.
    Published,
    /// A piece of a private computation, with its receiver.
    Piece(ComputationPiece),
    /// The private computation is over at this party.
    Computed(EpochCounts),
}

/// The active party's opening of a training.
#[derive(Debug, Clone)]
pub struct Start {
    /// The training configuration.
    pub config: TrainingConfig,
    /// The classes, in the order of the scores.
    pub class_names: Vec<String>,
    /// The number of labelled records that follow.
    pub record_count: u32,
}

/// A chunk of labelled records.
#[derive(Debug, Clone)]
pub struct LabelledChunk {
    /// The ids of the records.
    pub ids: RecordIds,
    /// The label of each record; none in a private training.
    pub labels: Vec<u32>,
}

/// The coordinator's opening of a training with a party.
#[derive(Debug, Clone)]
pub struct Begin {
    /// The training configuration.
    pub config: TrainingConfig,
    /// The classes, in the order of the scores: 2 to 65 536.
    pub class_names: Vec<String>,
    /// The number of records that follow; 0 for the active party, which knows them.
    pub record_count: u32,
    /// The active party that requests the training, by the name in its certificate.
    pub active_party: Option<PartyName>,
    /// The parties of a private training; `None` for a plain one.
    pub layout: Option<ComputationLayout>,
}

/// A party's description of itself before the first step.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The number of its features.
    pub features: u32,
    /// The sub-model that it trains; `None`: softmax regression with one output per class.
    pub sub_model: Option<SubModelSpec>,
}

/// One round trip: the gradient of the last batch, and the next batch for which shares are
/// requested.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// The number of the step, from 1.
    pub number: u64,
    /// `w × B`: the gradient of the mean loss with respect to this party's outputs of the last
    /// training batch. `None`: no update.
    pub gradient: Option<OutputGradient>,
    /// The positions of the records whose shares are requested; empty for none.
    pub batch: Vec<u32>,
    /// True if the shares are only evaluated, without a gradient to follow.
    pub evaluation: bool,
    /// True to save the parameters after this step's update.
    pub checkpoint: bool,
    /// True to restore the saved parameters, after everything else.
    pub restore: bool,
}

/// The shares of a step's batch.
#[derive(Debug, Clone)]
pub struct BatchShares {
    /// The number of the step.
    pub step: u64,
    /// The logit shares, `w × B`.
    pub share: LogitShare,
}

/// The share that a party has written to disk.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareStored {
    /// SHA-256 of the stored file, lower-case hexadecimal.
    pub digest: String,
    /// The party's statement of the privacy that it trained with; `None`: it trained without.
    pub privacy: Option<PrivacyStatement>,
}

/// The binding of a stored share to a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The version of the model.
    pub version: ModelVersion,
    /// SHA-256 of the stored share, lower-case hexadecimal.
    pub digest: String,
}

/// The result of one epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The number of the epoch, from 1.
    pub epoch: u32,
    /// The maximum number of epochs of this training.
    pub epochs: u32,
    /// The mean loss over the training records, in nats; `None` in a private training.
    pub training_loss: Option<f64>,
    /// The mean loss over the validation records, in nats; `None` without a validation share.
    pub validation_loss: Option<f64>,
    /// The share of the validation records whose arg max is the label.
    pub validation_accuracy: Option<f64>,
}

impl Progress {
    /// Returns the loss in words, that of the validation if there is one; in a private training,
    /// the number of the epoch.
    #[must_use]
    pub fn words(&self) -> String {
        match self.validation_loss.or(self.training_loss) {
            Some(loss) => format!("loss {loss:.4}"),
            None => format!("epoch {} on secret shares", self.epoch),
        }
    }

    /// Returns the progress of a private training, which tells no loss.
    #[must_use]
    pub fn of_epoch(epoch: u32, epochs: u32) -> Self {
        let (training_loss, validation_loss, validation_accuracy) = (None, None, None);
        Self { epoch, epochs, training_loss, validation_loss, validation_accuracy }
    }
}

/// The version in service, and its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedVersion {
    /// The version of the model.
    pub version: ModelVersion,
    /// The number of epochs run; 0 for an imported model.
    pub epochs: u32,
    /// The epoch whose parameters were published, from 1; 0 for an imported model.
    pub best_epoch: u32,
    /// The number of gradient steps; 0 for an imported model.
    pub steps: u64,
    /// The number of training records; for an imported model, of those that its training elsewhere
    /// is said to have used.
    pub training_records: u32,
    /// The number of records set aside to choose the epoch.
    pub validation_records: u32,
    /// True if the parameters came from files.
    pub imported: bool,
    /// The training configuration; `None` for an imported model.
    pub config: Option<TrainingConfig>,
    /// The parties that trained with privacy, with their statements, at the end of a training.
    pub privacy: Vec<(PartyName, PrivacyStatement)>,
}

/// A reply of the active party that publishes its imported parameters.
#[derive(Debug, Clone)]
pub enum PublishReply {
    /// The first reply.
    Start(PublishStart),
    /// Chunks of training ids, until all ids of the start are sent.
    TrainingIds(RecordIds),
    /// The share is bound to the version.
    Published,
}

/// The parameters that the active party has staged.
#[derive(Debug, Clone)]
pub struct PublishStart {
    /// The classes, in the order of the scores.
    pub class_names: Vec<String>,
    /// The number of its features.
    pub features: u32,
    /// SHA-256 of its stored share, lower-case hexadecimal.
    pub digest: String,
    /// The number of training ids that follow.
    pub training_id_count: u32,
    /// The staged sub-model; `None`: softmax regression with one output per class.
    pub sub_model: Option<SubModelSpec>,
}

/// A command from the coordinator to the active party that publishes imported parameters.
#[derive(Debug, Clone)]
pub enum PublishCommand {
    /// The passive parties have staged shares that fit: the party binds its share to this version.
    Publish(Binding),
    /// The last command: the version is in service.
    Published(PublishedVersion),
}

/// The share that a passive party's operator has staged.
#[derive(Debug, Clone)]
pub struct StagedShare {
    /// SHA-256 of the stored share, lower-case hexadecimal.
    pub digest: String,
    /// The number of its features.
    pub features: u32,
    /// The staged sub-model; `None`: softmax regression with one output per class.
    pub sub_model: Option<SubModelSpec>,
}
