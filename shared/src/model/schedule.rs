//! What training does in which order: fixed by a seed, so that the same seed gives the same model.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};

use super::ModelConfig;

/// Why a training configuration was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("training: `{field}` is {got}, expected {expected}")]
pub struct TrainingConfigError {
    field: &'static str,
    got: String,
    expected: &'static str,
}

/// The plain values of a training configuration, as they stand in a file or a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingValues {
    /// Passes over the training records, 1 to 100 000. Default 100.
    pub epochs: u32,
    /// Records per step, 1 to 65 536. Default 64.
    pub batch_size: u32,
    /// Step size of Adam, above 0 and at most 10. Default 0.01.
    pub learning_rate: f64,
    /// Weight of the squared norm of all weights (the bias is free, so that moving a feature's origin does not change the fit), at least 0. Default 1e-5.
    pub l2: f64,
    /// Share of the records set aside to choose the epoch, in [0, 0.9]. 0: no early stopping. Default 0.1.
    pub validation_share: f64,
    /// Epochs without a better validation loss before training stops, at least 1. Default 10.
    pub patience: u32,
    /// Seed of the order of the records. Default 1.
    pub seed: u64,
    /// What each party trains, and how outputs are combined. Default softmax regression, summed.
    #[serde(skip_serializing_if = "ModelConfig::is_default")]
    pub model: ModelConfig,
}

impl Default for TrainingValues {
    fn default() -> Self {
        Self {
            epochs: 100,
            batch_size: 64,
            learning_rate: 0.01,
            l2: 1e-5,
            validation_share: 0.1,
            patience: 10,
            seed: 1,
            model: ModelConfig::default(),
        }
    }
}

/// A checked training configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "TrainingValues", into = "TrainingValues")]
pub struct TrainingConfig(TrainingValues);

impl From<TrainingConfig> for TrainingValues {
    fn from(config: TrainingConfig) -> Self {
        config.0
    }
}

impl TryFrom<TrainingValues> for TrainingConfig {
    type Error = TrainingConfigError;

    fn try_from(v: TrainingValues) -> Result<Self, TrainingConfigError> {
        let check = |ok: bool, field, got: String, expected| {
            if ok { Ok(()) } else { Err(TrainingConfigError { field, got, expected }) }
        };
        check((1..=100_000).contains(&v.epochs), "epochs", v.epochs.to_string(), "1 to 100000")?;
        check((1..=65_536).contains(&v.batch_size), "batch_size", v.batch_size.to_string(), "1 to 65536")?;
        check(
            v.learning_rate > 0.0 && v.learning_rate <= 10.0,
            "learning_rate",
            v.learning_rate.to_string(),
            "above 0 and at most 10",
        )?;
        check(v.l2 >= 0.0 && v.l2.is_finite(), "l2", v.l2.to_string(), "a finite number, at least 0")?;
        check(
            (0.0..=0.9).contains(&v.validation_share),
            "validation_share",
            v.validation_share.to_string(),
            "in [0, 0.9]",
        )?;
        check(v.patience >= 1, "patience", v.patience.to_string(), "at least 1")?;
        Ok(Self(v))
    }
}

impl TrainingConfig {
    /// The values.
    #[must_use]
    pub fn values(&self) -> &TrainingValues {
        &self.0
    }
}

/// The order of training: which records are for validation, and each epoch's batches. Positions refer to the record list.
#[derive(Debug, Clone)]
pub struct Schedule {
    rng: ChaCha20Rng,
    training: Vec<u32>,
    validation: Vec<u32>,
    batch_size: usize,
}

impl Schedule {
    /// Splits `records` positions by the configuration's seed. At least one record is left for training.
    #[must_use]
    pub fn new(config: &TrainingConfig, records: usize) -> Self {
        let v = config.values();
        let mut rng = ChaCha20Rng::seed_from_u64(v.seed);
        let mut order: Vec<u32> = (0..records as u32).collect();
        order.shuffle(&mut rng);
        let held_out = ((records as f64 * v.validation_share).round() as usize).min(records.saturating_sub(1));
        let training = order.split_off(held_out);
        Self { rng, training, validation: order, batch_size: v.batch_size as usize }
    }

    /// Positions set aside for validation.
    #[must_use]
    pub fn validation(&self) -> &[u32] {
        &self.validation
    }

    /// Positions trained on.
    #[must_use]
    pub fn training(&self) -> &[u32] {
        &self.training
    }

    /// The batches of the next epoch, in order. What is left over at the end goes into the last batch, which has fewer than
    /// twice as many records then: the gradient of a handful would tell much of each.
    pub fn next_epoch(&mut self) -> Vec<Vec<u32>> {
        self.training.shuffle(&mut self.rng);
        let mut batches: Vec<Vec<u32>> = self.training.chunks(self.batch_size).map(<[u32]>::to_vec).collect();
        if batches.len() > 1
            && batches.last().is_some_and(|last| last.len() < self.batch_size)
            && let Some(last) = batches.pop()
            && let Some(before) = batches.last_mut()
        {
            before.extend(last);
        }
        batches
    }

    /// How many records the smallest batch of an epoch has at least.
    #[must_use]
    pub fn smallest_batch(&self) -> usize {
        self.batch_size.min(self.training.len())
    }

    /// How many records the largest batch of an epoch may have: below twice the configured size.
    #[must_use]
    pub fn largest_batch(config: &TrainingConfig) -> usize {
        2 * config.values().batch_size as usize - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        let d = TrainingValues::default;
        for (bad, field) in [
            (TrainingValues { epochs: 0, ..d() }, "epochs"),
            (TrainingValues { batch_size: 0, ..d() }, "batch_size"),
            (TrainingValues { batch_size: 70_000, ..d() }, "batch_size"),
            (TrainingValues { learning_rate: 0.0, ..d() }, "learning_rate"),
            (TrainingValues { learning_rate: f64::NAN, ..d() }, "learning_rate"),
            (TrainingValues { l2: -1.0, ..d() }, "l2"),
            (TrainingValues { l2: f64::INFINITY, ..d() }, "l2"),
            (TrainingValues { validation_share: 1.0, ..d() }, "validation_share"),
            (TrainingValues { patience: 0, ..d() }, "patience"),
        ] {
            let error = TrainingConfig::try_from(bad).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }

    proptest! {
        #[test]
        fn every_record_is_used_once_an_epoch(records in 1usize..300, batch in 1u32..70, share in 0.0f64..0.9, seed in any::<u64>()) {
            let config = TrainingConfig::try_from(TrainingValues { batch_size: batch, validation_share: share, seed, ..Default::default() }).unwrap();
            let mut schedule = Schedule::new(&config, records);
            let again = Schedule::new(&config, records).next_epoch();
            let first = schedule.next_epoch();
            prop_assert_eq!(&first, &again);
            let mut seen: Vec<u32> = first.concat();
            prop_assert!(!seen.is_empty());
            let sizes: Vec<usize> = first.iter().map(Vec::len).collect();
            prop_assert!(sizes.iter().all(|&s| s >= schedule.smallest_batch()));
            prop_assert!(sizes.iter().all(|&s| s <= Schedule::largest_batch(&config)));
            seen.extend_from_slice(schedule.validation());
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..records as u32).collect::<Vec<_>>());
        }
    }
}
