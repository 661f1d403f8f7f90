//! The recipe that makes a defense from its config and from what is granted.

use std::fmt;

use nalgebra::DMatrix;
use vfl_core::types::ConfidenceScores;

use super::contract::{Defense, DefenseError, LogitDefense, Output};
use crate::DefenseConfig;

/// The inputs that some defenses are made from, all of one model.
#[derive(Clone, Copy, Default)]
pub struct Grants<'a> {
    /// W_pas (k × d), several passive parties side by side: `logit_noise` schemes 1 and 2 need it.
    pub passive_weights: Option<&'a DMatrix<f64>>,
    /// Undefended scores (k × n) to fit `ranking`, `codebook` and `purifier` on.
    pub calibration: Option<&'a ConfidenceScores>,
    /// Seed of the training of a `purifier`. It comes from the coordinator's secret, as the noise
    /// does: whoever knows it and the training set can train the same one.
    pub seed: [u8; 32],
}

impl<'a> Grants<'a> {
    /// Returns the calibration scores, which `config` is fitted on.
    ///
    /// # Errors
    /// [`DefenseError::Needs`] if there are none.
    pub(super) fn calibration(
        &self,
        config: &DefenseConfig,
    ) -> Result<&'a ConfidenceScores, DefenseError> {
        self.calibration.ok_or_else(|| DefenseError::Needs {
            defense: config.name(),
            what: "calibration scores to be fitted on: undefended scores of the model's training or validation records"
                .into(),
        })
    }
}

/// Shows which inputs are there.
impl fmt::Debug for Grants<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (weights, calibration) = (self.passive_weights.is_some(), self.calibration.is_some());
        write!(f, "Grants(passive weights: {weights}, calibration: {calibration})")
    }
}

/// A finished defense, by its stage.
#[derive(Debug)]
pub(super) enum BuiltDefense {
    AtLogits(Box<dyn LogitDefense>),
    AtScores(Box<dyn Defense>),
}

type Make<'a> = Box<dyn Fn(usize, &Grants<'_>) -> Result<BuiltDefense, DefenseError> + 'a>;

/// The output of a defense, the check of its parameters, and the function that makes it.
pub(super) struct Recipe<'a> {
    /// The output of the defense.
    pub(super) output: Output,
    /// Result of the check of the parameters, as far as they do not depend on the number of
    /// classes.
    pub(super) checked: Result<(), DefenseError>,
    make: Make<'a>,
}

impl<'a> Recipe<'a> {
    /// Creates the recipe of a defense at the logits.
    pub(super) fn at_logits<D: LogitDefense + 'static>(
        checked: Result<(), DefenseError>,
        make: impl Fn(usize, &Grants<'_>) -> Result<D, DefenseError> + 'a,
    ) -> Self {
        let make = Box::new(move |classes, grants: &Grants<'_>| {
            Ok(BuiltDefense::AtLogits(Box::new(make(classes, grants)?)))
        });
        Self { output: Output::Logits, checked, make }
    }

    /// Creates the recipe of a defense at the scores.
    pub(super) fn at_scores<D: Defense + 'static>(
        output: Output,
        checked: Result<(), DefenseError>,
        make: impl Fn(usize, &Grants<'_>) -> Result<D, DefenseError> + 'a,
    ) -> Self {
        let make = Box::new(move |classes, grants: &Grants<'_>| {
            Ok(BuiltDefense::AtScores(Box::new(make(classes, grants)?)))
        });
        Self { output, checked, make }
    }

    /// Makes the defense for a model of `classes` classes.
    ///
    /// # Errors
    /// [`DefenseError`] naming a parameter that does not fit the model, or a requirement that is
    /// not met.
    pub(super) fn make(
        &self,
        classes: usize,
        grants: &Grants<'_>,
    ) -> Result<BuiltDefense, DefenseError> {
        (self.make)(classes, grants)
    }
}
