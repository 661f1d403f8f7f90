//! What a passive party tells of estimates of its features.

use crate::report::Halves;

/// Errors of one set of estimates.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ErrorsTold {
    /// Mean squared error over all records and features of the party.
    pub(super) mse: f64,
    /// The same of each feature.
    pub(super) by_feature: Vec<f64>,
    /// Standard deviation of the noise in `mse`, if there is any.
    pub(super) sigma: Option<f64>,
    /// Standard deviation of the noise in each of `by_feature`, if there is any.
    pub(super) sigma_by_feature: Option<f64>,
    /// The same estimates by the metrics that were asked for, in that order.
    pub(super) metrics: Vec<FigureTold>,
}

impl ErrorsTold {
    /// Number of the party's features, which weights its errors among those of other parties.
    pub(super) fn features(&self) -> f64 {
        self.by_feature.len() as f64
    }
}

/// What estimates achieve over a control: 1 − error / control.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GainTold {
    /// The figure; `None` where the control has no error.
    pub(super) value: Option<f64>,
    /// The interval that holds it in 95 of 100 cases, where it is bounded.
    pub(super) interval: Option<(f64, f64)>,
    /// The same of two halves of the records, where there is no noise.
    pub(super) halves: Option<Halves>,
}

/// How estimates do by a metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FigureTold {
    /// The metric.
    pub(super) metric: String,
    /// The figure; `None` where it is not defined for these records.
    pub(super) value: Option<f64>,
    /// Standard deviation of the noise in `value`, if there is any.
    pub(super) sigma: Option<f64>,
}
