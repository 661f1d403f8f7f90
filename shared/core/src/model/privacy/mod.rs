//! Differential privacy of a party's own parameters: each record's part of a gradient is clipped,
//! and normal noise is added to the sum (DP-SGD: M. Abadi et al., *Deep Learning with Differential
//! Privacy*, arXiv:1607.00133, algorithm 1).
//!
//! **The guarantee.** The unit is one record's features at this party, replaced by any others. The
//! parameters that this party stores are (ε, δ)-differentially private in it, given the gradients
//! that the party received. That bounds what a release or an export of these parameters tells about
//! one record. Record i's part of an update has length at most γ / B in a batch of B records, so
//! that a replacement moves the update by at most 2 γ / B. The noise has the standard deviation σ γ
//! / B in every entry. An update is therefore a Gaussian mechanism of multiplier σ / 2, and a
//! record takes part in `steps` of them. The penalty and Adam come after the noise and cost
//! nothing.
//!
//! **Not covered by the guarantee:**
//! - A record's shares and embeddings: the coordinator sees them, and they are functions of the
//!   record.
//! - The gradients. They are treated as fixed, though they depend on this party's shares, also
//!   through the parameters of other parties that learned from those shares.
//! - The choice of the published epoch, in which validation records take part.
//! - Other trainings. Each counts by itself; ε and δ of several trainings add up.
//! - Amplification by sampling or shuffling, which is not claimed: the active party and the
//!   coordinator know the seed, hence every batch. So the order of a training, also one in blocks
//!   (`shuffle_block`), does not matter for ε: only the number of a record's updates counts.
//! - The last bits of 64-bit numbers. The accountant treats the noise as real numbers.

mod statement;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

pub use statement::{PrivacyStatement, PrivacyStatementError};

use vfl_numerics::GaussianSampling;

use super::contract::InitialSeed;
use super::{TrainingConfig, kinds};

/// The smallest and the largest σ. Above, the accountant's list of orders gives no smaller ε.
const NOISE: std::ops::RangeInclusive<f64> = 0.01..=1e5;
/// The smallest and the largest γ.
const CLIP: std::ops::RangeInclusive<f64> = 1e-6..=1e6;
/// An upper bound on the updates of a record in any training: 100 000 epochs.
const MOST_STEPS: u64 = 100_000;

/// Errors from training with privacy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PrivacyError {
    /// A value of `[training.privacy]` that is out of range.
    #[error("`{key}` in [training.privacy] is {got}: set it to {fix}")]
    Value {
        /// The key of the value.
        key: &'static str,
        /// The value that was given.
        got: f64,
        /// The values that are accepted.
        fix: &'static str,
    },
    /// A kind whose records cannot be told apart in a gradient.
    #[error(
        "`{kind}` cannot be trained under [training.privacy]: it mixes the records of a batch, so that no record's part can be \
         bounded; train another kind, or remove [training.privacy]"
    )]
    Kind {
        /// The kind of sub-model.
        kind: String,
    },
    /// A training that would cost more than is allowed.
    #[error(
        "{epochs} epochs would make epsilon {epsilon:.3} for delta {delta:e}, `max_epsilon` in [training.privacy] is {most}: train \
         at most {allowed} epochs, or set `noise` or `max_epsilon` higher"
    )]
    Epochs {
        /// Epochs of the training.
        epochs: u32,
        /// The ε after them.
        epsilon: f64,
        /// The configured δ.
        delta: f64,
        /// The largest ε allowed.
        most: f64,
        /// The largest number of epochs within it.
        allowed: u64,
    },
    /// An update that would cost more than is allowed.
    #[error(
        "another update with the record at position {position} would pass `max_epsilon` in [training.privacy]: it took part in \
         {steps}, and all that are allowed are {steps}"
    )]
    Spent {
        /// The record's position.
        position: u32,
        /// The number of updates that it took part in.
        steps: u64,
    },
    /// A batch that names a record twice and so would bound its part twice.
    #[error(
        "`batch` names position {position} twice; under [training.privacy] a record takes part in an update once"
    )]
    Twice {
        /// The record's position.
        position: u32,
    },
}

/// The values of `[training.privacy]` in a file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivacyValues {
    /// γ: the largest length of a record's part of the gradient of the summed loss, from 1e-6 to
    /// 1e6. Longer ones are scaled down to it.
    pub clip: f64,
    /// σ: standard deviation of the noise over γ, from 0.01 to 1e5.
    pub noise: f64,
    /// δ, above 0 and at most 0.01. Default 1e-5. It should be well below one over the number of
    /// records.
    #[serde(default = "default_delta")]
    pub delta: f64,
    /// The largest ε of a training, above 0. A training that would exceed it is refused. Default
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_epsilon: Option<f64>,
}

fn default_delta() -> f64 {
    1e-5
}

/// The checked settings of training with privacy. The module describes the guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PrivacyValues", into = "PrivacyValues")]
pub struct PrivacyConfig {
    values: PrivacyValues,
    /// The mechanism of one update, under replacement of a record.
    update: GaussianSampling,
}

impl From<PrivacyConfig> for PrivacyValues {
    fn from(config: PrivacyConfig) -> Self {
        config.values
    }
}

impl TryFrom<PrivacyValues> for PrivacyConfig {
    type Error = PrivacyError;

    fn try_from(values: PrivacyValues) -> Result<Self, PrivacyError> {
        let PrivacyValues { clip, noise, delta, max_epsilon } = values;
        let check = |ok, key, got, fix| {
            if ok { Ok(()) } else { Err(PrivacyError::Value { key, got, fix }) }
        };
        check(CLIP.contains(&clip), "clip", clip, "a number from 1e-6 to 1e6, such as 1")?;
        let noise_fix = "a number from 0.01 to 1e5, such as 4";
        check(NOISE.contains(&noise), "noise", noise, noise_fix)?;
        check(
            delta > 0.0 && delta <= 0.01,
            "delta",
            delta,
            "a number above 0 and at most 0.01, such as 1e-5",
        )?;
        let most = max_epsilon.unwrap_or(1.0);
        let fix = "a finite number above 0, or leave it out";
        check(most.is_finite() && most > 0.0, "max_epsilon", most, fix)?;
        // A replacement moves a sum by twice the clip.
        let update = GaussianSampling::new(1.0, noise / 2.0).map_err(|_| PrivacyError::Value {
            key: "noise",
            got: noise,
            fix: noise_fix,
        })?;
        Ok(Self { values, update })
    }
}

impl PrivacyConfig {
    /// Creates settings with δ = 1e-5 and no largest ε.
    ///
    /// # Errors
    /// [`PrivacyError::Value`] for a value out of range.
    pub fn new(clip: f64, noise: f64) -> Result<Self, PrivacyError> {
        Self::try_from(PrivacyValues { clip, noise, delta: default_delta(), max_epsilon: None })
    }

    /// Returns the plain values.
    #[must_use]
    pub fn values(&self) -> &PrivacyValues {
        &self.values
    }

    /// Returns ε of a record that took part in this many updates.
    #[must_use]
    pub fn epsilon(&self, steps: u64) -> f64 {
        self.update.epsilon(steps, self.values.delta).epsilon
    }

    /// Returns the largest number of updates that a record may take part in; `None` if there is no
    /// limit.
    fn most_steps(&self) -> Option<u64> {
        let most = self.values.max_epsilon?;
        let (mut within, mut beyond) = (0, MOST_STEPS + 1);
        while beyond - within > 1 {
            let middle = within + (beyond - within) / 2;
            match self.epsilon(middle) <= most {
                true => within = middle,
                false => beyond = middle,
            }
        }
        Some(within)
    }

    /// Checks that a training of this configuration can be kept private, and within the largest ε.
    /// A record takes part in one update of each epoch.
    ///
    /// # Errors
    /// [`PrivacyError::Kind`] or [`PrivacyError::Epochs`].
    pub fn check(&self, config: &TrainingConfig) -> Result<(), PrivacyError> {
        let v = config.values();
        let kind = v.model.kind();
        if !kinds::find(kind).is_ok_and(|kind| kind.tells_records_apart()) {
            return Err(PrivacyError::Kind { kind: kind.to_owned() });
        }
        let Some(most) = self.values.max_epsilon else { return Ok(()) };
        let allowed = self.most_steps().unwrap_or(u64::MAX);
        if u64::from(v.epochs) <= allowed {
            return Ok(());
        }
        let (epsilon, delta) = (self.epsilon(v.epochs.into()), self.values.delta);
        Err(PrivacyError::Epochs { epochs: v.epochs, epsilon, delta, most, allowed })
    }
}

/// The privacy of one training at one party.
pub(super) struct Privacy {
    config: PrivacyConfig,
    rng: ChaCha20Rng,
    /// The number of updates that each record took part in.
    counts: Vec<u32>,
    most_steps: Option<u64>,
    /// The records of the last training batch.
    batch: Vec<u32>,
}

impl Privacy {
    /// Creates the state before the first update of a training with this many records. `seed` must
    /// be a secret of this party's.
    pub(super) fn new(config: PrivacyConfig, records: usize, seed: InitialSeed) -> Self {
        let rng = ChaCha20Rng::from_seed(seed);
        Self {
            config,
            rng,
            counts: vec![0; records],
            most_steps: config.most_steps(),
            batch: Vec::new(),
        }
    }

    /// Stores a training batch: positions below the number of records.
    pub(super) fn begin(&mut self, positions: &[u32]) -> Result<(), PrivacyError> {
        let mut seen = HashSet::with_capacity(positions.len());
        if let Some(&position) = positions.iter().find(|position| !seen.insert(**position)) {
            return Err(PrivacyError::Twice { position });
        }
        self.batch = positions.to_vec();
        Ok(())
    }

    /// Counts an update with the stored batch.
    pub(super) fn count(&mut self) -> Result<(), PrivacyError> {
        let batch = std::mem::take(&mut self.batch);
        if let Some(most) = self.most_steps {
            let spent =
                batch.iter().find(|position| u64::from(self.counts[**position as usize]) >= most);
            if let Some(&position) = spent {
                self.batch = batch;
                return Err(PrivacyError::Spent { position, steps: most });
            }
        }
        for position in batch {
            let count = &mut self.counts[position as usize];
            *count = count.saturating_add(1);
        }
        Ok(())
    }

    /// Scales each column of a gradient of the mean loss (w × B), so that the record's part of the
    /// gradient of the parameters is at most γ / B long. `squared_norms` are the squared lengths of
    /// these parts. A backward pass is linear in the columns.
    pub(super) fn clipped(&self, gradient: &DMatrix<f64>, squared_norms: &[f64]) -> DMatrix<f64> {
        let bound = self.config.values.clip / gradient.ncols().max(1) as f64;
        let mut clipped = gradient.clone();
        for (mut column, &square) in clipped.column_iter_mut().zip(squared_norms) {
            let length = square.sqrt();
            if !length.is_finite() {
                // The length overflows: the record is left out.
                column.fill(0.0);
            } else if length > bound {
                column *= bound / length;
            }
        }
        clipped
    }

    /// Adds the noise of an update with `records` records to the gradients of the mean loss.
    pub(super) fn blur(&mut self, parameters: &mut [Vec<f64>], records: usize) {
        let PrivacyValues { clip, noise, .. } = self.config.values;
        let deviation = noise * clip / records.max(1) as f64;
        for value in parameters.iter_mut().flatten() {
            let normal: f64 = StandardNormal.sample(&mut self.rng);
            *value += deviation * normal;
        }
    }

    /// Returns the privacy cost of the updates so far.
    pub(super) fn statement(&self) -> PrivacyStatement {
        let steps = self.counts.iter().copied().max().unwrap_or(0).into();
        let PrivacyValues { clip, noise, delta, .. } = self.config.values;
        PrivacyStatement { clip, noise, epsilon: self.config.epsilon(steps), delta, steps }
    }
}
