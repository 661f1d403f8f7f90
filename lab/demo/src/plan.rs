//! The plan of a demonstration.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use vfl_auditor::report::Thresholds;
use vfl_core::metrics::Metric;
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{
    GENERALIZED_LINEAR, NetworkFile, ParameterFile, SOFTMAX_REGRESSION, TrainingConfig,
};
use vfl_core::types::RecordIds;
use vfl_datasets::Dataset;
use vfl_defense::{Bins, DefenseConfig, Policy};
use vfl_passive_party::record_outputs::RecordOutputs;
use vfl_studies::DataSpec;
use vfl_testbed::deployment::{WholeModel, WholeParameters};
use vfl_transform::TransformConfig;

/// The plan of a demonstration.
#[derive(Debug, Clone)]
pub struct DemoPlan {
    /// The data.
    pub data: DataSpec,
    /// The first passive column; the passive columns are this and the following ones, wrapping
    /// round.
    pub first_column: usize,
    /// The number of passive features; `None`: those of the passive parties' tables, or one less
    /// than the classes, the most that scores reveal exactly.
    pub passive_features: Option<usize>,
    /// The number of passive parties that share them.
    pub passive_parties: usize,
    /// The settings of the training.
    pub training: TrainingConfig,
    /// A model that was trained elsewhere and is served in place of one that is trained here.
    pub imported: Option<ImportedModel>,
    /// The scores of another program, in logits; `imported` is then a model without weights.
    pub outputs: Option<Arc<RecordOutputs>>,
    /// The differential privacy of every party's training; `None`: no privacy.
    pub privacy: Option<PrivacyConfig>,
    /// Further models that every party trains with privacy and whose exact scores are audited: the
    /// privacy and the training of each.
    pub private_trainings: Vec<(PrivacyConfig, TrainingConfig)>,
    /// The number of records to attack: test records drawn by the seed; all but the known ones if
    /// there are fewer.
    pub records: usize,
    /// The number of test records that a further adversary knows with all features; none of them is
    /// attacked. 0 leaves this adversary out, as transforms do.
    pub known_records: usize,
    /// True if adversaries know the public schema of the passive features: kinds, ranges, steps,
    /// groups.
    pub schema: bool,
    /// The audited policies; each is also attacked by an adversary that knows it.
    pub policies: Vec<Policy>,
    /// The transform of the parameters that passive parties release; `none` releases the true ones.
    pub transform: TransformConfig,
    /// True if passive parties show networks to the active party, and the coordinator its top
    /// model.
    pub show_network: bool,
    /// The transform of the passive features before training.
    pub training_transform: TransformConfig,
    /// The metrics of attacks besides the mean squared error; `None`: the default of an audit.
    pub metrics: Option<Vec<&'static dyn Metric>>,
    /// The thresholds for the first policy.
    pub thresholds: Thresholds,
    /// True if the error by number of passive features is to be measured: with true parameters of a
    /// model of the features themselves.
    pub sweep: bool,
    /// The seed of everything random.
    pub seed: u64,
}

/// A model that was trained elsewhere.
#[derive(Debug, Clone)]
pub struct ImportedModel {
    /// The file of its parameters.
    pub file: PathBuf,
    /// The parameters of all features of the data, normalised.
    pub parameters: ImportedParameters,
}

/// The parameters of all features, of a model that was trained elsewhere.
#[derive(Debug, Clone)]
pub enum ImportedParameters {
    /// Those of a linear model, in the order of the features.
    Linear(ParameterFile),
    /// Those of a perceptron.
    Network(NetworkFile),
}

impl ImportedParameters {
    /// Returns the name of the file of a party's part.
    pub(super) fn part_name(&self) -> &'static str {
        match self {
            Self::Linear(_) => "parameters.json",
            Self::Network(_) => "parameters.safetensors",
        }
    }
}

impl ImportedModel {
    /// Returns the model to put in service.
    ///
    /// # Errors
    /// If the parameters have no bias.
    pub(super) fn whole(&self) -> anyhow::Result<WholeModel> {
        let (parameters, class_names) = match &self.parameters {
            ImportedParameters::Linear(file) => {
                let bias = file.bias().context("the parameters have no `bias`")?.clone();
                let (link, weights) = (file.link(), file.weights().clone());
                (WholeParameters::Linear { link, weights, bias }, file.class_names())
            }
            ImportedParameters::Network(file) => {
                (WholeParameters::Network(file.clone()), file.class_names())
            }
        };
        let (class_names, training_ids) = (class_names.to_vec(), RecordIds::default());
        Ok(WholeModel { parameters, class_names, summary: None, training_ids })
    }
}

/// Returns the policies of the demo unless others are named.
#[must_use]
pub fn default_policies() -> Vec<Policy> {
    let label = DefenseConfig::ClassLabel { softening: 0.0 };
    [DefenseConfig::None {}, DefenseConfig::Rounding { decimals: 2 }, label].map(Policy::of).into()
}

/// Returns the least and the greatest number that a linear model predicts for the data.
#[must_use]
pub fn predicted_range(model: &ParameterFile, dataset: &Dataset) -> (f64, f64) {
    let mut predictors = model.weights() * dataset.x();
    predictors.add_scalar_mut(model.bias().map_or(0.0, |bias| bias[0]));
    let numbers = predictors.map(|eta| model.link().number(eta));
    (numbers.min(), numbers.max())
}

/// Returns the policies of a demonstration of a model of a number unless others are named: the
/// number as it is, and ten bins in this range.
#[must_use]
pub fn default_number_policies((lower, upper): (f64, f64)) -> Vec<Policy> {
    let mut policies = vec![Policy::of(DefenseConfig::None {})];
    // Three digits, outwards: a policy is read by people.
    let digit = 10f64.powf(((upper - lower).log10()).floor() - 2.0);
    if digit.is_finite() && digit > 0.0 {
        // Twelve digits remove the error of multiplying by a power of ten.
        let rounded = |v: f64| format!("{:.11e}", v * digit).parse().unwrap_or(v * digit);
        let (lower, upper) = (rounded((lower / digit).floor()), rounded((upper / digit).ceil()));
        if Bins::new(lower, upper, 10).is_ok() {
            policies.push(Policy::of(DefenseConfig::Bins { lower, upper, count: 10 }));
        }
    }
    policies
}

/// Returns every defense with its examples for a model of `classes` classes.
#[must_use]
pub fn every_policy(classes: usize) -> Vec<Policy> {
    DefenseConfig::ALL.iter().flat_map(|facts| (facts.examples)(classes)).map(Policy::of).collect()
}

impl DemoPlan {
    /// Returns true if the error by number of passive features is measured. A network, or a model
    /// of transformed features, cannot be divided along other columns.
    pub(super) fn sweeps(&self) -> bool {
        self.sweep
            && self.linear()
            && self.outputs.is_none()
            && self.training_transform == (TransformConfig::None {})
    }

    /// Returns true if the model has weights that can be released and divided along other columns.
    pub(super) fn linear(&self) -> bool {
        [SOFTMAX_REGRESSION, GENERALIZED_LINEAR].contains(&self.training.values().model.kind())
    }
}

/// The default number of records that a further adversary knows with all features.
pub const DEFAULT_KNOWN_RECORDS: usize = 200;

/// The default number of attacked records.
pub const DEFAULT_RECORDS: usize = 1000;

/// The default limit of epochs without privacy.
pub const DEFAULT_EPOCHS: u32 = 150;
