//! The predicted class alone (J section VI; R section VIII-D, figure 13).

use rand::Rng;
use vfl_shared::numerics::arg_max;
use vfl_shared::types::{ConfidenceScores, ReleasedScores};

use super::{Contract, Defense, DefenseError, Output};

/// Releases the arg max; the lowest index wins ties. At most log2 k bits a record.
#[derive(Debug, Clone, Copy)]
pub struct ClassLabel;

impl Defense for ClassLabel {
    fn contract(&self) -> Contract {
        Contract { output: Output::Label, keeps_arg_max: true, keeps_ranking: false }
    }

    fn apply(&self, scores: &ConfidenceScores, _rng: &mut dyn Rng) -> Result<ReleasedScores, DefenseError> {
        let labels = scores.matrix().column_iter().map(|c| arg_max(c.as_slice()) as u32).collect();
        Ok(ReleasedScores::Labels { classes: scores.classes(), labels })
    }
}
