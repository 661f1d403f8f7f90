//! The option `--metrics`.

use vfl_core::metrics::METRICS;

/// Returns the help of `--metrics`, which names all metrics.
pub(super) fn metrics_help(more: &str) -> String {
    let names: Vec<&str> = METRICS.iter().map(|metric| metric.name()).collect();
    format!(
        "Metrics to measure attacks by beside the mean squared error, with commas between them: {}; `all` or `none`. {more}Default: \
         attack_accuracy and correlation, and none where a party answers with noise, since each costs a part of the budget there",
        names.join(", ")
    )
}
