//! The options `--max-added-risk` and `--max-exact-share`.

use clap::Args;
use vfl_shared::cli::CliError;
use vfl_shared::metrics::{Metric, RecordsWithin};

use crate::report::Thresholds;

/// What is demanded of the policy in service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args)]
pub struct ThresholdArgs {
    /// The largest added risk that is accepted, from 0 to 1. The upper end of the 95 % interval of the strongest informed attack
    /// must not be above it. Not met: exit code 3, after everything is written.
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    max_added_risk: Option<f64>,
    /// The largest share of records, from 0 to 1, of which any attack may estimate every value to within 0.1. It adds the metric
    /// records_within. Not met: exit code 3.
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    max_exact_share: Option<f64>,
}

impl ThresholdArgs {
    /// The thresholds given here, or else those of a config.
    ///
    /// # Errors
    /// [`CliError::Input`] if one is no number from 0 to 1.
    pub(super) fn or(self, config: Self) -> Result<Thresholds, CliError> {
        Thresholds::new(self.max_added_risk.or(config.max_added_risk), self.max_exact_share.or(config.max_exact_share))
            .map_err(CliError::Input)
    }

    /// Those of a config.
    pub(super) fn of_config(max_added_risk: Option<f64>, max_exact_share: Option<f64>) -> Self {
        Self { max_added_risk, max_exact_share }
    }
}

/// The metrics named, or else `default`, and the one that a threshold is of.
pub(super) fn measured(
    thresholds: &Thresholds,
    named: Option<Vec<&'static dyn Metric>>,
    default: &[&'static dyn Metric],
) -> Option<Vec<&'static dyn Metric>> {
    if thresholds.max_exact_share.is_none() {
        return named;
    }
    let mut metrics = named.unwrap_or_else(|| default.to_vec());
    if !metrics.iter().any(|metric| metric.name() == RecordsWithin.name()) {
        metrics.push(&RecordsWithin);
    }
    Some(metrics)
}
