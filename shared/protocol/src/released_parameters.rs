//! The parameters that a passive party shows to the active party and to the auditor, and its
//! statements about them.

use std::fmt;

use nalgebra::{DMatrix, DVector};
use vfl_transform::TransformConfig;

use crate::ShownModel;

/// The sub-model of a passive party, as it is shown to one caller.
#[derive(Debug, Clone, PartialEq)]
pub enum ReleasedSubModel {
    /// Weights of a linear sub-model, perhaps transformed.
    Linear(ReleasedParameters),
    /// A sub-model that is not linear, unchanged.
    Model {
        /// The whole sub-model.
        model: ShownModel,
        /// True if the party says that predictions are made with it.
        disclosed: bool,
    },
}

/// Parameters of a passive party as it releases them to one caller.
#[derive(Clone, PartialEq)]
pub struct ReleasedParameters {
    /// k × d, finite.
    pub weights: DMatrix<f64>,
    /// Names of the d features.
    pub feature_names: Vec<String>,
    /// The vector that the active party adds to its bias to read the weights as a model of features
    /// in [0, 1], k entries; `None` if there is nothing to add.
    pub bias_shift: Option<DVector<f64>>,
    /// The party's statement about the weights.
    pub statement: Statement,
}

/// Shows sizes and the statement, not the weights.
impl fmt::Debug for ReleasedParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (k, d) = self.weights.shape();
        write!(f, "ReleasedParameters({k} × {d}, {:?}, values withheld)", self.statement)
    }
}

/// A passive party's statement about the parameters that it releases.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// No statement: they may be the true ones or others.
    Undisclosed,
    /// Predictions are made with them.
    True {
        /// The transform of the features that the model was trained on, if the party states it.
        of_features: Option<TransformConfig>,
    },
    /// Predictions are made with others, from which these were derived.
    Transformed {
        /// The transform of the weights.
        of_weights: TransformConfig,
        /// Mean squared distance g of the weights from the true ones (V (33)), per weight, if it
        /// reveals nothing secret.
        interpretability: Option<f64>,
        /// The transform of the features that the model was trained on, if the party states it.
        of_features: Option<TransformConfig>,
    },
}

impl Statement {
    /// Returns the transform of the weights, if one is stated.
    #[must_use]
    pub fn of_weights(&self) -> Option<&TransformConfig> {
        match self {
            Self::Undisclosed | Self::True { .. } => None,
            Self::Transformed { of_weights, .. } => Some(of_weights),
        }
    }

    /// Returns the transform of the features before training, if one is stated.
    #[must_use]
    pub fn of_features(&self) -> Option<&TransformConfig> {
        match self {
            Self::Undisclosed => None,
            Self::True { of_features } | Self::Transformed { of_features, .. } => {
                of_features.as_ref()
            }
        }
    }
}

/// Shows the stated transforms, for people; empty if there are none.
impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_weights = self.of_weights().map(ToString::to_string);
        let parts: Vec<String> =
            of_weights.into_iter().chain(self.of_features().map(trained_on)).collect();
        f.pad(&parts.join("; "))
    }
}

fn trained_on(features: &TransformConfig) -> String {
    format!("trained on transformed features: {features}")
}

/// The parameters that a passive party shows to the active party, as it describes them to the
/// auditor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShownParameters {
    /// True if it shows any.
    pub granted: bool,
    /// The transform of the weights shown, if they are not the ones that predictions are made with.
    pub of_weights: Option<TransformConfig>,
    /// Mean squared distance g of the weights shown from the true ones (V (33)), per weight, if
    /// they were made for the model audited.
    pub interpretability: Option<f64>,
    /// The transform of the features that the model was trained on, so that its own parameters are
    /// not those of the features.
    pub of_features: Option<TransformConfig>,
    /// True if the active party is told what was done.
    pub disclosed: bool,
}

impl ShownParameters {
    /// Returns true if the weights shown are not the ones that predictions are made with.
    #[must_use]
    pub fn transformed(&self) -> bool {
        self.of_weights.is_some()
    }

    /// Returns true if the model was trained on transformed features.
    #[must_use]
    pub fn trained_on_transformed(&self) -> bool {
        self.of_features.is_some()
    }
}

/// Shows all of it for people, such as `transformed: stiefel (epsilon = 0.1), g = 0.098`.
impl fmt::Display for ShownParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = self.of_features.as_ref().map(trained_on);
        let mut said = match (self.granted, &self.of_weights, map) {
            (false, _, None) => "nothing".to_owned(),
            (false, _, Some(map)) => format!("nothing ({map})"),
            (true, None, None) => "true parameters".to_owned(),
            (true, None, Some(map)) => map,
            (true, Some(transform), map) => {
                let g = self.interpretability.map(|g| format!(", g = {g}")).unwrap_or_default();
                let map = map.map(|map| format!("; {map}")).unwrap_or_default();
                format!("transformed: {transform}{g}{map}")
            }
        };
        if self.granted && !self.disclosed {
            said.push_str("; the active party is told only that parameters may be transformed");
        }
        f.pad(&said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_reads_as_a_sentence() {
        let stiefel = || Some("stiefel (epsilon = 0.1)".parse().unwrap());
        let negate = || Some(TransformConfig::Negate {});
        let told_nothing = "; the active party is told only that parameters may be transformed";
        for (granted, of_weights, g, of_features, disclosed, says) in [
            (false, None, None, None, true, "nothing".to_owned()),
            (
                false,
                None,
                None,
                negate(),
                false,
                "nothing (trained on transformed features: negate)".into(),
            ),
            (true, None, None, None, true, "true parameters".into()),
            (true, None, None, None, false, format!("true parameters{told_nothing}")),
            (true, None, None, negate(), true, "trained on transformed features: negate".into()),
            (
                true,
                stiefel(),
                Some(0.098),
                None,
                true,
                "transformed: stiefel (epsilon = 0.1), g = 0.098".into(),
            ),
            (
                true,
                stiefel(),
                None,
                negate(),
                false,
                format!(
                    "transformed: stiefel (epsilon = 0.1); trained on transformed features: negate{told_nothing}"
                ),
            ),
        ] {
            let shown = ShownParameters {
                granted,
                of_weights,
                interpretability: g,
                of_features,
                disclosed,
            };
            assert_eq!(shown.to_string(), says);
        }
    }

    #[test]
    fn a_statement_names_what_it_names_and_no_weight_is_printed() {
        let complement = TransformConfig::Complement {};
        let statement = Statement::Transformed {
            of_weights: complement.clone(),
            interpretability: Some(4.0),
            of_features: Some(TransformConfig::Permute {}),
        };
        assert_eq!(statement.to_string(), "complement; trained on transformed features: permute");
        assert_eq!(Statement::Undisclosed.to_string(), "");
        assert_eq!(Statement::True { of_features: None }.to_string(), "");
        let released = ReleasedParameters {
            weights: DMatrix::from_element(2, 1, 0.123_456),
            feature_names: vec!["a".into()],
            bias_shift: Some(DVector::from_element(2, 0.654_321)),
            statement,
        };
        let shown = format!("{released:?}");
        assert!(
            !shown.contains("123456") && !shown.contains("654321") && shown.contains("2 × 1"),
            "{shown}"
        );
    }
}
