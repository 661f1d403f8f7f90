//! The rows of inferences beside the features of records, as in the document.

use serde::{Deserialize, Serialize};

/// The property that is inferred beside the features of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InferredProperty {
    /// The share of the training records that are named if 1 % of the other records are.
    #[serde(rename = "membership_tpr_at_1_percent")]
    Members1Percent,
    /// The same share if 0.1 % of the other records are.
    #[serde(rename = "membership_tpr_at_0_1_percent")]
    Members01Percent,
    /// The share of the training labels that a passive party names.
    #[serde(rename = "labels_right")]
    Labels,
    /// The explained share of the variance of a passive feature's mean over training sets.
    #[serde(rename = "feature_mean_explained")]
    FeatureMean,
}

/// The result of one inference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inference {
    /// The inferred property.
    pub of: InferredProperty,
    /// The release that it is inferred from: a policy, a training, or the parameters shown.
    pub against: String,
    /// The name of the attack.
    pub attack: String,
    /// The figure of the attack, at most 1.
    pub value: f64,
    /// The lower end of its 95 % interval over trainings.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The same figure for guessing, or for the same adversary without the release.
    pub without: f64,
    /// The verdict in words.
    pub verdict: String,
}
