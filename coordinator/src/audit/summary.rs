//! The summary of a session: the conditions for telling the cost of its policy.

use vfl_core::metrics::UtilityTotals;
use vfl_numerics::three_significant_digits;
use vfl_protocol::audit::{Cost, SessionSummary};
use vfl_protocol::rough;

/// The fewest records of a session: a mean over fewer would say too much about each.
pub const MIN_AUDIT_RECORDS: usize = 100;

/// Returns the summary of a session whose auditor wants none.
pub(crate) fn silent() -> SessionSummary {
    SessionSummary { rows: 0, records: 0, cost: Err("no summary was asked for".into()) }
}

/// Checks that all of a session's records were released. With fewer, the auditor could choose
/// which: two sets that differ in one record would reveal it.
pub(crate) fn over_all(records: u64, all: usize) -> Result<(), String> {
    if records < all as u64 || records < MIN_AUDIT_RECORDS as u64 {
        return Err(format!(
            "{records} of the session's {all} records were released; a summary takes all of them"
        ));
    }
    Ok(())
}

/// Returns the means if the set may be summarised; otherwise the reason for withholding them.
pub(crate) fn cost(
    totals: &UtilityTotals,
    records: u64,
    admitted: Result<(), usize>,
) -> Result<Cost, String> {
    if let Err(known) = admitted {
        return Err(format!(
            "{} of the {records} records were summarised before as part of another set; name that very set, or records \
             apart from it",
            rough(known)
        ));
    }
    Ok(Cost {
        kl_divergence: totals
            .kl_divergence()
            .filter(|kl| kl.is_finite())
            .map(three_significant_digits),
        total_variation: totals.total_variation().map(three_significant_digits),
        arg_max_kept: totals.arg_max_kept().map(three_significant_digits),
        mean_change: totals.mean_change().map(three_significant_digits),
    })
}
