//! The scales of the features that the weights of a file are of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ParameterFileError;
use crate::data::Scale;
use crate::data::schema::FeatureSpec;

/// The scale of each feature that has one, by its name.
pub(super) type FeatureScales = BTreeMap<String, ScaledRange>;

/// A scale φ and the range that it was normalised by: a weight is of (φ(v) − φ(min)) / (φ(max) −
/// φ(min)).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScaledRange {
    scale: Scale,
    min: f64,
    max: f64,
}

impl ScaledRange {
    /// Returns the normalised values of a number.
    fn place(&self, value: f64) -> f64 {
        let low = self.scale.apply(self.min);
        let width = self.scale.apply(self.max) - low;
        // Beside the least value there may be no other.
        (self.scale.apply(value) - low) / if width > 0.0 { width } else { 1.0 }
    }
}

/// Returns the least and the greatest value of each feature, in the numbers that weights are of:
/// its own, or those of its scale as the file has it.
///
/// # Errors
/// [`ParameterFileError::Scale`] for a feature that has another scale in its schema, and for one
/// that is not there.
pub(super) fn ends(
    stated: &FeatureScales,
    features: &[FeatureSpec],
) -> Result<Vec<(f64, f64)>, ParameterFileError> {
    let differs = |name: &String, schema: Option<&Scale>| {
        let words = |scale: Option<&Scale>| scale.map_or_else(|| "none".into(), Scale::to_string);
        let (file, schema) = (words(stated.get(name).map(|range| &range.scale)), words(schema));
        ParameterFileError::Scale { feature: name.clone(), file, schema }
    };
    if let Some(name) = stated.keys().find(|name| features.iter().all(|f| f.name != **name)) {
        return Err(differs(name, None));
    }
    let of = |spec: &FeatureSpec| match (stated.get(&spec.name), &spec.scale) {
        (None, None) => Ok((spec.min, spec.max)),
        (Some(range), Some(scale))
            if range.scale == *scale && scale.check(range.min, range.max).is_ok() =>
        {
            Ok((range.place(spec.min), range.place(spec.max)))
        }
        (_, scale) => Err(differs(&spec.name, scale.as_ref())),
    };
    features.iter().map(of).collect()
}

/// Checks that a file of normalised features names no scale.
///
/// # Errors
/// [`ParameterFileError::Normalised`] with the first one.
pub(super) fn check_normalised(stated: &FeatureScales) -> Result<(), ParameterFileError> {
    let first = stated.keys().next().cloned();
    first.map_or(Ok(()), |feature| Err(ParameterFileError::Normalised { feature }))
}
