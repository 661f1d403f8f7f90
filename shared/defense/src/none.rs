//! No defense: the scores as they are.

use nalgebra::DMatrix;
use vfl_core::types::ReleasedScores;

use super::{Contract, Defense, DefenseError, Noise, Output};

/// Releases the scores as they are; in a list it changes nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoDefense;

impl Defense for NoDefense {
    fn contract(&self) -> Contract {
        let output = Output::Probabilities;
        Contract { output, keeps_arg_max: true, keeps_ranking: true, randomised: false, bits: None }
    }

    fn apply(
        &self,
        scores: DMatrix<f64>,
        _noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        Ok(ReleasedScores::Probabilities(scores))
    }

    fn passes_through(&self) -> bool {
        true
    }
}
