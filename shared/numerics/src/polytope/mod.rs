//! Polytopes {x : lower ≤ x ≤ upper, l ≤ B x ≤ u} of some dozens of unknowns, and the points that
//! represent them: the one nearest to a given point, the analytic centre, and the mean of the
//! points in it.
//!
//! Rows are scaled to unit length, so that a misfit is a distance. A row may give: then
//! `l ≤ bᵀx + g s ≤ u` with a variable s of its own whose square counts like those of x, which
//! makes it a Gaussian term of standard deviation g.

mod active_set;
mod interior;
#[cfg(test)]
mod tests;

use crate::dense::dot;

pub use active_set::{ActiveSet, NearestOutcome};
pub use interior::{LogDensity, Walk};

/// A set of points between pairs of parallel planes, in a box.
///
/// # Example
///
/// The triangle x₁ + x₂ ≤ 1 in the unit square:
///
/// ```
/// use rand::SeedableRng;
/// use vfl_numerics::{ActiveSet, NearestOutcome, Polytope, Walk};
///
/// let mut triangle = Polytope::unit_box(2);
/// triangle.add(&[1.0, 1.0], f64::NEG_INFINITY, 1.0);
///
/// let mut x = [0.0; 2];
/// let target = [1.0, 0.8];
/// assert_eq!(triangle.nearest(&target, &mut ActiveSet::default(), &mut x), NearestOutcome::Found);
/// assert!((x[0] - 0.6).abs() < 1e-12 && (x[1] - 0.4).abs() < 1e-12);
/// assert!(triangle.misfit(&target) > 0.5 && triangle.misfit(&x) < 1e-12);
///
/// // The sides x₁ ≤ 1 and x₂ ≤ 1 count as well, so the analytic centre is not at (⅓, ⅓).
/// let mut walk = Walk::default();
/// assert!(triangle.analytic_centre(&mut walk, &mut x));
/// assert!((x[0] - x[1]).abs() < 1e-9 && x[0] < 1.0 / 3.0);
///
/// // The mean of the points is: here from 20 000 steps of hit and run.
/// let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
/// assert!(triangle.mean(20_000, None, &mut rng, &mut walk, &mut x));
/// assert!((x[0] - 1.0 / 3.0).abs() < 0.02 && (x[1] - 1.0 / 3.0).abs() < 0.02);
/// ```
#[derive(Clone)]
pub struct Polytope {
    d: usize,
    /// m × d, row-major, of unit length.
    rows: Vec<f64>,
    /// Ends of bᵀx in units of the row's length.
    ends: Vec<(f64, f64)>,
    /// The give of each row; 0 for most.
    gives: Vec<f64>,
    /// Ends of x.
    sides: Vec<(f64, f64)>,
    /// True if a row of zeros has bounds that exclude 0.
    contradiction: bool,
}

/// Shows the shape only: bounds come from released scores.
impl std::fmt::Debug for Polytope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Polytope({} rows, {} unknowns, values withheld)", self.ends.len(), self.d)
    }
}

impl Polytope {
    /// Creates the unit box [0, 1]^d.
    #[must_use]
    pub fn unit_box(d: usize) -> Self {
        Self {
            d,
            rows: Vec::new(),
            ends: Vec::new(),
            gives: Vec::new(),
            sides: vec![(0.0, 1.0); d],
            contradiction: false,
        }
    }

    /// Adds an unknown between two ends, which may be infinite. Existing rows do not depend on it.
    pub fn add_unknown(&mut self, lower: f64, upper: f64) {
        let d = self.d;
        if d > 0 {
            self.rows =
                self.rows.chunks_exact(d).flat_map(|r| r.iter().copied().chain([0.0])).collect();
        } else {
            self.rows = vec![0.0; self.ends.len()];
        }
        self.sides.push((lower, upper));
        self.d += 1;
    }

    /// Returns the number of unknowns.
    #[must_use]
    pub fn unknowns(&self) -> usize {
        self.d
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.ends.len()
    }

    /// Adds `lower ≤ rowᵀx ≤ upper`; ends may be infinite. A row of zeros is checked and left out.
    ///
    /// # Panics
    /// If `row` does not have d entries.
    pub fn add(&mut self, row: &[f64], lower: f64, upper: f64) {
        self.add_giving(row, lower, upper, 0.0);
    }

    /// Adds a row that gives: a point outside counts like a normal deviate of standard deviation
    /// `give`, where x counts as one of standard deviation 1 around the target of the nearest
    /// point.
    ///
    /// # Panics
    /// If `row` does not have d entries.
    pub fn add_giving(&mut self, row: &[f64], lower: f64, upper: f64, give: f64) {
        assert_eq!(row.len(), self.d, "entries of a row");
        let norm = row.iter().map(|v| v * v).sum::<f64>().sqrt();
        // The round-off of a difference of equal weights.
        if norm <= 1e-14 {
            let slack = 1e-9 * (1.0 + if lower.is_finite() { lower.abs() } else { 0.0 });
            self.contradiction |= give == 0.0 && (lower > slack || upper < -slack);
            return;
        }
        if lower == f64::NEG_INFINITY && upper == f64::INFINITY {
            return;
        }
        self.rows.extend(row.iter().map(|v| v / norm));
        self.ends.push((lower / norm, upper / norm));
        self.gives.push(give / norm);
    }

    /// Returns all bounds that do not give: of the unknowns, then of the rows, each with its
    /// entries.
    pub fn bounds(&self) -> impl Iterator<Item = (Option<&[f64]>, (f64, f64))> {
        let rows = self.rows.chunks_exact(self.d.max(1)).zip(&self.ends).zip(&self.gives);
        let rows =
            rows.filter(|(_, give)| **give == 0.0).map(|((row, ends), _)| (Some(row), *ends));
        self.sides.iter().map(|ends| (None, *ends)).chain(rows)
    }

    /// Returns the largest distance by which `x` misses a bound, 0 inside. Rows that give are
    /// ignored.
    #[must_use]
    pub fn misfit(&self, x: &[f64]) -> f64 {
        let mut worst = if self.contradiction { f64::INFINITY } else { 0.0f64 };
        for (v, side) in x.iter().zip(&self.sides) {
            worst = worst.max(side.0 - v).max(v - side.1);
        }
        for ((row, ends), give) in
            self.rows.chunks_exact(self.d.max(1)).zip(&self.ends).zip(&self.gives)
        {
            if *give == 0.0 {
                let value = dot(row, x);
                worst = worst.max(ends.0 - value).max(value - ends.1);
            }
        }
        worst
    }
}
