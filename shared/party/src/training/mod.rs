//! Training over the network: the part that all parties have in common. The coordinator sends
//! commands, a party replies; features and parameters stay where they are.

mod blocks;
mod gate;
mod import;
mod participant;
mod source;

pub use gate::TrainingGate;
pub use import::Importer;
pub use participant::{Participant, TrainingEvent, TrainingOutcome, max_batch};
pub use source::{RecordSource, SourceFuture, TrainingRecords};
