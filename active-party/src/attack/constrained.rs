//! Estimates in the box [0, 1]^d that use all it says: the constrained least squares (R section IV), and the two relaxations of
//! the Chebyshev centre (R section V-B and V-C). Defended scores are inconsistent as a rule: then each method answers for
//! the nearest scores that a point of the box gives, and says so for that record.

use rand::Rng;
use vfl_shared::numerics::BoxSolution;

use super::{
    AdversaryView, Attack, AttackError, Ended, LinearSystem, Reconstruction, RecordOutcome, Requirements, Status,
};

/// The point of the box with the least ‖A x − b'‖; of several, the one nearest to ½.
#[derive(Debug, Clone, Copy)]
pub struct ConstrainedLeastSquares;

/// The second relaxation: the point nearest to ½ of {x in [0, 1]^d : A x = b'}.
#[derive(Debug, Clone, Copy)]
pub struct Rcc2;

/// The first relaxation: the semidefinite program R (16).
#[derive(Debug, Clone, Copy)]
pub struct Rcc1;

impl Attack for ConstrainedLeastSquares {
    fn requirements(&self) -> Requirements {
        Requirements { parameters: true }
    }

    fn reconstruct(&self, view: &AdversaryView, _rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let system = view.system()?;
        let found = system.in_box()?.least_squares(view.b_prime());
        Ok(reconstruction(system, view, found, |rank| Status::BestFit { rank }))
    }
}

impl Attack for Rcc2 {
    fn requirements(&self) -> Requirements {
        Requirements { parameters: true }
    }

    fn reconstruct(&self, view: &AdversaryView, _rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let system = view.system()?;
        let found = system.in_box()?.project_half(view.b_prime());
        Ok(reconstruction(system, view, found, |rank| Status::Centre { rank }))
    }
}

impl Attack for Rcc1 {
    fn requirements(&self) -> Requirements {
        Requirements { parameters: true }
    }

    fn reconstruct(&self, view: &AdversaryView, _rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let system = view.system()?;
        let found = system.in_box()?.relaxed_chebyshev(view.b_prime());
        Ok(reconstruction(system, view, found, |rank| Status::Centre { rank }))
    }
}

fn reconstruction(
    system: &LinearSystem,
    view: &AdversaryView,
    found: BoxSolution,
    status: impl Fn(usize) -> Status,
) -> Reconstruction {
    let solved = system.solved(&found.x, view.b_prime());
    let outcomes = found.outcomes.iter().map(|o| RecordOutcome {
        ended: match (o.converged, o.consistent) {
            (false, _) => Ended::StepLimit,
            (true, true) => Ended::Solved,
            (true, false) => Ended::NearestConsistent,
        },
        iterations: o.iterations,
        objective: o.objective,
    });
    let status = if solved.nullity == 0 { Status::Unique } else { status(solved.rank) };
    Reconstruction {
        outcomes: outcomes.collect(),
        estimates: found.x,
        status,
        solved: Some(solved),
        remarks: Vec::new(),
    }
}
