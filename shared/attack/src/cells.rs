//! The set of features that a release allows for each record.

use nalgebra::{DMatrix, DVector};
use vfl_numerics::{ConfinedGaussian, Polytope};

/// The bound `lower` ≤ z_i − z_j ≤ `upper`, in nats. An end may be infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The class of z_i.
    pub i: usize,
    /// The class of z_j.
    pub j: usize,
    /// The least difference.
    pub lower: f64,
    /// The greatest difference.
    pub upper: f64,
    /// True if the bound is on differences that include the noise of the cell.
    pub(crate) noisy: bool,
}

/// Noise of unknown length along a known direction of the logits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Noise {
    /// The direction, k entries.
    pub(crate) direction: Vec<f64>,
    /// The least and the greatest length.
    pub(crate) ends: (f64, f64),
}

impl Noise {
    /// The length in one unit of the unknown that stands for it. The unit is so large that the
    /// distance of this unknown to the middle counts for little beside those of the features.
    pub(crate) const SCALE: f64 = 1e3;

    /// Returns the length if it is known.
    pub(crate) fn fixed(&self) -> Option<f64> {
        (self.ends.1 - self.ends.0 <= 1e-12 * (1.0 + self.ends.0.abs())).then_some(self.ends.0)
    }
}

/// The shape of the likelihood within the bounds on differences.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Likelihood {
    /// A constant likelihood.
    #[default]
    Flat,
    /// Each score lies within its ends, with a density of 1/c to the power of `weight`. The weight
    /// is 1 if c was multiplied by a uniform number.
    Scores { lower: Vec<f64>, upper: Vec<f64>, stretch: f64, weight: f64 },
    /// The word of this number is the nearest of those with its arg max.
    Word(usize),
}

/// The bounds and the likelihood of one record's logits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// Bounds on differences of logits.
    pub bounds: Vec<Bound>,
    pub(crate) likelihood: Likelihood,
    pub(crate) noise: Option<Noise>,
    /// Mean and standard deviation of the logarithm of each score. Empty if nothing is known.
    pub(crate) likely: Vec<(f64, f64)>,
    /// The ratio of differences of logits to those of these logarithms.
    pub(crate) stretch: f64,
    /// The difference z_1 − z_0 with the standard deviation of its normal noise, for a number.
    pub(crate) observed: Option<(f64, f64)>,
}

impl Cell {
    /// Adds the bound `lower` ≤ z_i − z_j ≤ `upper`.
    pub(crate) fn certain(&mut self, i: usize, j: usize, lower: f64, upper: f64) {
        self.bounds.push(Bound { i, j, lower, upper, noisy: false });
    }
}

/// The logarithms of a codebook's words (k × m) and the arg max of each.
#[derive(Clone, PartialEq)]
pub(crate) struct Words {
    pub(crate) logs: DMatrix<f64>,
    pub(crate) tops: Vec<usize>,
}

/// The cells of all records over the features of a linear model. `Debug` shows shapes.
#[derive(Clone, PartialEq)]
pub struct Cells {
    /// The weights W_pas, k × d.
    pub(crate) weights: DMatrix<f64>,
    /// The known part of the logits, k × n.
    pub(crate) known: DMatrix<f64>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) words: Option<Words>,
}

impl std::fmt::Debug for Cells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ((k, d), n) = (self.weights.shape(), self.cells.len());
        write!(f, "Cells({k} × {d}, {n} records, values withheld)")
    }
}

/// Confines a Gaussian to a polytope.
pub(crate) fn confine(prior: &mut ConfinedGaussian, set: &Polytope) {
    for (at, (row, (lower, upper))) in set.bounds().enumerate() {
        match row {
            Some(row) => prior.confine(row, lower, upper),
            None => prior.confine_unknown(at, lower, upper),
        }
    }
}

impl Cells {
    /// Converts cells of u = (x − lower) / (upper − lower) to cells of the features x; `weights` (k
    /// × d) are W_pas of x.
    pub(super) fn in_terms_of(mut self, weights: &DMatrix<f64>, lower: &DVector<f64>) -> Self {
        let offset = weights * lower;
        self.known.column_iter_mut().for_each(|mut column| column -= &offset);
        self.weights = weights.clone();
        self
    }

    /// Returns the number of records.
    #[must_use]
    pub fn records(&self) -> usize {
        self.cells.len()
    }

    /// Adds what is observed of one record, if it carries normal noise, to a Gaussian of its
    /// features. Returns true if there is such an observation.
    pub(crate) fn observe(&self, record: usize, prior: &mut ConfinedGaussian) -> bool {
        let Some((value, deviation)) = self.cells[record].observed else { return false };
        let row: Vec<f64> = self.weights.column_iter().map(|w| w[1] - w[0]).collect();
        let known = self.known[(1, record)] - self.known[(0, record)];
        prior.observe(&row, value - known, deviation);
        true
    }

    /// Returns the polytope of one record's features, in which the truth lies. If the length of the
    /// noise is unknown, it is the last unknown.
    ///
    /// # Panics
    /// If there is no such record.
    #[must_use]
    pub fn polytope(&self, record: usize) -> Polytope {
        let d = self.weights.ncols();
        let known = self.known.column(record);
        let mut set = Polytope::unit_box(d);
        let noise = self.cells[record].noise.as_ref();
        let open = noise.filter(|noise| noise.fixed().is_none());
        let mut row = vec![0.0; d];
        if let Some(noise) = open {
            set.add_unknown(noise.ends.0 / Noise::SCALE, noise.ends.1 / Noise::SCALE);
            row.push(0.0);
        }
        for bound in &self.cells[record].bounds {
            let (i, j) = (bound.i, bound.j);
            for (to, w) in row.iter_mut().zip(self.weights.column_iter()) {
                *to = w[i] - w[j];
            }
            let mut by = known[i] - known[j];
            if let Some(noise) = noise {
                let along = if bound.noisy { noise.direction[i] - noise.direction[j] } else { 0.0 };
                match noise.fixed() {
                    Some(length) => by += length * along,
                    None => row[d] = Noise::SCALE * along,
                }
            }
            set.add(&row, bound.lower - by, bound.upper - by);
        }
        set
    }
}
