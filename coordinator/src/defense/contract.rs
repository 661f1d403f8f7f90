//! What a defense is: the traits of the two stages, what a defense promises, and why it is refused.

use nalgebra::DMatrix;
use vfl_shared::types::ReleasedScores;

use super::noise::Noise;

/// The largest scale of noise, and the largest noise budget: so that eight defenses in a row stay finite.
pub(super) const MAX_SCALE: f64 = 1e12;

/// What a defense promises of its release, for every input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contract {
    /// What comes out.
    pub output: Output,
    /// The arg max of the release is that of what went in; ties go to the lowest index.
    pub keeps_arg_max: bool,
    /// Strictly larger scores stay strictly larger. (Equal ones need not stay equal.)
    pub keeps_ranking: bool,
    /// Whether it draws noise.
    pub randomised: bool,
    /// What one record's release tells at most, in bits, however often it is asked for with keyed noise; `None`: unbounded.
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

/// Why a defense cannot be applied, or cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DefenseError {
    /// A parameter out of range.
    #[error("defense `{defense}`: `{setting}` is {got}, expected {expected}")]
    Setting {
        /// The defense.
        defense: &'static str,
        /// The parameter.
        setting: &'static str,
        /// What came.
        got: String,
        /// What is allowed.
        expected: String,
    },
    /// Something must be there that is not.
    #[error("defense `{defense}` needs {what}")]
    Needs {
        /// The defense.
        defense: &'static str,
        /// What, and how it comes about.
        what: String,
    },
    /// Defenses that do not go together.
    #[error("defense `{after}` cannot follow `{before}`: {reason}")]
    Order {
        /// The first.
        before: &'static str,
        /// The second.
        after: &'static str,
        /// Why.
        reason: &'static str,
    },
}

impl DefenseError {
    /// A parameter out of range.
    pub fn setting(
        defense: &'static str,
        setting: &'static str,
        got: impl ToString,
        expected: impl Into<String>,
    ) -> Self {
        Self::Setting { defense, setting, got: got.to_string(), expected: expected.into() }
    }
}

/// [`DefenseError::Setting`] unless `good`.
pub(super) fn checked(
    good: bool,
    defense: &'static str,
    setting: &'static str,
    got: impl ToString,
    expected: impl Into<String>,
) -> Result<(), DefenseError> {
    if good { Ok(()) } else { Err(DefenseError::setting(defense, setting, got, expected)) }
}

/// A defense at the score stage: scores in, what is released of them out. Budgets and caches live elsewhere in the
/// coordinator.
///
/// In a list a defense works on what the one before it gave out, which need not be on the simplex.
pub trait Defense: Send + Sync + std::fmt::Debug {
    /// What it promises.
    fn contract(&self) -> Contract;

    /// Applies the defense to `k × n` scores, one record per column.
    ///
    /// # Errors
    /// [`DefenseError`] where the defense does not apply to these scores.
    fn apply(&self, scores: DMatrix<f64>, noise: &Noise<'_>) -> Result<ReleasedScores, DefenseError>;

    /// Whether it gives out what it gets, whatever that is.
    fn passes_through(&self) -> bool {
        false
    }

    /// What its user should know of it that the contract cannot say: a guarantee and its limits, what was fitted. One line.
    fn note(&self) -> Option<String> {
        None
    }
}

/// A defense at the logit stage: logits in, other logits out, before the link function.
///
/// Its contract is about the scores: a [`Pipeline`](super::Pipeline) puts right what round-off of the link function would turn round.
pub trait LogitDefense: Send + Sync + std::fmt::Debug {
    /// What it promises, with [`Output::Logits`].
    fn contract(&self) -> Contract;

    /// Changes `k × n` logits, one record per column.
    ///
    /// # Errors
    /// [`DefenseError`] where the defense does not apply to these logits.
    fn apply(&self, logits: &mut DMatrix<f64>, noise: &Noise<'_>) -> Result<(), DefenseError>;

    /// What its user should know of it that the contract cannot say. One line.
    fn note(&self) -> Option<String> {
        None
    }
}
