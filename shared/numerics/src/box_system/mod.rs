//! The points of the unit box that satisfy linear equations, S = {x ∈ [0, 1]^d : A x = b}, and the
//! centres of S that the attacks use (R sections IV and V).
//!
//! A (m × d, rank r) is decomposed once: A = U Σ Vᵀ gives the equations the form Vᵀx = t with
//! orthonormal rows, t = Σ⁻¹Uᵀb, and N (d × (d − r)) spans the null space, so that the solutions
//! are q + N u with q = V t. Right sides then cost a few microseconds each and are spread over the
//! cores. A result does not depend on the other right sides, nor on the number of threads.

mod centre;
mod certificate;
mod equations;
mod face;
mod fit;
mod interior_point;
mod projection;

use nalgebra::DMatrix;
use rayon::prelude::*;

use self::centre::{Centre, centre};
use self::equations::Equations;
use self::face::Face;
use self::fit::Fit;
use self::projection::{Dual, ProjectionOutcome, Rows, project_by_faces};
use crate::dense::{amax, axpy, dot};
use crate::pseudo_inverse::DecompositionError;

/// Right sides that a thread takes at a time.
const CHUNK: usize = 32;

/// The tolerance of A x = b for a solution: ‖A x − b‖ ≤ this · σ₁. Scores computed in double
/// precision leave about 1e-15 to 1e-12; those that a defense has changed, 1e-3 and more.
const CONSISTENT: f64 = 1e-9;

/// With a wider gap than this between b and A x over the box, a missing solution is not due to
/// round-off.
const THIN: f64 = 1e-6;

/// The equations A x = b over the unit box, for one A (m × d) and any number of right sides.
///
/// A right side b with values that are not finite gives an outcome that is not `consistent`; its
/// point is meaningless.
///
/// # Example
///
/// One equation, 3 x₁ + x₂ = 3.9. Its solutions in the box lie between (1, 0.9) and (0.967, 1).
///
/// ```
/// use nalgebra::DMatrix;
/// use vfl_numerics::BoxSystem;
///
/// let system = BoxSystem::new(&DMatrix::from_row_slice(1, 2, &[3.0, 1.0]))?;
/// let b = DMatrix::from_element(1, 1, 3.9);
/// let near = |x: &DMatrix<f64>, y: [f64; 2]| (x - DMatrix::from_column_slice(2, 1, &y)).amax() < 1e-9;
///
/// // Half*: the solution nearest to ½, in the box or not.
/// assert!(near(&system.half_star(&b), [1.07, 0.69]));
///
/// // RCC2: the solution in the box nearest to ½.
/// let rcc2 = system.project_half(&b);
/// assert!(near(&rcc2.x, [1.0, 0.9]));
///
/// // RCC1: a tighter relaxation of the Chebyshev centre. Its objective bounds the squared Chebyshev radius.
/// let rcc1 = system.relaxed_chebyshev(&b);
/// assert!(near(&rcc1.x, [0.992_105_263, 0.923_684_211]));
/// assert!(rcc1.outcomes[0].objective < rcc2.outcomes[0].objective);
///
/// // Constrained least squares: no point of the box gives 5, and the corner (1, 1) comes nearest.
/// let cls = system.least_squares(&DMatrix::from_element(1, 1, 5.0));
/// assert!(near(&cls.x, [1.0, 1.0]));
/// assert!(!cls.outcomes[0].consistent);
/// assert!((cls.outcomes[0].objective - 1.0).abs() < 1e-9);
/// # Ok::<(), vfl_numerics::DecompositionError>(())
/// ```
#[derive(Clone)]
pub struct BoxSystem {
    equations: Equations,
    /// The coordinates that the equations leave free, with their null space.
    moving: Face,
}

impl std::fmt::Debug for BoxSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Equations { m, d, r, .. } = &self.equations;
        write!(f, "BoxSystem({m} × {d}, rank {r})")
    }
}

/// One point for each right side, with the outcome of its search.
#[derive(Clone, PartialEq)]
pub struct BoxSolution {
    /// d × n, each column in [0, 1]^d.
    pub x: DMatrix<f64>,
    /// The outcome of each column.
    pub outcomes: Vec<BoxOutcome>,
}

impl std::fmt::Debug for BoxSolution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BoxSolution({} × {}, values withheld)", self.x.nrows(), self.x.ncols())
    }
}

/// The outcome of the search for one point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxOutcome {
    /// The value of the method's own objective, which the method documents.
    pub objective: f64,
    /// True if a point of the box satisfies the equations, to 1e-9 of ‖A‖. If none does, the point
    /// belongs to the nearest right side that can be satisfied.
    pub consistent: bool,
    /// True if the method's stopping rule was met.
    pub converged: bool,
    /// Newton steps and changes of the active set.
    pub iterations: u32,
}

/// The workspace for one right side at a time.
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
    /// [`DecompositionError`] for values that are not finite, or a decomposition that does not
    /// converge.
    pub fn new(a: &DMatrix<f64>) -> Result<Self, DecompositionError> {
        let equations = Equations::new(a)?;
        let moving =
            Face::new(&equations.scaled, equations.r, equations.d, (0..equations.d).collect());
        Ok(Self { equations, moving })
    }

    /// Returns the solution of A x = b nearest to ½·1, for each column of `b` (m × n): A⁺b + (I −
    /// A⁺A) ½·1 (Half*; R (22)), d × n. It may lie outside the box. Where A x = b has no solution,
    /// it is one of the least-squares solutions.
    ///
    /// # Panics
    /// If `b` does not have m rows.
    #[must_use]
    pub fn half_star(&self, b: &DMatrix<f64>) -> DMatrix<f64> {
        let Equations { m, d, half, .. } = &self.equations;
        assert_eq!(b.nrows(), *m, "rows of b");
        let mut x = DMatrix::from_element(*d, b.ncols(), 0.5);
        if *m == 0 || *d == 0 {
            return x;
        }
        let mut t = Vec::new();
        for (b, x) in b.as_slice().chunks_exact(*m).zip(x.as_mut_slice().chunks_exact_mut(*d)) {
            self.equations.turned(b, &mut t);
            for (a, (t, half)) in t.iter().zip(half).enumerate() {
                axpy(x, t - half, self.equations.row(a));
            }
        }
        x
    }

    /// Returns the point of the box nearest to ½·1 among those with A x = b, for each column of `b`
    /// (m × n): R's second relaxation of the Chebyshev centre (RCC2; R section V-C). `objective` is
    /// Σ x_i (1 − x_i), an upper bound of the squared Chebyshev radius.
    ///
    /// Newton's method on the dual starts from the solution nearest to ½ without the box, which is
    /// the answer when it lies within.
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

    /// Returns the minimiser of ‖A x − b‖² over the box that is nearest to ½·1, for each column of
    /// `b` (m × n). `objective` is the minimum ‖A x − b‖². Where some point of the box satisfies
    /// the equations this is [`project_half`](Self::project_half).
    ///
    /// # Panics
    /// If `b` does not have m rows.
    #[must_use]
    pub fn least_squares(&self, b: &DMatrix<f64>) -> BoxSolution {
        self.each(b, |b, x, work| {
            let mut outcome = self.projected(b, x, work);
            outcome.objective = self.equations.misfit(b, x);
            outcome
        })
    }

    /// Returns R's first relaxation of the Chebyshev centre (RCC1) for each column of `b` (m × n):
    /// the semidefinite program R (16) in the order of matrices (not, as its authors' code has it,
    /// of their diagonals). `objective` is its optimal value, an upper bound of the squared
    /// Chebyshev radius, at most [`project_half`](Self::project_half)'s.
    ///
    /// Most records end with a proof that both relaxations agree; the rest go through a primal-dual
    /// interior point method.
    ///
    /// # Panics
    /// If `b` does not have m rows.
    #[must_use]
    pub fn relaxed_chebyshev(&self, b: &DMatrix<f64>) -> BoxSolution {
        self.each(b, |b, x, work| {
            let mut outcome = self.projected(b, x, work);
            let centred = centre(&self.equations, &self.moving, x, &mut work.centre);
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
        let (n, m, d) = (b.ncols(), self.equations.m, self.equations.d);
        assert_eq!(b.nrows(), m, "rows of b");
        let mut x = DMatrix::zeros(d, n);
        // The outcome without any unknown.
        let blank = |b: &[f64]| {
            let misfit = dot(b, b);
            BoxOutcome {
                objective: misfit,
                consistent: misfit == 0.0,
                converged: true,
                iterations: 0,
            }
        };
        let mut outcomes: Vec<BoxOutcome> =
            b.as_slice().chunks_exact(m.max(1)).map(blank).collect();
        outcomes.resize(n, blank(&[]));
        if d > 0 {
            let columns =
                x.as_mut_slice().par_chunks_mut(CHUNK * d).zip(outcomes.par_chunks_mut(CHUNK));
            columns.enumerate().for_each_init(
                Workspace::default,
                |work, (chunk, (x, outcomes))| {
                    for (i, (x, outcome)) in x.chunks_exact_mut(d).zip(outcomes).enumerate() {
                        let record = chunk * CHUNK + i;
                        *outcome = solve(&b.as_slice()[record * m..][..m], x, work);
                    }
                },
            );
        }
        BoxSolution { x, outcomes }
    }

    /// Computes the point nearest to ½·1 among those of the box that satisfy the equations best.
    fn projected(&self, b: &[f64], x: &mut [f64], work: &mut Workspace) -> BoxOutcome {
        let equations = &self.equations;
        let Equations { r, d, half, vt, scaled, .. } = equations;
        let (r, d) = (*r, *d);
        let Workspace { t, dual, fit, .. } = work;
        equations.turned(b, t);
        dual.lambda.clear();
        dual.lambda.extend(t.iter().zip(half).map(|(t, h)| t - h));
        let size = 1.0 + amax(t);
        let rows = Rows { g: vt, r, d, margin: 0.0, epsilon: 0.0, tolerance: 1e-13 * size };
        let (ended, steps) = rows.project(t, dual, x);
        let mut outcome =
            BoxOutcome { objective: 0.0, consistent: true, converged: true, iterations: steps };
        if ended != ProjectionOutcome::Done
            && (ended != ProjectionOutcome::Empty || dual.gap < THIN)
        {
            // In the scale of A x, where the round-off of b is not divided by small singular
            // values.
            let target = equations.scaled_right_side(t);
            let tolerance = 1e-13 * (1.0 + amax(&target));
            outcome.iterations += project_by_faces(scaled, r, &target, tolerance, dual, x);
        }
        if ended != ProjectionOutcome::Done && !self.satisfied(t, x) {
            let (converged, steps) = equations.fit(t, x, fit);
            outcome.converged = converged;
            outcome.iterations += steps;
            outcome.consistent = self.satisfied(t, x);
        }
        outcome.consistent &=
            equations.misfit(b, x).sqrt() <= CONSISTENT * equations.largest() * size;
        outcome
    }

    /// Returns true if Vᵀx = t within the tolerance of a solution.
    fn satisfied(&self, t: &[f64], x: &[f64]) -> bool {
        let Equations { sigma, .. } = &self.equations;
        let misfit = t.iter().zip(sigma).enumerate();
        let misfit = misfit
            .map(|(a, (t, s))| (s * (dot(self.equations.row(a), x) - t)).powi(2))
            .sum::<f64>()
            .sqrt();
        misfit <= 0.01 * CONSISTENT * self.equations.largest() * (1.0 + amax(t))
    }
}

/// Returns Σ x_i (1 − x_i).
fn spread(x: &[f64]) -> f64 {
    x.iter().map(|x| x * (1.0 - x)).sum()
}

#[cfg(test)]
mod tests;
