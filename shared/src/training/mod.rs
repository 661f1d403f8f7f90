//! Training over the sockets: the side that every party shares. The coordinator commands, a party replies; features and
//! parameters stay where they are.

mod participant;

pub use participant::{Participant, RecordSource, TrainingEvent, TrainingOutcome, max_batch};
