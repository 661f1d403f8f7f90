//! Schema files.

use vfl_core::data::schema::FeatureSchema;

use crate::input::bounded;

/// A schema file in TOML.
///
/// # Panics
/// If a schema is not the same when written and read again.
pub fn schema(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(bounded(data)) else { return };
    let Ok(schema) = FeatureSchema::from_toml(text) else { return };
    let written = schema.to_toml().unwrap_or_else(|e| panic!("a schema cannot be written: {e}"));
    let again = FeatureSchema::from_toml(&written)
        .unwrap_or_else(|e| panic!("a schema does not read back: {e}"));
    assert_eq!(again, schema);
    for feature in schema.features() {
        for value in [feature.min, feature.max, feature.min / 2.0 + feature.max / 2.0] {
            let unit = feature.normalise(value);
            assert!(
                (0.0..=1.0).contains(&unit),
                "{value} of {} to {} is brought to {unit}",
                feature.min,
                feature.max
            );
        }
    }
}
