//! Training over the sockets: the side that every party shares. The coordinator commands, a party replies; features and
//! parameters stay where they are.

mod gate;
mod import;
pub mod journal;
pub mod messages;
mod participant;
mod wire;

pub use gate::TrainingGate;
pub use import::Importer;
pub use participant::{Participant, RecordSource, TrainingEvent, TrainingOutcome, max_batch};
pub use wire::{CommandStream, ReplySender};
