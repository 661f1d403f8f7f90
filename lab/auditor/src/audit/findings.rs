//! The findings of an audit.

use vfl_core::metrics::Metric;
use vfl_core::model::Combiner;
use vfl_protocol::ShownParameters;

use super::model::Model;
use crate::report::{Audit, ParameterKnowledge, ScoringFacts};

/// The findings of an audit.
#[derive(Debug, Clone)]
pub struct Findings {
    /// The model that was audited.
    pub model: Model,
    /// Names of each passive party's features, in the order of the parties.
    pub feature_names: Vec<(String, Vec<String>)>,
    /// The parameters that each passive party shows the active party, in the order of the parties.
    pub shown: Vec<ShownParameters>,
    /// One entry per defense and adversary.
    pub audits: Vec<Audit>,
    /// The facts on each party's scoring of the records, and on its cost.
    pub scoring: Vec<ScoringFacts>,
    /// The metrics that attacks were measured by, beside the mean squared error.
    pub metrics: Vec<&'static dyn Metric>,
}

impl Findings {
    /// Returns the adversary's knowledge of the parameters of all passive parties together.
    #[must_use]
    pub fn parameters(&self) -> ParameterKnowledge {
        knowledge(&self.shown, &self.model)
    }
}

/// Returns the knowledge of the parameters of an adversary that is shown `shown`. White-box
/// knowledge needs the parameters of every party, true parameters need every party to be without a
/// transform. A top model that is not shown hides the models below it.
pub(super) fn knowledge(shown: &[ShownParameters], model: &Model) -> ParameterKnowledge {
    match shown {
        _ if model.combiner == Combiner::Concat && !model.top_shown => ParameterKnowledge::Hidden,
        all if all.iter().any(|s| !s.granted) => ParameterKnowledge::Hidden,
        all if all.iter().any(|s| s.transformed() || s.trained_on_transformed()) => {
            ParameterKnowledge::Transformed
        }
        _ => ParameterKnowledge::True,
    }
}
