//! The contract of a defense: the traits of the two stages, the promises of a defense, and its
//! errors.

use nalgebra::DMatrix;
use vfl_core::types::ReleasedScores;

use super::noise::Noise;

/// The largest scale of noise, and the largest noise budget, such that eight defenses in a row stay
/// finite.
pub(super) const MAX_SCALE: f64 = 1e12;

/// The promises of a defense about its release, for every input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contract {
    /// The kind of the release.
    pub output: Output,
    /// True if the arg max of the release is that of the input; ties go to the lowest index.
    pub keeps_arg_max: bool,
    /// True if strictly larger scores stay strictly larger. (Equal ones need not stay equal.)
    pub keeps_ranking: bool,
    /// True if the defense draws noise.
    pub randomised: bool,
    /// Most bits that one record's release tells, however often it is asked for with keyed noise;
    /// `None`: unbounded.
    pub bits: Option<f64>,
}

/// The kind of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Logits, before the link function.
    Logits,
    /// Columns on the simplex.
    Probabilities,
    /// Numbers that need not sum to 1.
    Numbers,
    /// The predicted class alone.
    Label,
    /// Integers that sort as the scores do.
    Ciphertexts,
}

/// Errors from making or applying a defense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DefenseError {
    /// A parameter is out of range.
    #[error("defense `{defense}`: `{setting}` is {got}, expected {expected}")]
    Setting {
        /// The name of the defense.
        defense: &'static str,
        /// The name of the parameter.
        setting: &'static str,
        /// The value that was given.
        got: String,
        /// The values that are allowed.
        expected: String,
    },
    /// A requirement of the defense is not met.
    #[error("defense `{defense}` needs {what}")]
    Needs {
        /// The name of the defense.
        defense: &'static str,
        /// The requirement, and where it comes from.
        what: String,
    },
    /// A defense cannot follow another one.
    #[error("defense `{after}` cannot follow `{before}`: {reason}")]
    Order {
        /// The name of the first defense.
        before: &'static str,
        /// The name of the second defense.
        after: &'static str,
        /// The reason for the refusal.
        reason: &'static str,
    },
}

impl DefenseError {
    /// Returns the error for a parameter out of range.
    pub fn setting(
        defense: &'static str,
        setting: &'static str,
        got: impl ToString,
        expected: impl Into<String>,
    ) -> Self {
        Self::Setting { defense, setting, got: got.to_string(), expected: expected.into() }
    }
}

/// Returns [`DefenseError::Setting`] unless `good`.
pub(super) fn checked(
    good: bool,
    defense: &'static str,
    setting: &'static str,
    got: impl ToString,
    expected: impl Into<String>,
) -> Result<(), DefenseError> {
    if good { Ok(()) } else { Err(DefenseError::setting(defense, setting, got, expected)) }
}

/// A defense at the score stage: it takes scores and returns what is released of them. Budgets and
/// caches live elsewhere in the coordinator.
///
/// In a list, a defense works on the output of the one before it, which need not be on the simplex.
pub trait Defense: Send + Sync + std::fmt::Debug {
    /// Returns the promises of this defense.
    fn contract(&self) -> Contract;

    /// Applies the defense to `k × n` scores, one record per column.
    ///
    /// # Errors
    /// [`DefenseError`] where the defense does not apply to these scores.
    fn apply(
        &self,
        scores: DMatrix<f64>,
        noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError>;

    /// Returns `true` if the output is always the input.
    fn passes_through(&self) -> bool {
        false
    }

    /// Returns what users should know beyond the contract: a guarantee and its limits, what was
    /// fitted. One line.
    fn note(&self) -> Option<String> {
        None
    }

    /// Returns the vectors of which one is released for each record (k × words), where there is a
    /// fixed set of them.
    fn words(&self) -> Option<&DMatrix<f64>> {
        None
    }
}

/// A defense at the logit stage: it takes logits and returns other logits, before the link
/// function.
///
/// Its contract is about the scores: a [`Pipeline`](super::Pipeline) corrects entries that
/// round-off of the link function would reorder.
pub trait LogitDefense: Send + Sync + std::fmt::Debug {
    /// Returns the promises of this defense, with [`Output::Logits`].
    fn contract(&self) -> Contract;

    /// Changes `k × n` logits, one record per column.
    ///
    /// # Errors
    /// [`DefenseError`] where the defense does not apply to these logits.
    fn apply(&self, logits: &mut DMatrix<f64>, noise: &Noise<'_>) -> Result<(), DefenseError>;

    /// Returns what users should know beyond the contract. One line.
    fn note(&self) -> Option<String> {
        None
    }
}
