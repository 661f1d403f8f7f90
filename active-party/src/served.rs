//! What the coordinator serves: the model, and scores of it.

use vfl_shared::model::{Combiner, ModelSpec, TrainingConfig};
use vfl_shared::types::{ModelVersion, ReleasedScores, RowStatus};

/// The model in service, as the coordinator describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelDescription {
    /// The version.
    pub version: ModelVersion,
    /// Class names, in the order of the scores.
    pub class_names: Vec<String>,
    /// Names and numbers of features of the passive parties, in the order of summation.
    pub passive_parties: Vec<(String, usize)>,
    /// What each party holds, and how the outputs are combined. `None`: softmax regressions whose outputs are added.
    pub spec: Option<ModelSpec>,
    /// Whether this party is shown the top model.
    pub top_shown: bool,
    /// How it was trained; `None` of a model that came from files.
    pub training: Option<TrainingConfig>,
}

impl ModelDescription {
    /// How the parties' outputs are combined.
    #[must_use]
    pub fn combiner(&self) -> Combiner {
        self.spec.as_ref().map_or(Combiner::Sum, ModelSpec::combiner)
    }

    /// Number of features of all passive parties together.
    #[must_use]
    pub fn passive_features(&self) -> usize {
        self.passive_parties.iter().map(|(_, features)| features).sum()
    }
}

/// What came back for a batch of records.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// One per record asked for.
    pub row_status: Vec<RowStatus>,
    /// A row for every record whose status is OK, in order.
    pub released: ReleasedScores,
}
