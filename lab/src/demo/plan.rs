//! What a demonstration is to run.

use vfl_passive_party::transform::TransformConfig;
use vfl_shared::data::DatasetSpec;
use vfl_shared::metrics::Metric;
use vfl_shared::model::privacy::PrivacyConfig;
use vfl_shared::model::{SOFTMAX_REGRESSION, TrainingConfig};
use vfl_shared::policy::{DefenseConfig, Policy};

use crate::report::Thresholds;

/// What the demo is to run.
#[derive(Debug, Clone)]
pub struct DemoPlan {
    /// The data set.
    pub data: DatasetSpec,
    /// First passive column; the passive columns are this and the following ones, wrapping round.
    pub first_column: usize,
    /// Number of passive features; `None`: one less than the classes, the most that scores give away exactly.
    pub passive_features: Option<usize>,
    /// Number of passive parties that share them.
    pub passive_parties: usize,
    /// How the model is trained.
    pub training: TrainingConfig,
    /// How every party keeps its parameters private in training.
    pub privacy: Option<PrivacyConfig>,
    /// Further models that every party trains with privacy, audited with exact scores: how, and with what training.
    pub private_trainings: Vec<(PrivacyConfig, TrainingConfig)>,
    /// Records attacked: this many of the test records, drawn by the seed; all if there are fewer, but for those known.
    pub records: usize,
    /// Records that a further adversary knows whole: this many test records that are not attacked, as many as there are. 0 leaves it
    /// out, as transforms do.
    pub known_records: usize,
    /// Whether adversaries know the public schema of the passive features: kinds, ranges, steps, groups.
    pub schema: bool,
    /// The policies audited; each also meets an adversary that knows it.
    pub policies: Vec<Policy>,
    /// The transform under which passive parties release their parameters; `none` is the true ones.
    pub transform: TransformConfig,
    /// Whether passive parties show networks to the active party, and the coordinator its top model.
    pub show_network: bool,
    /// What passive parties do to their features before training.
    pub training_transform: TransformConfig,
    /// What attacks are measured by beside the mean squared error; `None`: the default of an audit.
    pub metrics: Option<Vec<&'static dyn Metric>>,
    /// What is demanded of the first policy.
    pub thresholds: Thresholds,
    /// Whether to measure the error by number of passive features: with true parameters of a model of the features themselves.
    pub sweep: bool,
    /// Seed of everything random.
    pub seed: u64,
}

/// The policies of the demo unless others are named.
#[must_use]
pub fn default_policies() -> Vec<Policy> {
    let label = DefenseConfig::ClassLabel { softening: 0.0 };
    [DefenseConfig::None {}, DefenseConfig::Rounding { decimals: 2 }, label].map(Policy::of).into()
}

/// Every defense there is, with its examples for a model of `classes` classes.
#[must_use]
pub fn every_policy(classes: usize) -> Vec<Policy> {
    DefenseConfig::ALL.iter().flat_map(|facts| (facts.examples)(classes)).map(Policy::of).collect()
}

impl DemoPlan {
    /// Whether the error by number of passive features is measured: a model of transformed features cannot be dealt out in other columns,
    /// nor can a network.
    pub(super) fn sweeps(&self) -> bool {
        self.sweep && self.linear() && self.training_transform == (TransformConfig::None {})
    }

    /// Whether the model has weights that can be released and dealt out in other columns.
    pub(super) fn linear(&self) -> bool {
        self.training.values().model.kind() == SOFTMAX_REGRESSION
    }
}

/// Records that a further adversary knows whole, unless told otherwise.
pub const DEFAULT_KNOWN_RECORDS: usize = 200;

/// Records attacked unless told otherwise.
pub const DEFAULT_RECORDS: usize = 1000;

/// The most epochs of training, unless it is private.
pub const DEFAULT_EPOCHS: u32 = 150;
