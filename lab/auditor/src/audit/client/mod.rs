//! The auditor's clients of the parties, in domain types.

mod active;
mod coordinator;
mod estimates;
mod features;
mod peer;
mod scoring;

pub(super) use active::{ActiveParty, Event};
pub(super) use coordinator::Coordinator;
pub(super) use estimates::Estimates;
pub(super) use features::features;
pub(super) use scoring::{CandidateChoice, Control, Question, Scoring, ScoringInfo, ScoringReport};
