//! Settings of generative regression.

use super::super::gradient_inversion::loss::Loss;
use super::super::gradient_inversion::settings::{LEARNING_RATE, LOSS};
use super::super::settings::{AnySetting, Setting, Settings};

/// The most epochs of a training.
pub const MAX_EPOCHS: u32 = 100_000;

/// The most records of a batch.
pub const MAX_BATCH: usize = 4096;

/// The generative regression attack, with its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GenerativeRegression {
    pub(super) epochs: u32,
    pub(super) batch: usize,
    pub(super) learning_rate: f64,
    pub(super) loss: Loss,
    pub(super) variance_weight: f64,
    pub(super) mean_weight: f64,
}

impl Default for GenerativeRegression {
    /// Returns 150 epochs of batches of 64, Adam at 1e-3, squared differences of the scores, and no
    /// weight on the variance of the estimates. With such a weight the generator learns to give the
    /// same estimate for all records.
    fn default() -> Self {
        Self {
            epochs: 150,
            batch: 64,
            learning_rate: 1e-3,
            loss: Loss::Mse,
            variance_weight: 0.0,
            mean_weight: 0.0,
        }
    }
}

impl GenerativeRegression {
    /// Returns the settings of its inventors' program: 60 epochs, Adam at 1e-4, a quarter of the
    /// variance.
    #[must_use]
    pub fn as_published() -> Self {
        Self { epochs: 60, learning_rate: 1e-4, variance_weight: 0.25, ..Self::default() }
    }
}

static GENERATOR: Setting<GenerativeRegression> = Setting {
    key: "generator",
    takes: "settings of generative regression that are not given one by one: `own` (the default) or `published` (of its inventors: \
            epochs = 60, learning_rate = 0.0001, variance_weight = 0.25)",
    read: |value| match value.trim() {
        "own" => Some(GenerativeRegression::default()),
        "published" => Some(GenerativeRegression::as_published()),
        _ => None,
    },
};
static EPOCHS: Setting<u32> = Setting {
    key: "epochs",
    takes: "of the training of generative regression: a whole number from 1 to 100000 (default 150)",
    read: |value| value.parse().ok().filter(|epochs| (1..=MAX_EPOCHS).contains(epochs)),
};
static BATCH: Setting<usize> = Setting {
    key: "batch",
    takes: "records of a batch of generative regression: a whole number from 1 to 4096 (default 64)",
    read: |value| value.parse().ok().filter(|batch| (1..=MAX_BATCH).contains(batch)),
};
static VARIANCE_WEIGHT: Setting<f64> = Setting {
    key: "variance_weight",
    takes: "weight of the estimates' variance over a batch in generative regression: a number of at least 0 (default 0)",
    read: weight,
};
static MEAN_WEIGHT: Setting<f64> = Setting {
    key: "mean_weight",
    takes: "weight of the squared distance between the estimates' mean over a batch and the known mean of the features in \
            generative regression: a number of at least 0 (default 0: no mean need be known)",
    read: weight,
};

fn weight(value: &str) -> Option<f64> {
    value.parse().ok().filter(|weight: &f64| *weight >= 0.0 && weight.is_finite())
}

impl From<&Settings> for GenerativeRegression {
    fn from(settings: &Settings) -> Self {
        let default = settings.get(&GENERATOR).unwrap_or_default();
        Self {
            epochs: settings.get(&EPOCHS).unwrap_or(default.epochs),
            batch: settings.get(&BATCH).unwrap_or(default.batch),
            learning_rate: settings.get(&LEARNING_RATE).unwrap_or(default.learning_rate),
            loss: settings.get(&LOSS).unwrap_or(default.loss),
            variance_weight: settings.get(&VARIANCE_WEIGHT).unwrap_or(default.variance_weight),
            mean_weight: settings.get(&MEAN_WEIGHT).unwrap_or(default.mean_weight),
        }
    }
}

impl GenerativeRegression {
    /// The settings that the attack takes.
    pub(super) const SETTINGS: &'static [&'static dyn AnySetting] =
        &[&GENERATOR, &EPOCHS, &BATCH, &LEARNING_RATE, &LOSS, &VARIANCE_WEIGHT, &MEAN_WEIGHT];
}
