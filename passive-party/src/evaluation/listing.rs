//! The owner's list of scorings, from a state directory.

use std::fmt::Write as _;

use serde::Serialize;
use vfl_core::clock::utc;
use vfl_state::state_dir::StateDir;
use vfl_transform::scoring::accountant::least_error;

use super::record::{EvaluationError, Record, Renewal, file};
use crate::config::{AuditMode, AuditPolicy};

/// The scorings of one set of records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetFacts {
    /// The hash of its ids.
    pub set: String,
    /// The number of its records.
    pub records: usize,
    /// True if anything about it was reported without noise. Then no budget protects it.
    pub told_exactly: bool,
    /// The number of candidates scored without noise.
    pub scorings: u32,
    /// The number of candidates that may still be scored, in trusted mode.
    pub scorings_left: u32,
    /// The number of answers with noise.
    pub noised_answers: u32,
    /// The ρ of all answers.
    pub rho_spent: f64,
    /// The budget of ρ.
    pub rho_total: f64,
    /// The ρ that is left.
    pub rho_left: f64,
    /// A lower bound on the root mean squared error of any estimate of a record's feature, once all
    /// of `rho_total` is spent, in standard deviations; absent if the set was scored without noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_error: Option<f64>,
    /// The number of its renewals.
    pub renewals: u32,
    /// The owner has closed it: its records may be opened in other sets by trusted auditors.
    pub closed: bool,
}

/// All scorings in a state directory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoringFacts {
    /// The current mode of answers.
    pub mode: AuditMode,
    /// The sets, in the order of their opening.
    pub sets: Vec<SetFacts>,
    /// The number of sets that may still be opened in trusted mode.
    pub trusted_sets_left: u32,
    /// The number of openings refused because of their records.
    pub refused_openings: u32,
    /// The number of further refusals after which no new set is opened.
    pub refusals_left: u32,
    /// The owner's renewals, oldest first.
    pub renewals: Vec<Renewal>,
}

/// Reads the record of a state directory. It may be in use: the result is what was durable a moment
/// ago.
///
/// # Errors
/// [`EvaluationError`] if it cannot be read or is damaged.
pub fn scorings(
    state_dir: impl Into<StateDir>,
    policy: &AuditPolicy,
) -> Result<ScoringFacts, EvaluationError> {
    let record = Record::read(&file(&state_dir.into()))?.record;
    let sets = record.sets.iter().map(|s| {
        let budget = s.budget(policy);
        SetFacts {
            set: s.set.clone(),
            records: s.ids.len(),
            told_exactly: s.exact,
            scorings: s.scorings,
            scorings_left: if s.closed { 0 } else { record.scorings_left(s, policy) },
            noised_answers: s.answers,
            rho_spent: budget.spent(),
            rho_total: budget.total(),
            rho_left: budget.left(),
            least_error: (!s.exact).then(|| least_error(budget.total().max(budget.spent()))),
            renewals: s.renewals,
            closed: s.closed,
        }
    });
    Ok(ScoringFacts {
        mode: policy.mode,
        sets: sets.collect(),
        trusted_sets_left: record.sets_left(policy),
        refused_openings: record.refused_openings,
        refusals_left: record.refusals_left(policy),
        renewals: record.renewals.clone(),
    })
}

/// Returns the scorings as a table for people.
#[must_use]
pub fn scoring_table(facts: &ScoringFacts) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "Mode: {}.", facts.mode.as_str());
    if facts.sets.is_empty() {
        out.push_str("No records have been scored.\n");
    } else {
        let _ = writeln!(
            out,
            "{:<16} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}  keeps at least",
            "set", "records", "exact", "noised", "rho", "rho left", "rho total", "renewals"
        );
    }
    for s in &facts.sets {
        let keeps = s.least_error.map_or_else(
            || {
                if s.closed { "nothing: closed" } else { "nothing: it was told of without noise" }
                    .to_owned()
            },
            |e| format!("{e:.3} of a feature's standard deviation"),
        );
        let _ = writeln!(
            out,
            "{:<16.16} {:>8} {:>8} {:>9} {:>9.5} {:>9.5} {:>9.5} {:>9}  {keeps}",
            s.set,
            s.records,
            s.scorings,
            s.noised_answers,
            s.rho_spent,
            s.rho_left,
            s.rho_total,
            s.renewals
        );
    }
    let _ = writeln!(
        out,
        "{} openings were refused because of their records; {} more may be, then no new set is opened.",
        facts.refused_openings, facts.refusals_left
    );
    if facts.mode == AuditMode::Trusted {
        let _ = writeln!(out, "{} more sets may be opened.", facts.trusted_sets_left);
    }
    for r in &facts.renewals {
        let (at, reason) = (utc(r.renewed_at_s), r.reason.escape_debug());
        let of = r.set.as_ref().map_or_else(|| "all sets".to_owned(), |s| format!("set {s:.16}"));
        let _ = match r.closed_sets {
            0 => writeln!(out, "Renewed {at} UTC, {of}: {reason}"),
            closed => writeln!(out, "Begun anew {at} UTC, {closed} sets closed: {reason}"),
        };
    }
    out
}
