//! The lattice of one matrix A, reduced once for all right sides.

use nalgebra::DMatrix;

use super::enumeration::{GridPoint, Listing, SearchLimits, walk};
use super::error::LatticeError;
use super::reduction::{Basis, ExactRows, fixed};

/// The reduced lattice {(D A t, M t) : t ∈ Zᵈ}.
#[derive(Clone)]
pub struct GridLattice {
    basis: Basis,
    /// D, row by row.
    weights: Vec<f64>,
    /// M, row by row.
    metric: Vec<f64>,
    /// A before the reduction.
    original: ExactRows,
}

impl std::fmt::Debug for GridLattice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GridLattice({} × {}, values withheld)", self.basis.m, self.basis.d)
    }
}

fn by_rows(matrix: &DMatrix<f64>) -> Vec<f64> {
    matrix.transpose().as_slice().to_vec()
}

impl GridLattice {
    /// Reduces the lattice of A (`equations`, m × d) with D (`weights`, m × m: the inverse of a
    /// square root of the covariance of the errors of b) and M (`metric`, r × d of rank d).
    ///
    /// # Errors
    /// [`LatticeError`] if the shapes do not fit, a value is not finite, or numbers grow too large.
    pub fn new(
        equations: &DMatrix<f64>,
        weights: &DMatrix<f64>,
        metric: &DMatrix<f64>,
    ) -> Result<Self, LatticeError> {
        let (m, d) = equations.shape();
        if weights.shape() != (m, m) || metric.ncols() != d || metric.nrows() < d {
            return Err(LatticeError::Shape);
        }
        let all = equations.iter().chain(weights.iter()).chain(metric.iter());
        if !all.into_iter().all(|v| v.is_finite()) {
            return Err(LatticeError::NotFinite);
        }
        let original = ExactRows::new(m, d, |i, j| equations[(i, j)]);
        let (weights, metric) = (by_rows(weights), by_rows(metric));
        let mut basis = Basis::new(original.clone(), m, d);
        basis.reduce(&weights, &metric, true)?;
        Ok(Self { basis, weights, metric, original })
    }

    /// Returns the same lattice for equations of another precision. The reduction starts from this
    /// lattice, which takes a fraction of the time if the precisions are alike.
    ///
    /// # Errors
    /// As [`GridLattice::new`].
    pub fn with_weights(&self, weights: &DMatrix<f64>) -> Result<Self, LatticeError> {
        if weights.shape() != (self.basis.m, self.basis.m) {
            return Err(LatticeError::Shape);
        }
        if !weights.iter().all(|v| v.is_finite()) {
            return Err(LatticeError::NotFinite);
        }
        let mut other = Self { weights: by_rows(weights), ..self.clone() };
        other.basis.reduce(&other.weights, &other.metric, false)?;
        Ok(other)
    }

    /// Returns the lattice of other equations of the same unknowns. The reduction starts from the
    /// basis of this one, which takes a fraction of the time if the equations are alike.
    ///
    /// # Errors
    /// As [`GridLattice::new`].
    pub fn with_equations(
        &self,
        equations: &DMatrix<f64>,
        weights: &DMatrix<f64>,
    ) -> Result<Self, LatticeError> {
        let (m, d) = (self.basis.m, self.basis.d);
        if equations.shape() != (m, d) || weights.shape() != (m, m) {
            return Err(LatticeError::Shape);
        }
        if !equations.iter().chain(weights.iter()).all(|v| v.is_finite()) {
            return Err(LatticeError::NotFinite);
        }
        let original = ExactRows::new(m, d, |i, j| equations[(i, j)]);
        let mut basis = self.basis.clone();
        basis.exact = original.combined(&basis.unimodular, m);
        let (weights, metric) = (by_rows(weights), self.metric.clone());
        basis.reduce(&weights, &metric, true)?;
        Ok(Self { basis, weights, metric, original })
    }

    /// Returns the number of unknowns, d.
    #[must_use]
    pub fn unknowns(&self) -> usize {
        self.basis.d
    }

    /// Returns the least length of a Gram–Schmidt vector: no two grid points are nearer to each
    /// other.
    #[must_use]
    pub fn least_distance(&self) -> f64 {
        let d = self.basis.d;
        (0..d).map(|i| self.basis.triangle()[i * d + i]).fold(f64::INFINITY, f64::min)
    }

    /// Returns the vectors v of the reduced basis in the coordinates of Zᵈ, each with ‖D A v‖² and
    /// ‖M v‖². A vector far shorter than the lattice's average is among them.
    pub fn basis(&self) -> impl Iterator<Item = (&[i64], (f64, f64))> {
        let (b, c) = (vec![0.0; self.basis.m], vec![0.0; self.basis.d]);
        self.basis
            .unimodular
            .chunks_exact(self.basis.d.max(1))
            .map(move |v| (v, self.distances(&b, &c, v)))
    }

    /// Returns the number of lattice points that a ball holds on average (the Gaussian heuristic):
    /// its volume over that of a cell of the lattice. `square` is the square of the radius.
    #[must_use]
    pub fn points_expected(&self, square: f64) -> f64 {
        let d = self.basis.d;
        let ln_cell: f64 = (0..d).map(|i| self.basis.triangle()[i * d + i].max(1e-300).ln()).sum();
        let half = 0.5 * d as f64;
        let ln_ball = half * (std::f64::consts::PI * square).ln() - libm::lgamma(half + 1.0);
        (ln_ball - ln_cell).exp()
    }

    /// Returns the grid point found by rounding coordinate by coordinate (Babai's nearest plane).
    /// It is near the closest point, and the closest one where the lattice is sparse.
    ///
    /// # Panics
    /// If `b` has not m, or `c` not d entries.
    #[must_use]
    pub fn nearest_plane(&self, b: &[f64], c: &[f64]) -> Vec<i64> {
        let start = vec![0; self.basis.d];
        let first = self.plane(b, c, &start);
        // From the first point on, b − A t is small and exact.
        let second = self.plane(b, c, &first);
        self.plane(b, c, &second)
    }

    fn plane(&self, b: &[f64], c: &[f64], from: &[i64]) -> Vec<i64> {
        let d = self.basis.d;
        let y = self.basis.along(&self.target(b, c, from));
        let r = self.basis.triangle();
        let mut u = vec![0.0; d];
        for i in (0..d).rev() {
            let known: f64 = (i + 1..d).map(|j| r[j * d + i] * u[j]).sum();
            u[i] = ((y[i] - known) / r[i * d + i]).round();
        }
        let mut t = from.to_vec();
        for (column, u) in self.basis.unimodular.chunks_exact(d).zip(&u) {
            // Saturates where the target is far from all grid points; such a point fails every
            // check.
            t.iter_mut()
                .zip(column)
                .for_each(|(t, v)| *t = t.saturating_add(v.saturating_mul(*u as i64)));
        }
        t
    }

    /// Returns b − A t, to all digits.
    fn residual(&self, b: &[f64], t: &[i64]) -> Vec<f64> {
        let (m, a) = (self.basis.m, &self.original);
        (0..m)
            .map(|i| {
                let taken = t.iter().enumerate().fold(fixed(b[i], a.shift[i]), |rest, (j, t)| {
                    rest.wrapping_sub(a.columns[j * m + i].wrapping_mul(i128::from(*t)))
                });
                a.value(i, taken)
            })
            .collect()
    }

    /// Returns (D (b − A t), M (c − t)).
    fn target(&self, b: &[f64], c: &[f64], t: &[i64]) -> Vec<f64> {
        let (m, d) = (self.basis.m, self.basis.d);
        let rest = self.residual(b, t);
        let off: Vec<f64> = c.iter().zip(t).map(|(c, t)| c - *t as f64).collect();
        let times = |rows: &[f64], width: usize, v: &[f64]| -> Vec<f64> {
            rows.chunks_exact(width.max(1))
                .map(|r| r.iter().zip(v).map(|(a, b)| a * b).sum())
                .collect()
        };
        let mut target = times(&self.weights, m, &rest);
        target.extend(times(&self.metric, d, &off));
        target
    }

    /// Returns ‖D (A t − b)‖² and ‖M (t − c)‖².
    ///
    /// # Panics
    /// If `b` has not m, or `c` or `t` not d entries.
    #[must_use]
    pub fn distances(&self, b: &[f64], c: &[f64], t: &[i64]) -> (f64, f64) {
        let target = self.target(b, c, t);
        let square = |v: &[f64]| v.iter().map(|v| v * v).sum();
        (square(&target[..self.basis.m]), square(&target[self.basis.m..]))
    }

    /// Lists the grid points with ‖D (A t − b)‖² + ‖M (t − c)‖² ≤ `square`. `accept` returns the
    /// square of the radius from then on, or `None` to reject a point. The search is given up after
    /// `nodes` steps, and the list is then incomplete.
    ///
    /// # Panics
    /// If `b` has not m, or `c` not d entries.
    pub fn points_near(
        &self,
        b: &[f64],
        c: &[f64],
        square: f64,
        nodes: u64,
        mut accept: impl FnMut(&GridPoint) -> Option<f64>,
    ) -> Listing {
        let d = self.basis.d;
        let start = self.nearest_plane(b, c);
        let target = self.target(b, c, &start);
        let y = self.basis.along(&target);
        // Round-off in the distances must not exclude a point at the edge.
        let mut reach = square * (1.0 + 1e-9) + 1e-9;
        let outside =
            target.iter().map(|v| v * v).sum::<f64>() - y.iter().map(|v| v * v).sum::<f64>();
        let outside = outside.max(0.0);
        let mut points = Vec::new();
        let mut t = vec![0; d];
        let within = SearchLimits { square: reach - outside, nodes };
        let complete = walk(self.basis.triangle(), &y, within, |u, _| {
            t.copy_from_slice(&start);
            for (column, u) in self.basis.unimodular.chunks_exact(d).zip(u) {
                t.iter_mut()
                    .zip(column)
                    .for_each(|(t, v)| *t = t.saturating_add(v.saturating_mul(*u)));
            }
            let (misfit, away) = self.distances(b, c, &t);
            let point = GridPoint { t: t.clone(), misfit, away };
            if let Some(next) = accept(&point) {
                points.push(point);
                reach = reach.min(next * (1.0 + 1e-9) + 1e-9);
            }
            reach - outside
        });
        Listing { points, complete }
    }
}
