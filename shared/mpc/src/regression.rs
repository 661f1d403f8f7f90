//! Softmax regression on shares, by full batches.
//!
//! The loss is the mean cross-entropy plus λ times the squared weights. Every party prepares its
//! own features: it centres them and whitens them, so that XₚᵀXₚ = n I within its block. Then the
//! curvature of the loss is at most half the number of blocks (Böhning 1992: the Hessian of one
//! record's loss in its logits is at most ½ I), and Nesterov's accelerated gradient (1983) with
//! that fixed step converges at the pace that correlations *between* parties dictate. No second
//! moment is estimated, and no learning rate is chosen. The cut of far records
//! ([`Regression::prepare`]) comes after whitening, so that behind it the bound is approximate.
//!
//! The scores follow the logits instead of being computed anew. Softmax solves dy = (dz − ⟨dz, y⟩)
//! y along any path of the logits z, so that an epoch takes y along its change Δz by the midpoint
//! rule: four products where Euler's method from y = 1/k (Zheng, Zhang and Yu, ACSAC 2023) takes
//! two for each of 16 to 64 steps. The error of an epoch is of third order in Δz, which shrinks as
//! training converges; the first epochs go in substeps.
//!
//! One epoch: 14 rounds, and 8 more for each further substep.

use crate::error::{MpcError, check_length};
use crate::fixed_point::FixedPoint;
use crate::matrix::SharedMatrix;
use crate::session::Session;

/// The epochs whose change of the logits is taken in substeps, and their number.
const EARLY_EPOCHS: usize = 10;
const EARLY_SUBSTEPS: usize = 4;

/// The largest magnitude of a whitened feature.
pub const LARGEST_FEATURE: f64 = 8.0;

/// The settings of a regression, which all parties have agreed on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regression {
    /// The number of full batches.
    pub epochs: usize,
    /// λ, at least 0, of the weights in whitened coordinates: what a feature is measured in does
    /// not matter.
    pub penalty: f64,
    /// The number of last features without a penalty, which are the constant ones.
    pub free: usize,
    /// The number of blocks of features that are whitened by themselves. The constant is no block:
    /// it is uncorrelated with centred features.
    pub blocks: usize,
    /// The representation of numbers. n 2^(2 f) must be at most 2^60.
    pub fixed: FixedPoint,
}

/// A regression's data.
#[derive(Debug)]
pub struct RegressionData {
    /// The features, records × features, as [`Regression::prepare`] returns them. Sums over records
    /// of columns that are not whitened leave the ring without an error.
    pub features: SharedMatrix,
    /// 1 for the label of a record and 0 for the other classes, records × classes.
    pub labels: SharedMatrix,
}

impl Regression {
    /// Returns the factor that every party multiplies its whitened features with. It absorbs the
    /// step of the gradient, 1 / (blocks / 2 + 2 λ), and the division by the number of records, of
    /// which a power of two remains.
    #[must_use]
    pub fn feature_scale(&self, records: usize) -> f64 {
        let power = f64::from(shift(records)).exp2();
        (self.step() * power / records as f64).sqrt()
    }

    /// Returns whitened features as the computation takes them: cut to [`LARGEST_FEATURE`], and
    /// scaled. Whitening bounds columns and not records: without the cut, a record far out moves
    /// its logits so much in one step that its scores leave [0, 1], from where they do not come
    /// back.
    #[must_use]
    pub fn prepare(&self, whitened: &[f64], records: usize) -> Vec<f64> {
        let scale = self.feature_scale(records);
        whitened.iter().map(|x| x.clamp(-LARGEST_FEATURE, LARGEST_FEATURE) * scale).collect()
    }

    /// Checks the settings for a number of records.
    ///
    /// # Errors
    /// [`MpcError::Setting`].
    fn check(&self, records: usize) -> Result<(), MpcError> {
        let wrong = |name, got, range| Err(MpcError::Setting { name, got, range });
        let bits = self.fixed.fraction_bits();
        if records == 0 {
            return wrong("the number of records", 0.0, "at least 1");
        }
        if self.blocks == 0 {
            return wrong("the number of blocks", 0.0, "at least 1");
        }
        if !(self.penalty >= 0.0 && self.penalty.is_finite()) {
            return wrong("the penalty", self.penalty, "at least 0");
        }
        if 2 * bits + shift(records) > 60 {
            let range = "so few that the number of records times 2^(2 bits) is at most 2^60";
            return wrong("fraction_bits", bits.into(), range);
        }
        Ok(())
    }

    /// Returns the step of the gradient in the whitened coordinates.
    fn step(&self) -> f64 {
        1.0 / (0.5 * self.blocks as f64 + 2.0 * self.penalty)
    }

    /// Returns the momentum before an epoch, from 0: (t − 1) / (t + 2) of Nesterov's sequence.
    fn momentum(epoch: usize) -> f64 {
        epoch as f64 / (epoch as f64 + 3.0)
    }

    /// Returns the number of parts that an epoch's change of the logits is taken in.
    fn substeps(epoch: usize) -> usize {
        if epoch < EARLY_EPOCHS { EARLY_SUBSTEPS } else { 1 }
    }

    /// Trains in the clear, by the same steps: the oracle of [`Session::regress`]. `features` are
    /// records × features and `labels` records × classes, both column by column. Returns the
    /// weights, features × classes, in the coordinates of the prepared features.
    #[must_use]
    pub fn train_in_the_clear(&self, features: &[f64], labels: &[f64], records: usize) -> Vec<f64> {
        let (d, k) = (features.len() / records, labels.len() / records);
        let shrink = |feature: usize| match feature + self.free < d {
            true => 1.0 - 2.0 * self.penalty * self.step(),
            false => 1.0,
        };
        let (mut weights, mut ahead) = (vec![0.0; d * k], vec![0.0; d * k]);
        let mut scores = vec![1.0 / k as f64; records * k];
        for epoch in 0..self.epochs {
            let mut next = vec![0.0; d * k];
            for class in 0..k {
                for feature in 0..d {
                    let column = &features[feature * records..(feature + 1) * records];
                    let of_class = class * records..(class + 1) * records;
                    let gradient: f64 = column
                        .iter()
                        .zip(scores[of_class.clone()].iter().zip(&labels[of_class]))
                        .map(|(x, (score, label))| x * (score - label))
                        .sum();
                    let at = class * d + feature;
                    next[at] =
                        shrink(feature) * ahead[at] - gradient / f64::from(shift(records)).exp2();
                }
            }
            let momentum = Self::momentum(epoch);
            let change: Vec<f64> = (0..d * k)
                .map(|at| next[at] + momentum * (next[at] - weights[at]) - ahead[at])
                .collect();
            weights = next;
            ahead.iter_mut().zip(&change).for_each(|(ahead, change)| *ahead += change);
            let parts = Self::substeps(epoch);
            for record in 0..records {
                let moved = |class: usize| {
                    let x = |feature: usize| features[feature * records + record];
                    let sum: f64 = (0..d).map(|at| x(at) * change[class * d + at]).sum();
                    sum / parts as f64
                };
                let moved: Vec<f64> = (0..k).map(moved).collect();
                for _ in 0..parts {
                    let old: Vec<f64> = (0..k).map(|at| scores[at * records + record]).collect();
                    let half = follow(&old, &old, &moved, 0.5);
                    for (at, score) in follow(&old, &half, &moved, 1.0).into_iter().enumerate() {
                        scores[at * records + record] = score;
                    }
                }
            }
        }
        weights
    }
}

/// Returns y + `length` (Δz − ⟨Δz, y′⟩) y′ for scores y and the point y′ where the slope is taken.
fn follow(scores: &[f64], at: &[f64], moved: &[f64], length: f64) -> Vec<f64> {
    let mean: f64 = moved.iter().zip(at).map(|(z, y)| z * y).sum();
    let slopes = moved.iter().zip(at).map(|(z, y)| (z - mean) * y);
    scores.iter().zip(slopes).map(|(score, slope)| score + length * slope).collect()
}

/// Returns the smallest s with 2^s ≥ `records`.
fn shift(records: usize) -> u32 {
    records.max(2).next_power_of_two().trailing_zeros()
}

impl Session {
    /// Trains on shares. Returns the shares of the weights, features × classes, in the coordinates
    /// of the prepared features. Nothing is opened.
    ///
    /// The weights differ from those of [`Regression::train_in_the_clear`] by the rounding of the
    /// fixed-point numbers.
    ///
    /// # Errors
    /// [`MpcError::Shape`] for labels of another number of records, [`MpcError::Setting`] for
    /// settings out of range, among them more records than the representation has room for; errors
    /// of links.
    pub fn regress(
        &mut self,
        of: Regression,
        data: &RegressionData,
    ) -> Result<SharedMatrix, MpcError> {
        let RegressionData { features, labels } = data;
        let (n, d, k) = (features.rows(), features.columns(), labels.columns());
        check_length("a column of the labels", labels.rows(), n)?;
        let fixed = of.fixed;
        let (bits, scaled) = (fixed.fraction_bits(), shift(n));
        of.check(n)?;
        let shrink = fixed.encode(&[2.0 * of.penalty * of.step()])?;
        let labels = labels.shares();
        let even = fixed.encode_one(1.0 / k.max(1) as f64);
        let mut scores = self.public(&vec![even; n * k]);
        let zeros = self.public(&vec![0; d * k]);
        let (mut weights, mut ahead) = (zeros.clone(), zeros);
        for epoch in 0..of.epochs {
            let residuals = SharedMatrix::new(n, k, scores.minus(&labels)?)?;
            let gradient = features.transposed_product_parts(&residuals)?;
            // λ's part has f + f bits, the gradient's f + f + s.
            let mut parts = gradient;
            for (at, (part, ahead)) in parts.iter_mut().zip(&ahead.own).enumerate() {
                if at % d + of.free < d {
                    *part = part.wrapping_add(ahead.wrapping_mul(shrink[0]) << scaled);
                }
            }
            let next = ahead.minus(&self.truncate_parts(parts, bits + scaled)?)?;
            let momentum = fixed.encode_one(Regression::momentum(epoch));
            let drift = self.truncate(&next.minus(&weights)?.times(momentum), bits)?;
            let change = next.plus(&drift)?.minus(&ahead)?;
            ahead = ahead.plus(&change)?;
            weights = next;
            let change = SharedMatrix::new(d, k, change)?;
            let moved = self.multiply_matrices_truncated(features, &change, bits)?.into_shares();
            let parts = Regression::substeps(epoch);
            for _ in 0..parts {
                // A substep is a fraction of the change: a power of two that products are cut by.
                let cut = bits + parts.trailing_zeros();
                let half = self.softmax_step(&scores, &moved, n, bits, cut + 1)?;
                let half = scores.plus(&half)?;
                scores = scores.plus(&self.softmax_step(&half, &moved, n, bits, cut)?)?;
            }
        }
        SharedMatrix::new(d, k, weights)
    }
}
