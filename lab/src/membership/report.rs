//! The figures of a run.

use serde::Serialize;
use vfl_shared::model::TrainingValues;
use vfl_shared::model::privacy::PrivacyStatement;

use crate::set_facts::SetFacts;

/// The half-width of a 95 % interval in standard errors.
const NORMAL_95: f64 = 1.96;

/// A mean over targets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its standard error.
    pub standard_error: f64,
}

impl Estimate {
    /// Of one value for each target.
    pub(crate) fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let n = values.clone().count().max(1) as f64;
        let mean = values.clone().sum::<f64>() / n;
        let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Self { mean, standard_error: (variance / n).sqrt() }
    }

    /// The upper end of the 95 % interval.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.mean + NORMAL_95 * self.standard_error
    }

    /// The lower end of the 95 % interval.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.mean - NORMAL_95 * self.standard_error
    }
}

/// What an attack shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The lower end of the 95 % interval of the TPR at 1 % is at least five times what guessing reaches.
    Caught,
    /// The lower end of the 95 % interval of the TPR at 1 %, or of the AUC, is above what guessing reaches.
    AboveGuessing,
    /// Neither is. A better attack may tell more.
    LikeGuessing,
}

impl Verdict {
    /// In words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::AboveGuessing => "above guessing",
            Self::LikeGuessing => "like guessing",
        }
    }
}

/// What guessing reaches by the same measures, which take the best of many thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Guessing {
    /// TPR at an FPR of 1 %.
    pub tpr_at_1_percent: f64,
    /// TPR at an FPR of 0.1 %; `None`: there are too few records to tell it.
    pub tpr_at_0_1_percent: Option<f64>,
    /// Best balanced accuracy.
    pub balanced_accuracy: f64,
}

/// One attack against one policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AttackFigures {
    /// Share of the members that the attack names at a threshold that names at most 1 % of the other records.
    pub tpr_at_1_percent: Estimate,
    /// Its mean over what guessing reaches.
    pub times_guessing: f64,
    /// The same at 0.1 %; `None`: there are too few records to tell it.
    pub tpr_at_0_1_percent: Option<Estimate>,
    /// How often a member's score is above another record's; ½ is guessing.
    pub auc: Estimate,
    /// The best mean of the shares of members and others that a threshold puts in their place.
    pub balanced_accuracy: Estimate,
    /// In one word.
    pub verdict: Verdict,
}

/// One policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyRow {
    /// As text.
    pub policy: String,
    /// Share of the records trained on whose class is released rightly.
    pub accuracy_on_members: Estimate,
    /// The same of the other records: what the model is worth under this policy.
    pub accuracy_on_others: Estimate,
    /// The likelihood ratio of each record's own distributions.
    pub likelihood_ratio: AttackFigures,
    /// One threshold for all records.
    pub threshold: AttackFigures,
}

/// The table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MembershipReport {
    /// The data set.
    #[serde(flatten)]
    pub set: SetFacts,
    /// SHA-256 of what was loaded.
    pub data_hash: String,
    /// Number of classes.
    pub classes: usize,
    /// Number of the active party's features.
    pub active_features: usize,
    /// Number of passive features.
    pub passive_features: usize,
    /// Number of passive parties.
    pub passive_parties: usize,
    /// Records drawn.
    pub records: usize,
    /// Models trained, each on half of the records.
    pub models: usize,
    /// How each was trained, but for its seed.
    pub training: TrainingValues,
    /// What a passive party says of its privacy, if it trained with it: the largest ε of all models.
    pub privacy: Option<PrivacyStatement>,
    /// Seed of everything random.
    pub seed: u64,
    /// Accuracy without a defense on records trained on, less that on others.
    pub accuracy_gap: Estimate,
    /// What guessing reaches.
    pub guessing: Guessing,
    /// Each policy, no defense first.
    pub policies: Vec<PolicyRow>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_its_standard_error() {
        let found = Estimate::of([1.0, 2.0, 3.0, 6.0].into_iter());
        assert_eq!(found.mean, 3.0);
        // Variance 14/3, of a mean of four 14/12.
        assert!((found.standard_error - (14.0f64 / 12.0).sqrt()).abs() < 1e-15);
        assert!((found.low() - (3.0 - 1.96 * (14.0f64 / 12.0).sqrt())).abs() < 1e-12);
        assert!((found.high() + found.low() - 6.0).abs() < 1e-12);
    }
}
