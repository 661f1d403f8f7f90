//! Rows of what is inferred beside the features of records, as the document holds them.

use serde::{Deserialize, Serialize};

/// What is inferred beside the features of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inferred {
    /// Share of the training records that are named where 1 % of the others are.
    #[serde(rename = "membership_tpr_at_1_percent")]
    Members1Percent,
    /// The same where 0.1 % of the others are.
    #[serde(rename = "membership_tpr_at_0_1_percent")]
    Members01Percent,
    /// Share of the training labels that a passive party names.
    #[serde(rename = "labels_right")]
    Labels,
    /// Share of the variance of a passive feature's mean over training sets that is explained.
    #[serde(rename = "feature_mean_explained")]
    FeatureMean,
}

/// One inference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inference {
    /// What is inferred.
    pub of: Inferred,
    /// From what: a policy, a training, or what is shown of parameters.
    pub against: String,
    /// The attack.
    pub attack: String,
    /// The figure, at most 1.
    pub value: f64,
    /// Lower end of its 95 % interval over trainings.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The same figure of guessing, or of whoever knows the same and does not see the release.
    pub without: f64,
    /// What it comes to, in words.
    pub verdict: String,
}
