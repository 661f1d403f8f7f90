//! The equality solving attack: the solution of least norm, A⁺ b' (R section IV, V (10)). Exact when d ≤ k − 1 and A has
//! full column rank.

use rand::Rng;

use super::{AdversaryView, Attack, AttackError, Reconstruction, Requirements, Status, clamp};

/// A⁺ b', clipped to [0, 1] or not.
#[derive(Debug, Clone, Copy)]
pub struct LeastSquares {
    /// Clip the estimates to [0, 1]. Never worse, as the truth lies there.
    pub clamped: bool,
}

impl Attack for LeastSquares {
    fn requirements(&self) -> Requirements {
        Requirements { parameters: true }
    }

    fn reconstruct(&self, view: &AdversaryView, _rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let system = view.system()?;
        let mut estimates = system.least_norm(view.b_prime());
        if self.clamped {
            clamp(&mut estimates);
        }
        let solved = system.solved(&estimates, view.b_prime());
        let status = if solved.nullity == 0 { Status::Unique } else { Status::LeastNorm { rank: solved.rank } };
        Ok(Reconstruction { estimates, status, solved: Some(solved), outcomes: Vec::new(), remarks: Vec::new() })
    }
}
