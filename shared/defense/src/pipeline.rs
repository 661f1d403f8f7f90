//! The pipeline of a policy: its defenses at the logits, the link function, its defenses at the
//! scores.

use nalgebra::DMatrix;
use vfl_core::types::{ConfidenceScores, Logits, ReleasedScores};
use vfl_numerics::{arg_max, softmax_columns};

use super::contract::{Contract, Defense, DefenseError, LogitDefense, Output};
use super::definition::{BuiltDefense, Grants};
use super::definition_of;
use super::noise::Noise;
use super::none::NoDefense;
use super::order::{Order, each_column, keep_arg_max, keep_order};
use crate::{DefenseConfig, Policy};

/// The output of a pipeline.
#[derive(Debug)]
pub struct PipelineOutput {
    /// The undefended scores, which stay here.
    pub scores: ConfidenceScores,
    /// The released scores, which leave.
    pub released: ReleasedScores,
}

/// The defenses of one policy for one model, in order.
#[derive(Debug)]
pub struct Pipeline {
    at_logits: Vec<Box<dyn LogitDefense>>,
    at_scores: Vec<Box<dyn Defense>>,
    /// The bound of the policy with keyed noise, for this number of classes.
    bits: Option<f64>,
}

/// Checks that each defense can work on the output of the one before it.
fn check_order(defenses: &[DefenseConfig]) -> Result<(), DefenseError> {
    // `none` returns its input.
    let mut changing = defenses.iter().filter(|config| !matches!(config, DefenseConfig::None {}));
    let Some(mut last) = changing.next() else { return Ok(()) };
    for config in changing {
        let reason = match (definition_of(last).output, definition_of(config).output) {
            (Output::Label, _) => Some("a label is all that is left"),
            (Output::Ciphertexts, _) => Some("ciphertexts are not scores"),
            (Output::Probabilities | Output::Numbers, Output::Logits) => {
                Some("it works on logits; name it first")
            }
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(DefenseError::Order { before: last.name(), after: config.name(), reason });
        }
        last = config;
    }
    Ok(())
}

impl Pipeline {
    /// Builds the defenses of a policy for a model of `classes` classes. Without a defense the
    /// scores are released as they are.
    ///
    /// # Errors
    /// [`DefenseError`] naming a parameter out of range, a defense in the wrong place, or a
    /// requirement that is not met.
    pub fn build(
        defenses: &[DefenseConfig],
        classes: usize,
        grants: &Grants<'_>,
    ) -> Result<Self, DefenseError> {
        Self::check(defenses)?;
        let bits =
            Policy { defenses: defenses.to_vec(), ..Policy::default() }.leakage(classes).bits();
        let mut pipeline = Self { at_logits: Vec::new(), at_scores: Vec::new(), bits };
        for config in defenses {
            match (definition_of(config).make)(classes, grants)? {
                BuiltDefense::AtLogits(defense) => pipeline.at_logits.push(defense),
                BuiltDefense::AtScores(defense) => pipeline.at_scores.push(defense),
            }
        }
        // `none` ends a list without a defense at the scores.
        if pipeline.at_scores.is_empty() {
            pipeline.at_scores.push(Box::new(NoDefense));
        }
        Ok(pipeline)
    }

    /// Checks what can be checked without a model: parameters, and the order of the defenses.
    /// Errors that depend on the number of classes, on parameters or on calibration scores come
    /// from [`Pipeline::build`].
    ///
    /// # Errors
    /// [`DefenseError`] naming a parameter out of range or a defense in the wrong place.
    pub fn check(defenses: &[DefenseConfig]) -> Result<(), DefenseError> {
        defenses.iter().try_for_each(|config| (definition_of(config).check)())?;
        check_order(defenses)
    }

    /// Returns the promises of the policy as a whole: what all its defenses promise, and the
    /// tightest bound on bits ([`Policy::leakage`], or that of the words that a codebook has).
    #[must_use]
    pub fn contract(&self) -> Contract {
        let all = || self.logit_contracts().chain(self.at_scores.iter().map(|d| d.contract()));
        let last = self.at_scores.iter().rev().find(|d| !d.passes_through());
        Contract {
            output: last.map_or(Output::Probabilities, |d| d.contract().output),
            keeps_arg_max: all().all(|c| c.keeps_arg_max),
            keeps_ranking: all().all(|c| c.keeps_ranking),
            randomised: all().any(|c| c.randomised),
            bits: all().filter_map(|c| c.bits).chain(self.bits).reduce(f64::min),
        }
    }

    /// Returns what users should know of the defenses, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let at_logits = self.at_logits.iter().filter_map(|d| d.note());
        at_logits.chain(self.at_scores.iter().filter_map(|d| d.note())).collect()
    }

    /// Returns `true` if a defense works on logits.
    #[must_use]
    pub fn changes_logits(&self) -> bool {
        !self.at_logits.is_empty()
    }

    /// Returns the words of a codebook (k × words), if the last defense is one.
    #[must_use]
    pub fn words(&self) -> Option<&DMatrix<f64>> {
        self.at_scores.last().and_then(|defense| defense.words())
    }

    fn logit_contracts(&self) -> impl Iterator<Item = Contract> {
        self.at_logits.iter().map(|d| d.contract())
    }

    /// Applies the policy to logits.
    ///
    /// # Errors
    /// [`DefenseError`] where a defense does not apply to these records.
    pub fn release(
        &self,
        logits: Logits,
        noise: Noise<'_>,
    ) -> Result<PipelineOutput, DefenseError> {
        if self.at_logits.is_empty() {
            return self.release_scores(ConfidenceScores::softmax(logits), noise);
        }
        let mut changed = logits.matrix().clone();
        let scores = ConfidenceScores::softmax(logits);
        for (stage, defense) in self.at_logits.iter().enumerate() {
            defense.apply(&mut changed, &noise.of_stage(stage as u64))?;
        }
        if let Some(at) = changed.iter().position(|z| !z.is_finite()) {
            let record = at / changed.nrows().max(1);
            let what = format!("logits that stay finite; those of record {record} overflow");
            return Err(DefenseError::Needs { defense: "policy", what });
        }
        softmax_columns(&mut changed);
        self.keep_promises(&scores, &mut changed);
        Ok(PipelineOutput { released: self.finish(changed, noise)?, scores })
    }

    /// Applies the policy as [`Pipeline::release`] does, but does not return the undefended scores.
    ///
    /// # Errors
    /// As [`Pipeline::release`].
    pub fn release_alone(
        &self,
        logits: Logits,
        noise: Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        if self.at_logits.is_empty() {
            return self.finish(ConfidenceScores::softmax(logits).into_matrix(), noise);
        }
        Ok(self.release(logits, noise)?.released)
    }

    /// Applies a policy without logit defenses to scores, without logarithm and link function.
    ///
    /// # Errors
    /// [`DefenseError`] where a defense does not apply to these records, or works on logits.
    pub fn release_scores(
        &self,
        scores: ConfidenceScores,
        noise: Noise<'_>,
    ) -> Result<PipelineOutput, DefenseError> {
        if !self.at_logits.is_empty() {
            return Err(DefenseError::Needs {
                defense: "policy",
                what: "logits, not scores".into(),
            });
        }
        let values = scores.matrix().clone();
        Ok(PipelineOutput { released: self.finish(values, noise)?, scores })
    }

    /// Restores on the scores what the logit defenses promise of logits. Round-off may break it: a
    /// score may underflow, or differ by less than a double shows. Moves entries by single units in
    /// the last place.
    fn keep_promises(&self, scores: &ConfidenceScores, values: &mut DMatrix<f64>) {
        let k = values.nrows();
        let (ranking, class) = (
            self.logit_contracts().all(|c| c.keeps_ranking),
            self.logit_contracts().all(|c| c.keeps_arg_max),
        );
        each_column(values.as_mut_slice(), k, Order::default, |order, record, p| {
            let c = &scores.matrix().as_slice()[record * k..(record + 1) * k];
            if ranking {
                order.sort(c);
                keep_order(order, c, p);
            } else if class {
                keep_arg_max(arg_max(c), p);
            }
        });
    }

    fn finish(
        &self,
        values: DMatrix<f64>,
        noise: Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        let mut released = ReleasedScores::Probabilities(values);
        for (position, defense) in self.at_scores.iter().enumerate() {
            released = match released {
                released if defense.passes_through() => released,
                ReleasedScores::Probabilities(values) | ReleasedScores::Numbers(values) => defense
                    .apply(values, &noise.of_stage((self.at_logits.len() + position) as u64))?,
                // `build` lets nothing but `none` follow a label or ciphertexts.
                last => last,
            };
        }
        Ok(released)
    }
}
