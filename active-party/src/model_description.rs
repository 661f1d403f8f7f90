//! The model that the coordinator serves.

use vfl_core::model::{Combiner, Link, ModelSpec, TrainingConfig};
use vfl_core::types::ModelVersion;

/// The model in service, as the coordinator describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelDescription {
    /// The version of the model.
    pub version: ModelVersion,
    /// The class names, in the order of the scores.
    pub class_names: Vec<String>,
    /// The names and numbers of features of the passive parties, in the order of summation.
    pub passive_parties: Vec<(String, usize)>,
    /// The sub-model of each party, and the combiner. `None`: softmax regressions whose outputs are
    /// added.
    pub spec: Option<ModelSpec>,
    /// True if this party is shown the top model.
    pub top_shown: bool,
    /// True if the live service is asked in private releases.
    pub private_release: bool,
    /// The training configuration; `None` for a model that came from files.
    pub training: Option<TrainingConfig>,
}

impl ModelDescription {
    /// Returns the combiner of the parties' outputs.
    #[must_use]
    pub fn combiner(&self) -> Combiner {
        self.spec.as_ref().map_or(Combiner::Sum, ModelSpec::combiner)
    }

    /// Returns the link: scores of classes, or a number.
    #[must_use]
    pub fn link(&self) -> Link {
        // A coordinator serves no model whose parties state different links.
        self.spec.as_ref().and_then(|spec| spec.link().ok()).unwrap_or_default()
    }

    /// Returns the number of features of all passive parties together.
    #[must_use]
    pub fn passive_features(&self) -> usize {
        self.passive_parties.iter().map(|(_, features)| features).sum()
    }
}
