//! The attributes of a schema.

use crate::data::schema::{FeatureKind, FeatureSpec};

/// An attribute of a party's schema: a single feature, or the one-hot columns of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// The name of the feature or of the group.
    pub name: String,
    /// The positions of its features in the block.
    pub columns: Vec<usize>,
    /// The kind of its values.
    pub kind: AttributeKind,
    /// The first of its features, with the range, the scale and the tolerance of a single one.
    pub feature: FeatureSpec,
}

/// The kinds of values that an attribute takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeKind {
    /// Numbers, ordinal steps among them.
    Numbers,
    /// Two values, 0 and 1 after normalisation.
    Binary,
    /// One of several categories, one column each, with their names.
    Categories(Vec<String>),
}

/// Returns the attributes of a schema in the order of their first columns. Features whose declared
/// range is one point carry no information and are left out.
#[must_use]
pub fn attributes(features: &[FeatureSpec]) -> Vec<Attribute> {
    let mut all: Vec<Attribute> = Vec::new();
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for (column, spec) in features.iter().enumerate() {
        if let Some(group) = spec.group.as_deref() {
            match groups
                .iter()
                .find(|(name, _)| *name == group)
                .and_then(|(_, at)| all.get_mut(*at))
            {
                Some(attribute) => {
                    attribute.columns.push(column);
                    if let AttributeKind::Categories(names) = &mut attribute.kind {
                        names.push(spec.name.clone());
                    }
                }
                None => {
                    groups.push((group, all.len()));
                    let kind = AttributeKind::Categories(vec![spec.name.clone()]);
                    all.push(Attribute::new(group, column, kind, spec));
                }
            }
        } else if spec.min < spec.max {
            let kind = match spec.kind {
                FeatureKind::Binary => AttributeKind::Binary,
                FeatureKind::Numeric | FeatureKind::Ordinal => AttributeKind::Numbers,
            };
            all.push(Attribute::new(&spec.name, column, kind, spec));
        }
    }
    for attribute in &mut all {
        if attribute.columns.len() == 1 && matches!(attribute.kind, AttributeKind::Categories(_)) {
            attribute.kind = AttributeKind::Binary;
        }
    }
    all
}

impl Attribute {
    fn new(name: &str, column: usize, kind: AttributeKind, feature: &FeatureSpec) -> Self {
        Self { name: name.to_owned(), columns: vec![column], kind, feature: feature.clone() }
    }

    /// Converts a normalised value to the units of the source.
    pub(super) fn in_units(&self, value: f64) -> f64 {
        self.feature.in_units(value)
    }
}
