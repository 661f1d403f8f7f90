//! The errors that a passive party reports for estimates of its features.

use crate::report::Halves;

/// The errors of one set of estimates.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReportedErrors {
    /// The mean squared error over all records and features of the party.
    pub(super) mse: f64,
    /// The mean squared error of each feature.
    pub(super) by_feature: Vec<f64>,
    /// The standard deviation of the noise in `mse`, if any.
    pub(super) sigma: Option<f64>,
    /// The standard deviation of the noise in each of `by_feature`, if any.
    pub(super) sigma_by_feature: Option<f64>,
    /// The figures by the metrics that were asked for, in that order.
    pub(super) metrics: Vec<ReportedFigure>,
}

impl ReportedErrors {
    /// Returns the number of the party's features, which weights its errors among those of other
    /// parties.
    pub(super) fn features(&self) -> f64 {
        self.by_feature.len() as f64
    }
}

/// The gain of estimates over a control: 1 − error / control.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReportedGain {
    /// The gain; `None` if the control has no error.
    pub(super) value: Option<f64>,
    /// The interval that contains it in 95 of 100 cases, if it is bounded.
    pub(super) interval: Option<(f64, f64)>,
    /// The gain on each of two halves of the records, without noise.
    pub(super) halves: Option<Halves>,
}

/// The figure of estimates by a metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReportedFigure {
    pub(super) metric: String,
    /// The figure; `None` if it is not defined for these records.
    pub(super) value: Option<f64>,
    /// The standard deviation of the noise in `value`, if any.
    pub(super) sigma: Option<f64>,
}
