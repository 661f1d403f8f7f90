//! The figures of a run.

use serde::Serialize;
use vfl_core::model::TrainingValues;
use vfl_core::model::privacy::PrivacyStatement;

use crate::estimate::Estimate;
use crate::subject::SubjectFacts;

/// An attack on labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attack {
    /// The sign of a record's gradient.
    GradientSign,
    /// Directions of gradients, compared with those of known records.
    GradientDirection,
    /// The side of the gradients' main axis, for two classes.
    GradientSides,
    /// The lengths of gradients, for two classes.
    GradientNorm,
    /// A classifier on the outputs of the party's own sub-model, from known records.
    ModelCompletion,
    /// The largest output of the party's own sub-model.
    OwnOutputs,
    /// The signs of the party's own weights.
    ParameterSigns,
}

impl Attack {
    /// Returns the name used in documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GradientSign => "gradient_sign",
            Self::GradientDirection => "gradient_direction",
            Self::GradientSides => "gradient_sides",
            Self::GradientNorm => "gradient_norm",
            Self::ModelCompletion => "model_completion",
            Self::OwnOutputs => "own_outputs",
            Self::ParameterSigns => "parameter_signs",
        }
    }

    /// Returns true if the attack needs known labels.
    #[must_use]
    pub fn needs_labels(self) -> bool {
        matches!(self, Self::GradientDirection | Self::ModelCompletion)
    }
}

/// The verdict on an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every label of every training is right.
    AllLabels,
    /// The lower end of the 95 % interval of what it adds, to the share of labels right or to the
    /// mean over classes, is above 0.
    Leaks,
    /// Neither holds. Another attack may infer more.
    NothingAdded,
}

impl Verdict {
    /// Returns the verdict in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllLabels => "all labels",
            Self::Leaks => "leaks",
            Self::NothingAdded => "nothing added",
        }
    }
}

/// The accuracy of named labels in one training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LabelAccuracy {
    /// The share of the records whose label is named correctly.
    pub accuracy: f64,
    /// The same share for each class, averaged over classes.
    pub balanced_accuracy: f64,
}

impl LabelAccuracy {
    /// Measures the labels named at these positions. A record without a named label counts as
    /// wrong.
    #[must_use]
    pub fn of(named: &[Option<u32>], labels: &[u32], positions: &[usize], classes: usize) -> Self {
        let (mut right, mut of_class) = (vec![0usize; classes], vec![0usize; classes]);
        for &position in positions {
            let label = labels[position];
            of_class[label as usize] += 1;
            right[label as usize] += usize::from(named[position] == Some(label));
        }
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let present = of_class.iter().filter(|n| **n > 0).count();
        let recalls: f64 =
            right.iter().zip(&of_class).map(|(&part, &whole)| share(part, whole)).sum();
        Self {
            accuracy: share(right.iter().sum(), positions.len()),
            balanced_accuracy: recalls / present.max(1) as f64,
        }
    }
}

/// The accuracy of named labels, averaged over trainings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanLabelAccuracy {
    /// The share of the records whose label is named correctly.
    pub accuracy: Estimate,
    /// The same share for each class, averaged over classes.
    pub balanced_accuracy: Estimate,
}

impl MeanLabelAccuracy {
    /// Averages over trainings.
    pub(super) fn of(each: &[LabelAccuracy]) -> Self {
        Self {
            accuracy: Estimate::of(each.iter().map(|right| right.accuracy)),
            balanced_accuracy: Estimate::of(each.iter().map(|right| right.balanced_accuracy)),
        }
    }
}

/// One attack after some epochs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AttackRow {
    /// The attack of this row.
    pub attack: Attack,
    /// The number of epochs so far.
    pub epochs: u32,
    /// The known labels of each class; 0: the attack needs none.
    pub known_labels: usize,
    /// The accuracy of the attack.
    #[serde(flatten)]
    pub right: MeanLabelAccuracy,
    /// The gain in accuracy over the party without the training: over guessing, or over the control
    /// if the attack knows labels and the control is better.
    pub added: MeanLabelAccuracy,
    /// The verdict on the attack.
    pub verdict: Verdict,
}

impl AttackRow {
    /// Compares the attack with the party's inference without the training, training by training.
    pub(super) fn of(
        attack: Attack,
        epochs: u32,
        known: usize,
        each: &[LabelAccuracy],
        without: &[LabelAccuracy],
    ) -> Self {
        let pairs = each.iter().zip(without);
        let added: Vec<LabelAccuracy> = pairs
            .map(|(with, without)| LabelAccuracy {
                accuracy: with.accuracy - without.accuracy,
                balanced_accuracy: with.balanced_accuracy - without.balanced_accuracy,
            })
            .collect();
        let added = MeanLabelAccuracy::of(&added);
        let verdict = if each.iter().all(|right| right.accuracy >= 1.0) {
            Verdict::AllLabels
        } else if added.accuracy.low() > 0.0 || added.balanced_accuracy.low() > 0.0 {
            Verdict::Leaks
        } else {
            Verdict::NothingAdded
        };
        let known_labels = if attack.needs_labels() { known } else { 0 };
        Self { attack, epochs, known_labels, right: MeanLabelAccuracy::of(each), added, verdict }
    }
}

/// The results of one model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelRows {
    /// The kind of the model, and its combiner.
    pub model: String,
    /// The settings of the training, without its seed.
    pub training: TrainingValues,
    /// A passive party's privacy statement after all epochs, if all parties trained with privacy.
    pub privacy: Option<PrivacyStatement>,
    /// The attacks, by number of epochs.
    pub attacks: Vec<AttackRow>,
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelsReport {
    /// The data set and its split.
    #[serde(flatten)]
    pub subject: SubjectFacts,
    /// Number of passive parties.
    pub passive_parties: usize,
    /// Number of features of the first passive party, which is the adversary.
    pub adversary_features: usize,
    /// Records of a training, including the known ones.
    pub records: usize,
    /// Trainings of each model.
    pub trainings: usize,
    /// Known labels of each class, for the attacks that need labels.
    pub known_labels: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// The result of guessing the most frequent class for every record.
    pub guessing: LabelAccuracy,
    /// A softmax regression on the adversary's features from the known records, without a training.
    pub control: MeanLabelAccuracy,
    /// The results of each model.
    pub models: Vec<ModelRows>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_labels_are_counted_by_record_and_by_class() {
        let labels = [0, 0, 0, 1, 1, 1];
        let named = [Some(0), Some(0), Some(1), Some(1), None, Some(0)];
        let right = LabelAccuracy::of(&named, &labels, &[0, 1, 2, 3, 4], 3);
        assert_eq!(right.accuracy, 0.6);
        // Two of three, and one of two; the third class has no record.
        assert!((right.balanced_accuracy - (2.0 / 3.0 + 0.5) / 2.0).abs() < 1e-15);
    }

    #[test]
    fn the_verdict_looks_at_the_lower_end_of_what_is_added() {
        let right = |accuracy, balanced_accuracy| LabelAccuracy { accuracy, balanced_accuracy };
        let of = |each: &[LabelAccuracy], without: &[LabelAccuracy]| {
            AttackRow::of(Attack::OwnOutputs, 1, 5, each, without).verdict
        };
        let guess = [right(0.8, 0.5); 3];
        assert_eq!(of(&[right(1.0, 1.0); 3], &guess), Verdict::AllLabels);
        assert_eq!(
            of(&[right(1.0, 1.0), right(1.0, 1.0), right(0.999, 0.99)], &guess),
            Verdict::Leaks
        );
        // Fewer labels are right than by guessing, and yet the classes are told apart.
        assert_eq!(
            of(&[right(0.7, 0.7), right(0.71, 0.71), right(0.7, 0.69)], &guess),
            Verdict::Leaks
        );
        assert_eq!(
            of(&[right(0.7, 0.4), right(0.9, 0.6), right(0.8, 0.5)], &guess),
            Verdict::NothingAdded
        );
        assert_eq!(AttackRow::of(Attack::OwnOutputs, 1, 5, &guess, &guess).known_labels, 0);
        assert_eq!(AttackRow::of(Attack::ModelCompletion, 1, 5, &guess, &guess).known_labels, 5);
    }
}
