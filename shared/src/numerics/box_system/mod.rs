//! The points of the unit box that satisfy linear equations, S = {x ∈ [0, 1]^d : A x = b}, and the centres of it that the
//! attacks take (R sections IV and V).
//!
//! Of A (m × d, rank r) everything is worked out once: A = U Σ Vᵀ gives the equations the form Vᵀx = t with orthonormal
//! rows, t = Σ⁻¹Uᵀb, and N (d × (d − r)) spans the null space, so that the solutions are q + N u with q = V t. Right sides then
//! cost a few microseconds each and are spread over the cores; a result does not depend on the right sides beside it, nor
//! on the number of threads.

mod centre;
mod certificate;
use super::dense;
mod fit;
mod interior_point;
mod projection;

use faer::Mat;
use nalgebra::DMatrix;
use rayon::prelude::*;

use self::centre::{Centre, Face};
use self::dense::{amax, axpy, dot};
use self::fit::Fit;
use self::projection::{Dual, Projected, Rows, project_by_faces};
use super::{DecompositionError, RANK_TOLERANCE};

/// Right sides a thread takes at a time.
const CHUNK: usize = 32;

/// How far from A x = b a point may be and still count as a solution: ‖A x − b‖ ≤ this · σ₁. Scores computed in double
/// precision leave about 1e-15 to 1e-12; those that a defense has touched, 1e-3 and more.
const CONSISTENT: f64 = 1e-9;

/// With a wider gap than this between b and what the box can give, round-off is not why there is no solution.
const THIN: f64 = 1e-6;

/// The equations A x = b over the unit box, for one A (m × d) and any number of right sides.
#[derive(Clone)]
pub struct BoxSystem {
    m: usize,
    d: usize,
    r: usize,
    /// Σ⁻¹ Uᵀ, r × m, row-major: t = `to_t` b.
    to_t: Vec<f64>,
    /// U, as r rows of m.
    u: Vec<f64>,
    /// The r singular values.
    sigma: Vec<f64>,
    /// Vᵀ, r × d, row-major.
    vt: Vec<f64>,
    /// Σ Vᵀ / σ₁, r × d, row-major.
    scaled: Vec<f64>,
    /// Vᵀ ½·1.
    half: Vec<f64>,
    /// The coordinates that the equations leave open, with their null space.
    moving: Face,
}

impl std::fmt::Debug for BoxSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BoxSystem({} × {}, rank {})", self.m, self.d, self.r)
    }
}

/// One point per right side, with how it was found.
#[derive(Clone, PartialEq)]
pub struct BoxSolution {
    /// d × n, each column in [0, 1]^d.
    pub x: DMatrix<f64>,
    /// How each column was found.
    pub outcomes: Vec<BoxOutcome>,
}

impl std::fmt::Debug for BoxSolution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BoxSolution({} × {}, values withheld)", self.x.nrows(), self.x.ncols())
    }
}

/// How one point was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxOutcome {
    /// The value of the method's own objective; see the method.
    pub objective: f64,
    /// Whether a point of the box satisfies the equations, to 1e-9 of ‖A‖. If none does, the point answers for the nearest
    /// right side that one can satisfy.
    pub consistent: bool,
    /// Whether the method's stopping rule was met.
    pub converged: bool,
    /// Newton steps and changes of the active set.
    pub iterations: u32,
}

/// Room for one right side at a time.
#[derive(Default)]
struct Workspace {
    t: Vec<f64>,
    dual: Dual,
    fit: Fit,
    centre: Centre,
}

impl BoxSystem {
    /// Factors `a`, m × d.
    ///
    /// # Errors
    /// [`DecompositionError`] for values that are not finite, or a decomposition that does not converge.
    pub fn new(a: &DMatrix<f64>) -> Result<Self, DecompositionError> {
        if a.iter().any(|v| !v.is_finite()) {
            return Err(DecompositionError::NotFinite);
        }
        let (m, d) = a.shape();
        let (mut sigma, mut u, mut vt) = (Vec::new(), Vec::new(), Vec::new());
        if m > 0 && d > 0 {
            let svd = Mat::from_fn(m, d, |i, j| a[(i, j)]).thin_svd().map_err(|_| DecompositionError::NoConvergence)?;
            let values = svd.S().column_vector();
            let cut = RANK_TOLERANCE * values[0];
            sigma.extend(values.iter().copied().filter(|&s| s > cut));
            for a in 0..sigma.len() {
                u.extend((0..m).map(|i| svd.U()[(i, a)]));
                vt.extend((0..d).map(|i| svd.V()[(i, a)]));
            }
            // A column of zeros comes out of the decomposition as round-off, which a long step would make count.
            for i in 0..d {
                if (0..sigma.len()).all(|a| sigma[a] * vt[a * d + i].abs() < 1e-14 * sigma[0]) {
                    (0..sigma.len()).for_each(|a| vt[a * d + i] = 0.0);
                }
            }
        }
        let r = sigma.len();
        let to_t = u.chunks_exact(m.max(1)).zip(&sigma).flat_map(|(u, s)| u.iter().map(move |u| u / s)).collect();
        let largest = sigma.first().copied().unwrap_or(1.0);
        let scaled = vt.chunks_exact(d.max(1)).zip(&sigma).flat_map(|(v, s)| v.iter().map(move |v| v * s / largest));
        let scaled: Vec<f64> = scaled.collect();
        let half = vt.chunks_exact(d.max(1)).map(|v| 0.5 * v.iter().sum::<f64>()).collect();
        let moving = Face::new(&scaled, r, d, (0..d).collect());
        Ok(Self { m, d, r, to_t, u, sigma, vt, scaled, half, moving })
    }

    /// The point nearest to ½·1 among those with A x = b, for each column of `b` (m × n): R's second relaxation of the
    /// Chebyshev centre (RCC2; R section V-C). `objective` is Σ x_i (1 − x_i), an upper bound of the squared Chebyshev radius.
    ///
    /// Newton's method on the dual, from the solution nearest to ½ without the box, which is the answer when it lies within.
    ///
    /// # Panics
    /// If `b` does not have m rows.
    #[must_use]
    pub fn project_half(&self, b: &DMatrix<f64>) -> BoxSolution {
        self.each(b, |b, x, work| {
            let mut outcome = self.projected(b, x, work);
            outcome.objective = spread(x);
            outcome
        })
    }

    /// A minimiser of ‖A x − b‖² over the box, the one nearest to ½·1, for each column of `b` (m × n). `objective` is the
    /// minimum ‖A x − b‖². Where some point of the box satisfies the equations this is
    /// [`project_half`](Self::project_half).
    ///
    /// # Panics
    /// If `b` does not have m rows.
    #[must_use]
    pub fn least_squares(&self, b: &DMatrix<f64>) -> BoxSolution {
        self.each(b, |b, x, work| {
            let mut outcome = self.projected(b, x, work);
            outcome.objective = self.misfit(b, x);
            outcome
        })
    }

    /// R's first relaxation of the Chebyshev centre (RCC1), the semidefinite program R (16) in the order of matrices (not, as
    /// its authors' code has it, of their diagonals), for each column of `b` (m × n). `objective` is its optimal value, an
    /// upper bound of the squared Chebyshev radius, at most [`project_half`](Self::project_half)'s.
    ///
    /// Most records end with a proof that both relaxations agree; the rest go through a primal-dual interior point method.
    ///
    /// # Panics
    /// If `b` does not have m rows.
    #[must_use]
    pub fn relaxed_chebyshev(&self, b: &DMatrix<f64>) -> BoxSolution {
        self.each(b, |b, x, work| {
            let mut outcome = self.projected(b, x, work);
            let centred = self.centre(x, &mut work.centre);
            outcome.objective = centred.bound;
            outcome.converged &= centred.converged;
            outcome.iterations += centred.iterations;
            outcome
        })
    }

    fn each(
        &self,
        b: &DMatrix<f64>,
        solve: impl Fn(&[f64], &mut [f64], &mut Workspace) -> BoxOutcome + Sync,
    ) -> BoxSolution {
        assert_eq!(b.nrows(), self.m, "rows of b");
        let (n, d) = (b.ncols(), self.d);
        let mut x = DMatrix::zeros(d, n);
        // Of no unknowns, what is to be said at once.
        let blank = |b: &[f64]| {
            let misfit = dot(b, b);
            BoxOutcome { objective: misfit, consistent: misfit == 0.0, converged: true, iterations: 0 }
        };
        let mut outcomes: Vec<BoxOutcome> = b.as_slice().chunks_exact(self.m.max(1)).map(blank).collect();
        outcomes.resize(n, blank(&[]));
        if d > 0 {
            let columns = x.as_mut_slice().par_chunks_mut(CHUNK * d).zip(outcomes.par_chunks_mut(CHUNK));
            columns.enumerate().for_each_init(Workspace::default, |work, (chunk, (x, outcomes))| {
                for (i, (x, outcome)) in x.chunks_exact_mut(d).zip(outcomes).enumerate() {
                    let record = chunk * CHUNK + i;
                    *outcome = solve(&b.as_slice()[record * self.m..][..self.m], x, work);
                }
            });
        }
        BoxSolution { x, outcomes }
    }

    /// The point nearest to ½·1 among those of the box that satisfy the equations best.
    fn projected(&self, b: &[f64], x: &mut [f64], work: &mut Workspace) -> BoxOutcome {
        let (r, d) = (self.r, self.d);
        let Workspace { t, dual, fit, .. } = work;
        t.clear();
        t.extend((0..r).map(|a| dot(&self.to_t[a * self.m..][..self.m], b)));
        dual.lambda.clear();
        dual.lambda.extend(t.iter().zip(&self.half).map(|(t, h)| t - h));
        let size = 1.0 + amax(t);
        let rows = Rows { g: &self.vt, r, d, margin: 0.0, epsilon: 0.0, tolerance: 1e-13 * size };
        let (ended, steps) = rows.project(t, dual, x);
        let mut outcome = BoxOutcome { objective: 0.0, consistent: true, converged: true, iterations: steps };
        if ended != Projected::Done && (ended != Projected::Empty || dual.gap < THIN) {
            // In the scale of A x: round-off of b counts there as it is, and not divided by small singular values.
            let target: Vec<f64> = t.iter().zip(&self.sigma).map(|(t, s)| t * s / self.sigma[0]).collect();
            let tolerance = 1e-13 * (1.0 + amax(&target));
            outcome.iterations += project_by_faces(&self.scaled, r, &target, tolerance, dual, x);
        }
        if ended != Projected::Done && !self.satisfied(t, x) {
            let (converged, steps) = self.fit(t, x, fit);
            outcome.converged = converged;
            outcome.iterations += steps;
            outcome.consistent = self.satisfied(t, x);
        }
        outcome.consistent &=
            self.misfit(b, x).sqrt() <= CONSISTENT * self.sigma.first().copied().unwrap_or(1.0) * size;
        outcome
    }

    /// Whether Vᵀx = t as nearly as counts as a solution.
    fn satisfied(&self, t: &[f64], x: &[f64]) -> bool {
        let misfit = (0..self.r).map(|a| (self.sigma[a] * (dot(self.row(a), x) - t[a])).powi(2)).sum::<f64>().sqrt();
        misfit <= 0.01 * CONSISTENT * self.sigma.first().copied().unwrap_or(1.0) * (1.0 + amax(t))
    }

    fn row(&self, a: usize) -> &[f64] {
        &self.vt[a * self.d..][..self.d]
    }

    /// ‖A x − b‖²
    fn misfit(&self, b: &[f64], x: &[f64]) -> f64 {
        let mut residual: Vec<f64> = b.iter().map(|b| -b).collect();
        for a in 0..self.r {
            axpy(&mut residual, self.sigma[a] * dot(self.row(a), x), &self.u[a * self.m..][..self.m]);
        }
        dot(&residual, &residual)
    }
}

/// Σ x_i (1 − x_i)
fn spread(x: &[f64]) -> f64 {
    x.iter().map(|x| x * (1.0 - x)).sum()
}

#[cfg(test)]
mod tests;
