//! The predicted class, or now and then another: k-ary randomised response.

use nalgebra::DMatrix;
use rand::RngExt;
use vfl_core::types::ReleasedScores;
use vfl_numerics::{arg_max, randomized_response_bits};

use super::class_label::LABEL_FLOOR;
use super::definition::{Definition, OwnBound};
use super::{Contract, Defense, DefenseError, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::{Facts, Parameter, ParameterKind, ReleaseKind};

const NAME: &str = "randomized_label";
/// Largest ε: beyond it a label is another once in 10²¹ answers.
const MOST: f64 = 50.0;

pub(super) const FACTS: Facts = Facts {
    name: NAME,
    parameters: &[Parameter::required(
        "epsilon",
        ParameterKind::Number,
        "above 0, at most 50",
        2.0,
    )],
    examples: |_| vec![DefenseConfig::RandomizedLabel { epsilon: 2.0 }],
    within_bits: |classes, bits| {
        let epsilon = epsilon_within(classes as f64, bits);
        epsilon.map(|epsilon| DefenseConfig::RandomizedLabel { epsilon })
    },
    ..Facts::PLAIN
};

pub(super) fn definition(epsilon: f64) -> Definition<'static> {
    Definition {
        leaves: ReleaseKind::NoisyLabel,
        bits: Box::new(move |classes, _| {
            OwnBound::Bits(randomized_response_bits(classes, epsilon))
        }),
        draws: true,
        zero_floor: Some(LABEL_FLOOR),
        ..Definition::at_scores(
            &FACTS,
            Output::Label,
            move || RandomizedLabel::check(epsilon),
            move |classes, _| RandomizedLabel::new(epsilon, classes),
        )
    }
}

/// Computes the probability with which k-ary randomised response keeps one of `classes` labels,
/// e^ε/(e^ε + k − 1).
#[must_use]
pub fn kept_label_probability(classes: usize, epsilon: f64) -> f64 {
    1.0 / (1.0 + (classes as f64 - 1.0) * (-epsilon).exp())
}

/// Solves k e^ε/(e^ε + k − 1) = 2^bits for ε.
fn epsilon_within(k: f64, bits: f64) -> Option<f64> {
    let told = bits.exp2();
    let exact = if told < k { (told * (k - 1.0) / (k - told)).ln() } else { MOST };
    let epsilon = (exact.min(MOST) * 1000.0).floor() / 1000.0;
    (epsilon > 0.0).then_some(epsilon)
}

/// Releases the arg max with probability e^ε/(e^ε + k − 1), else one of the other classes, each as
/// likely as the next (Kairouz, Oh and Viswanath, arXiv:1407.1338). The lowest index wins ties.
///
/// One answer is ε-differentially private between any two score vectors, and tells at most log2(k
/// e^ε/(e^ε + k − 1)) bits. With keyed noise a record has one answer, right or wrong, however
/// often it is asked for. A wrong class is not marked: whoever acts on single answers acts on
/// wrong ones too.
#[derive(Debug, Clone, Copy)]
pub struct RandomizedLabel {
    classes: usize,
    epsilon: f64,
}

impl RandomizedLabel {
    pub(super) fn check(epsilon: f64) -> Result<(), DefenseError> {
        checked(epsilon > 0.0 && epsilon <= MOST, NAME, "epsilon", epsilon, "above 0, at most 50")
    }

    /// Creates randomised response over `classes` classes, at least 2.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] for an ε that is not above 0 or above 50.
    pub fn new(epsilon: f64, classes: usize) -> Result<Self, DefenseError> {
        Self::check(epsilon).map(|()| Self { classes, epsilon })
    }
}

impl Defense for RandomizedLabel {
    fn contract(&self) -> Contract {
        let bits = Some(randomized_response_bits(self.classes, self.epsilon));
        Contract {
            output: Output::Label,
            keeps_arg_max: false,
            keeps_ranking: false,
            randomised: true,
            bits,
        }
    }

    fn apply(
        &self,
        scores: DMatrix<f64>,
        noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        let k = scores.nrows();
        if k != self.classes {
            let what = format!("scores of {} classes; these have {k}", self.classes);
            return Err(DefenseError::Needs { defense: NAME, what });
        }
        let kept = kept_label_probability(k, self.epsilon);
        let answer = |(record, column): (usize, nalgebra::DVectorView<'_, f64>)| {
            let (label, mut rng) = (arg_max(column.as_slice()), noise.record(record));
            if k < 2 || rng.random::<f64>() < kept {
                return label as u32;
            }
            let other = rng.random_range(0..k - 1);
            (other + usize::from(other >= label)) as u32
        };
        let labels = scores.column_iter().enumerate().map(answer).collect();
        Ok(ReleasedScores::Labels { classes: k, labels })
    }

    fn note(&self) -> Option<String> {
        let kept = 100.0 * kept_label_probability(self.classes, self.epsilon);
        Some(format!(
            "{NAME}: {kept:.1} % of the answers are the predicted class, the others any other class; \
             an answer does not say which it is"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The channel as it is drawn: every pair of classes within five standard errors.
    #[test]
    fn answers_have_the_probabilities_of_the_channel() {
        let (k, n) = (4, 40_000);
        for epsilon in [0.3, 2.0] {
            let defense = RandomizedLabel::new(epsilon, k).unwrap();
            let kept = epsilon.exp() / (epsilon.exp() + 3.0);
            for truth in 0..k {
                let scores =
                    DMatrix::from_fn(k, n, |class, _| if class == truth { 0.7 } else { 0.1 });
                let seed = [truth as u8 + 7; 32];
                let ReleasedScores::Labels { labels, .. } =
                    defense.apply(scores, &Noise::fresh(seed)).unwrap()
                else {
                    panic!("kind")
                };
                for class in 0..k {
                    let p = if class == truth { kept } else { (1.0 - kept) / 3.0 };
                    let share =
                        labels.iter().filter(|l| **l as usize == class).count() as f64 / n as f64;
                    let error = (p * (1.0 - p) / n as f64).sqrt();
                    assert!(
                        (share - p).abs() < 5.0 * error,
                        "{epsilon} {truth} {class}: {share} {p}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_bits_are_those_of_the_channel_and_the_note_says_how_many_are_right() {
        let defense = RandomizedLabel::new(2.0, 2).unwrap();
        assert!((defense.contract().bits.unwrap() - 0.817).abs() < 1e-3);
        assert!(defense.note().unwrap().contains("88.1 %"));
        for bad in [0.0, -1.0, 50.1, f64::NAN, f64::INFINITY] {
            assert!(
                RandomizedLabel::new(bad, 2)
                    .unwrap_err()
                    .to_string()
                    .contains("above 0, at most 50")
            );
        }
    }
}
