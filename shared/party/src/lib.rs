//! What both data holders do: take part in trainings and alignments.

pub mod alignment;
pub mod cli;
pub mod training;
