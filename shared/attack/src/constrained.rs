//! Estimates in the box [0, 1]^d that use all of its constraints: the constrained least squares (R
//! section IV), and the two relaxations of the Chebyshev centre (R section V-B and V-C). Defended
//! scores are usually inconsistent. Then each method solves for the nearest scores that a point of
//! the box gives, and says so for that record.

use rand::Rng;
use vfl_numerics::BoxSolution;

use super::entry::{Entry, Group};
use super::{AdversaryView, Attack, AttackError, Needs, Reconstruction, RecordOutcome, Status};

/// The point of the box with the least ‖A x − b'‖; of several, the one nearest to ½.
#[derive(Debug, Clone, Copy)]
pub struct ConstrainedLeastSquares;

/// The second relaxation: the point nearest to ½ of {x in [0, 1]^d : A x = b'}.
#[derive(Debug, Clone, Copy)]
pub struct Rcc2;

/// The first relaxation: the semidefinite program R (16).
#[derive(Debug, Clone, Copy)]
pub struct Rcc1;

pub(super) static CONSTRAINED_LEAST_SQUARES: Entry =
    Entry::new("constrained_least_squares", Group::General, |_| Box::new(ConstrainedLeastSquares));

pub(super) static RCC1: Entry = Entry::new("rcc1", Group::General, |_| Box::new(Rcc1));

pub(super) static RCC2: Entry = Entry::new("rcc2", Group::General, |_| Box::new(Rcc2));

impl Attack for ConstrainedLeastSquares {
    fn needs(&self) -> Needs {
        Needs::EQUATIONS
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let system = view.linear()?;
        let found = system.in_box()?.least_squares(view.b_prime()?);
        reconstruction(view, found, |rank| Status::BestFit { rank })
    }
}

impl Attack for Rcc2 {
    fn needs(&self) -> Needs {
        Needs::EQUATIONS
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let system = view.linear()?;
        let found = system.in_box()?.project_half(view.b_prime()?);
        reconstruction(view, found, |rank| Status::Centre { rank })
    }
}

impl Attack for Rcc1 {
    fn needs(&self) -> Needs {
        Needs::EQUATIONS
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let system = view.linear()?;
        let found = system.in_box()?.relaxed_chebyshev(view.b_prime()?);
        reconstruction(view, found, |rank| Status::Centre { rank })
    }
}

fn reconstruction(
    view: &AdversaryView<'_>,
    found: BoxSolution,
    status: impl Fn(usize) -> Status,
) -> Result<Reconstruction, AttackError> {
    let outcomes = found.outcomes.iter().map(RecordOutcome::from).collect();
    Ok(Reconstruction { outcomes, ..Reconstruction::solving(view, found.x, status)? })
}
