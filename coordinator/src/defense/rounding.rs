//! Rounding to a number of decimals (J section VI, P section 6).

use nalgebra::DMatrix;
use vfl_shared::types::ReleasedScores;

use super::{Contract, Defense, DefenseError, Noise, Output, checked};

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
        Self::check(decimals).map(|()| Self { step: 10f64.powi(decimals as i32) })
    }

    pub(super) fn check(decimals: u32) -> Result<(), DefenseError> {
        checked(decimals <= 15, "rounding", "decimals", decimals, "0 to 15")
    }
}

/// From 2⁵² units on (large numbers after noise) there is nothing left to round, and the product may be beyond a double.
fn rounded(c: f64, step: f64) -> f64 {
    let units = c * step;
    if units.abs() < (1u64 << 52) as f64 { units.round_ties_even() / step } else { c }
}

impl Defense for Rounding {
    fn contract(&self) -> Contract {
        let output = Output::Numbers;
        Contract { output, keeps_arg_max: false, keeps_ranking: false, randomised: false, bits: None }
    }

    fn apply(&self, mut scores: DMatrix<f64>, _noise: &Noise<'_>) -> Result<ReleasedScores, DefenseError> {
        scores.apply(|c| *c = rounded(*c, self.step));
        Ok(ReleasedScores::Numbers(scores))
    }
}
