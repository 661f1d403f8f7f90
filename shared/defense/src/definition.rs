//! The definition of a defense: the facts and promises of given parameters, and the function that
//! makes it from what is granted.

use std::fmt;

use nalgebra::DMatrix;
use vfl_core::types::ConfidenceScores;

use super::contract::{Defense, DefenseError, LogitDefense, Output};
use crate::policy::{Facts, ReleaseKind};

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
    /// Returns the calibration scores, which `defense` is fitted on.
    ///
    /// # Errors
    /// [`DefenseError::Needs`] if there are none.
    pub(super) fn calibration(
        &self,
        defense: &'static str,
    ) -> Result<&'a ConfidenceScores, DefenseError> {
        self.calibration.ok_or_else(|| DefenseError::Needs {
            defense,
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

/// A set of vectors that a defense takes or releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Domain {
    /// Probability vectors.
    Simplex,
    /// Probability vectors with all but this many entries set to 0.
    Largest(usize),
    /// Vectors of any other numbers.
    Any,
}

/// The bound of one defense by itself.
pub(super) enum OwnBound {
    /// At most this many bits of a record.
    Bits(f64),
    /// No bound is known, for this reason.
    None(&'static str),
}

impl OwnBound {
    /// The bound of a defense whose proof needs probability vectors, behind one that gives others.
    pub(super) const NOT_FROM_SCORES: Self = Self::None(
        "its bound is for probability vectors, which the defense before it does not give out",
    );
}

type Check<'a> = Box<dyn Fn() -> Result<(), DefenseError> + 'a>;
type Make<'a> = Box<dyn Fn(usize, &Grants<'_>) -> Result<BuiltDefense, DefenseError> + 'a>;
type Bits<'a> = Box<dyn Fn(usize, Domain) -> OwnBound + 'a>;

/// A defense with its parameters: the facts and promises that other modules need of it, and the
/// function that makes it.
pub(super) struct Definition<'a> {
    /// The facts that are the same for every setting.
    pub(super) facts: &'static Facts,
    /// The output of the defense.
    pub(super) output: Output,
    /// The check of the parameters, as far as they do not depend on the number of classes.
    pub(super) check: Check<'a>,
    /// Makes the defense for a number of classes. [`DefenseError`] names a parameter that does not
    /// fit the model, or a requirement that is not met.
    pub(super) make: Make<'a>,
    /// The kind of the release, for the choice of the attack that adapts to it.
    pub(super) leaves: ReleaseKind,
    /// The bits that the defense by itself reveals, for a number of classes and the domain of the
    /// vectors that it is applied to.
    pub(super) bits: Bits<'a>,
    /// The domain of what it makes of probability vectors; `None` if it returns its input.
    pub(super) domain: Option<Domain>,
    /// True if it draws at random for every record.
    pub(super) draws: bool,
    /// The substitute for a score of 0 in the release, for attacks that take it for the true
    /// scores.
    pub(super) zero_floor: Option<f64>,
    /// True if it is made from the parameters of the passive parties.
    pub(super) needs_passive_weights: bool,
    /// True if it is fitted on undefended scores of the model's training.
    pub(super) fitted: bool,
}

impl<'a> Definition<'a> {
    /// Creates the definition of a defense at the logits, of which nothing more is known.
    pub(super) fn at_logits<D: LogitDefense + 'static>(
        facts: &'static Facts,
        check: impl Fn() -> Result<(), DefenseError> + 'a,
        make: impl Fn(usize, &Grants<'_>) -> Result<D, DefenseError> + 'a,
    ) -> Self {
        let make = move |classes, grants: &Grants<'_>| {
            Ok(BuiltDefense::AtLogits(Box::new(make(classes, grants)?)))
        };
        Self::new(facts, Output::Logits, Box::new(check), Box::new(make))
    }

    /// Creates the definition of a defense at the scores, of which nothing more is known.
    pub(super) fn at_scores<D: Defense + 'static>(
        facts: &'static Facts,
        output: Output,
        check: impl Fn() -> Result<(), DefenseError> + 'a,
        make: impl Fn(usize, &Grants<'_>) -> Result<D, DefenseError> + 'a,
    ) -> Self {
        let make = move |classes, grants: &Grants<'_>| {
            Ok(BuiltDefense::AtScores(Box::new(make(classes, grants)?)))
        };
        Self::new(facts, output, Box::new(check), Box::new(make))
    }

    fn new(facts: &'static Facts, output: Output, check: Check<'a>, make: Make<'a>) -> Self {
        // The link function makes probability vectors of logits.
        let simplex = matches!(output, Output::Logits | Output::Probabilities);
        Self {
            facts,
            output,
            check,
            make,
            leaves: ReleaseKind::Unstudied,
            bits: Self::unbounded("no bound is known for one of the defenses"),
            domain: Some(if simplex { Domain::Simplex } else { Domain::Any }),
            draws: false,
            zero_floor: None,
            needs_passive_weights: false,
            fitted: facts.fitted,
        }
    }

    /// Returns the statement that no bound is known, with its reason.
    pub(super) fn unbounded(reason: &'static str) -> Bits<'a> {
        Box::new(move |_, _| OwnBound::None(reason))
    }

    /// Returns the domain of the vectors that it releases.
    pub(super) fn domain_after(&self, before: Domain) -> Domain {
        match self.domain {
            None => before,
            Some(Domain::Largest(_)) if before != Domain::Simplex => Domain::Any,
            Some(domain) => domain,
        }
    }
}
