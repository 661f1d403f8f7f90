//! The pipeline of a policy on a model of a number: the inverse of the link, then its defenses.

use nalgebra::DMatrix;
use vfl_core::model::Link;
use vfl_core::types::{Logits, ReleasedScores};

use super::contract::{Contract, Defense, DefenseError, Output};
use super::definition::{BuiltDefense, Grants};
use super::noise::Noise;
use super::{DefenseConfig, definition_of};
use crate::Policy;

/// The output of a pipeline of numbers.
#[derive(Debug)]
pub struct NumberOutput {
    /// The undefended numbers, 1 × n, which stay here.
    pub numbers: DMatrix<f64>,
    /// The released numbers, 1 × n, which leave.
    pub released: ReleasedScores,
}

/// The defenses of one policy for a model of a number, in order: `none`, `rounding`, `bins` and
/// `gaussian_noise`. All others are about scores of classes.
#[derive(Debug)]
pub struct NumberPipeline {
    link: Link,
    defenses: Vec<Box<dyn Defense>>,
    bits: Option<f64>,
}

/// Checks that a defense works on a number.
fn check_kind(config: &DefenseConfig) -> Result<(), DefenseError> {
    match config {
        DefenseConfig::None {}
        | DefenseConfig::Rounding { .. }
        | DefenseConfig::Bins { .. }
        | DefenseConfig::GaussianNoise { .. } => Ok(()),
        other => Err(DefenseError::Needs {
            defense: other.name(),
            what:
                "scores of classes, and the model's output is a number: take none, rounding, bins \
                   or gaussian_noise"
                    .to_owned(),
        }),
    }
}

impl NumberPipeline {
    /// Builds the defenses of a policy for a model of this link.
    ///
    /// # Errors
    /// [`DefenseError`] naming a parameter out of range, or a defense of scores of classes.
    pub fn build(defenses: &[DefenseConfig], link: Link) -> Result<Self, DefenseError> {
        let mut built = Vec::new();
        for config in defenses {
            check_kind(config)?;
            (definition_of(config).check)()?;
            if let BuiltDefense::AtScores(defense) =
                (definition_of(config).make)(1, &Grants::default())?
            {
                built.push(defense);
            }
        }
        let policy = Policy { defenses: defenses.to_vec(), ..Policy::default() };
        let bits = policy.leakage(1).bits();
        Ok(Self { link, defenses: built, bits })
    }

    /// Returns the promises of the policy as a whole. There is no class and no order of scores to
    /// keep.
    #[must_use]
    pub fn contract(&self) -> Contract {
        Contract {
            output: Output::Numbers,
            keeps_arg_max: false,
            keeps_ranking: false,
            randomised: self.defenses.iter().any(|defense| defense.contract().randomised),
            bits: self.bits,
        }
    }

    /// Returns what users should know of the defenses, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.defenses.iter().filter_map(|d| d.note()).collect();
        if self.link == Link::Log && self.bits.is_none() && !self.is_exact() {
            notes.push(
                "the active party's share multiplies the number: a large one makes rounding and noise small beside it, and only \
                 `bins` bounds what is told"
                    .to_owned(),
            );
        }
        notes
    }

    /// Returns true if the number is released as it is.
    fn is_exact(&self) -> bool {
        self.defenses.iter().all(|defense| defense.passes_through())
    }

    /// Applies the policy to linear predictors, 1 × n. A number beyond the largest double, as e^η
    /// is above η = 709, counts as the largest: a refusal would be one more answer, and one record
    /// would keep all others of its request from theirs.
    ///
    /// # Errors
    /// [`DefenseError`] where a defense does not apply to these records.
    pub fn release(
        &self,
        predictors: Logits,
        noise: Noise<'_>,
    ) -> Result<NumberOutput, DefenseError> {
        let numbers = predictors.into_matrix().map(|eta| self.link.number(eta).min(f64::MAX));
        let mut released = numbers.clone();
        for (stage, defense) in self.defenses.iter().enumerate() {
            if defense.passes_through() {
                continue;
            }
            let ReleasedScores::Numbers(next) =
                defense.apply(released, &noise.of_stage(stage as u64))?
            else {
                let what = "defenses that release numbers".to_owned();
                return Err(DefenseError::Needs { defense: "policy", what });
            };
            // Noise is rounded to a grid, on which the largest numbers overflow.
            released = next.map(|v| v.clamp(-f64::MAX, f64::MAX));
        }
        Ok(NumberOutput { numbers, released: ReleasedScores::Numbers(released) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        text.parse().unwrap()
    }

    fn released(text: &str, link: Link, eta: &[f64]) -> Result<NumberOutput, DefenseError> {
        let predictors = Logits::new(DMatrix::from_row_slice(1, eta.len(), eta)).unwrap();
        NumberPipeline::build(&policy(text).defenses, link)?
            .release(predictors, Noise::fresh([1; 32]))
    }

    fn numbers(text: &str, link: Link, eta: &[f64]) -> Vec<f64> {
        match released(text, link, eta).unwrap().released {
            ReleasedScores::Numbers(m) => m.as_slice().to_vec(),
            _ => panic!("kind"),
        }
    }

    #[test]
    fn the_number_is_the_inverse_of_the_link() {
        let eta = [-1.5, 0.0, 2.0];
        assert_eq!(numbers("none", Link::Identity, &eta), eta);
        assert_eq!(numbers("none", Link::Log, &eta), eta.map(f64::exp));
        assert_eq!(numbers("none", Link::Logit, &[0.0]), [0.5]);
        // A number of exactly 1 is no probability vector that rounding would have to keep.
        assert_eq!(
            numbers("rounding (decimals = 0)", Link::Identity, &[1.0, 0.5, 1.5]),
            [1.0, 0.0, 2.0]
        );
        let binned = "bins (lower = 0.0, upper = 10.0, count = 2)";
        assert_eq!(numbers(binned, Link::Log, &[0.0, 2.0]), [2.5, 7.5]);
    }

    #[test]
    fn noise_has_the_deviation_that_is_stated() {
        let n = 20_000;
        let out = numbers("gaussian_noise (sigma = 3.0)", Link::Identity, &vec![7.0; n]);
        let mean = out.iter().sum::<f64>() / n as f64;
        let variance = out.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
        // Five deviations of the mean and of the variance of so many draws.
        assert!((mean - 7.0).abs() < 5.0 * 3.0 / (n as f64).sqrt(), "{mean}");
        assert!((variance - 9.0).abs() < 5.0 * 9.0 * (2.0 / n as f64).sqrt(), "{variance}");
    }

    /// An active party may take its share as large as it likes.
    #[test]
    fn rounding_and_noise_do_not_hold_where_the_share_multiplies() {
        let said = |text: &str, link| {
            NumberPipeline::build(&policy(text).defenses, link).unwrap().notes().join(" ")
        };
        for text in ["rounding (decimals = 0)", "gaussian_noise (sigma = 3.0)"] {
            assert!(said(text, Link::Log).contains("only `bins`"), "{text}");
            assert!(!said(text, Link::Identity).contains("`bins`"), "{text}");
            // Two passive parts that differ by 1e-6 are told apart behind a share of 30.
            let [a, b] =
                [1.0, 1.0 + 1e-6].map(|passive| numbers(text, Link::Log, &[30.0 + passive])[0]);
            assert!((b.ln() - a.ln() - 1e-6).abs() < 1e-9, "{text}: {a} {b}");
        }
        let bins = "bins (lower = 0.0, upper = 10.0, count = 8)";
        assert!(!said(bins, Link::Log).contains("only `bins`"));
        assert!(!said("none", Link::Log).contains("`bins`"));
    }

    #[test]
    fn defenses_of_scores_are_refused_by_name() {
        for facts in DefenseConfig::ALL {
            for example in (facts.examples)(3) {
                let built = NumberPipeline::build(std::slice::from_ref(&example), Link::Identity);
                let known = ["none", "rounding", "gaussian_noise"].contains(&example.name());
                match built {
                    Ok(_) => assert!(known, "{}", example.name()),
                    Err(e) => {
                        let said = e.to_string();
                        assert!(!known && said.contains(example.name()), "{said}");
                        assert!(said.contains("is a number"), "{said}");
                    }
                }
            }
        }
        // No record keeps another from its answer, and bins have no further one.
        assert_eq!(numbers("none", Link::Log, &[0.0, 800.0]), [1.0, f64::MAX]);
        let binned = "bins (lower = 0.0, upper = 10.0, count = 2)";
        assert_eq!(numbers(binned, Link::Log, &[0.0, 800.0]), [2.5, 7.5]);
        let noisy = numbers("gaussian_noise (sigma = 3.0)", Link::Log, &[800.0]);
        assert_eq!(noisy, [f64::MAX]);
    }

    #[test]
    fn bits_are_those_of_the_numbers_that_are_left() {
        let bits = |text: &str| policy(text).leakage(1).bits();
        assert_eq!(bits("none"), None);
        // Of one class it would be none at all: a number is no score.
        assert_eq!(bits("rounding (decimals = 2)"), None);
        assert_eq!(bits("class_label"), None);
        let bins = "bins (lower = 0.0, upper = 1.0, count = 16)";
        assert_eq!(bits(bins), Some(4.0));
        assert_eq!(bits(&format!("gaussian_noise (sigma = 1.0) then {bins}")), Some(4.0));
        assert_eq!(bits(&format!("gaussian_noise (sigma = 1.0) then {bins}, fresh noise")), None);
        assert_eq!(bits(&format!("{bins}, unbound shares")), None);
        assert!(DefenseConfig::all_within_bits(1, 1e3).is_empty());
    }
}
