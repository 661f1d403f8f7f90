//! The mean of a Gaussian that is confined by bounds on linear functions of it: by expectation
//! propagation (Minka, 2001), and by sampling.

use nalgebra::{DMatrix, DVector};

use super::factor::factor;
use super::truncated;
use crate::dense::{axpy, dot};
use crate::polytope::{ActiveSet, NearestOutcome, Polytope};

/// Sweeps over the bounds.
const SWEEPS: u32 = 200;

/// A sweep that moves no coordinate further than this is the last.
const SETTLED: f64 = 1e-10;

/// Bounds further away than this many standard deviations change nothing.
const FAR: f64 = 9.0;

/// A function of the unknowns is known if its variance has fallen below this share of its original
/// variance.
const KNOWN: f64 = 1e-13;

/// A bound: `lower` ≤ rowᵀx ≤ `upper`.
#[derive(Clone)]
pub(super) struct Bound {
    pub(super) row: Row,
    pub(super) lower: f64,
    pub(super) upper: f64,
}

/// A linear function of x.
#[derive(Clone)]
pub(super) enum Row {
    /// A function of one coordinate.
    Axis(usize),
    /// A function of all coordinates.
    Dense(Vec<f64>),
}

impl Row {
    pub(super) fn value(&self, x: &[f64]) -> f64 {
        match self {
            Self::Axis(i) => x[*i],
            Self::Dense(row) => dot(row, x),
        }
    }
}

/// A Gaussian of d unknowns, given by mean and covariance, between bounds.
///
/// # Example
///
/// Two standard normal deviates, of which the first lies above 0 and both lie above each other's
/// negative:
///
/// ```
/// use nalgebra::{DMatrix, DVector};
/// use vfl_numerics::ConfinedGaussian;
///
/// let mut confined = ConfinedGaussian::new(DVector::zeros(2), DMatrix::identity(2, 2));
/// confined.confine(&[1.0, 0.0], 0.0, f64::INFINITY);
/// let mean = confined.mean().x;
/// assert!((mean[0] - (2.0 / std::f64::consts::PI).sqrt()).abs() < 1e-9 && mean[1].abs() < 1e-12);
///
/// confined.confine(&[1.0, 1.0], 0.0, f64::INFINITY);
/// assert!(confined.mean().x[1] > 0.3);
/// ```
#[derive(Clone)]
pub struct ConfinedGaussian {
    pub(super) mean: DVector<f64>,
    pub(super) covariance: DMatrix<f64>,
    pub(super) bounds: Vec<Bound>,
}

impl std::fmt::Debug for ConfinedGaussian {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "ConfinedGaussian({} unknowns, {} bounds, values withheld)",
            self.mean.len(),
            self.bounds.len()
        )
    }
}

/// The mean of a confined Gaussian.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfinedMean {
    /// The mean, d entries.
    pub x: DVector<f64>,
    /// The variance of each entry.
    pub variance: DVector<f64>,
    /// True if the sweeps converged.
    pub converged: bool,
    /// The number of sweeps over the bounds.
    pub sweeps: u32,
}

impl ConfinedGaussian {
    /// Creates a Gaussian without bounds. The covariance (d × d) is symmetric and need not have
    /// full rank.
    ///
    /// # Panics
    /// If the shapes differ.
    #[must_use]
    pub fn new(mean: DVector<f64>, covariance: DMatrix<f64>) -> Self {
        assert_eq!(covariance.shape(), (mean.len(), mean.len()), "shape of the covariance");
        Self { mean, covariance, bounds: Vec::new() }
    }

    /// Returns the number of unknowns.
    #[must_use]
    pub fn unknowns(&self) -> usize {
        self.mean.len()
    }

    /// Returns the mean without the bounds.
    #[must_use]
    pub fn centre(&self) -> &DVector<f64> {
        &self.mean
    }

    /// Adds an unknown of this mean and deviation, independent of the others. Existing bounds do
    /// not depend on it.
    #[must_use]
    pub fn with_unknown(self, mean: f64, deviation: f64) -> Self {
        let d = self.mean.len();
        let mut covariance = self.covariance.resize(d + 1, d + 1, 0.0);
        covariance[(d, d)] = deviation * deviation;
        let longer = |bound: Bound| match bound.row {
            Row::Axis(_) => bound,
            Row::Dense(mut row) => {
                row.push(0.0);
                Bound { row: Row::Dense(row), ..bound }
            }
        };
        let bounds = self.bounds.into_iter().map(longer).collect();
        Self { mean: self.mean.insert_row(d, mean), covariance, bounds }
    }

    /// Adds `lower` ≤ x_i ≤ `upper`; either end may be infinite.
    ///
    /// # Panics
    /// If there is no such unknown.
    pub fn confine_unknown(&mut self, i: usize, lower: f64, upper: f64) {
        assert!(i < self.mean.len(), "unknown {i} of {}", self.mean.len());
        self.bounds.push(Bound { row: Row::Axis(i), lower, upper });
    }

    /// Adds `lower` ≤ rowᵀx ≤ `upper`; either end may be infinite.
    ///
    /// # Panics
    /// If `row` does not have d entries.
    pub fn confine(&mut self, row: &[f64], lower: f64, upper: f64) {
        assert_eq!(row.len(), self.mean.len(), "entries of a row");
        self.bounds.push(Bound { row: Row::Dense(row.to_vec()), lower, upper });
    }

    /// Confines every unknown to [0, 1].
    pub fn confine_to_unit_box(&mut self) {
        let sides =
            (0..self.mean.len()).map(|i| Bound { row: Row::Axis(i), lower: 0.0, upper: 1.0 });
        self.bounds.extend(sides);
    }

    /// Conditions on rowᵀx = `value`, up to independent normal noise of this deviation (0 for
    /// none).
    ///
    /// # Panics
    /// If `row` does not have d entries.
    pub fn observe(&mut self, row: &[f64], value: f64, deviation: f64) {
        assert_eq!(row.len(), self.mean.len(), "entries of a row");
        let d = row.len();
        let along: Vec<f64> =
            self.covariance.as_slice().chunks_exact(d.max(1)).map(|c| dot(c, row)).collect();
        let own = dot(row, &along);
        let variance = own + deviation * deviation;
        // A known function has nothing to add.
        if own <= 1e-12 * deviation * deviation || variance <= 1e-300 {
            return;
        }
        let step = (value - dot(row, self.mean.as_slice())) / variance;
        axpy(self.mean.as_mut_slice(), step, &along);
        for (column, a) in self.covariance.as_mut_slice().chunks_exact_mut(d).zip(&along) {
            axpy(column, -a / variance, &along);
        }
    }

    /// Returns the likeliest point within the bounds. If no point meets them all, returns the one
    /// that minimises the sum of the squared misses, in units of a ten-thousandth of a deviation,
    /// and of its own squared distance.
    #[must_use]
    pub fn likeliest(&self, work: &mut ActiveSet) -> Option<(DVector<f64>, NearestOutcome)> {
        // x = mean + F z: the nearest z to 0.
        let spread = factor(&self.covariance).ok()?;
        let q = spread.ncols();
        let mut set = Polytope::unit_box(0);
        (0..q).for_each(|_| set.add_unknown(f64::NEG_INFINITY, f64::INFINITY));
        for bound in &self.bounds {
            let offset = bound.row.value(self.mean.as_slice());
            let row: Vec<f64> =
                spread.column_iter().map(|f| bound.row.value(f.as_slice())).collect();
            set.add(&row, bound.lower - offset, bound.upper - offset);
        }
        let (origin, mut z) = (vec![0.0; q], vec![0.0; q]);
        let mut ended = set.nearest(&origin, work, &mut z);
        if ended != NearestOutcome::Found {
            let second = set.nearest_misfit(&origin, work, &mut z);
            ended = if second == NearestOutcome::StepLimit { second } else { ended };
        }
        let mut x = self.mean.clone();
        for (column, z) in spread.column_iter().zip(&z) {
            x.axpy(*z, &column, 1.0);
        }
        Some((x, ended))
    }

    /// Computes the mean by expectation propagation. The bounds are log-concave, so that every step
    /// is defined. The mean is exact for one bound. For many bounds its error is far below the
    /// deviation (see the tests), but has no proved bound.
    #[must_use]
    pub fn mean(&self) -> ConfinedMean {
        let mut work = Propagation::default();
        let mut x = self.mean.as_slice().to_vec();
        let (converged, sweeps) = work.run(self.covariance.as_slice(), &self.bounds, &mut x);
        let d = x.len();
        let variance = DVector::from_fn(d, |i, _| work.covariance[i * d + i].max(0.0));
        ConfinedMean { x: DVector::from_vec(x), variance, converged, sweeps }
    }
}

/// The workspace of expectation propagation.
#[derive(Default)]
pub(super) struct Propagation {
    /// The precision and precision-times-mean of each bound's Gaussian factor.
    factors: Vec<(f64, f64)>,
    covariance: Vec<f64>,
    along: Vec<f64>,
    prior: Vec<f64>,
}

impl Propagation {
    /// Moves `x` from the Gaussian's mean to the mean within the bounds. Returns whether the sweeps
    /// converged, and their number.
    pub(super) fn run(
        &mut self,
        covariance: &[f64],
        bounds: &[Bound],
        x: &mut [f64],
    ) -> (bool, u32) {
        let d = x.len();
        self.covariance.clear();
        self.covariance.extend_from_slice(covariance);
        self.factors.clear();
        self.factors.resize(bounds.len(), (0.0, 0.0));
        self.prior.clear();
        for bound in bounds {
            let variance = self.variance_along(&bound.row, d);
            self.prior.push(variance);
        }
        for sweep in 1..=SWEEPS {
            let mut moved = 0.0f64;
            for (at, bound) in bounds.iter().enumerate() {
                let variance = self.variance_along(&bound.row, d);
                if variance.is_nan() || variance <= KNOWN * self.prior[at] || variance <= 1e-300 {
                    continue;
                }
                let mean = bound.row.value(x);
                let (precision, shift) = self.factors[at];
                // The Gaussian without this bound's factor.
                let left = 1.0 / variance - precision;
                if left <= 1e-12 / variance {
                    continue;
                }
                let deviation = left.sqrt().recip();
                let centre = (mean / variance - shift) / left;
                let near = (bound.lower - centre) / deviation > -FAR
                    || (bound.upper - centre) / deviation < FAR;
                let (new_precision, new_shift) = if near {
                    let (within, spread) =
                        truncated::moments(centre, deviation, bound.lower, bound.upper);
                    let spread = spread.max(1e-14 * deviation * deviation);
                    let precision = (1.0 / spread - left).max(0.0);
                    // The factor's precision · mean, from the sum of both.
                    (precision, within * (precision + left) - centre * left)
                } else {
                    (0.0, 0.0)
                };
                let (more, by) = (new_precision - precision, new_shift - shift);
                self.factors[at] = (new_precision, new_shift);
                let scale = 1.0 + more * variance;
                let step = (by - more * mean) / scale;
                axpy(x, step, &self.along);
                moved = moved.max(step.abs() * variance.sqrt());
                let share = more / scale;
                for (row, a) in self.covariance.chunks_exact_mut(d).zip(&self.along) {
                    axpy(row, -share * a, &self.along);
                }
            }
            if moved < SETTLED {
                return (true, sweep);
            }
        }
        (false, SWEEPS)
    }

    /// Writes Σ row to `along` and returns rowᵀ Σ row.
    fn variance_along(&mut self, row: &Row, d: usize) -> f64 {
        self.along.clear();
        match row {
            Row::Axis(i) => {
                self.along.extend_from_slice(&self.covariance[i * d..][..d]);
                self.along[*i]
            }
            Row::Dense(row) => {
                self.along.extend(self.covariance.chunks_exact(d).map(|c| dot(c, row)));
                dot(row, &self.along)
            }
        }
    }
}
