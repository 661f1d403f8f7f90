//! What coordinator and parties tell each other while a model is trained and published.

use crate::model::privacy::PrivacyStatement;
use crate::model::{SubModelSpec, TrainingConfig};
use crate::types::{LogitShare, ModelVersion, OutputGradient, PartyName, RecordIds};

/// From the coordinator to a party that takes part in training.
#[derive(Debug, Clone)]
pub enum Command {
    /// First.
    Begin(Begin),
    /// A chunk of the list of records, which batches refer to by position.
    Records(RecordIds),
    /// One round trip.
    Step(Step),
    /// First phase of publishing: put the share on disk.
    Store {
        /// The remembered parameters, not the last ones.
        from_checkpoint: bool,
    },
    /// Second phase: the share stored under `digest` is this version's.
    Publish(Binding),
    /// To the active party alone: what became of an epoch.
    Progress(Progress),
    /// To the active party alone, last.
    Published(Published),
}

impl Command {
    /// The command in words, for messages about the protocol.
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
        }
    }
}

/// From a party that takes part in training to the coordinator.
#[derive(Debug, Clone)]
pub enum Reply {
    /// From the active party alone, first.
    Start(Start),
    /// From the active party alone: chunks, until all records of the start have come.
    Labelled(Labelled),
    /// From a passive party alone, first: it takes part, whatever the records are.
    Consent,
    /// The party is ready for steps.
    Ready(Ready),
    /// The answer to a step.
    Shares(BatchShares),
    /// The share is on disk.
    Stored(Stored),
    /// The share is bound to the version.
    Published,
}

/// How the active party opens a training.
#[derive(Debug, Clone)]
pub struct Start {
    /// The configuration.
    pub config: TrainingConfig,
    /// The classes, in the order of the scores.
    pub class_names: Vec<String>,
    /// How many labelled records follow.
    pub record_count: u32,
}

/// A chunk of labelled records.
#[derive(Debug, Clone)]
pub struct Labelled {
    /// The records.
    pub ids: RecordIds,
    /// One label per record.
    pub labels: Vec<u32>,
}

/// How the coordinator opens a training with a party.
#[derive(Debug, Clone)]
pub struct Begin {
    /// The configuration.
    pub config: TrainingConfig,
    /// The classes, in the order of the scores: 2 to 65 536.
    pub class_names: Vec<String>,
    /// How many records follow; 0 to the active party, which knows them.
    pub record_count: u32,
    /// Who asks for the training, by the name in its certificate.
    pub active_party: Option<PartyName>,
}

/// What a party says of itself before the first step.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Number of its features.
    pub features: u32,
    /// What it trains; `None`: softmax regression with one output per class.
    pub sub_model: Option<SubModelSpec>,
}

/// One round trip: the gradient of the last batch, and the batch whose shares are wanted next.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// From 1.
    pub number: u64,
    /// `w × B`: the gradient of the mean loss with respect to this party's outputs of the last training batch. `None`: no update.
    pub gradient: Option<OutputGradient>,
    /// Positions of the records whose shares are wanted next. Empty: none.
    pub batch: Vec<u32>,
    /// The shares will only be looked at, never followed by a gradient.
    pub evaluation: bool,
    /// Remember the parameters as they are after this step's update.
    pub checkpoint: bool,
    /// Go back to the remembered parameters, after all else.
    pub restore: bool,
}

/// The shares of a step's batch.
#[derive(Debug, Clone)]
pub struct BatchShares {
    /// The step's number.
    pub step: u64,
    /// `w × B`.
    pub share: LogitShare,
}

/// What a party has put on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// SHA-256 of the stored file, lower-case hexadecimal.
    pub digest: String,
    /// What the party says of the privacy that it trained with; `None`: it trained without.
    pub privacy: Option<PrivacyStatement>,
}

/// Which stored share is a version's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The version.
    pub version: ModelVersion,
    /// SHA-256 of the stored share, lower-case hexadecimal.
    pub digest: String,
}

/// What became of one epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The epoch, from 1.
    pub epoch: u32,
    /// The most epochs of this training.
    pub epochs: u32,
    /// Mean loss over the training records, in nats.
    pub training_loss: f64,
    /// Mean loss over the validation records, in nats; `None` without a validation share.
    pub validation_loss: Option<f64>,
    /// Share of the validation records whose arg max is the label.
    pub validation_accuracy: Option<f64>,
}

/// The version that is in service, and how it came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The version.
    pub version: ModelVersion,
    /// Epochs run; 0 of an imported model.
    pub epochs: u32,
    /// The epoch whose parameters were published, from 1; 0 of an imported model.
    pub best_epoch: u32,
    /// Gradient steps; 0 of an imported model.
    pub steps: u64,
    /// Records trained on; of an imported model those that its training elsewhere is said to have used.
    pub training_records: u32,
    /// Records set aside to choose the epoch.
    pub validation_records: u32,
    /// The parameters came from files.
    pub imported: bool,
    /// How it was trained; `None` of an imported model.
    pub config: Option<TrainingConfig>,
    /// At the end of a training: the parties that trained with privacy, and what they say of it.
    pub privacy: Vec<(PartyName, PrivacyStatement)>,
}

/// From the active party that has imported parameters published.
#[derive(Debug, Clone)]
pub enum PublishReply {
    /// First.
    Start(PublishStart),
    /// Chunks, until all training ids of the start have come.
    TrainingIds(RecordIds),
    /// The share is bound to the version.
    Published,
}

/// What the active party has staged.
#[derive(Debug, Clone)]
pub struct PublishStart {
    /// The classes, in the order of the scores.
    pub class_names: Vec<String>,
    /// Number of its features.
    pub features: u32,
    /// SHA-256 of its stored share, lower-case hexadecimal.
    pub digest: String,
    /// How many training ids follow.
    pub training_id_count: u32,
    /// What is staged; `None`: softmax regression with one output per class.
    pub sub_model: Option<SubModelSpec>,
}

/// From the coordinator to that active party.
#[derive(Debug, Clone)]
pub enum PublishCommand {
    /// The passive parties have staged shares that fit: bind the share to this version.
    Publish(Binding),
    /// Last: the version is in service.
    Published(Published),
}

/// What a passive party's operator has staged.
#[derive(Debug, Clone)]
pub struct StagedShare {
    /// SHA-256 of the stored share, lower-case hexadecimal.
    pub digest: String,
    /// Number of its features.
    pub features: u32,
    /// What is staged; `None`: softmax regression with one output per class.
    pub sub_model: Option<SubModelSpec>,
}
