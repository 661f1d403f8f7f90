//! The model that is audited.

use vfl_shared::model::Combiner;
use vfl_shared::model::privacy::PrivacyStatement;
use vfl_shared::policy::Policy;
use vfl_shared::types::ModelVersion;

/// A model, as the coordinator that serves it describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The version.
    pub version: ModelVersion,
    /// The classes, in the order of the scores.
    pub class_names: Vec<String>,
    /// Number of the active party's features.
    pub active_features: usize,
    /// Names of the passive parties, in the order in which their logit shares are summed.
    pub passive_parties: Vec<String>,
    /// Number of each passive party's features, in the same order.
    pub passive_features: Vec<usize>,
    /// What parties state of the privacy that they trained with, by the name of the party. Those without are not here.
    pub privacy: Vec<(String, PrivacyStatement)>,
    /// What is done to the scores of the live service.
    pub policy: Policy,
    /// How the parties' outputs are combined.
    pub combiner: Combiner,
    /// Whether the active party is shown the top model, if there is one.
    pub top_shown: bool,
    /// How it came about.
    pub training: Training,
}

/// How a model came about. The default is what is said where nothing is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Training {
    /// Epochs run; 0 of an imported model.
    pub epochs: u32,
    /// Gradient steps; 0 of an imported model.
    pub steps: u64,
    /// Records trained on; of an imported model those that its training elsewhere is said to have used.
    pub training_records: u32,
    /// Records set aside to choose the epoch.
    pub validation_records: u32,
    /// The parameters came from files.
    pub imported: bool,
}
