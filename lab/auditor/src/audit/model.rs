//! The model under audit.

use vfl_core::model::Combiner;
use vfl_core::model::privacy::PrivacyStatement;
use vfl_core::types::ModelVersion;
use vfl_defense::Policy;

/// A model, as described by the coordinator that serves it.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The version of the model.
    pub version: ModelVersion,
    /// The class names, in the order of the scores.
    pub class_names: Vec<String>,
    /// The number of the active party's features.
    pub active_features: usize,
    /// The names of the passive parties, in the order in which their logit shares are summed.
    pub passive_parties: Vec<String>,
    /// The number of each passive party's features, in the same order.
    pub passive_features: Vec<usize>,
    /// The privacy statements of parties that trained with privacy, by the name of the party.
    pub privacy: Vec<(String, PrivacyStatement)>,
    /// The policy of the live service.
    pub policy: Policy,
    /// The rule that combines the parties' outputs.
    pub combiner: Combiner,
    /// True if the active party is shown the top model, if there is one.
    pub top_shown: bool,
    /// True if answers are computed on secret shares.
    pub private_release: bool,
    /// The facts on the training.
    pub training: Training,
}

/// The facts on a model's training. The default stands for no information.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Training {
    /// The number of epochs; 0 for an imported model.
    pub epochs: u32,
    /// The number of gradient steps; 0 for an imported model.
    pub steps: u64,
    /// The number of training records; for an imported model as stated by its importer.
    pub training_records: u32,
    /// The number of records set aside to choose the epoch.
    pub validation_records: u32,
    /// True if the parameters came from files.
    pub imported: bool,
    /// True if the parties trained on secret shares.
    pub private: bool,
}
