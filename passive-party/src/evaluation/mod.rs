//! Scores reconstructions against the truth, which stays here.
//!
//! Scorings reveal a bounded amount about a record: a set has at least [`MIN_RECORDS`] records, and
//! two sets are equal or disjoint (two that differ by one record would tell of that record). Then
//!
//! - by default (`noised`) every figure that depends on the truth carries noise, and all answers
//!   about a record cost at most ρ of zero-concentrated differential privacy over the life of the
//!   state directory ([`accountant`](vfl_transform::scoring), [`sensitivity`], [`noise`]). To ask
//!   again costs again: no answer is kept.
//! - for an auditor who is trusted by name (`trusted`), figures are exact to three significant
//!   digits, and their number is bounded for each set and in all. Rounding does not hide single
//!   values from an auditor who chooses the estimates: some hundred answers reveal them.
//!
//! The cost of an answer is on disk before the answer leaves; if the disk does not take it, nothing
//! is answered. If several processes share the state, each decides on the newest record, and again
//! if another one was faster.

mod answer;
mod by_attribute;
mod counting;
mod listing;
pub mod noise;
mod open_set;
mod opening;
mod record;
mod request;
pub mod scoring;
pub mod sensitivity;
pub(crate) mod service;
mod simulated_adversary;
#[cfg(test)]
mod tests;

pub use counting::Evaluations;
pub use listing::{ScoringFacts, SetFacts, scoring_table, scorings};
pub use open_set::Evaluation;
pub use opening::MIN_RECORDS;
pub use record::{EvaluationError, Renewal, begin_anew, renew};
pub use request::{Control, MAX_CANDIDATES, RemainingBudget, ScoringRequest};
