//! Error of a reconstruction and utility of a release.
//!
//! A [`Metric`] is what an audit may ask for beside the mean squared error; [`METRICS`] is the
//! register of all of them.
//!
//! Matrices hold one record per column, as everywhere. Every function checks the shapes it is
//! given: a mean over the wrong entries would look like any other number.

mod attack_accuracy;
mod attribute;
mod calibration;
mod correlation;
mod entropy;
mod error;
mod interpretability;
mod levels;
mod metric;
mod mismatch;
mod order;
mod permutation;
mod reconstruction;
#[cfg(test)]
mod tests;
mod tolerance;
mod utility;

pub use attack_accuracy::{AttackAccuracy, attack_accuracy};
pub use attribute::{
    Attribute, AttributeFigures, AttributeKind, ControlledFigure, ErrorRatio, ErrorReduction,
    Event, EventFigures, HalfErrorReduction, ToleranceShare, area_under_curve, attributes, fieller,
};
pub use calibration::expected_calibration_error;
pub use correlation::{Correlation, active_correlation, feature_correlation};
pub use entropy::{ConditionalEntropy, FeatureEntropy, conditional_entropy};
pub use error::MetricError;
pub use interpretability::Interpretability;
pub use levels::{LevelsRight, levels_right};
pub use metric::{Classify, Direction, Metric, Reconstruction, Unit};
pub use mismatch::{ScoreMismatch, score_mismatch};
pub use order::OrderTotals;
pub use permutation::{MatchedError, PermutationMatchedError, permutation_matched_mse};
pub use reconstruction::{
    SquaredError, column_mean_error, half_error, mse, squared_error_by_record,
};
pub use tolerance::{RecordsWithin, TOLERANCE, ValuesWithin, records_within, share_within};
pub use utility::{UtilityTotals, accuracy, kl_divergence, total_variation};

/// Every metric that an audit may ask for, in the order in which a report shows them. A new metric
/// is a file of its own, and its lines in this one.
pub static METRICS: &[&dyn Metric] = &[
    &AttackAccuracy,
    &Correlation,
    &ValuesWithin,
    &RecordsWithin,
    &PermutationMatchedError,
    &ConditionalEntropy,
    &LevelsRight,
];

/// Errors from reading a list of metrics.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricNameError {
    /// A name that no metric has.
    #[error("there is no metric `{name}`; there are: {}", METRICS.iter().map(|m| m.name()).collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name, cut to 40 characters.
        name: String,
    },
    /// A name that occurs twice.
    #[error("metric `{name}` is named twice; name it once")]
    Twice {
        /// The repeated name.
        name: &'static str,
    },
}

/// Returns the metrics of these names, in the order given.
///
/// # Errors
/// [`MetricNameError`] for a name that no metric has, or that occurs twice.
pub fn metrics_named<'a>(
    names: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<&'static dyn Metric>, MetricNameError> {
    let mut found: Vec<&'static dyn Metric> = Vec::new();
    for name in names {
        let Some(metric) = METRICS.iter().copied().find(|m| m.name() == name) else {
            return Err(MetricNameError::Unknown { name: name.chars().take(40).collect() });
        };
        if found.contains(&metric) {
            return Err(MetricNameError::Twice { name: metric.name() });
        }
        found.push(metric);
    }
    Ok(found)
}
