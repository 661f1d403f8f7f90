//! The order of training, fixed by a seed, so that the same seed gives the same model.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};

use super::{GENERALIZED_LINEAR, ModelConfig, ONE_VS_REST};

/// The error for a training configuration that was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("training: `{field}` is {got}, expected {expected}")]
pub struct TrainingConfigError {
    field: &'static str,
    got: String,
    expected: &'static str,
}

/// The way in which the parties compute a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrainingMode {
    /// Batches by Adam on logit shares and residuals in the clear, which give the active party the
    /// passive features. The mode of every configuration that was written without one.
    #[default]
    Plain,
    /// On secret shares, a regression by full batches: a party learns its own parameters and the
    /// epochs alone.
    Private,
}

impl TrainingMode {
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

impl std::fmt::Display for TrainingMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Private => "private",
        })
    }
}

/// The plain values of a training configuration, as in a file or a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingValues {
    /// The way of computing. `learning_rate` and `shuffle_block` are of the plain one alone, and
    /// `batch_size` of that and of networks. Default plain.
    #[serde(skip_serializing_if = "TrainingMode::is_plain")]
    pub mode: TrainingMode,
    /// Passes over the training records, 1 to 100 000. Default 100.
    pub epochs: u32,
    /// Records per step, 1 to 65 536. Default 64.
    pub batch_size: u32,
    /// Step size of Adam, above 0 and at most 10. Default 0.01.
    pub learning_rate: f64,
    /// Weight of the squared norm of all weights (the bias is free, so that moving a feature's
    /// origin does not change the fit), at least 0. In the private mode the weights are those of
    /// whitened features. Default 1e-5.
    pub l2: f64,
    /// Share of the records set aside to choose the epoch, in [0, 0.9]. 0: no early stopping.
    /// Default 0.1.
    pub validation_share: f64,
    /// Epochs without a better validation loss before training stops, at least 1. Default 10.
    pub patience: u32,
    /// Seed of the order of the records. Default 1.
    pub seed: u64,
    /// Records of a block, for records that are not in memory. Each epoch takes the blocks, and the
    /// records inside each, in an order drawn from the seed. A block is this many neighbours of the
    /// list. 0, the default: all records are shuffled together. Otherwise a block has at least 8
    /// batches of training records, since gradients mix over a block.
    #[serde(skip_serializing_if = "is_zero")]
    pub shuffle_block: u32,
    /// The unit of labels that are numbers under the link identity, a power of two between 1 and 2
    /// of their standard deviations. The active party sets it at the start, and every party learns
    /// it: its weights are in this unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_scale: Option<f64>,
    /// The model that each party trains, and the combiner of the outputs. Default softmax
    /// regression, summed.
    #[serde(skip_serializing_if = "ModelConfig::is_default")]
    pub model: ModelConfig,
}

/// The largest `batch_size` of networks on secret shares.
const MAX_BATCH_ON_SHARES: u32 = 1024;
/// The largest `l2` of networks on secret shares.
const MAX_L2_ON_SHARES: f64 = 0.1;

/// The smallest number of batches of training records in a block.
const BATCHES_A_BLOCK: f64 = 8.0;

/// Returns true for a power of two, as a normal number.
#[must_use]
pub fn is_power_of_two(value: f64) -> bool {
    value.is_normal() && value > 0.0 && value.to_bits().trailing_zeros() >= f64::MANTISSA_DIGITS - 1
}

/// Returns true for a configuration without blocks. Such a configuration is written without the
/// field, so that what is derived from it keeps its hash.
fn is_zero(block: &u32) -> bool {
    *block == 0
}

impl Default for TrainingValues {
    fn default() -> Self {
        Self {
            mode: TrainingMode::Plain,
            epochs: 100,
            batch_size: 64,
            learning_rate: 0.01,
            l2: 1e-5,
            validation_share: 0.1,
            patience: 10,
            seed: 1,
            shuffle_block: 0,
            label_scale: None,
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
        let is_number = v.model.kind() == GENERALIZED_LINEAR;
        let on_shares = match v.mode {
            _ if v.model.kind() == ONE_VS_REST => {
                Err("another kind: models of one class against the rest each are imported")
            }
            TrainingMode::Plain if is_number => {
                Err("private for a model of a number, which is trained on secret shares alone")
            }
            TrainingMode::Plain => Ok(None),
            TrainingMode::Private => v.model.private_layers(),
        };
        let on_shares = on_shares.map_err(|expected| {
            let (kind, combiner) = (v.model.kind(), v.model.combiner());
            let got = format!("{} with kind `{kind}` and combiner `{combiner}`", v.mode);
            TrainingConfigError { field: "mode", got, expected }
        })?;
        check(
            on_shares.is_none() || v.batch_size <= MAX_BATCH_ON_SHARES,
            "batch_size",
            v.batch_size.to_string(),
            "1 to 1024 for a network in the private mode",
        )?;
        check(
            on_shares.is_none() || v.l2 <= MAX_L2_ON_SHARES,
            "l2",
            v.l2.to_string(),
            "0 to 0.1 for a network in the private mode",
        )?;
        check(
            v.label_scale.is_none_or(|scale| is_number && is_power_of_two(scale)),
            "label_scale",
            v.label_scale.unwrap_or_default().to_string(),
            "a power of two, for a model of a number alone",
        )?;
        check((1..=100_000).contains(&v.epochs), "epochs", v.epochs.to_string(), "1 to 100000")?;
        check(
            (1..=65_536).contains(&v.batch_size),
            "batch_size",
            v.batch_size.to_string(),
            "1 to 65536",
        )?;
        check(
            v.learning_rate > 0.0 && v.learning_rate <= 10.0,
            "learning_rate",
            v.learning_rate.to_string(),
            "above 0 and at most 10",
        )?;
        check(
            v.l2 >= 0.0 && v.l2.is_finite(),
            "l2",
            v.l2.to_string(),
            "a finite number, at least 0",
        )?;
        check(
            (0.0..=0.9).contains(&v.validation_share),
            "validation_share",
            v.validation_share.to_string(),
            "in [0, 0.9]",
        )?;
        check(v.patience >= 1, "patience", v.patience.to_string(), "at least 1")?;
        let in_training = f64::from(v.shuffle_block) * (1.0 - v.validation_share);
        check(
            v.shuffle_block == 0 || in_training >= BATCHES_A_BLOCK * f64::from(v.batch_size),
            "shuffle_block",
            v.shuffle_block.to_string(),
            "0, or at least 8 x `batch_size` / (1 - `validation_share`)",
        )?;
        Ok(Self(v))
    }
}

impl TrainingConfig {
    /// Returns the plain values.
    #[must_use]
    pub fn values(&self) -> &TrainingValues {
        &self.0
    }
}

/// The order of training: the records for validation, and each epoch's batches. Positions refer to
/// the record list.
#[derive(Debug, Clone)]
pub struct Schedule {
    rng: ChaCha20Rng,
    /// With blocks in the order of the list, otherwise in that of the last epoch.
    training: Vec<u32>,
    validation: Vec<u32>,
    batch_size: usize,
    /// Records of a block; 0 if there are none.
    block: u32,
}

impl Schedule {
    /// Splits `records` positions by the configuration's seed. At least one record is left for
    /// training.
    #[must_use]
    pub fn new(config: &TrainingConfig, records: usize) -> Self {
        let v = config.values();
        let mut rng = ChaCha20Rng::seed_from_u64(v.seed);
        let mut order: Vec<u32> = (0..records as u32).collect();
        order.shuffle(&mut rng);
        let held_out =
            ((records as f64 * v.validation_share).round() as usize).min(records.saturating_sub(1));
        let mut training = order.split_off(held_out);
        if v.shuffle_block > 0 {
            // Neighbours of the list are requested together, also those of the validation.
            training.sort_unstable();
            order.sort_unstable();
        }
        Self {
            rng,
            training,
            validation: order,
            batch_size: v.batch_size as usize,
            block: v.shuffle_block,
        }
    }

    /// Returns the positions set aside for validation.
    #[must_use]
    pub fn validation(&self) -> &[u32] {
        &self.validation
    }

    /// Returns the positions trained on.
    #[must_use]
    pub fn training(&self) -> &[u32] {
        &self.training
    }

    /// Returns the batches of the next epoch, in order. Left-over records go into the last batch,
    /// which then has fewer than twice as many records: the gradient of a handful would reveal much
    /// about each.
    pub fn next_epoch(&mut self) -> Vec<Vec<u32>> {
        let blocks;
        let order = match self.block {
            0 => {
                self.training.shuffle(&mut self.rng);
                &self.training
            }
            block => {
                blocks = in_blocks(&self.training, block, &mut self.rng);
                &blocks
            }
        };
        let mut batches: Vec<Vec<u32>> =
            order.chunks(self.batch_size).map(<[u32]>::to_vec).collect();
        if batches.len() > 1
            && batches.last().is_some_and(|last| last.len() < self.batch_size)
            && let Some(last) = batches.pop()
            && let Some(before) = batches.last_mut()
        {
            before.extend(last);
        }
        batches
    }

    /// Returns the smallest number of records that a batch of an epoch has.
    #[must_use]
    pub fn smallest_batch(&self) -> usize {
        self.batch_size.min(self.training.len())
    }

    /// Returns the largest number of records that a batch of an epoch may have: below twice the
    /// configured size.
    #[must_use]
    pub fn largest_batch(config: &TrainingConfig) -> usize {
        2 * config.values().batch_size as usize - 1
    }
}

/// Shuffles the blocks, and the positions inside each. `positions` must increase.
fn in_blocks(positions: &[u32], block: u32, rng: &mut ChaCha20Rng) -> Vec<u32> {
    let mut blocks: Vec<&[u32]> = positions.chunk_by(|a, b| a / block == b / block).collect();
    blocks.shuffle(rng);
    let mut order = Vec::with_capacity(positions.len());
    for block in blocks {
        let from = order.len();
        order.extend_from_slice(block);
        order[from..].shuffle(rng);
    }
    order
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
            // 64 records a batch, a tenth of them for validation: 569 are needed.
            (TrainingValues { shuffle_block: 568, ..d() }, "shuffle_block"),
            (TrainingValues { shuffle_block: 1, ..d() }, "shuffle_block"),
        ] {
            let error = TrainingConfig::try_from(bad).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
        assert!(TrainingConfig::try_from(TrainingValues { shuffle_block: 569, ..d() }).is_ok());
    }

    /// Models that were trained before there were blocks can be trained again to the last bit, and
    /// keep their hash.
    #[test]
    fn without_blocks_the_order_is_what_it_always_was() {
        let config = TrainingConfig::try_from(TrainingValues {
            batch_size: 4,
            seed: 3,
            ..Default::default()
        })
        .unwrap();
        let mut schedule = Schedule::new(&config, 23);
        // The order as it was first published.
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let mut order: Vec<u32> = (0..23).collect();
        order.shuffle(&mut rng);
        let mut training = order.split_off(2);
        assert_eq!(schedule.validation(), order);
        for _ in 0..3 {
            training.shuffle(&mut rng);
            assert_eq!(schedule.next_epoch().concat(), training);
        }
        assert!(!serde_json::to_string(&config).unwrap().contains("shuffle_block"));
        let blocks = TrainingValues { shuffle_block: 600, ..Default::default() };
        let blocks = TrainingConfig::try_from(blocks).unwrap();
        let text = serde_json::to_string(&blocks).unwrap();
        assert_eq!(serde_json::from_str::<TrainingConfig>(&text).unwrap(), blocks);
    }

    proptest! {
        /// Each epoch visits every record once, a block at a time, in an order that the seed fixes.
        #[test]
        fn blocks_are_visited_one_after_the_other(
            records in 1usize..600, batch in 1u32..9, more in 0u32..40, share in 0.0f64..0.5, seed in any::<u64>()
        ) {
            let block = (8.0 * f64::from(batch) / (1.0 - share)).ceil() as u32 + 1 + more;
            let values = TrainingValues { batch_size: batch, validation_share: share, seed, shuffle_block: block, ..Default::default() };
            let config = TrainingConfig::try_from(values.clone()).unwrap();
            let (mut schedule, mut again) = (Schedule::new(&config, records), Schedule::new(&config, records));
            let all = TrainingConfig::try_from(TrainingValues { shuffle_block: 0, ..values }).unwrap();
            let mut held_out = Schedule::new(&all, records).validation().to_vec();
            held_out.sort_unstable();
            prop_assert_eq!(schedule.validation(), &held_out[..], "blocks change no record's part");
            let mut orders = Vec::new();
            for _ in 0..3 {
                let epoch = schedule.next_epoch();
                prop_assert_eq!(&epoch, &again.next_epoch());
                prop_assert!(epoch.iter().all(|b| b.len() >= schedule.smallest_batch()));
                prop_assert!(epoch.iter().all(|b| b.len() <= Schedule::largest_batch(&config)));
                let order = epoch.concat();
                let mut visited: Vec<u32> = order.iter().map(|p| p / block).collect();
                visited.dedup();
                let times = visited.len();
                visited.sort_unstable();
                visited.dedup();
                prop_assert_eq!(visited.len(), times, "a block is left and never come back to");
                let mut seen = order.clone();
                seen.extend_from_slice(schedule.validation());
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..records as u32).collect::<Vec<_>>());
                orders.push(order);
            }
            if schedule.training().len() > 60 {
                prop_assert_ne!(&orders[0], &orders[1]);
            }
        }

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
