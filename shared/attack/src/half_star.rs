//! Half*: the solution of A x = b' nearest to ½, A⁺ b' + ½ P⊥ 1 (R proposition 1, (22), and theorem
//! 1; V (14)). On exact scores its error is at most that of ½, on every record.

use rand::Rng;

use super::entry::{Entry, Group};
use super::{AdversaryView, Attack, AttackError, Needs, Reconstruction, Status, contract};

/// The attack A⁺ b' + ½ P⊥ 1, clipped to [0, 1] or not.
#[derive(Debug, Clone, Copy)]
pub struct HalfStar {
    /// True if the estimates are clipped to [0, 1]. That is never worse, because the truth lies
    /// there.
    pub clamped: bool,
}

pub(super) static HALF_STAR: Entry =
    Entry::new("half_star", Group::General, |_| Box::new(HalfStar { clamped: false }));

pub(super) static CLAMPED_HALF_STAR: Entry = Entry {
    unclipped: Some(&HALF_STAR),
    ..Entry::new("clamped_half_star", Group::General, |_| Box::new(HalfStar { clamped: true }))
};

impl Attack for HalfStar {
    fn needs(&self) -> Needs {
        Needs::EQUATIONS
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let system = view.linear()?;
        let mut estimates = system.nearest_half(view.b_prime()?);
        if self.clamped {
            contract::clamp(&mut estimates);
        }
        Reconstruction::solving(view, estimates, |rank| Status::NearestHalf { rank })
    }
}
