//! The bits of one record under the public schema.

use std::collections::HashMap;

use serde::Serialize;

use super::schema::{FeatureSchema, FeatureSpec};

/// The number of different records that a schema allows, as a sum of logarithms.
///
/// A release of fewer bits cannot tell all records apart. A release of more may: then exact
/// arithmetic rebuilds records where the model's equations are in general position.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RecordBits {
    /// The sum of log2 of the number of values of the attributes whose values the schema counts: a
    /// group of one-hot columns, a binary feature, an ordinal one of whole numbers, one with a
    /// step.
    pub bits: f64,
    /// The number of features whose grid the schema does not declare. Each may hold any number of
    /// bits.
    pub unlimited: usize,
}

impl RecordBits {
    /// Computes the bits of the features of a schema.
    #[must_use]
    pub fn of(schema: &FeatureSchema) -> Self {
        let (mut bits, mut unlimited) = (0.0, 0);
        let mut groups: HashMap<&str, usize> = HashMap::new();
        for feature in schema.features() {
            match (&feature.group, values(feature)) {
                (Some(group), _) => *groups.entry(group).or_default() += 1,
                (None, Some(values)) => bits += values.log2(),
                (None, None) => unlimited += 1,
            }
        }
        // Exactly one column of a group is 1.
        bits += groups.values().map(|columns| (*columns as f64).log2()).sum::<f64>();
        Self { bits, unlimited }
    }
}

/// Returns the number of values of a feature by itself; `None` if the schema does not determine it.
fn values(feature: &FeatureSpec) -> Option<f64> {
    if feature.min == feature.max {
        Some(1.0)
    } else {
        feature.grid().map(|share| (1.0 / share).round() + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::schema::FeatureKind;

    fn feature(name: &str, kind: FeatureKind, max: f64, group: Option<&str>) -> FeatureSpec {
        FeatureSpec { kind, group: group.map(Into::into), ..FeatureSpec::numeric(name, 0.0, max) }
    }

    /// Bank's six categories have 10 368 combinations in 33 columns.
    #[test]
    fn groups_count_once_and_numbers_without_a_grid_have_no_end() {
        use FeatureKind::{Binary, Numeric, Ordinal};
        let sizes = [12, 4, 8, 3, 3, 3];
        let mut features: Vec<FeatureSpec> = sizes
            .iter()
            .enumerate()
            .flat_map(|(g, size)| (0..*size).map(move |c| (format!("g{g}"), format!("g{g}={c}"))))
            .map(|(group, name)| feature(&name, Binary, 1.0, Some(&group)))
            .collect();
        let of = |features: &[FeatureSpec]| {
            RecordBits::of(&FeatureSchema::new(features.to_vec(), None).unwrap())
        };
        assert_eq!(features.len(), 33);
        assert!(
            (of(&features).bits - 10_368f64.log2()).abs() < 1e-9 && of(&features).unlimited == 0
        );
        features.push(feature("loan", Binary, 1.0, None));
        features.push(feature("grade", Ordinal, 7.0, None));
        features.push(feature("constant", Numeric, 0.0, None));
        features.push(feature("age", Numeric, 90.0, None));
        features.push(feature("step", Ordinal, 0.5, None));
        let found = of(&features);
        assert!((found.bits - (10_368f64.log2() + 4.0)).abs() < 1e-9, "{found:?}");
        assert_eq!(found.unlimited, 2);
        features.push(FeatureSpec { step: Some(0.5), ..feature("rate", Numeric, 1.5, None) });
        assert!((of(&features).bits - (10_368f64.log2() + 6.0)).abs() < 1e-9);
    }
}
