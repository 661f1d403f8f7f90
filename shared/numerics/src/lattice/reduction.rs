//! Lattice reduction (Lenstra, Lenstra and Lovász 1982; deep insertions: Schnorr and Euchner 1994)
//! with Gram–Schmidt in double precision.
//!
//! Equations known to 50 bits make a basis whose columns are almost parallel, which double
//! precision cannot orthogonalise. The weight of the equations is therefore raised in stages of
//! [`STAGE_BITS`] bits: at the start of each stage the basis is already reduced except for that
//! factor. Equations are stored as integers, so that nothing cancels.

use super::error::LatticeError;

/// Bits by which the weight of the equations grows from one stage to the next.
const STAGE_BITS: i32 = 8;
/// Bits of the largest coefficient of an equation, as an integer.
const COEFFICIENT_BITS: i32 = 74;
/// Integer entries of the basis stay below 2 to this power, so that their products fit.
const MOST_BITS: i32 = 44;
/// The share of a projected length below which a shorter vector is moved forward.
const LOVASZ: f64 = 0.99;
/// The value of [`LOVASZ`] in the last pass, with deep insertions.
const LOVASZ_DEEP: f64 = 0.999;
/// Up to this many columns, insertions reach all earlier columns; with more, only neighbours are
/// swapped.
const MOST_DEEP: usize = 64;

/// Equations with integer coefficients: coefficient (i, j) is in units of 2 to −`shift[i]`.
#[derive(Debug, Clone)]
pub(super) struct ExactRows {
    pub(super) shift: Vec<i32>,
    /// Column by column, m each.
    pub(super) columns: Vec<i128>,
}

impl ExactRows {
    /// Converts m × d coefficients, in columns: exact up to 2^−74 of the largest of each row.
    pub(super) fn new(m: usize, d: usize, coefficient: impl Fn(usize, usize) -> f64) -> Self {
        let shift: Vec<i32> = (0..m)
            .map(|i| {
                let largest = (0..d).fold(0.0, |most: f64, j| most.max(coefficient(i, j).abs()));
                let exponent = if largest > 0.0 { largest.log2().ceil() as i32 } else { 0 };
                (COEFFICIENT_BITS - exponent).clamp(-900, 900)
            })
            .collect();
        let at = |j: usize, i: usize| fixed(coefficient(i, j), shift[i]);
        let columns =
            (0..d).flat_map(|j| (0..m).map(move |i| (j, i))).map(|(j, i)| at(j, i)).collect();
        Self { shift, columns }
    }

    /// Returns the sums of the columns, m entries each, with the coefficients that each column of
    /// `unimodular` has.
    pub(super) fn combined(&self, unimodular: &[i64], m: usize) -> Self {
        let d = self.columns.len() / m.max(1);
        let sum = |t: &[i64], i: usize| -> i128 {
            t.iter().enumerate().map(|(j, t)| i128::from(*t) * self.columns[j * m + i]).sum()
        };
        let columns = unimodular.chunks_exact(d.max(1));
        let columns = columns.flat_map(|t| (0..m).map(move |i| (t, i))).map(|(t, i)| sum(t, i));
        Self { shift: self.shift.clone(), columns: columns.collect() }
    }

    /// Returns the number that an integer of row i represents.
    pub(super) fn value(&self, i: usize, integer: i128) -> f64 {
        integer as f64 * 2f64.powi(-self.shift[i])
    }
}

/// Returns a number as an integer in units of 2 to −`shift`.
pub(super) fn fixed(value: f64, shift: i32) -> i128 {
    (value * 2f64.powi(shift)).round() as i128
}

/// A basis of Zᵈ under reduction.
#[derive(Debug, Clone)]
pub(super) struct Basis {
    pub(super) d: usize,
    pub(super) m: usize,
    /// Columns of d entries.
    pub(super) unimodular: Vec<i64>,
    /// A times each column.
    pub(super) exact: ExactRows,
    /// Rows of a column of `vectors`.
    rows: usize,
    /// (D A; M) times each column, in floating point.
    vectors: Vec<f64>,
    /// Orthonormal directions of the earlier columns.
    directions: Vec<f64>,
    /// R of the columns: entry (i, j) at i + d j.
    triangle: Vec<f64>,
}

impl Basis {
    pub(super) fn new(exact: ExactRows, m: usize, d: usize) -> Self {
        let unimodular = (0..d * d).map(|at| i64::from(at % d == at / d)).collect();
        let (rows, empty) = (0, Vec::new);
        Self {
            d,
            m,
            unimodular,
            exact,
            rows,
            vectors: empty(),
            directions: empty(),
            triangle: empty(),
        }
    }

    /// Reduces the basis in the norm ‖weights A t‖² + ‖metric t‖²: `weights` m × m, `metric` r × d,
    /// both row by row. If `staged`, the weight of the equations is raised in stages.
    pub(super) fn reduce(
        &mut self,
        weights: &[f64],
        metric: &[f64],
        staged: bool,
    ) -> Result<(), LatticeError> {
        let mut below = if staged { self.bits_above(weights, metric) } else { 0 };
        loop {
            self.measure(weights, metric, 2f64.powi(-below));
            self.pass(LOVASZ, false)?;
            if below == 0 {
                break;
            }
            below = (below - STAGE_BITS).max(0);
        }
        self.pass(LOVASZ_DEEP, self.d <= MOST_DEEP)?;
        self.measure(weights, metric, 1.0);
        for k in 0..self.d {
            self.orthogonalise(k);
        }
        Ok(())
    }

    /// Returns the number of bits by which the largest equation outweighs the largest entry of the
    /// metric.
    fn bits_above(&self, weights: &[f64], metric: &[f64]) -> i32 {
        let largest = |of: &[f64]| of.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
        let mut equations = 0.0f64;
        for column in self.exact.columns.chunks_exact(self.m.max(1)) {
            for row in weights.chunks_exact(self.m.max(1)) {
                equations = equations.max(self.weighed(row, column).abs());
            }
        }
        let ratio = equations / largest(metric).max(f64::MIN_POSITIVE);
        if ratio > 1.0 { ratio.log2().ceil() as i32 } else { 0 }
    }

    fn weighed(&self, row: &[f64], column: &[i128]) -> f64 {
        row.iter().zip(column).enumerate().map(|(i, (w, c))| w * self.exact.value(i, *c)).sum()
    }

    /// Computes the vectors from the integers, the equations weighted by `factor` more.
    fn measure(&mut self, weights: &[f64], metric: &[f64], factor: f64) {
        let (d, m) = (self.d, self.m);
        let r = metric.len() / d.max(1);
        self.rows = m + r;
        let mut vectors = Vec::with_capacity(self.rows * d);
        for j in 0..d {
            let column = &self.exact.columns[j * m..(j + 1) * m];
            for i in 0..m {
                vectors.push(factor * self.weighed(&weights[i * m..(i + 1) * m], column));
            }
            let t = &self.unimodular[j * d..(j + 1) * d];
            for i in 0..r {
                let row = &metric[i * d..(i + 1) * d];
                vectors.push(row.iter().zip(t).map(|(v, t)| v * *t as f64).sum());
            }
        }
        self.vectors = vectors;
        self.directions = vec![0.0; self.rows * d];
        self.triangle = vec![0.0; d * d];
    }

    /// Computes R of column k, and its direction, from those of the earlier columns. It takes two
    /// passes, as one leaves components along earlier directions where columns are almost parallel.
    fn orthogonalise(&mut self, k: usize) {
        let (d, rows) = (self.d, self.rows);
        let (before, rest) = self.directions.split_at_mut(k * rows);
        let own = &mut rest[..rows];
        own.copy_from_slice(&self.vectors[k * rows..(k + 1) * rows]);
        let r = &mut self.triangle[k * d..(k + 1) * d];
        r.fill(0.0);
        for _ in 0..2 {
            for (direction, r) in before.chunks_exact(rows).zip(r.iter_mut()) {
                let along: f64 = direction.iter().zip(own.iter()).map(|(a, b)| a * b).sum();
                *r += along;
                own.iter_mut().zip(direction).for_each(|(v, a)| *v -= along * a);
            }
        }
        let length = own.iter().map(|v| v * v).sum::<f64>().sqrt();
        r[k] = length;
        if length > 0.0 {
            own.iter_mut().for_each(|v| *v /= length);
        }
    }

    /// Subtracts multiples of the earlier columns from column k until no |R_jk| is above half of
    /// R_jj.
    fn shorten(&mut self, k: usize) -> Result<(), LatticeError> {
        // Large multiples lose digits; the next round removes the remainder.
        for _ in 0..64 {
            self.orthogonalise(k);
            let mut changed = false;
            for j in (0..k).rev() {
                let (diagonal, entry) =
                    (self.triangle[j * self.d + j], self.triangle[k * self.d + j]);
                if diagonal <= 0.0 || entry.abs() <= 0.5001 * diagonal {
                    continue;
                }
                let times = (entry / diagonal).round();
                self.subtract(k, j, times)?;
                changed = true;
            }
            if !changed {
                return Ok(());
            }
        }
        Ok(())
    }

    fn subtract(&mut self, k: usize, j: usize, times: f64) -> Result<(), LatticeError> {
        let limit = 2f64.powi(MOST_BITS);
        if times.is_nan() || times.abs() > limit {
            return Err(LatticeError::TooLarge);
        }
        let (d, m, rows, whole) = (self.d, self.m, self.rows, times as i64);
        for i in 0..d {
            let product = whole.checked_mul(self.unimodular[j * d + i]);
            let entry = product.and_then(|p| self.unimodular[k * d + i].checked_sub(p));
            let entry = entry
                .filter(|e| (e.unsigned_abs() as f64) < limit)
                .ok_or(LatticeError::TooLarge)?;
            self.unimodular[k * d + i] = entry;
        }
        for i in 0..m {
            let product = i128::from(whole).checked_mul(self.exact.columns[j * m + i]);
            let entry = product.and_then(|p| self.exact.columns[k * m + i].checked_sub(p));
            self.exact.columns[k * m + i] = entry.ok_or(LatticeError::TooLarge)?;
        }
        for i in 0..rows {
            self.vectors[k * rows + i] -= times * self.vectors[j * rows + i];
        }
        for i in 0..=j {
            self.triangle[k * d + i] -= times * self.triangle[j * d + i];
        }
        Ok(())
    }

    /// Runs one reduction pass. The number of insertions is bounded, as deep ones have no
    /// polynomial bound.
    fn pass(&mut self, lovasz: f64, deep: bool) -> Result<(), LatticeError> {
        let d = self.d;
        let mut left = 2000 * d + 200 * d * d;
        let mut k = 0;
        while k < d && left > 0 {
            left -= 1;
            self.shorten(k)?;
            match self.place(k, lovasz, deep) {
                Some(at) => {
                    self.move_forward(k, at);
                    k = at;
                }
                None => k += 1,
            }
        }
        Ok(())
    }

    /// Returns the column before which column k belongs, if it is shorter there.
    fn place(&self, k: usize, lovasz: f64, deep: bool) -> Option<usize> {
        let d = self.d;
        let own = &self.triangle[k * d..k * d + k + 1];
        let first = if deep { 0 } else { k.saturating_sub(1) };
        let mut rest: f64 = own[first..].iter().map(|v| v * v).sum();
        for (at, along) in own.iter().enumerate().take(k).skip(first) {
            let diagonal = self.triangle[at * d + at];
            if rest < lovasz * diagonal * diagonal {
                return Some(at);
            }
            rest -= along * along;
        }
        None
    }

    fn move_forward(&mut self, from: usize, to: usize) {
        let (d, m, rows) = (self.d, self.m, self.rows);
        self.unimodular[to * d..(from + 1) * d].rotate_right(d);
        self.exact.columns[to * m..(from + 1) * m].rotate_right(m);
        self.vectors[to * rows..(from + 1) * rows].rotate_right(rows);
    }

    /// Returns R, entry (i, j) at i + d j.
    pub(super) fn triangle(&self) -> &[f64] {
        &self.triangle
    }

    /// Returns Qᵀ times a vector of m + r entries.
    pub(super) fn along(&self, target: &[f64]) -> Vec<f64> {
        let along = |direction: &[f64]| direction.iter().zip(target).map(|(a, b)| a * b).sum();
        self.directions.chunks_exact(self.rows.max(1)).map(along).collect()
    }
}
