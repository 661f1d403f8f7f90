//! Rounding to a number of decimals (J section VI, P section 6).

use rand::Rng;
use vfl_shared::types::{ConfidenceScores, ReleasedScores};

use super::{Contract, Defense, DefenseError, Output};

/// Rounds each score to `decimals` digits, ties to even on c · 10^decimals, as P's code does: 0.25 gives 0.2, 0.35 gives 0.4.
///
/// The result is within half a step of the score but need not sum to 1, and distinct scores may become equal, so neither
/// the arg max nor the ranking is promised.
#[derive(Debug, Clone, Copy)]
pub struct Rounding {
    step: f64,
}

impl Rounding {
    /// Rounding to `decimals` digits, 0 to 15.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] above 15: a double has no more digits to round.
    pub fn new(decimals: u32) -> Result<Self, DefenseError> {
        if decimals > 15 {
            let (got, expected) = (decimals.to_string(), "0 to 15");
            return Err(DefenseError::Setting { defense: "rounding", setting: "decimals", got, expected });
        }
        Ok(Self { step: 10f64.powi(decimals as i32) })
    }
}

impl Defense for Rounding {
    fn contract(&self) -> Contract {
        Contract { output: Output::Numbers, keeps_arg_max: false, keeps_ranking: false }
    }

    fn apply(&self, scores: &ConfidenceScores, _rng: &mut dyn Rng) -> Result<ReleasedScores, DefenseError> {
        Ok(ReleasedScores::Numbers(scores.matrix().map(|c| (c * self.step).round_ties_even() / self.step)))
    }
}
