//! Transforms, released parameters and statements about them, on the wire.

use nalgebra::{DMatrix, DVector};
use vfl_core::model::{SubModel, SubModelSpec};
use vfl_core::types::ReleasedWeights;
use vfl_transform::{StiefelCase, TransformConfig};

use super::{ReleasedParameters, ReleasedSubModel, ShownParameters, Statement};
use crate::pb::release_parameters_response::Kind as Said;
use crate::pb::transform as wire;
use crate::pb::transform::Kind;
use crate::{ShownModel, WireError, decode_columns, encode_columns, pb, require};

/// The largest number of features that `selective` names.
const MAX_SELECTED: usize = 65_536;

impl From<&TransformConfig> for pb::Transform {
    fn from(config: &TransformConfig) -> Self {
        let kind = match config.clone() {
            TransformConfig::None {} => Kind::None(wire::None {}),
            TransformConfig::Negate {} => Kind::Negate(wire::Negate {}),
            TransformConfig::Complement {} => Kind::Complement(wire::Complement {}),
            TransformConfig::Permute {} => Kind::Permute(wire::Permute {}),
            TransformConfig::Selective { features } => {
                let features =
                    features.into_iter().map(|at| u32::try_from(at).unwrap_or(u32::MAX)).collect();
                Kind::Selective(wire::Selective { features })
            }
            TransformConfig::RandomOrthonormal {} => {
                Kind::RandomOrthonormal(wire::RandomOrthonormal {})
            }
            TransformConfig::LeastSquaresOptimal {} => {
                Kind::LeastSquaresOptimal(wire::LeastSquaresOptimal {})
            }
            TransformConfig::Stiefel { epsilon, randomised, case, penalty, starts } => {
                let case = match case {
                    None => wire::stiefel::Case::Unspecified,
                    Some(StiefelCase::I) => wire::stiefel::Case::I,
                    Some(StiefelCase::Ii) => wire::stiefel::Case::Ii,
                };
                Kind::Stiefel(wire::Stiefel {
                    epsilon,
                    randomised,
                    case: case.into(),
                    penalty,
                    starts,
                })
            }
            TransformConfig::SingleFeature { epsilon, randomised } => {
                Kind::SingleFeature(wire::SingleFeature { epsilon, randomised })
            }
            TransformConfig::Binary { epsilon, randomised } => {
                Kind::Binary(wire::Binary { epsilon, randomised })
            }
        };
        Self { kind: Some(kind) }
    }
}

fn not_negative(field: &'static str, value: f64) -> Result<f64, WireError> {
    let reason = "a finite number of at least 0";
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(WireError::Range { field, reason })
    }
}

impl TryFrom<&pb::Transform> for TransformConfig {
    type Error = WireError;

    fn try_from(transform: &pb::Transform) -> Result<Self, WireError> {
        let epsilon = |value| not_negative("epsilon", value);
        Ok(match require("transform", transform.kind.as_ref())? {
            Kind::None(_) => Self::None {},
            Kind::Negate(_) => Self::Negate {},
            Kind::Complement(_) => Self::Complement {},
            Kind::Permute(_) => Self::Permute {},
            Kind::Selective(wire::Selective { features }) => {
                if features.len() > MAX_SELECTED {
                    return Err(WireError::Range {
                        field: "features",
                        reason: "at most 65536 positions",
                    });
                }
                Self::Selective { features: features.iter().map(|&at| at as usize).collect() }
            }
            Kind::RandomOrthonormal(_) => Self::RandomOrthonormal {},
            Kind::LeastSquaresOptimal(_) => Self::LeastSquaresOptimal {},
            Kind::Stiefel(t) => Self::Stiefel {
                epsilon: epsilon(t.epsilon)?,
                randomised: t.randomised,
                case: match wire::stiefel::Case::try_from(t.case) {
                    Ok(wire::stiefel::Case::Unspecified) => None,
                    Ok(wire::stiefel::Case::I) => Some(StiefelCase::I),
                    Ok(wire::stiefel::Case::Ii) => Some(StiefelCase::Ii),
                    Err(_) => {
                        return Err(WireError::Range {
                            field: "case",
                            reason: "case I or II, or none",
                        });
                    }
                },
                penalty: t.penalty.map(|penalty| not_negative("penalty", penalty)).transpose()?,
                starts: t.starts,
            },
            Kind::SingleFeature(t) => {
                Self::SingleFeature { epsilon: epsilon(t.epsilon)?, randomised: t.randomised }
            }
            Kind::Binary(t) => {
                Self::Binary { epsilon: epsilon(t.epsilon)?, randomised: t.randomised }
            }
        })
    }
}

fn optional(transform: Option<&pb::Transform>) -> Result<Option<TransformConfig>, WireError> {
    transform.map(TransformConfig::try_from).transpose()
}

fn distance(g: Option<f64>) -> Result<Option<f64>, WireError> {
    g.map(|g| not_negative("interpretability", g)).transpose()
}

impl From<&ReleasedParameters> for pb::ReleaseParametersResponse {
    fn from(released: &ReleasedParameters) -> Self {
        let (kind, interpretability) = match &released.statement {
            Statement::Undisclosed => (Said::Undisclosed, None),
            Statement::True { .. } => (Said::True, None),
            Statement::Transformed { interpretability, .. } => {
                (Said::Transformed, *interpretability)
            }
        };
        Self {
            // One row per class: the transpose of "one record per row".
            weights: Some(encode_columns(&ReleasedWeights::granted(&released.weights))),
            feature_names: released.feature_names.clone(),
            kind: kind.into(),
            bias_shift: released.bias_shift.iter().flatten().copied().collect(),
            of_weights: released.statement.of_weights().map(Into::into),
            of_features: released.statement.of_features().map(Into::into),
            interpretability,
            sub_model: Vec::new(),
        }
    }
}

impl From<&ReleasedSubModel> for pb::ReleaseParametersResponse {
    fn from(released: &ReleasedSubModel) -> Self {
        match released {
            ReleasedSubModel::Linear(parameters) => parameters.into(),
            ReleasedSubModel::Model { model, disclosed } => {
                let kind = if *disclosed { Said::True } else { Said::Undisclosed };
                Self { kind: kind.into(), sub_model: model.to_wire(), ..Default::default() }
            }
        }
    }
}

impl ReleasedSubModel {
    /// Reads a sub-model that is not linear from an answer of a party that holds `features`
    /// features.
    ///
    /// # Errors
    /// [`WireError`] if it is not a model of this specification, or if the answer has other fields.
    pub fn model_from_wire(
        answer: &pb::ReleaseParametersResponse,
        spec: &SubModelSpec,
        features: usize,
    ) -> Result<Box<dyn SubModel>, WireError> {
        let (_, model) = ShownModel::from_wire(&answer.sub_model, spec, features)?;
        let alone = pb::ReleaseParametersResponse {
            kind: answer.kind,
            sub_model: answer.sub_model.clone(),
            ..Default::default()
        };
        match Said::try_from(answer.kind) {
            Ok(Said::True | Said::Undisclosed) if alone == *answer => Ok(model),
            _ => Err(WireError::Range {
                field: "sub_model",
                reason: "shown as it is, without weights beside it",
            }),
        }
    }
}

impl ReleasedParameters {
    /// Reads an answer of a party that holds `features` features, of a model of `classes` classes.
    ///
    /// # Errors
    /// [`WireError`] when the sizes are not these, a value is not finite, or the statement about
    /// the weights contradicts itself.
    pub fn from_wire(
        answer: &pb::ReleaseParametersResponse,
        classes: usize,
        features: usize,
    ) -> Result<Self, WireError> {
        if !answer.sub_model.is_empty() {
            return Err(WireError::Range {
                field: "sub_model",
                reason: "none beside the weights of a linear sub-model",
            });
        }
        let matrix = require("weights", answer.weights.as_ref())?;
        let weights: DMatrix<f64> =
            decode_columns("weights", matrix, classes, Some(features))?.transpose();
        let bias_shift = match answer.bias_shift.len() {
            0 => None,
            n if n == classes && answer.bias_shift.iter().all(|v| v.is_finite()) => {
                Some(DVector::from_column_slice(&answer.bias_shift))
            }
            _ => {
                let reason = "one finite number per class, or none";
                return Err(WireError::Range { field: "bias_shift", reason });
            }
        };
        let (of_weights, of_features) =
            (optional(answer.of_weights.as_ref())?, optional(answer.of_features.as_ref())?);
        let interpretability = distance(answer.interpretability)?;
        let contradicts = |reason| Err(WireError::Range { field: "kind", reason });
        let statement = match (Said::try_from(answer.kind), of_weights) {
            (Ok(Said::Transformed), Some(of_weights)) => {
                Statement::Transformed { of_weights, interpretability, of_features }
            }
            (Ok(Said::Transformed), None) => {
                return Err(WireError::Missing { field: "of_weights" });
            }
            (Ok(Said::True), None) if interpretability.is_none() => Statement::True { of_features },
            (Ok(Said::True), _) => return contradicts("true weights are under no transform"),
            (Ok(Said::Undisclosed), None)
                if interpretability.is_none() && of_features.is_none() =>
            {
                Statement::Undisclosed
            }
            (Ok(Said::Undisclosed), _) => {
                return contradicts("of undisclosed weights nothing is said");
            }
            (Ok(Said::Unspecified) | Err(_), _) => {
                return contradicts("true, transformed or undisclosed");
            }
        };
        Ok(Self { weights, feature_names: answer.feature_names.clone(), bias_shift, statement })
    }
}

impl From<&ShownParameters> for pb::ShownParameters {
    fn from(shown: &ShownParameters) -> Self {
        Self {
            granted: shown.granted,
            transformed: shown.transformed(),
            trained_on_transformed: shown.trained_on_transformed(),
            disclosed: shown.disclosed,
            of_weights: shown.of_weights.as_ref().map(Into::into),
            interpretability: shown.interpretability,
            of_features: shown.of_features.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<&pb::ShownParameters> for ShownParameters {
    type Error = WireError;

    fn try_from(shown: &pb::ShownParameters) -> Result<Self, WireError> {
        let read = Self {
            granted: shown.granted,
            of_weights: optional(shown.of_weights.as_ref())?,
            interpretability: distance(shown.interpretability)?,
            of_features: optional(shown.of_features.as_ref())?,
            disclosed: shown.disclosed,
        };
        if (read.transformed(), read.trained_on_transformed())
            != (shown.transformed, shown.trained_on_transformed)
        {
            let reason = "a transform is named where there is one, and nowhere else";
            return Err(WireError::Range { field: "shown", reason });
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: [&str; 11] = [
        "none",
        "negate",
        "complement",
        "permute",
        "selective (features = [0, 2])",
        "random_orthonormal",
        "least_squares_optimal",
        "stiefel (epsilon = 0.1)",
        "stiefel (case = \"ii\", epsilon = 0.25, penalty = 2.0, randomised = true, starts = 4)",
        "single_feature (epsilon = 0.5, randomised = true)",
        "binary (epsilon = 0.5)",
    ];

    #[test]
    fn every_transform_comes_back_from_the_wire() {
        for text in EVERY {
            let config: TransformConfig = text.parse().unwrap();
            let wire = pb::Transform::from(&config);
            assert_eq!(TransformConfig::try_from(&wire).unwrap(), config, "{text}");
        }
        assert!(TransformConfig::try_from(&pb::Transform { kind: None }).is_err());
        for epsilon in [-0.1, f64::NAN, f64::INFINITY] {
            let kind = Some(Kind::Binary(wire::Binary { epsilon, randomised: false }));
            assert!(TransformConfig::try_from(&pb::Transform { kind }).is_err(), "{epsilon}");
        }
        let strange = wire::Stiefel { epsilon: 0.1, case: 9, ..Default::default() };
        assert!(
            TransformConfig::try_from(&pb::Transform { kind: Some(Kind::Stiefel(strange)) })
                .is_err()
        );
    }

    #[test]
    fn released_parameters_come_back_from_the_wire() {
        let of_features = || Some(TransformConfig::Permute {});
        for (statement, shift) in [
            (Statement::Undisclosed, None),
            (Statement::True { of_features: None }, None),
            (Statement::True { of_features: of_features() }, None),
            (
                Statement::Transformed {
                    of_weights: TransformConfig::Complement {},
                    interpretability: Some(0.5),
                    of_features: of_features(),
                },
                Some(DVector::from_vec(vec![1.0, -0.5, 0.0])),
            ),
        ] {
            let released = ReleasedParameters {
                weights: DMatrix::from_row_slice(3, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
                feature_names: vec!["a".into(), "b".into()],
                bias_shift: shift,
                statement,
            };
            let wire = pb::ReleaseParametersResponse::from(&released);
            assert_eq!(ReleasedParameters::from_wire(&wire, 3, 2).unwrap(), released);
            assert!(ReleasedParameters::from_wire(&wire, 2, 3).is_err(), "of another shape");
            let torn = pb::ReleaseParametersResponse { bias_shift: vec![0.0; 2], ..wire };
            assert!(ReleasedParameters::from_wire(&torn, 3, 2).is_err());
        }
    }

    #[test]
    fn a_sub_model_stands_alone() {
        let settings = SubModelSpec::parse_settings(r#"{"hidden":[2]}"#).unwrap();
        let spec = SubModelSpec::new("mlp", 2, settings).unwrap();
        let start = vfl_core::model::contract::start_of(1);
        let origin = vfl_core::model::contract::SubModelOrigin {
            spec: spec.clone(),
            features: 1,
            active: false,
            start,
        };
        let model =
            ShownModel::of(&*vfl_core::model::kinds::start(&origin).unwrap(), &["a".into()])
                .unwrap();
        for disclosed in [true, false] {
            let wire = pb::ReleaseParametersResponse::from(&ReleasedSubModel::Model {
                model: model.clone(),
                disclosed,
            });
            assert!(ReleasedSubModel::model_from_wire(&wire, &spec, 1).is_ok());
            assert!(ReleasedParameters::from_wire(&wire, 2, 1).is_err(), "not taken for weights");
            let named =
                pb::ReleaseParametersResponse { feature_names: vec!["a".into()], ..wire.clone() };
            assert!(ReleasedSubModel::model_from_wire(&named, &spec, 1).is_err());
            let transformed =
                pb::ReleaseParametersResponse { kind: Said::Transformed.into(), ..wire };
            assert!(ReleasedSubModel::model_from_wire(&transformed, &spec, 1).is_err());
        }
    }

    #[test]
    fn a_statement_that_contradicts_itself_is_refused() {
        let released = ReleasedParameters {
            weights: DMatrix::zeros(2, 1),
            feature_names: Vec::new(),
            bias_shift: None,
            statement: Statement::Undisclosed,
        };
        let plain = pb::ReleaseParametersResponse::from(&released);
        let negate = || Some(pb::Transform::from(&TransformConfig::Negate {}));
        let of_kind =
            |kind: Said| pb::ReleaseParametersResponse { kind: kind.into(), ..plain.clone() };
        for (bad, says) in [
            (of_kind(Said::Unspecified), "true, transformed or undisclosed"),
            (of_kind(Said::Transformed), "`of_weights` is missing"),
            (
                pb::ReleaseParametersResponse { of_weights: negate(), ..of_kind(Said::True) },
                "under no transform",
            ),
            (
                pb::ReleaseParametersResponse { of_features: negate(), ..plain.clone() },
                "nothing is said",
            ),
            (
                pb::ReleaseParametersResponse { interpretability: Some(0.1), ..plain.clone() },
                "nothing is said",
            ),
            (
                pb::ReleaseParametersResponse { weights: None, ..plain.clone() },
                "`weights` is missing",
            ),
        ] {
            let refused = ReleasedParameters::from_wire(&bad, 2, 1).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }

    #[test]
    fn what_is_shown_comes_back_from_the_wire_or_is_refused() {
        let shown = ShownParameters {
            granted: true,
            of_weights: Some(TransformConfig::Complement {}),
            interpretability: Some(0.098),
            of_features: None,
            disclosed: false,
        };
        let wire = pb::ShownParameters::from(&shown);
        assert_eq!(ShownParameters::try_from(&wire).unwrap(), shown);
        let silent = pb::ShownParameters { of_weights: None, ..wire.clone() };
        assert!(ShownParameters::try_from(&silent).is_err(), "transformed, and not said how");
        let odd = pb::ShownParameters { interpretability: Some(f64::NAN), ..wire };
        assert!(ShownParameters::try_from(&odd).is_err());
    }
}
