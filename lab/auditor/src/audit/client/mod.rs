//! The auditor's clients of the parties, in domain types.

mod coordinator;
mod features;
mod peer;
mod scoring;

pub(super) use coordinator::Coordinator;
pub(super) use features::features;
pub(super) use scoring::Scoring;
