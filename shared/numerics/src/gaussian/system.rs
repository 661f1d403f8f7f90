//! A Gaussian prior of x under equations A x = b, decomposed once for any number of right sides.

use faer::Mat;
use nalgebra::DMatrix;
use rayon::prelude::*;

use super::confined::{Bound, Propagation, Row};
use super::error::GaussianError;
use super::factor::factor;
use super::quadratic::{BoxFitWorkspace, FitOutcome, distance};
use crate::box_system::{BoxOutcome, BoxSolution, BoxSystem};
use crate::dense::dot;
use crate::pseudo_inverse::{DecompositionError, PseudoInverse, RANK_TOLERANCE};

/// Right sides that a thread takes at a time.
const CHUNK: usize = 32;

/// The tolerance of A x = b for a point of the box, relative to ‖A‖ and the size of b.
const CONSISTENT: f64 = 1e-9;

/// A posterior mean may lie outside the box by this much round-off.
const OUTSIDE: f64 = 1e-8;

/// A vector x with covariance S (d × d) and equations A x = b, for one A (m × d) and any number of
/// right sides and means.
///
/// With T = S − S Aᵀ (A S Aᵀ)⁺ A S the remaining covariance, the solutions of A x = b that the
/// prior allows are x₀ + range(T), where x₀ is the [conditional mean](Self::conditional_mean). Both
/// are decomposed once for A and S; a right side whose x₀ lies in the box costs one product. S need
/// not have full rank: estimates stay in m + range(S).
///
/// # Example
///
/// x₁ and x₂ have mean ½; their sum is known, and x₁ varies nine times as much:
///
/// ```
/// use nalgebra::DMatrix;
/// use vfl_numerics::GaussianSystem;
///
/// let system = GaussianSystem::new(
///     &DMatrix::from_row_slice(1, 2, &[1.0, 1.0]),
///     &DMatrix::from_row_slice(2, 2, &[0.09, 0.0, 0.0, 0.01]),
/// )?;
/// let mean = DMatrix::from_element(2, 1, 0.5);
/// let near = |x: &DMatrix<f64>, y: [f64; 2]| (x - DMatrix::from_column_slice(2, 1, &y)).amax() < 1e-9;
///
/// let b = DMatrix::from_element(1, 1, 1.7);
/// assert!(near(&system.conditional_mean(&mean, &b), [1.13, 0.57]));
/// // The likeliest solution in the box, and the mean of all solutions in the box.
/// assert!(near(&system.likeliest_in_box(&mean, &b).x, [1.0, 0.7]));
/// let expected = system.posterior_mean(&mean, &b).x;
/// assert!(expected[0] < 1.0 && (expected.sum() - 1.7).abs() < 1e-9);
/// # Ok::<(), vfl_numerics::GaussianError>(())
/// ```
#[derive(Clone)]
pub struct GaussianSystem {
    m: usize,
    d: usize,
    /// A, row-major.
    a: Vec<f64>,
    /// ‖A‖
    largest: f64,
    /// S Aᵀ (A S Aᵀ)⁺, d × m, row-major.
    gain: Vec<f64>,
    /// T, d × d.
    left: DMatrix<f64>,
    /// S⁺, row-major.
    metric: Vec<f64>,
    /// For right sides that no point of the box satisfies.
    in_box: BoxSystem,
}

impl std::fmt::Debug for GaussianSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GaussianSystem({} × {}, values withheld)", self.m, self.d)
    }
}

/// The workspace for one right side at a time.
#[derive(Default)]
struct Work {
    fit: BoxFitWorkspace,
    propagation: Propagation,
    start: Vec<f64>,
    residual: Vec<f64>,
}

/// A covariance that is factored once, for many systems under it.
pub struct FactoredCovariance {
    /// L with S = L Lᵀ, d × q.
    spread: DMatrix<f64>,
    /// S⁺.
    metric: DMatrix<f64>,
}

impl std::fmt::Debug for FactoredCovariance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FactoredCovariance({0} × {0}, values withheld)", self.metric.nrows())
    }
}

impl FactoredCovariance {
    /// Factors S (d × d, symmetric).
    ///
    /// # Errors
    /// As [`GaussianSystem::new`].
    pub fn new(covariance: &DMatrix<f64>) -> Result<Self, GaussianError> {
        Ok(Self { spread: factor(covariance)?, metric: PseudoInverse::new(covariance)?.matrix })
    }

    /// Returns L with S = L Lᵀ, d × q.
    #[must_use]
    pub fn factor(&self) -> &DMatrix<f64> {
        &self.spread
    }
}

impl GaussianSystem {
    /// Factors A (m × d) under the covariance S (d × d, symmetric).
    ///
    /// # Errors
    /// [`GaussianError`] for values that are not finite, a decomposition that does not converge, or
    /// a negative variance.
    ///
    /// # Panics
    /// If S is not d × d.
    pub fn new(a: &DMatrix<f64>, covariance: &DMatrix<f64>) -> Result<Self, GaussianError> {
        let d = a.ncols();
        assert_eq!(covariance.shape(), (d, d), "shape of the covariance");
        Self::under(a, &FactoredCovariance::new(covariance)?)
    }

    /// Like [`GaussianSystem::new`], under a covariance that is factored already.
    ///
    /// # Errors
    /// As [`GaussianSystem::new`].
    ///
    /// # Panics
    /// If S is not d × d.
    pub fn under(a: &DMatrix<f64>, covariance: &FactoredCovariance) -> Result<Self, GaussianError> {
        let (m, d) = a.shape();
        let FactoredCovariance { spread, metric } = covariance;
        assert_eq!(metric.nrows(), d, "rows of the covariance");
        let in_box = BoxSystem::new(a)?;
        // x = mean + L z with z standard normal: the equations are G z = b − A mean with G = A L.
        let q = spread.ncols();
        let g = a * spread;
        let (mut gain, mut open) = (DMatrix::zeros(d, m), spread.clone());
        if m > 0 && q > 0 {
            let svd = Mat::from_fn(m, q, |i, j| g[(i, j)])
                .svd()
                .map_err(|_| DecompositionError::NoConvergence)?;
            let values: Vec<f64> = svd.S().column_vector().iter().copied().collect();
            let cut = RANK_TOLERANCE * values[0];
            let rank = values.iter().filter(|s| **s > cut).count();
            let known = DMatrix::from_fn(q, rank, |i, j| svd.V()[(i, j)]);
            let answers = DMatrix::from_fn(rank, m, |i, j| svd.U()[(j, i)] / values[i]);
            gain = spread * known * answers;
            open = spread * DMatrix::from_fn(q, q - rank, |i, j| svd.V()[(i, rank + j)]);
        }
        Ok(Self {
            m,
            d,
            a: a.transpose().as_slice().to_vec(),
            largest: a.norm(),
            gain: gain.transpose().as_slice().to_vec(),
            left: &open * open.transpose(),
            metric: metric.as_slice().to_vec(),
            in_box,
        })
    }

    /// Returns T = S − S Aᵀ (A S Aᵀ)⁺ A S, d × d: the covariance of x given A x. Its trace over d
    /// is the least mean squared error of a linear estimate.
    #[must_use]
    pub fn covariance_left(&self) -> &DMatrix<f64> {
        &self.left
    }

    /// Returns m + S Aᵀ (A S Aᵀ)⁺ (b − A m) for each column of `means` (d × n) and `b` (m × n). It
    /// may lie outside the box.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[must_use]
    pub fn conditional_mean(&self, means: &DMatrix<f64>, b: &DMatrix<f64>) -> DMatrix<f64> {
        self.check(means, b);
        let mut x = means.clone();
        let mut residual = Vec::new();
        for (at, x) in x.as_mut_slice().chunks_exact_mut(self.d.max(1)).enumerate() {
            self.condition(&b.as_slice()[at * self.m..][..self.m], x, &mut residual);
        }
        x
    }

    /// Returns the likeliest point of the box with A x = b, the one of least (x − m)ᵀ S⁺ (x − m),
    /// for each column of `means` (d × n) and `b` (m × n). `objective` is that distance. Where the
    /// box has no point with A x = b, b is replaced by A x of the point of the box that fits best
    /// ([`BoxSystem::least_squares`]).
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[must_use]
    pub fn likeliest_in_box(&self, means: &DMatrix<f64>, b: &DMatrix<f64>) -> BoxSolution {
        self.each(means, b, |mean, b, x, work| self.likeliest(mean, b, x, work))
    }

    /// Returns the mean of the Gaussian given A x = b and x in the box, for each column of `means`
    /// (d × n) and `b` (m × n): the estimate with the least expected squared error. It is computed
    /// by [expectation propagation](super::ConfinedGaussian::mean), with b replaced as in
    /// [`likeliest_in_box`](Self::likeliest_in_box) where necessary. `objective` is the distance of
    /// the estimate from the mean, (x − m)ᵀ S⁺ (x − m).
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[must_use]
    pub fn posterior_mean(&self, means: &DMatrix<f64>, b: &DMatrix<f64>) -> BoxSolution {
        let sides: Vec<Bound> =
            (0..self.d).map(|i| Bound { row: Row::Axis(i), lower: 0.0, upper: 1.0 }).collect();
        self.each(means, b, |mean, b, x, work| {
            let mut outcome = self.likeliest(mean, b, x, work);
            // `start` holds the conditional mean from which the likeliest point was found.
            let likeliest = x.to_vec();
            x.copy_from_slice(&work.start);
            let (converged, sweeps) = work.propagation.run(self.left.as_slice(), &sides, x);
            // Hundreds of deviations outside the box, round-off dominates, and the mean is the
            // likeliest point up to round-off.
            if x.iter().all(|v| (-OUTSIDE..=1.0 + OUTSIDE).contains(v)) {
                outcome.converged &= converged;
            } else {
                x.copy_from_slice(&likeliest);
            }
            outcome.iterations += sweeps;
            x.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
            outcome.objective = distance(&self.metric, x, mean);
            outcome
        })
    }

    /// Writes the likeliest point to `x`. `work.start` keeps the conditional mean from which it was
    /// found.
    fn likeliest(&self, mean: &[f64], b: &[f64], x: &mut [f64], work: &mut Work) -> BoxOutcome {
        let Work { fit, start, residual, .. } = work;
        x.copy_from_slice(mean);
        self.condition(b, x, residual);
        start.clear();
        start.extend_from_slice(x);
        let (mut fitted, mut steps) = fit.run(self.left.as_slice(), x);
        let mut consistent = fitted == FitOutcome::Found && self.satisfied(b, x);
        if !consistent {
            // The box has no point with A x = b, or the prior does not allow b: its support, or the
            // range of A, excludes it.
            let right = DMatrix::from_column_slice(self.m, 1, b);
            let nearest = self.in_box.least_squares(&right).x;
            let given: Vec<f64> = self
                .a
                .chunks_exact(self.d.max(1))
                .map(|row| dot(row, nearest.as_slice()))
                .collect();
            let (before, found) = (x.to_vec(), fitted == FitOutcome::Found);
            x.copy_from_slice(mean);
            self.condition(&given, x, residual);
            start.clear();
            start.extend_from_slice(x);
            let more;
            (fitted, more) = fit.run(self.left.as_slice(), x);
            steps += more;
            if fitted == FitOutcome::Empty {
                // The support of the prior has no such point in the box.
                x.copy_from_slice(if found { &before } else { start });
                fitted = FitOutcome::Found;
            } else if fitted == FitOutcome::StepLimit {
                x.copy_from_slice(start);
            }
            x.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
            consistent = self.satisfied(b, x);
        }
        x.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
        let objective = distance(&self.metric, x, mean);
        BoxOutcome {
            objective,
            consistent,
            converged: fitted == FitOutcome::Found,
            iterations: steps,
        }
    }

    /// Moves `x` from the mean to the conditional mean.
    fn condition(&self, b: &[f64], x: &mut [f64], residual: &mut Vec<f64>) {
        if self.m == 0 {
            return;
        }
        residual.clear();
        residual.extend(self.a.chunks_exact(self.d).zip(b).map(|(row, b)| b - dot(row, x)));
        for (x, row) in x.iter_mut().zip(self.gain.chunks_exact(self.m)) {
            *x += dot(row, residual);
        }
    }

    fn satisfied(&self, b: &[f64], x: &[f64]) -> bool {
        let misfit = self
            .a
            .chunks_exact(self.d.max(1))
            .zip(b)
            .map(|(row, b)| (dot(row, x) - b).powi(2))
            .sum::<f64>();
        let size = b.iter().fold(self.largest, |m, b| m.max(b.abs()));
        misfit.sqrt() <= CONSISTENT * size
    }

    fn check(&self, means: &DMatrix<f64>, b: &DMatrix<f64>) {
        assert_eq!(means.nrows(), self.d, "rows of the means");
        assert_eq!(b.nrows(), self.m, "rows of b");
        assert_eq!(means.ncols(), b.ncols(), "columns of means and b");
    }

    fn each(
        &self,
        means: &DMatrix<f64>,
        b: &DMatrix<f64>,
        solve: impl Fn(&[f64], &[f64], &mut [f64], &mut Work) -> BoxOutcome + Sync,
    ) -> BoxSolution {
        self.check(means, b);
        let (n, m, d) = (b.ncols(), self.m, self.d);
        let mut x = DMatrix::zeros(d, n);
        let blank = BoxOutcome { objective: 0.0, consistent: true, converged: true, iterations: 0 };
        let mut outcomes = vec![blank; n];
        if d > 0 {
            let columns =
                x.as_mut_slice().par_chunks_mut(CHUNK * d).zip(outcomes.par_chunks_mut(CHUNK));
            columns.enumerate().for_each_init(Work::default, |work, (chunk, (x, outcomes))| {
                for (i, (x, outcome)) in x.chunks_exact_mut(d).zip(outcomes).enumerate() {
                    let record = chunk * CHUNK + i;
                    let (mean, b) =
                        (&means.as_slice()[record * d..][..d], &b.as_slice()[record * m..][..m]);
                    *outcome = solve(mean, b, x, work);
                }
            });
        }
        BoxSolution { x, outcomes }
    }
}
