//! Errors of estimates, by each metric, as the passive party gives them.

use serde::{Deserialize, Serialize};

/// Mean squared error of estimates, per feature (R eq. 7), as the passive party gives it: to three significant digits, or with noise. A
/// figure with noise may be negative, which makes it unbiased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Mean over all records and all attacked features; at least 0 without noise.
    pub mse: f64,
    /// Standard deviation of the noise in `mse`, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// Mean over records for each attacked feature, in the order of the target's features; or empty.
    pub per_feature: Vec<f64>,
    /// Standard deviation of the noise in each of `per_feature`; empty without noise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_feature_sigma: Vec<f64>,
    /// Mean per attacked party, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_party: Vec<PartyError>,
    /// The same estimates by other metrics, those of [`Report::metrics`](super::Report::metrics) that were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricFigure>,
}

/// Estimates by one metric, as the passive party gives it: to three significant digits, or with noise, which may take it out of its
/// range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricFigure {
    /// The metric.
    pub name: String,
    /// The figure; of several parties the mean weighted by their numbers of features. Absent where it is not defined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Standard deviation of the noise in `value`, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// The figure of each attacked party, where there are several and it is defined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_party: Vec<PartyFigure>,
}

/// A metric on the features of one passive party.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartyFigure {
    /// The party.
    pub party: String,
    /// The figure.
    pub value: f64,
    /// Standard deviation of the noise in `value`, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
}

/// Error on the features of one passive party.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartyError {
    /// The party.
    pub party: String,
    /// Mean over all records and its features; at least 0 without noise.
    pub mse: f64,
    /// Standard deviation of the noise in `mse`, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
}

/// What guessing achieves, scored by the passive party on the same records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baselines {
    /// Guessing ½ for every feature: needs no knowledge at all.
    pub half: Errors,
    /// Guessing each feature's mean: the best constant guess, open to whoever knows public averages.
    pub column_mean: Errors,
}
