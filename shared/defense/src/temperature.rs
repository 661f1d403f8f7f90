//! Logits divided by a temperature.

use nalgebra::DMatrix;

use super::definition::Definition;
use super::{Contract, DefenseError, LogitDefense, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::{Facts, Parameter, ParameterKind, ReleaseKind};

const NAME: &str = "temperature";
/// Smallest temperature: below it, differences of logits leave the range of a double for scores
/// that a model gives.
const LEAST: f64 = 1e-6;
/// Largest temperature: above it, all scores are 1/k to six digits.
const MOST: f64 = 1e6;

pub(super) const FACTS: Facts = Facts {
    name: NAME,
    parameters: &[Parameter::required("temperature", ParameterKind::Number, "1e-6 to 1e6", 2.0)],
    examples: |_| vec![DefenseConfig::Temperature { temperature: 4.0 }],
    at_logits: true,
    ..Facts::PLAIN
};

pub(super) fn definition(temperature: f64) -> Definition<'static> {
    Definition {
        leaves: ReleaseKind::Scaled,
        bits: Definition::unbounded(
            "a temperature is undone by a factor, and exact scores are left",
        ),
        ..Definition::at_logits(
            &FACTS,
            move || Temperature::check(temperature),
            move |_, _| Temperature::new(temperature),
        )
    }
}

/// Divides the logits by a temperature: above 1 the scores move together, below 1 apart. Whoever
/// knows the temperature can undo it: it hides nothing by itself, but rounding after it hides more.
#[derive(Debug, Clone, Copy)]
pub struct Temperature(f64);

impl Temperature {
    pub(super) fn check(temperature: f64) -> Result<(), DefenseError> {
        let good = (LEAST..=MOST).contains(&temperature);
        checked(good, NAME, "temperature", temperature, "1e-6 to 1e6")
    }

    /// Creates the defense for a temperature from 1e-6 to 1e6.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] for any other.
    pub fn new(temperature: f64) -> Result<Self, DefenseError> {
        Self::check(temperature).map(|()| Self(temperature))
    }
}

impl LogitDefense for Temperature {
    fn contract(&self) -> Contract {
        let output = Output::Logits;
        Contract { output, keeps_arg_max: true, keeps_ranking: true, randomised: false, bits: None }
    }

    fn apply(&self, logits: &mut DMatrix<f64>, _noise: &Noise<'_>) -> Result<(), DefenseError> {
        for mut column in logits.column_iter_mut() {
            // Softmax ignores a common shift. Without the shift a large logit could overflow; a
            // small one may, to a score of 0.
            let max = column.max();
            column.apply(|z| *z = ((*z - max) / self.0).max(f64::MIN));
        }
        Ok(())
    }
}
