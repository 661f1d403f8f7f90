//! The errors of scorings.

use vfl_core::metrics::MetricError;

/// The most values of estimates that a call keeps for metrics and figures by attribute, beside the
/// last candidate's: 64 MiB.
pub const MAX_KEPT: usize = 1 << 23;

/// Errors from answering a scoring.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScoringError {
    /// A metric in which noise cannot hide a record.
    #[error(
        "`metrics`: for `{metric}` no bound is known on what one record changes, so that it is not told with noise \
         (mode = \"noised\"); leave it out, or ask the owner to trust the auditor (mode = \"trusted\")"
    )]
    Unbounded {
        /// The name of the metric.
        metric: &'static str,
    },
    /// A metric of estimates that depend on the truth.
    #[error(
        "`metrics` of an adversary that this party plays are not told with noise: its estimates depend on the truth, so that no bound is \
         known on what one record changes; leave them out"
    )]
    Played,
    /// Candidates whose estimates were not kept.
    #[error(
        "`metrics` and figures by attribute are told of at most {} values of estimates in one scoring, or of one candidate; send fewer \
         candidates",
        MAX_KEPT
    )]
    NotKept,
    /// Figures by attribute without a control, or without the errors by feature from which noised
    /// ones are derived.
    #[error("`by_attribute` takes `by_feature` and a control")]
    Attributes,
    /// A metric that is not defined.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// A scoring that asks for nothing.
    #[error(
        "the scoring asks for nothing: send candidates and name whose errors are wanted, or a control"
    )]
    Nothing,
    /// A ρ that is too small for the figures.
    #[error(
        "rho = {rho} for one part of a scoring is too small for its figures; name a larger rho or ask for less"
    )]
    TooSmall {
        /// The ρ of one part.
        rho: f64,
    },
}
