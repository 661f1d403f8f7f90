//! Half*: the solution of A x = b' nearest to ½, A⁺ b' + ½ P⊥ 1 (R proposition 1, (22), and theorem 1; V (14)). On exact scores its error is
//! at most that of ½, on every record.

use rand::Rng;

use super::{AdversaryView, Attack, AttackError, Reconstruction, Requirements, Status, clamp};

/// A⁺ b' + ½ P⊥ 1, clipped to [0, 1] or not.
#[derive(Debug, Clone, Copy)]
pub struct HalfStar {
    /// Clip the estimates to [0, 1]. Never worse, as the truth lies there.
    pub clamped: bool,
}

impl Attack for HalfStar {
    fn requirements(&self) -> Requirements {
        Requirements { parameters: true }
    }

    fn reconstruct(&self, view: &AdversaryView, _rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let system = view.system()?;
        let mut estimates = system.nearest_half(view.b_prime());
        if self.clamped {
            clamp(&mut estimates);
        }
        let solved = system.solved(&estimates, view.b_prime());
        let status = if solved.nullity == 0 { Status::Unique } else { Status::NearestHalf { rank: solved.rank } };
        Ok(Reconstruction { estimates, status, solved: Some(solved), outcomes: Vec::new(), remarks: Vec::new() })
    }
}
