//! The metrics that an audit asks for.

use vfl_core::metrics::{METRICS, Metric, RecordsWithin, metrics_named};
use vfl_server::cli::CliError;

use crate::report::Thresholds;

/// Parses the metrics of `--metrics`: names, `none`, or `all`.
///
/// # Errors
/// [`CliError::Input`] for a name that no metric has.
pub fn metrics_of(names: &[String]) -> Result<Vec<&'static dyn Metric>, CliError> {
    match names {
        [one] if one == "none" => Ok(Vec::new()),
        [one] if one == "all" => Ok(METRICS.to_vec()),
        names => metrics_named(names.iter().map(String::as_str))
            .map_err(|e| CliError::Input(format!("metrics: {e}"))),
    }
}

/// Returns the named metrics, or else `default`, with the metric that a threshold needs.
pub fn measured(
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
