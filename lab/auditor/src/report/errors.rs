//! The errors of estimates by each metric, as reported by the passive party.

use serde::{Deserialize, Serialize};

/// The mean squared error of estimates, per feature (R eq. 7), as the passive party reports it: to
/// three significant digits, or with noise. A figure with noise may be negative, which makes it
/// unbiased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// The mean over all records and all attacked features; at least 0 without noise.
    pub mse: f64,
    /// The standard deviation of the noise in `mse`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// The mean over records for each attacked feature, in the order of the target's features; or
    /// empty.
    pub per_feature: Vec<f64>,
    /// The standard deviation of the noise in each of `per_feature`; empty without noise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_feature_sigma: Vec<f64>,
    /// The mean per attacked party, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_party: Vec<PartyError>,
    /// The same estimates by the other metrics that were asked for, among
    /// [`Report::metrics`](super::Report::metrics).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricFigure>,
}

/// The figure of estimates by one metric, as the passive party reports it: to three significant
/// digits, or with noise, which may take it out of its range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricFigure {
    /// The name of the metric.
    pub name: String,
    /// The figure; for several parties the mean weighted by their numbers of features. Absent if it
    /// is not defined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The standard deviation of the noise in `value`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// The figure of each attacked party, if there are several and it is defined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_party: Vec<PartyFigure>,
}

/// The figure of a metric on the features of one passive party.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartyFigure {
    /// The name of the party.
    pub party: String,
    /// The figure of the metric.
    pub value: f64,
    /// The standard deviation of the noise in `value`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
}

/// The error on the features of one passive party.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartyError {
    /// The name of the party.
    pub party: String,
    /// The mean over all records and the party's features; at least 0 without noise.
    pub mse: f64,
    /// The standard deviation of the noise in `mse`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
}

/// The errors of guessing, scored by the passive party on the same records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baselines {
    /// The errors of guessing ½ for every feature, which needs no knowledge.
    pub half: Errors,
    /// The errors of guessing each feature's mean: the best constant guess, available to anyone who
    /// knows public averages.
    pub column_mean: Errors,
}
