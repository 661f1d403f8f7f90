//! The option `--metrics`.

use vfl_shared::cli::CliError;
use vfl_shared::metrics::{METRICS, Metric, metrics_named};

/// The help of `--metrics`, which names all there are.
pub(super) fn metrics_help(more: &str) -> String {
    let names: Vec<&str> = METRICS.iter().map(|metric| metric.name()).collect();
    format!(
        "Metrics to measure attacks by beside the mean squared error, with commas between them: {}; `all` or `none`. {more}Default: \
         attack_accuracy and correlation, and none where a party answers with noise, since each costs a part of the budget there",
        names.join(", ")
    )
}

/// The metrics of `--metrics`: names, `none`, or `all`.
pub(super) fn metrics_of(names: &[String]) -> Result<Vec<&'static dyn Metric>, CliError> {
    match names {
        [one] if one == "none" => Ok(Vec::new()),
        [one] if one == "all" => Ok(METRICS.to_vec()),
        names => metrics_named(names.iter().map(String::as_str)).map_err(|e| CliError::Input(format!("metrics: {e}"))),
    }
}
