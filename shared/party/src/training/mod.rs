//! Training over the network: the part that all parties have in common. The coordinator sends
//! commands, a party replies; features and parameters stay where they are.

mod blocks;
mod events;
mod gate;
mod import;
mod participant;
mod private;
mod source;

pub use events::{TrainingEvent, TrainingOutcome, max_batch};
pub use gate::TrainingGate;
pub use import::Importer;
pub use participant::Participant;
pub use private::PrivateAccess;
pub use source::{RecordSource, SourceFuture, TrainingRecords};
