//! The exact Chebyshev centre of S = {x ∈ [0, 1]^d : A x = b'}: the point x̂ with the least max
//! over x ∈ S of ‖x − x̂‖ (R section V-B, definition 1 and (11)). R's RCC1 and RCC2 are relaxations
//! of it. No estimate has a smaller worst case.
//!
//! The farthest point of a polytope is always a corner, so x̂ is the centre of the smallest ball
//! around the corners of S. Their number grows exponentially with the dimension of S; within the
//! limits below the answer is exact.

mod ball;
mod corners;
#[cfg(test)]
mod tests;

use nalgebra::DMatrix;
use rand::Rng;
use rayon::prelude::*;

use self::ball::Ball;
pub use self::corners::MAX_NULLITY;
use self::corners::{Corners, Stop, Walk};
use super::entry::{Entry, Group};
use super::{
    AdversaryView, Attack, AttackError, LinearSystem, Needs, Reconstruction, RecordOutcome, Status,
    Termination,
};

/// The most bases of one record's S. A corner at which more than d − rank A features are 0 or 1
/// counts once for each of its bases.
pub const MAX_CORNERS: usize = 50_000;

/// The exact Chebyshev centre of S. Each record's `objective` is the squared radius, the worst
/// squared error of the estimate; its `iterations` are the bases visited.
#[derive(Debug, Clone, Copy)]
pub struct ChebyshevExact;

pub(super) static CHEBYSHEV_EXACT: Entry =
    Entry::new("chebyshev_exact", Group::Special, |_| Box::new(ChebyshevExact));

impl Attack for ChebyshevExact {
    fn needs(&self) -> Needs {
        Needs::EQUATIONS
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let system = view.linear()?;
        let b_prime = view.b_prime()?;
        let (estimates, outcomes) =
            centres(system, b_prime, |b| Ok(system.in_box()?.least_squares(b).x))?;
        let found = Reconstruction::solving(view, estimates, |rank| Status::Centre { rank })?;
        Ok(Reconstruction { outcomes, ..found })
    }
}

/// The centre, the squared radius and the number of bases of one record; `None` if S is empty.
type RecordCentre = Option<(Vec<f64>, f64, usize)>;

/// Returns the centres (d × n) of all records. If S is empty, b' is replaced by A x with x from
/// `nearest` (the best fit in the box of given columns of b').
fn centres(
    system: &LinearSystem,
    b_prime: &DMatrix<f64>,
    nearest: impl Fn(&DMatrix<f64>) -> Result<DMatrix<f64>, AttackError>,
) -> Result<(DMatrix<f64>, Vec<RecordOutcome>), AttackError> {
    let (features, nullity) = (system.matrix().ncols(), system.nullity());
    if nullity > MAX_NULLITY {
        return Err(AttackError::Nullity { features, nullity, limit: MAX_NULLITY });
    }
    if features == 0 {
        let outcomes = b_prime.column_iter().map(|b| {
            let ended =
                if b.norm() == 0.0 { Termination::Solved } else { Termination::NearestConsistent };
            RecordOutcome { ended, iterations: 0, objective: 0.0 }
        });
        return Ok((DMatrix::zeros(0, b_prime.ncols()), outcomes.collect()));
    }
    let projector = system.pseudo_inverse() * system.matrix();
    let corners = Corners::new(&projector, system.rank());
    let centre =
        |(walk, ball): &mut (Walk, Ball), q: &[f64]| -> Result<RecordCentre, AttackError> {
            match corners.find(q, MAX_CORNERS, walk) {
                Ok(bases) => {
                    ball.enclose(&walk.corners, features);
                    Ok(Some((ball.centre.clone(), ball.radius_squared, bases)))
                }
                Err(Stop::Empty) => Ok(None),
                Err(Stop::TooMany) => {
                    Err(AttackError::Corners { features, nullity, limit: MAX_CORNERS })
                }
            }
        };
    let memory = <(Walk, Ball)>::default;

    let q = system.least_norm(b_prime);
    let misfit = system.matrix() * &q - b_prime;
    let found: Vec<RecordCentre> = (0..b_prime.ncols())
        .into_par_iter()
        .map_init(memory, |memory, record| {
            if misfit.column(record).norm() > system.tolerance(b_prime.column(record).as_slice()) {
                return Ok(None);
            }
            centre(memory, q.column(record).as_slice())
        })
        .collect::<Result<_, _>>()?;

    let empty: Vec<usize> = (0..found.len()).filter(|&record| found[record].is_none()).collect();
    let mut estimates = DMatrix::zeros(features, b_prime.ncols());
    let mut outcomes = Vec::with_capacity(found.len());
    for (record, found) in found.into_iter().enumerate() {
        let (ended, objective, bases) = match found {
            Some((x, radius_squared, bases)) => {
                estimates.column_mut(record).copy_from_slice(&x);
                (Termination::Solved, radius_squared, bases)
            }
            None => (Termination::NearestConsistent, 0.0, 0),
        };
        outcomes.push(RecordOutcome { ended, iterations: bases as u32, objective });
    }
    if !empty.is_empty() {
        let b = b_prime.select_columns(&empty);
        let nearest = nearest(&b)?;
        let misfit = system.matrix() * &nearest - &b;
        let found: Vec<RecordCentre> = (0..empty.len())
            .into_par_iter()
            .map_init(memory, |memory, at| centre(memory, nearest.column(at).as_slice()))
            .collect::<Result<_, _>>()?;
        for (at, (record, found)) in empty.into_iter().zip(found).enumerate() {
            let outcome = &mut outcomes[record];
            // A misfit within the tolerance is no misfit.
            if misfit.column(at).norm() <= system.tolerance(b.column(at).as_slice()) {
                outcome.ended = Termination::Solved;
            }
            let mut estimate = estimates.column_mut(record);
            match found {
                Some((x, radius_squared, bases)) => {
                    estimate.copy_from_slice(&x);
                    (outcome.objective, outcome.iterations) = (radius_squared, bases as u32);
                }
                // The point itself satisfies its equations, so only the search for a first corner
                // can have given up.
                None => {
                    estimate.copy_from(&nearest.column(at));
                    outcome.ended = Termination::StepLimit;
                }
            }
        }
    }
    super::contract::clamp(&mut estimates);
    Ok((estimates, outcomes))
}
