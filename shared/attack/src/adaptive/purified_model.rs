//! A model behind a purifier, as a differentiable function of the features, for a descent through
//! both.

use nalgebra::DMatrix;
use vfl_core::model::{LANES, Lanes};
use vfl_defense::purifier::Purifier;
use vfl_numerics::softmax_columns;

use crate::{Differentiable, LogitBlock};

/// A model and a purifier as one model. Its logits are numbers whose softmax is G(softmax(z /
/// stretch)), with z the logits of the inner model.
pub(super) struct PurifiedModel<'a> {
    pub(super) model: &'a dyn Differentiable,
    pub(super) purifier: &'a Purifier,
    /// The divisor of the logits before the softmax.
    pub(super) stretch: f64,
}

struct Block<'a> {
    of: &'a PurifiedModel<'a>,
    inner: Box<dyn LogitBlock + 'a>,
    /// The logits z, later the slopes in z.
    logits: Vec<Lanes>,
    /// c and the hidden units of each record, at the last features.
    scores: [Vec<f64>; LANES],
    hidden: [Vec<f64>; LANES],
    /// Working memory: two vectors of k numbers, and one for the hidden units.
    out: Vec<f64>,
    slopes: Vec<f64>,
    work: Vec<f64>,
}

impl Differentiable for PurifiedModel<'_> {
    fn block(&self, records: [usize; LANES]) -> Box<dyn LogitBlock + '_> {
        let (k, h) = (self.purifier.classes(), self.purifier.hidden_units());
        Box::new(Block {
            of: self,
            inner: self.model.block(records),
            logits: vec![Lanes::all(0.0); k],
            scores: std::array::from_fn(|_| vec![0.0; k]),
            hidden: std::array::from_fn(|_| vec![0.0; h]),
            out: vec![0.0; k],
            slopes: vec![0.0; k],
            work: vec![0.0; h],
        })
    }
}

/// Writes the softmax of one record's logits, divided by the stretch, to `c`.
fn softmax_of(logits: &[Lanes], record: usize, stretch: f64, c: &mut [f64]) {
    let most = logits.iter().fold(f64::NEG_INFINITY, |most, z| most.max(z.0[record]));
    c.iter_mut().zip(logits).for_each(|(c, z)| *c = ((z.0[record] - most) / stretch).exp());
    let sum: f64 = c.iter().sum();
    c.iter_mut().for_each(|c| *c /= sum);
}

impl LogitBlock for Block<'_> {
    fn logits(&mut self, x: &[Lanes], logits: &mut [Lanes]) {
        self.inner.logits(x, &mut self.logits);
        for (l, (c, hidden)) in self.scores.iter_mut().zip(&mut self.hidden).enumerate() {
            softmax_of(&self.logits, l, self.of.stretch, c);
            self.of.purifier.logits_of(c, hidden, &mut self.out);
            logits.iter_mut().zip(&self.out).for_each(|(to, z)| to.0[l] = *z);
        }
    }

    fn pull_back(&mut self, slopes: &[Lanes], gradient: &mut [Lanes]) {
        for (l, (c, hidden)) in self.scores.iter().zip(&self.hidden).enumerate() {
            self.out.iter_mut().zip(slopes).for_each(|(to, slope)| *to = slope.0[l]);
            self.work.copy_from_slice(hidden);
            self.of.purifier.pull_back(&self.out, &mut self.work, &mut self.slopes);
            let along: f64 = self.slopes.iter().zip(c).map(|(s, c)| s * c).sum();
            for ((to, c), slope) in self.logits.iter_mut().zip(c).zip(&self.slopes) {
                to.0[l] = c * (slope - along) / self.of.stretch;
            }
        }
        self.inner.pull_back(&self.logits, gradient);
    }
}

/// Returns the scores softmax(z / stretch) of a model's records at the features `x` (d × n), k × n.
/// Record j of `x` is record j modulo `records` of the model.
pub(super) fn scores_of(
    model: &dyn Differentiable,
    (classes, records): (usize, usize),
    stretch: f64,
    x: &DMatrix<f64>,
) -> DMatrix<f64> {
    let n = x.ncols();
    let mut scores = DMatrix::zeros(classes, n);
    let mut logits = vec![Lanes::all(0.0); classes];
    for first in (0..n).step_by(LANES) {
        let column = |l: usize| (first + l).min(n - 1);
        let features: Vec<Lanes> =
            (0..x.nrows()).map(|i| Lanes(std::array::from_fn(|l| x[(i, column(l))]))).collect();
        model.block(std::array::from_fn(|l| column(l) % records)).logits(&features, &mut logits);
        for l in 0..LANES.min(n - first) {
            for (to, z) in scores.column_mut(first + l).iter_mut().zip(&logits) {
                *to = z.0[l] / stretch;
            }
        }
    }
    softmax_columns(&mut scores);
    scores
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    use super::*;
    use crate::differentiable::LinearLogits;

    #[test]
    fn slopes_are_those_of_differences() {
        let weights = DMatrix::from_row_slice(
            4,
            3,
            &[1.0, -2.0, 0.5, 0.3, 1.2, -0.7, -1.1, 0.2, 0.9, 0.0, 0.4, 2.0],
        );
        let known = DMatrix::from_fn(4, 2, |i, j| 0.3 * i as f64 - 0.2 * j as f64);
        let inner = LinearLogits::new(&weights, known);
        let purifier = Purifier::untrained(4, &mut ChaCha20Rng::seed_from_u64(1));
        let through = PurifiedModel { model: &inner, purifier: &purifier, stretch: 1.7 };
        let mut block = through.block(std::array::from_fn(|l| l % 2));
        let x: Vec<Lanes> =
            (0..3).map(|i| Lanes(std::array::from_fn(|l| 0.1 * (i + l) as f64))).collect();
        let at = |block: &mut dyn LogitBlock, x: &[Lanes]| {
            let mut z = vec![Lanes::all(0.0); 4];
            block.logits(x, &mut z);
            z
        };
        let slopes: Vec<Lanes> = (0..4).map(|i| Lanes::all([0.5, -1.0, 2.0, 0.1][i])).collect();
        at(&mut *block, &x);
        let mut gradient = vec![Lanes::all(0.0); 3];
        block.pull_back(&slopes, &mut gradient);
        for i in 0..3 {
            let moved = |by: f64| {
                let mut x = x.clone();
                x[i].0.iter_mut().for_each(|x| *x += by);
                x
            };
            let (more, less) = (at(&mut *block, &moved(1e-6)), at(&mut *block, &moved(-1e-6)));
            for l in 0..LANES {
                let difference: f64 =
                    (0..4).map(|j| slopes[j].0[l] * (more[j].0[l] - less[j].0[l])).sum::<f64>()
                        / 2e-6;
                assert!((difference - gradient[i].0[l]).abs() < 1e-8, "{i} {l}");
            }
        }
        // The scores before the purifier.
        let points = DMatrix::from_fn(3, 5, |i, j| 0.1 * (i + j) as f64);
        let scores = scores_of(&inner, (4, 2), 1.7, &points);
        let z = &weights * points.column(3) + DVectorOf::known(1);
        let mut want = DMatrix::from_column_slice(4, 1, (z / 1.7).as_slice());
        softmax_columns(&mut want);
        assert!((scores.column(3) - want.column(0)).amax() < 1e-14);
    }

    struct DVectorOf;

    impl DVectorOf {
        fn known(j: usize) -> nalgebra::DVector<f64> {
            nalgebra::DVector::from_fn(4, |i, _| 0.3 * i as f64 - 0.2 * j as f64)
        }
    }
}
