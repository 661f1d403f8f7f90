//! The summary of a session: the cost of its policy, and the conditions for telling it.

use vfl_core::metrics::UtilityTotals;
use vfl_numerics::three_significant_digits;
use vfl_protocol::rough;

/// The fewest records of a session: a mean over fewer would say too much about each.
pub const MIN_AUDIT_RECORDS: usize = 100;

/// The summary that a session returns when it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    /// The number of rows released.
    pub rows: u64,
    /// The number of distinct records released.
    pub records: u64,
    /// The cost of the policy, or why it is withheld.
    pub cost: Result<Cost, String>,
}

/// The cost of a policy: means over the first release of each record of a session, to three
/// significant digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// D(undefended || released) in nats; `None` where a release is not a positive vector.
    pub kl_divergence: Option<f64>,
    /// Half the L1 distance; `None` for labels.
    pub total_variation: Option<f64>,
    /// Share of records whose arg max is that of the undefended scores.
    pub arg_max_kept: Option<f64>,
}

impl SessionSummary {
    /// Returns the summary of a session whose auditor wants none.
    pub(crate) fn silent() -> Self {
        Self { rows: 0, records: 0, cost: Err("no summary was asked for".into()) }
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
        })
    }
}
