//! The predicted class alone (J section VI; R section VIII-D, figure 13).

use nalgebra::DMatrix;
use vfl_core::types::ReleasedScores;
use vfl_numerics::arg_max;

use super::definition::{Definition, Domain, OwnBound};
use super::{Contract, Defense, DefenseError, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::{Facts, Parameter, ParameterKind, ReleaseKind};

const NAME: &str = "class_label";
/// The substitute for a score of 0 behind a label: δ of the vector that attacks use in place of the
/// hidden scores.
pub(super) const LABEL_FLOOR: f64 = 0.01;

pub(super) const FACTS: Facts = Facts {
    name: NAME,
    parameters: &[Parameter::optional(
        "softening",
        ParameterKind::Number,
        "0 (default), or up to below 1/classes",
    )],
    examples: |_| vec![DefenseConfig::ClassLabel { softening: 0.0 }],
    within_bits: |classes, bits| {
        let within = (classes as f64).log2() <= bits;
        within.then_some(DefenseConfig::ClassLabel { softening: 0.0 })
    },
    ..Facts::PLAIN
};

pub(super) fn definition(softening: f64) -> Definition<'static> {
    Definition {
        leaves: ReleaseKind::Label,
        bits: Box::new(|classes, _| OwnBound::Bits((classes as f64).log2())),
        domain: Some(Domain::Simplex),
        zero_floor: (softening == 0.0).then_some(LABEL_FLOOR),
        ..Definition::at_scores(
            &FACTS,
            output(softening),
            move || ClassLabel::check(softening, None),
            move |classes, _| ClassLabel::new(softening, classes),
        )
    }
}

fn output(softening: f64) -> Output {
    if softening == 0.0 { Output::Label } else { Output::Probabilities }
}

/// Releases the arg max, at most log2 k bits a record: as a label, or softened, as the vector with
/// δ everywhere but at the label, where 1 − (k − 1)δ is left. The lowest index wins ties.
#[derive(Debug, Clone, Copy)]
pub struct ClassLabel {
    classes: usize,
    softening: f64,
}

impl ClassLabel {
    pub(super) fn check(softening: f64, classes: Option<usize>) -> Result<(), DefenseError> {
        let k = classes.unwrap_or(2);
        let good = softening >= 0.0 && softening * (k as f64) < 1.0;
        let expected = match classes {
            Some(k) => format!("at least 0 and below 1/k = 1/{k}"),
            None => "at least 0 and below 1/k, k the number of classes".to_owned(),
        };
        checked(good, NAME, "softening", softening, expected)
    }

    /// Creates the defense for `classes` classes; softened by δ above 0 and below 1/k.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] for another δ: at 1/k the vector says nothing, above it the wrong
    /// thing.
    pub fn new(softening: f64, classes: usize) -> Result<Self, DefenseError> {
        Self::check(softening, Some(classes)).map(|()| Self { classes, softening })
    }
}

impl Defense for ClassLabel {
    fn contract(&self) -> Contract {
        let output = output(self.softening);
        let bits = Some((self.classes as f64).log2());
        Contract { output, keeps_arg_max: true, keeps_ranking: false, randomised: false, bits }
    }

    fn apply(
        &self,
        mut scores: DMatrix<f64>,
        _noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        let k = scores.nrows();
        if k != self.classes {
            let what = format!("scores of {} classes; these have {k}", self.classes);
            return Err(DefenseError::Needs { defense: NAME, what });
        }
        if self.softening == 0.0 {
            let labels = scores.column_iter().map(|c| arg_max(c.as_slice()) as u32).collect();
            return Ok(ReleasedScores::Labels { classes: k, labels });
        }
        // δ just below 1/k may round to an equal label: one unit in the last place decides.
        let top = (1.0 - (k - 1) as f64 * self.softening).max(self.softening.next_up());
        for column in scores.as_mut_slice().chunks_exact_mut(k) {
            let label = arg_max(column);
            column.fill(self.softening);
            column[label] = top;
        }
        Ok(ReleasedScores::Probabilities(scores))
    }
}
