//! `stiefel`: V cases i and ii, a search over the orthogonal group.

mod descent;
mod objective;

use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;

use self::descent::{Descent, descend};
use self::objective::Objective;
use super::orthonormal::{extended, orthonormal, orthonormal_of};
use super::{RewrittenParameters, Search, StiefelCase, TransformError};
use crate::moments::Moments;

const NAME: &str = "stiefel";

/// The default number of starting points.
const STARTS: u32 = 32;

/// The most starting points. More would keep the releases of a passive party waiting for hours, by
/// mistake.
const MOST_STARTS: u32 = 1000;

/// Checks the settings that need no parameters.
///
/// # Errors
/// [`TransformError::Setting`] for a penalty or a number of starts out of range.
pub fn check(penalty: Option<f64>, starts: Option<u32>) -> Result<(), TransformError> {
    let refuse = |reason| Err(TransformError::Setting { transform: NAME, reason });
    if let Some(penalty) = penalty
        && !(penalty >= 0.0 && penalty.is_finite())
    {
        return refuse(format!("`penalty` is {penalty}, expected 0 or more"));
    }
    match starts {
        Some(starts) if !(1..=MOST_STARTS).contains(&starts) => {
            refuse(format!("`starts` is {starts}, expected 1 to {MOST_STARTS}"))
        }
        _ => Ok(()),
    }
}

/// The checked settings of the search.
pub(super) struct Settings {
    case: StiefelCase,
    penalty: Option<f64>,
    starts: u32,
}

impl Settings {
    pub(super) fn new(
        w_pas: &DMatrix<f64>,
        case: Option<StiefelCase>,
        penalty: Option<f64>,
        starts: Option<u32>,
    ) -> Result<Self, TransformError> {
        check(penalty, starts)?;
        let starts = starts.unwrap_or(STARTS);
        let (k, d) = w_pas.shape();
        let fits = if d >= k { StiefelCase::I } else { StiefelCase::Ii };
        Ok(Self { case: case.unwrap_or(fits), penalty, starts })
    }
}

/// Returns W_n = W_pas R for the R that the search finds; `search.objective` is V (39) or (48)
/// there.
pub(super) fn rewrite(
    w_pas: &DMatrix<f64>,
    moments: &Moments,
    epsilon: f64,
    settings: &Settings,
    rng: &mut dyn Rng,
) -> Result<RewrittenParameters, TransformError> {
    let (k, d) = w_pas.shape();
    let still = epsilon == 0.0 && settings.penalty.is_none();
    let penalty = settings.penalty.unwrap_or_else(|| default_penalty(moments, epsilon));
    if !penalty.is_finite() {
        let reason = format!(
            "`epsilon` is {epsilon}, too small for its default `penalty`: give one, or 0 for W_pas itself"
        );
        return Err(TransformError::Setting { transform: NAME, reason });
    }
    let objective = Objective::new(w_pas, moments, settings.case, epsilon, penalty)?;
    let rewritten = |weights, matrix, search| RewrittenParameters {
        weights,
        bias_shift: DVector::zeros(k),
        matrix: Some(matrix),
        search: Some(search),
    };
    let rank = objective.basis().ncols();
    if still || rank == 0 {
        let value = if rank == 0 { 0.0 } else { objective.value(objective.basis()) };
        let search = Search { objective: value, starts: 0, steps: 0, gradient_norm: 0.0 };
        return Ok(rewritten(w_pas.clone(), DMatrix::identity(d, d), search));
    }
    // One stream of random numbers per start: the same points on any number of threads.
    let mut key = [0; 32];
    rng.fill_bytes(&mut key);
    let run = |start: u32| {
        let mut rng = ChaCha20Rng::from_seed(key);
        rng.set_stream(u64::from(start));
        descend(&objective, starting_point(objective.basis(), start, &mut rng))
    };
    let found: Vec<Descent> = (0..settings.starts).into_par_iter().map(run).collect();
    let steps = found.iter().map(|found| found.steps).sum();
    let best = found
        .into_iter()
        .filter(|found| found.value.is_finite())
        .reduce(|best, other| if other.value < best.value { other } else { best })
        .ok_or_else(|| {
            TransformError::Input("the passive weights are too large: the search overflows".into())
        })?;
    let search = Search {
        objective: best.value,
        starts: settings.starts,
        steps,
        gradient_norm: best.gradient_norm,
    };
    let matrix = complete(objective.basis(), &best.point, rng);
    Ok(rewritten(objective.weights(&best.point), matrix, search))
}

/// Returns λ = 100 (1/d) Tr K₀ / ε²: see [`rewrite`](super::rewrite).
fn default_penalty(moments: &Moments, epsilon: f64) -> f64 {
    if epsilon == 0.0 {
        return 0.0;
    }
    100.0 * moments.about_zero.trace() / (moments.mean.len() as f64 * epsilon * epsilon)
}

/// Returns Rᵀ Q for the R of a start. R has determinant −1 for the odd starts. For the first two,
/// it is near the identity, or near its reflection along the direction that has the least part in
/// the weights; for the others, it is uniform. It is never the identity itself, which is a
/// stationary point (of V (48), and of the penalty).
fn starting_point(basis: &DMatrix<f64>, start: u32, rng: &mut ChaCha20Rng) -> DMatrix<f64> {
    let (d, rank) = basis.shape();
    let reflected = start % 2 == 1;
    if start > 1 {
        return orthonormal_of(d, reflected, rng).transpose() * basis;
    }
    let mut point = basis.clone();
    if reflected {
        point.column_mut(rank - 1).neg_mut();
    }
    let nudge = orthonormal(d, rng).columns(0, rank) * 0.1;
    descent::orthonormalised(&point + nudge).unwrap_or(point)
}

/// Returns an R (d × d, orthonormal) with RᵀQ = Y. It maps the rest of the space, which W_pas does
/// not see, at random.
fn complete(basis: &DMatrix<f64>, point: &DMatrix<f64>, rng: &mut dyn Rng) -> DMatrix<f64> {
    extended(basis.clone(), rng) * extended(point.clone(), rng).transpose()
}

#[cfg(test)]
mod tests;
