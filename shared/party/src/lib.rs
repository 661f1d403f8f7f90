//! The work that both data holders do: they take part in trainings and alignments.

pub mod alignment;
pub mod cli;
pub mod computation;
pub mod training;
