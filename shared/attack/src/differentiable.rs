//! The model as a differentiable function of the passive features, for descents on the scores.

use nalgebra::DMatrix;
use vfl_core::model::{LANES, Lanes, ln_sigmoid};

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

/// The logits of linear outputs: W_pas x and a known part, or ln σ of them.
pub(super) struct LinearLogits<'a> {
    /// The weights W_pas, k × d.
    weights: &'a DMatrix<f64>,
    /// W_pasᵀ, whose columns give a class's weights in a row.
    transposed: DMatrix<f64>,
    /// The known part, k × n.
    known: DMatrix<f64>,
    one_vs_rest: bool,
}

impl<'a> LinearLogits<'a> {
    /// Creates the logits ln σ(z) of the z that [`LinearLogits::new`] has.
    pub(super) fn one_vs_rest(weights: &'a DMatrix<f64>, known: DMatrix<f64>) -> Self {
        Self { one_vs_rest: true, ..Self::new(weights, known) }
    }

    /// Creates the logits from `weights` (k × d) and `known` (k × n).
    pub(super) fn new(weights: &'a DMatrix<f64>, known: DMatrix<f64>) -> Self {
        Self { weights, transposed: weights.transpose(), known, one_vs_rest: false }
    }
}

struct LinearBlock<'a> {
    of: &'a LinearLogits<'a>,
    known: Vec<Lanes>,
    /// The slopes 1 − σ(z) of ln σ(z) at the last x; empty for logits that are linear.
    slopes: Vec<Lanes>,
    /// Memory for the slopes in z.
    chained: Vec<Lanes>,
}

impl Differentiable for LinearLogits<'_> {
    fn block(&self, records: [usize; LANES]) -> Box<dyn LogitBlock + '_> {
        let of_class = |class| Lanes(std::array::from_fn(|l| self.known[(class, records[l])]));
        let known: Vec<Lanes> = (0..self.known.nrows()).map(of_class).collect();
        let slopes = if self.one_vs_rest { known.clone() } else { Vec::new() };
        let chained = slopes.clone();
        Box::new(LinearBlock { of: self, known, slopes, chained })
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
        for (logit, slope) in logits.iter_mut().zip(&mut self.slopes) {
            for l in 0..LANES {
                logit.0[l] = ln_sigmoid(logit.0[l]);
                slope.0[l] = -logit.0[l].exp_m1();
            }
        }
    }

    fn pull_back(&mut self, slopes: &[Lanes], gradient: &mut [Lanes]) {
        for (chained, (a, b)) in self.chained.iter_mut().zip(slopes.iter().zip(&self.slopes)) {
            *chained = Lanes(std::array::from_fn(|l| a.0[l] * b.0[l]));
        }
        let slopes = if self.slopes.is_empty() { slopes } else { &self.chained };
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
