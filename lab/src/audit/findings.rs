//! What an audit found.

use vfl_shared::metrics::Metric;
use vfl_shared::model::Combiner;
use vfl_shared::transform::ShownParameters;

use super::model::Model;
use crate::report::{Audit, ParameterKnowledge, ScoringFacts};

/// What an audit found.
#[derive(Debug, Clone)]
pub struct Findings {
    /// The model audited.
    pub model: Model,
    /// Names of each passive party's features, in the order of the parties.
    pub feature_names: Vec<(String, Vec<String>)>,
    /// What each passive party shows the active party of its parameters, in the order of the parties.
    pub shown: Vec<ShownParameters>,
    /// One entry per defense and adversary.
    pub audits: Vec<Audit>,
    /// How each party scored which records, and what that has cost.
    pub scoring: Vec<ScoringFacts>,
    /// The metrics that attacks were measured by, beside the mean squared error.
    pub metrics: Vec<&'static dyn Metric>,
}

impl Findings {
    /// What the active party is shown of the parameters of all passive parties together.
    #[must_use]
    pub fn parameters(&self) -> ParameterKnowledge {
        knowledge(&self.shown, &self.model)
    }
}

/// What an adversary knows of a model that is shown this much. The least that any party shows decides whether there is a white box, the
/// first transform whether it is the true one. A top model that is not shown hides what lies below it.
pub(super) fn knowledge(shown: &[ShownParameters], model: &Model) -> ParameterKnowledge {
    match shown {
        _ if model.combiner == Combiner::Concat && !model.top_shown => ParameterKnowledge::Hidden,
        all if all.iter().any(|s| !s.granted) => ParameterKnowledge::Hidden,
        all if all.iter().any(|s| s.transformed() || s.trained_on_transformed()) => ParameterKnowledge::Transformed,
        _ => ParameterKnowledge::True,
    }
}
