//! The figures of a run.

use serde::Serialize;
use vfl_core::model::TrainingValues;
use vfl_core::model::privacy::PrivacyStatement;

use crate::estimate::Estimate;
use crate::subject::SubjectFacts;

/// The verdict on an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The lower end of the 95 % interval of the TPR at 1 % is at least five times that of
    /// guessing.
    Caught,
    /// The lower end of the 95 % interval of the TPR at 1 %, or of the AUC, is above guessing.
    AboveGuessing,
    /// Neither holds. A better attack may find more.
    LikeGuessing,
}

impl Verdict {
    /// Returns the verdict in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::AboveGuessing => "above guessing",
            Self::LikeGuessing => "like guessing",
        }
    }
}

/// The expected results of guessing by the same measures, which take the best of many thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Guessing {
    /// TPR at an FPR of 1 %.
    pub tpr_at_1_percent: f64,
    /// TPR at an FPR of 0.1 %; `None`: there are too few records to measure it.
    pub tpr_at_0_1_percent: Option<f64>,
    /// Best balanced accuracy.
    pub balanced_accuracy: f64,
}

/// One attack against one policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AttackFigures {
    /// The share of the members that the attack names at a threshold that names at most 1 % of the
    /// other records.
    pub tpr_at_1_percent: Estimate,
    /// The mean of that share, as a multiple of guessing.
    pub times_guessing: f64,
    /// The same share at 0.1 %; `None`: there are too few records to measure it.
    pub tpr_at_0_1_percent: Option<Estimate>,
    /// The area under the curve: how often a member's score is above another record's; ½ is
    /// guessing.
    pub auc: Estimate,
    /// The best mean of the shares of members and others that a threshold classifies correctly.
    pub balanced_accuracy: Estimate,
    /// The verdict on the attack.
    pub verdict: Verdict,
}

/// The results of one policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyRow {
    /// The text form of the policy.
    pub policy: String,
    /// The share of the training records whose class is released correctly.
    pub accuracy_on_members: Estimate,
    /// The share of the other records whose class is released correctly: the accuracy under this
    /// policy.
    pub accuracy_on_others: Estimate,
    /// The attack by the likelihood ratio of each record's own distributions.
    pub likelihood_ratio: AttackFigures,
    /// The attack by one threshold for all records.
    pub threshold: AttackFigures,
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MembershipReport {
    /// The data set and its split.
    #[serde(flatten)]
    pub subject: SubjectFacts,
    /// Number of passive parties.
    pub passive_parties: usize,
    /// The number of drawn records.
    pub records: usize,
    /// The number of trained models, each on half of the records.
    pub models: usize,
    /// The settings of each training, without its seed.
    pub training: TrainingValues,
    /// A passive party's privacy statement, if it trained with privacy: the one with the largest ε
    /// of all models.
    pub privacy: Option<PrivacyStatement>,
    /// Seed of everything random.
    pub seed: u64,
    /// The accuracy without a defense on training records, less that on others.
    pub accuracy_gap: Estimate,
    /// The expected results of guessing.
    pub guessing: Guessing,
    /// The results of each policy, no defense first.
    pub policies: Vec<PolicyRow>,
}
