//! The equality solving attack: the solution of least norm, A⁺ b' (R section IV, V (10)). Exact
//! when d ≤ k − 1 and A has full column rank.

use rand::Rng;

use super::entry::{Entry, Group};
use super::{AdversaryView, Attack, AttackError, Needs, Reconstruction, Status, contract};

/// The attack A⁺ b', clipped to [0, 1] or not.
#[derive(Debug, Clone, Copy)]
pub struct LeastSquares {
    /// True if the estimates are clipped to [0, 1]. That is never worse, because the truth lies
    /// there.
    pub clamped: bool,
}

pub(super) static LEAST_SQUARES: Entry =
    Entry::new("least_squares", Group::General, |_| Box::new(LeastSquares { clamped: false }));

pub(super) static CLAMPED_LEAST_SQUARES: Entry = Entry {
    unclipped: Some(&LEAST_SQUARES),
    ..Entry::new("clamped_least_squares", Group::General, |_| {
        Box::new(LeastSquares { clamped: true })
    })
};

impl Attack for LeastSquares {
    fn needs(&self) -> Needs {
        Needs::EQUATIONS
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let system = view.linear()?;
        let mut estimates = system.least_norm(view.b_prime()?);
        if self.clamped {
            contract::clamp(&mut estimates);
        }
        Reconstruction::solving(view, estimates, |rank| Status::LeastNorm { rank })
    }
}
