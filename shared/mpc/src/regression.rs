//! Regression on shares, by full batches: of classes, numbers or counts ([`Family`]).
//!
//! The loss is the mean of the family's, for classes the cross-entropy, plus λ times the squared
//! weights. Every party prepares its own features: it centres them and whitens them, so that
//! XₚᵀXₚ = n I within its block. Then the curvature of the loss is at most the number of blocks
//! times that of one record's loss in its predictors (½ for classes: Böhning 1992), and Nesterov's
//! accelerated gradient (1983) with that fixed step converges at the pace that correlations
//! *between* parties dictate. No second moment is estimated, and no learning rate is chosen. The
//! cut of far records ([`Regression::prepare`]) comes after whitening, so that behind it the bound
//! is approximate; of numbers it is kept.
//!
//! The scores follow the logits instead of being computed anew. Softmax solves dy = (dz − ⟨dz, y⟩)
//! y along any path of the logits z, so that an epoch takes y along its change Δz by the midpoint
//! rule: four products where Euler's method from y = 1/k (Zheng, Zhang and Yu, ACSAC 2023) takes
//! two for each of 16 to 64 steps. The error of an epoch is of third order in Δz, which shrinks as
//! training converges; the first epochs go in substeps. Training returns the weights whose logits
//! the scores follow: those at which the next gradient would be taken.
//!
//! Some records may validate. Every party fits its means and its whitening on the other records
//! alone, which are the n above, and transforms all. The scores of all records follow the logits,
//! but the residuals of those that validate are left out of the gradient. After each epoch their
//! Brier score (1950), the mean of Σₖ (yₖ − tₖ)², which is proper, the squared error of numbers or
//! the deviance of counts is compared with the best so far. The bit that says if it is lower is
//! opened, and nothing else: it decides if the weights are kept, and when training stops.
//!
//! One epoch of classes: 14 rounds, 8 more for each further substep, and 7 more with validation; of
//! numbers 6, without substeps; of counts 10, and 4 more for each further substep. Validation takes
//! 317 bytes of all parties, however many records and classes there are. The first epoch has
//! nothing to compare with: 24 bytes, for which nothing waits.

use crate::error::{MpcError, check_length};
use crate::family::{Family, Means};
use crate::fixed_point::FixedPoint;
use crate::matrix::SharedMatrix;
use crate::party_index::PartyIndex;
use crate::session::Session;
use crate::shares::Shares;

/// The epochs whose change of the logits is taken in substeps, and their number.
const EARLY_EPOCHS: usize = 10;
const EARLY_SUBSTEPS: usize = 4;

/// The largest magnitude of a whitened feature.
pub const LARGEST_FEATURE: f64 = 8.0;

/// The settings of a regression, which all parties have agreed on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regression {
    /// The family of the labels.
    pub family: Family,
    /// The largest number of full batches.
    pub epochs: usize,
    /// λ, at least 0, of the weights in whitened coordinates: what a feature is measured in does
    /// not matter.
    pub penalty: f64,
    /// The number of last features without a penalty, which are the constant ones.
    pub free: usize,
    /// The number of blocks of features that are whitened by themselves. The constant is no block:
    /// it is uncorrelated with centred features.
    pub blocks: usize,
    /// The number of last records that validate and take no part in the gradient, fewer than there
    /// are. 0 for none: then all epochs are run, and the last one counts as the best.
    pub validation: usize,
    /// The number of epochs without a better validation score after which training stops, at least
    /// 1. Without validation it has no meaning.
    pub patience: usize,
    /// The representation of numbers. For n records, n 2^(2 f) must be at most 2^60, for numbers
    /// 2^54 and for counts 2^56.
    pub fixed: FixedPoint,
}

/// A regression's data.
#[derive(Debug)]
pub struct RegressionData {
    /// The features, records × features, as [`Regression::prepare`] returns them; the records that
    /// validate come last. Sums over records of columns that are not whitened leave the ring
    /// without an error. The weights of a column of zeros are 0.
    pub features: SharedMatrix,
    /// 1 for the label of a record and 0 for the other classes, records × classes; the number or
    /// the count of each record, records × 1.
    pub labels: SharedMatrix,
}

/// The outcome of a training. All but the weights is public.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingResult<Weights = SharedMatrix> {
    /// The weights after the best epoch. Those of a regression are features × classes, column by
    /// column, in the coordinates of the prepared features.
    pub weights: Weights,
    /// The number of epochs that were run.
    pub epochs: usize,
    /// The epoch of the best validation score, from 1; without validation the last one. 0 if no
    /// epoch was run.
    pub best_epoch: usize,
}

impl Regression {
    /// Returns the factor that every party multiplies its whitened features with. It absorbs the
    /// step of the gradient, 1 / (blocks times curvature + 2 λ), and the division by the number of
    /// records, of which a power of two remains. `records` are all of the data: those that validate
    /// are taken off here.
    #[must_use]
    pub fn feature_scale(&self, records: usize) -> f64 {
        let trained = self.trained(records);
        (self.step() * f64::from(shift(trained)).exp2() / trained as f64).sqrt()
    }

    /// Returns whitened features as the computation takes them, column by column, each with the
    /// records that validate last: scaled, and cut to [`LARGEST_FEATURE`]. Whitening bounds columns
    /// and not records: without the cut, a record far out moves its logits so much in one step that
    /// its scores leave [0, 1], from where they do not come back.
    ///
    /// Numbers have no such range: their training records count in full, which keeps the bound of
    /// the curvature. None of n exceeds √n then. `records` are all of the data.
    #[must_use]
    pub fn prepare(&self, whitened: &[f64], records: usize) -> Vec<f64> {
        let (scale, trained) = (self.feature_scale(records), self.trained(records));
        let most = |at: usize| match self.family {
            Family::Gaussian if at % records.max(1) < trained => (trained as f64).sqrt(),
            _ => LARGEST_FEATURE,
        };
        let cut = |(at, x): (usize, &f64)| x.clamp(-most(at), most(at)) * scale;
        whitened.iter().enumerate().map(cut).collect()
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
        if self.validation >= records {
            let range = "less than the number of records";
            return wrong("the number of records that validate", self.validation as f64, range);
        }
        if self.validation > 0 && self.patience == 0 {
            return wrong("the patience", 0.0, "at least 1");
        }
        if self.blocks == 0 {
            return wrong("the number of blocks", 0.0, "at least 1");
        }
        if !(self.penalty >= 0.0 && self.penalty.is_finite()) {
            return wrong("the penalty", self.penalty, "at least 0");
        }
        if 2 * bits + shift(records) + self.family.score_bits() > 60 {
            let range = "so few that the number of records times 2^(2 bits) is at most 2^60, of numbers 2^54, of counts 2^56";
            return wrong("fraction_bits", bits.into(), range);
        }
        Ok(())
    }

    /// Returns the number of records that are trained on.
    pub(crate) fn trained(&self, records: usize) -> usize {
        records.saturating_sub(self.validation)
    }

    /// Returns true if training goes on after so many epochs.
    pub(crate) fn goes_on(&self, epochs: usize, best_epoch: usize) -> bool {
        let waits = self.validation == 0 || epochs - best_epoch < self.patience;
        epochs < self.epochs && waits
    }

    /// Returns the step of the gradient in the whitened coordinates.
    pub(crate) fn step(&self) -> f64 {
        1.0 / (self.family.curvature() * self.blocks as f64 + 2.0 * self.penalty)
    }

    /// Returns the momentum before an epoch, from 0: (t − 1) / (t + 2) of Nesterov's sequence.
    pub(crate) fn momentum(epoch: usize) -> f64 {
        epoch as f64 / (epoch as f64 + 3.0)
    }

    /// Returns the number of parts that an epoch's change of the predictors is taken in.
    pub(crate) fn substeps(epoch: usize) -> usize {
        if epoch < EARLY_EPOCHS { EARLY_SUBSTEPS } else { 1 }
    }
}

/// Returns the smallest s with 2^s ≥ `records`.
pub(crate) fn shift(records: usize) -> u32 {
    records.max(2).next_power_of_two().trailing_zeros()
}

impl Session {
    /// Trains on shares. Nothing is opened but the bits that compare validation scores.
    ///
    /// `on_epoch` is called with the number of each epoch, from 1, before it begins. If it returns
    /// `false`, training ends there with [`MpcError::Stopped`]; the other parties hear of it when
    /// their links close. Party 2 may be one epoch ahead of the others.
    ///
    /// The weights differ from those of [`Regression::train_in_the_clear`] by the rounding of the
    /// fixed-point numbers.
    ///
    /// # Errors
    /// [`MpcError::Shape`] for labels of another number of records, [`MpcError::Setting`] for
    /// settings out of range, among them more records than the representation has room for;
    /// [`MpcError::Stopped`]; [`MpcError::NoResult`] for a comparison that is no bit; errors of
    /// links.
    pub fn regress(
        &mut self,
        of: Regression,
        data: &RegressionData,
        on_epoch: &mut dyn FnMut(usize) -> bool,
    ) -> Result<TrainingResult, MpcError> {
        let RegressionData { features, labels } = data;
        let (n, d, k) = (features.rows(), features.columns(), labels.columns());
        check_length("a column of the labels", labels.rows(), n)?;
        of.check(n)?;
        let (trained, labels) = (of.trained(n), labels.shares());
        if of.family.is_number() {
            check_length("a record's label", k, 1)?;
        }
        let start = of.fixed.encode_one(of.family.start(k));
        let mut means = Means::start(self, (of.family, start), (n, k));
        let weights = self.public(&vec![0; d * k]);
        let mut point = Point { reached: weights.clone(), weights };
        let (mut epochs, mut best_epoch) = (0, 0);
        let (mut best_weights, mut best_score) = (point.weights.clone(), None);
        while of.goes_on(epochs, best_epoch) {
            if !on_epoch(epochs + 1) {
                return Err(self.end(MpcError::Stopped));
            }
            if of.validation == 0 {
                self.keep_pace(epochs, of.epochs)?;
            }
            let residuals = SharedMatrix::new(n, k, means.values.minus(&labels)?)?;
            let gradient = features.transposed_product_parts(&residuals, trained)?;
            let change = self.descend(of, &mut point, gradient, (d, trained, epochs))?;
            let change = SharedMatrix::new(d, k, change)?;
            let bits = of.fixed.fraction_bits();
            let moved = self.multiply_matrices_truncated(features, &change, bits)?.into_shares();
            means.follow(self, &moved, (n, bits, Regression::substeps(epochs)))?;
            epochs += 1;
            let better = of.validation == 0 || {
                let part = means.score_part(&labels, (n, trained), bits)?;
                self.keep_lowest(part, &mut best_score)?
            };
            if better {
                best_epoch = epochs;
                best_weights.clone_from(&point.weights);
            }
        }
        let weights = SharedMatrix::new(d, k, best_weights)?;
        Ok(TrainingResult { weights, epochs, best_epoch })
    }

    /// Keeps party 2 at most one epoch ahead. It deals the masks of truncations and waits for
    /// nobody in an epoch without a comparison: it would fill the links with all of a training, and
    /// not notice that the others have stopped. One byte, for which nobody else waits.
    ///
    /// # Errors
    /// Those of links.
    fn keep_pace(&mut self, epoch: usize, epochs: usize) -> Result<(), MpcError> {
        match self.party() {
            PartyIndex::FIRST if epoch + 1 < epochs => self.send(PartyIndex::THIRD, vec![0]),
            PartyIndex::THIRD if epoch > 0 => self.receive(PartyIndex::FIRST, 1).map(drop),
            _ => Ok(()),
        }
    }

    /// Takes a step of Nesterov's method, and returns the change of the weights. `gradient` holds
    /// this party's parts of its sum over `trained` records, of `d` features for each class. Four
    /// rounds.
    ///
    /// # Errors
    /// Those of links.
    fn descend(
        &mut self,
        of: Regression,
        point: &mut Point,
        gradient: Vec<u64>,
        (d, trained, epoch): (usize, usize, usize),
    ) -> Result<Shares, MpcError> {
        let (bits, scaled) = (of.fixed.fraction_bits(), shift(trained));
        let shrink = of.fixed.encode_one(2.0 * of.penalty * of.step());
        // λ's part has f + f bits, the gradient's f + f + s.
        let mut parts = gradient;
        for (at, (part, weight)) in parts.iter_mut().zip(&point.weights.own).enumerate() {
            if at % d + of.free < d {
                *part = part.wrapping_add(weight.wrapping_mul(shrink) << scaled);
            }
        }
        let reached = point.weights.minus(&self.truncate_parts(parts, bits + scaled)?)?;
        let momentum = of.fixed.encode_one(Regression::momentum(epoch));
        let drift = reached.minus(&point.reached)?.times(momentum);
        let change = reached.plus(&self.truncate(&drift, bits)?)?.minus(&point.weights)?;
        point.weights = point.weights.plus(&change)?;
        point.reached = reached;
        Ok(change)
    }

    /// Compares a validation score, of which this party has a part, with the best so far, and puts
    /// it there if it is lower. Only that is opened. Seven rounds, 317 bytes of all parties; one
    /// round and 24 bytes if there is none so far.
    ///
    /// A score has at most 2 · 2^(2 f) from each of n records with scores in [0, 1], and
    /// n 2^(2 f) ≤ 2^60: differences keep their sign. Of numbers there is room for squared
    /// residuals of 500 a record, of counts for parts of 100.
    ///
    /// # Errors
    /// [`MpcError::NoResult`]; errors of links.
    pub(crate) fn keep_lowest(
        &mut self,
        part: u64,
        best: &mut Option<Shares>,
    ) -> Result<bool, MpcError> {
        let score = self.reshare(vec![part])?;
        let lower = match best {
            Some(best) => {
                let sign = self.is_negative(&score.minus(best)?)?.map(|word| word & 1);
                match self.open_bits(&sign)?[..] {
                    [0] => false,
                    [1] => true,
                    _ => return Err(self.end(MpcError::NoResult { what: "a comparison" })),
                }
            }
            None => true,
        };
        if lower {
            *best = Some(score);
        }
        Ok(lower)
    }
}

/// The state of Nesterov's method.
struct Point {
    /// The weights, at which the next gradient is taken.
    weights: Shares,
    /// The point that the last gradient led to, before the momentum.
    reached: Shares,
}
