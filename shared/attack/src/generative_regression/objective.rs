//! The objective of the generator: the scores that its estimates give, and their spread and mean
//! over a batch.

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;
use vfl_core::model::{LANES, Lanes};

use crate::Differentiable;
use crate::gradient_inversion::Loss;
use crate::gradient_inversion::loss::Target;

/// The objective Σ D(c, ĉ) over the records of a batch + v Σ Var x̂_i + m Σ (mean x̂_i − μ_i)².
/// Variance and mean are over the batch, sums over features.
pub(super) struct Objective<'a> {
    /// The logits as a function of the features.
    pub(super) model: &'a dyn Differentiable,
    /// The released scores c, k × n.
    pub(super) scores: DMatrix<f64>,
    /// The loss D. Squared differences are summed over the classes, where J (18) takes their mean.
    pub(super) loss: Loss,
    /// The weight v.
    pub(super) variance_weight: f64,
    /// The weight m, and the mean μ that the adversary knows; `None` without such a term.
    pub(super) mean: Option<(f64, DVector<f64>)>,
}

impl Objective<'_> {
    /// Returns the misfit of the scores, Σ D, of a batch with the estimates `x` (d × b) of the
    /// records at these positions, and the slopes of the whole objective in the estimates.
    pub(super) fn at(&self, x: &DMatrix<f64>, batch: &[usize]) -> (f64, DMatrix<f64>) {
        let (d, k) = (x.nrows(), self.scores.nrows());
        let scale = if self.loss == Loss::Mse { k as f64 } else { 1.0 };
        let of_block = |(at, records): (usize, &[usize])| {
            // Places beyond the last record repeat it.
            let place = |l: usize| l.min(records.len() - 1);
            let mut logits = self.model.block(std::array::from_fn(|l| records[place(l)]));
            let mut target = Target::new(k);
            target.fill(|class, l| self.scores[(class, records[place(l)])]);
            let column = |l: usize| LANES * at + place(l);
            let inputs: Vec<Lanes> =
                (0..d).map(|i| Lanes(std::array::from_fn(|l| x[(i, column(l))]))).collect();
            let (mut z, mut c_hat) = (vec![Lanes::all(0.0); k], vec![Lanes::all(0.0); k]);
            logits.logits(&inputs, &mut z);
            let losses = self.loss.evaluate(&target, &mut z, &mut c_hat);
            let mut slopes = inputs;
            logits.pull_back(&z, &mut slopes);
            (losses.0[..records.len()].iter().sum::<f64>(), slopes)
        };
        let blocks: Vec<(f64, Vec<Lanes>)> =
            batch.par_chunks(LANES).enumerate().map(of_block).collect();
        let misfit = scale * blocks.iter().map(|(loss, _)| loss).sum::<f64>();
        let mut slopes =
            DMatrix::from_fn(d, batch.len(), |i, j| scale * blocks[j / LANES].1[i].0[j % LANES]);
        self.add_moments(x, &mut slopes);
        (misfit, slopes)
    }

    /// Adds the slopes of the variance, 2 v (x − mean) / (b − 1), none for a single record, and of
    /// the mean, 2 m (mean − μ) / b.
    fn add_moments(&self, x: &DMatrix<f64>, slopes: &mut DMatrix<f64>) {
        let b = x.ncols() as f64;
        let spread = if b > 1.0 { 2.0 * self.variance_weight / (b - 1.0) } else { 0.0 };
        for (i, (x, mut slopes)) in x.row_iter().zip(slopes.row_iter_mut()).enumerate() {
            let mean = x.mean();
            let pull = self
                .mean
                .as_ref()
                .map_or(0.0, |(weight, known)| 2.0 * weight * (mean - known[i]) / b);
            for (slope, x) in slopes.iter_mut().zip(x.iter()) {
                *slope += spread * (x - mean) + pull;
            }
        }
    }
}
