//! The model as a differentiable function of the passive features, for descents on the scores.

use nalgebra::DMatrix;
use vfl_core::model::{LANES, Lanes};

/// The logits of n records as functions of their d passive features.
pub trait Differentiable: Send + Sync {
    /// Opens a block. Each place holds the position of a record, from 0 and below n; a position may
    /// come more than once.
    fn block(&self, records: [usize; LANES]) -> Box<dyn LogitBlock + '_>;
}

/// The logits of one block of records.
pub trait LogitBlock {
    /// Computes the k logits at the features `x` (d entries).
    fn logits(&mut self, x: &[Lanes], logits: &mut [Lanes]);

    /// Computes the slopes in the d features from those in the k logits, at the `x` of the last
    /// call of [`logits`](Self::logits).
    fn pull_back(&mut self, slopes: &[Lanes], gradient: &mut [Lanes]);
}

/// The logits of a linear model: W_pas x and a known part.
pub(super) struct LinearLogits<'a> {
    /// The weights W_pas, k × d.
    weights: &'a DMatrix<f64>,
    /// W_pasᵀ, whose columns give a class's weights in a row.
    transposed: DMatrix<f64>,
    /// The known part, k × n.
    known: DMatrix<f64>,
}

impl<'a> LinearLogits<'a> {
    /// Creates the logits from `weights` (k × d) and `known` (k × n).
    pub(super) fn new(weights: &'a DMatrix<f64>, known: DMatrix<f64>) -> Self {
        Self { weights, transposed: weights.transpose(), known }
    }
}

struct LinearBlock<'a> {
    of: &'a LinearLogits<'a>,
    known: Vec<Lanes>,
}

impl Differentiable for LinearLogits<'_> {
    fn block(&self, records: [usize; LANES]) -> Box<dyn LogitBlock + '_> {
        let of_class = |class| Lanes(std::array::from_fn(|l| self.known[(class, records[l])]));
        Box::new(LinearBlock { of: self, known: (0..self.known.nrows()).map(of_class).collect() })
    }
}

impl LogitBlock for LinearBlock<'_> {
    fn logits(&mut self, x: &[Lanes], logits: &mut [Lanes]) {
        let rows = self.of.transposed.as_slice();
        for (class, (logit, known)) in logits.iter_mut().zip(&self.known).enumerate() {
            let mut sum = *known;
            for (w, x) in rows[class * x.len()..][..x.len()].iter().zip(x) {
                for l in 0..LANES {
                    sum.0[l] += w * x.0[l];
                }
            }
            *logit = sum;
        }
    }

    fn pull_back(&mut self, slopes: &[Lanes], gradient: &mut [Lanes]) {
        let columns = self.of.weights.as_slice().chunks_exact(self.of.weights.nrows());
        for (gradient, column) in gradient.iter_mut().zip(columns) {
            let mut sum = Lanes::all(0.0);
            for (w, slope) in column.iter().zip(slopes) {
                for l in 0..LANES {
                    sum.0[l] += w * slope.0[l];
                }
            }
            *gradient = sum;
        }
    }
}
