//! The auditor's clients of the parties, in domain types.

mod active;
mod coordinator;
mod features;
mod peer;
mod scoring;

pub(super) use active::ActiveParty;
pub(super) use coordinator::Coordinator;
pub(super) use features::features;
pub(super) use scoring::Scoring;
