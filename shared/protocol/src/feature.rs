//! Features of a public schema as messages.

use vfl_core::data::Scale;
use vfl_core::data::schema::{FeatureKind, FeatureSpec};

use crate::pb;
use crate::pb::describe_features_response::Feature;

impl From<&FeatureSpec> for Feature {
    fn from(spec: &FeatureSpec) -> Self {
        Self {
            name: spec.name.clone(),
            kind: spec.kind.to_string(),
            min: spec.min,
            max: spec.max,
            step: spec.step,
            group: spec.group.clone(),
            tolerance: spec.tolerance,
            scale: spec.scale.as_ref().map(pb::describe_features_response::Scale::from),
        }
    }
}

impl From<&Scale> for pb::describe_features_response::Scale {
    fn from(scale: &Scale) -> Self {
        let (function, numbers) = match scale {
            Scale::Log => ("log", Vec::new()),
            Scale::BoxCox(power) => ("box_cox", vec![*power]),
            Scale::YeoJohnson(power) => ("yeo_johnson", vec![*power]),
            Scale::Quantiles(at) => ("quantiles", at.clone()),
        };
        Self { function: function.to_owned(), numbers }
    }
}

impl TryFrom<Feature> for FeatureSpec {
    /// The feature and what is not known of it.
    type Error = String;

    /// Reads a feature, of which ranges and names are still to be checked.
    fn try_from(feature: Feature) -> Result<Self, String> {
        let Feature { name, kind, min, max, step, group, tolerance, scale } = feature;
        let kinds = [FeatureKind::Numeric, FeatureKind::Binary, FeatureKind::Ordinal];
        let known = kinds.into_iter().find(|k| k.to_string() == kind);
        let unknown = |what: &str| format!("feature {name:?} is of no {what} that is known here");
        let kind = known.ok_or_else(|| unknown("kind"))?;
        let scale = scale.map(|scale| read_scale(scale).ok_or_else(|| unknown("scale")));
        let scale = scale.transpose()?;
        Ok(Self { name, kind, min, max, group, step, tolerance, scale })
    }
}

fn read_scale(scale: pb::describe_features_response::Scale) -> Option<Scale> {
    match (scale.function.as_str(), scale.numbers.as_slice()) {
        ("log", []) => Some(Scale::Log),
        ("box_cox", [power]) => Some(Scale::BoxCox(*power)),
        ("yeo_johnson", [power]) => Some(Scale::YeoJohnson(*power)),
        ("quantiles", _) => Some(Scale::Quantiles(scale.numbers)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_feature_is_the_same_after_its_message() {
        let scales = [
            Scale::Log,
            Scale::BoxCox(0.5),
            Scale::YeoJohnson(0.0),
            Scale::Quantiles(vec![1.0, 2.0, 9.0]),
        ];
        for scale in scales.into_iter().map(Some).chain([None]) {
            let (step, tolerance) = (Some(0.5), Some(2.0));
            let spec =
                FeatureSpec { step, tolerance, scale, ..FeatureSpec::numeric("income", 1.0, 9.0) };
            assert_eq!(FeatureSpec::try_from(Feature::from(&spec)), Ok(spec));
        }
    }

    #[test]
    fn a_scale_or_a_kind_that_is_not_known_is_refused_by_the_name_of_the_feature() {
        let mut feature = Feature::from(&FeatureSpec::numeric("income", 1.0, 9.0));
        let scale = |function: &str, numbers: &[f64]| {
            let (function, numbers) = (function.to_owned(), numbers.to_vec());
            Some(pb::describe_features_response::Scale { function, numbers })
        };
        for wrong in [scale("log", &[1.0]), scale("box_cox", &[]), scale("root", &[])] {
            feature.scale = wrong;
            let refused = FeatureSpec::try_from(feature.clone()).unwrap_err();
            assert_eq!(refused, "feature \"income\" is of no scale that is known here");
        }
        let feature = Feature { scale: None, kind: "odd".into(), ..feature };
        assert!(FeatureSpec::try_from(feature).unwrap_err().contains("kind"));
    }
}
