//! No defense: the scores as they are.

use rand::Rng;
use vfl_shared::types::{ConfidenceScores, ReleasedScores};

use super::{Contract, Defense, DefenseError, Output};

/// Releases the scores as they are.
#[derive(Debug, Clone, Copy)]
pub struct NoDefense;

impl Defense for NoDefense {
    fn contract(&self) -> Contract {
        Contract { output: Output::Probabilities, keeps_arg_max: true, keeps_ranking: true }
    }

    fn apply(&self, scores: &ConfidenceScores, _rng: &mut dyn Rng) -> Result<ReleasedScores, DefenseError> {
        Ok(ReleasedScores::Probabilities(scores.matrix().clone()))
    }
}
