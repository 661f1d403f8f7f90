//! What a party says about its features: names, kinds, public ranges, and how its CSV file spells them.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The most columns a feature block may have, one-hot columns included.
pub const MAX_FEATURES: usize = 10_000;
/// The longest name of a feature, a category, a class or a column, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// What the values of one feature can be. An attack that knows a feature to be binary rebuilds it far better than one
/// that only knows its range, so kinds are part of what a party makes public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureKind {
    /// Any number in the range.
    Numeric,
    /// One of two values: the minimum or the maximum of the range.
    Binary,
    /// Ordered steps written as numbers.
    Ordinal,
}

impl fmt::Display for FeatureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Numeric => "numeric",
            Self::Binary => "binary",
            Self::Ordinal => "ordinal",
        })
    }
}

/// One row of a feature block: its name, its kind and its declared public range. A category that was one-hot encoded is
/// one such feature per category, all with the same `group`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureSpec {
    /// Unique among the features of a party.
    pub name: String,
    /// What values it takes.
    pub kind: FeatureKind,
    /// The declared minimum, in the units of the source; it becomes 0.
    pub min: f64,
    /// The declared maximum; it becomes 1. Equal to `min` for a constant feature, which becomes 0.
    pub max: f64,
    /// For a one-hot column, the categorical feature it belongs to: exactly one column of a whole group is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

impl FeatureSpec {
    /// A numeric feature with the given range.
    #[must_use]
    pub fn numeric(name: impl Into<String>, min: f64, max: f64) -> Self {
        Self { name: name.into(), kind: FeatureKind::Numeric, min, max, group: None }
    }

    /// A value of the declared range brought to [0, 1]: (v − min)/(max − min), or 0 when the range is one point.
    /// Exact when the range is 0 to 1.
    #[must_use]
    pub fn normalise(&self, value: f64) -> f64 {
        super::normalise::unit(value, self.min, self.max)
    }

    /// The same feature after normalisation: range 0 to 1.
    #[must_use]
    pub fn normalised(&self) -> Self {
        Self { min: 0.0, max: 1.0, ..self.clone() }
    }
}

/// Name of the label column and its classes, in the order that numbers them from 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelSpec {
    /// The CSV column.
    pub column: String,
    /// The classes as the file spells them.
    pub classes: Vec<String>,
}

/// How one column of the CSV file becomes features.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// A number: one feature. `clamp` moves a value outside the range to its end.
    Number { clamp: bool },
    /// Text from a list, numbered from 0: one ordinal feature.
    Steps(Vec<String>),
    /// Text from a list: one binary feature per category.
    OneHot(Vec<String>),
}

/// One feature column of the CSV file and the features it becomes (`first..first + width`).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileColumn {
    pub(super) name: String,
    pub(super) content: Content,
    pub(super) first: usize,
}

/// Why a schema was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Not TOML, an unknown key, or a value of the wrong type.
    #[error("not a valid schema: {0}")]
    Toml(String),
    /// A name that is empty, too long, holds a control character or begins with a byte order mark.
    #[error(
        "{what} {name:?} is not a valid name: 1 to {MAX_NAME_BYTES} bytes without control characters, blanks at the ends or a byte order mark at the start"
    )]
    Name {
        /// What carries the name.
        what: &'static str,
        /// The name, shortened.
        name: String,
    },
    /// The same name twice.
    #[error("{what} {name:?} is declared twice")]
    Duplicate {
        /// What carries the name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A range that is missing, not finite or upside down.
    #[error("feature {feature:?}: {reason}")]
    Feature {
        /// The feature.
        feature: String,
        /// What is wrong, and the fix.
        reason: &'static str,
    },
    /// Fewer than two classes.
    #[error("the label has {got} classes, at least 2 are needed")]
    Classes {
        /// How many there are.
        got: usize,
    },
    /// Too many features.
    #[error("{got} features after encoding, at most {MAX_FEATURES} are allowed")]
    TooManyFeatures {
        /// How many there are.
        got: usize,
    },
}

/// The features of one party in the order of its block, and the columns of its CSV file. Names, kinds and ranges are
/// public by agreement; no value of a record is in it.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureSchema {
    id_column: String,
    label: Option<LabelSpec>,
    columns: Vec<FileColumn>,
    features: Vec<FeatureSpec>,
}

impl FeatureSchema {
    /// A schema whose CSV file has one column per feature, the ids in the column `id`.
    ///
    /// # Errors
    /// [`SchemaError`] on bad or repeated names, bad ranges, fewer than two classes.
    pub fn new(features: Vec<FeatureSpec>, label: Option<LabelSpec>) -> Result<Self, SchemaError> {
        let columns = features
            .iter()
            .enumerate()
            .map(|(first, f)| FileColumn { name: f.name.clone(), content: Content::Number { clamp: false }, first })
            .collect();
        Self::build("id".into(), label, columns, features)
    }

    pub(super) fn build(
        id_column: String,
        label: Option<LabelSpec>,
        columns: Vec<FileColumn>,
        features: Vec<FeatureSpec>,
    ) -> Result<Self, SchemaError> {
        if features.len() > MAX_FEATURES {
            return Err(SchemaError::TooManyFeatures { got: features.len() });
        }
        check_name("column", &id_column)?;
        let mut names = HashSet::from([id_column.as_str()]);
        if let Some(label) = &label {
            check_name("column", &label.column)?;
            distinct(&mut names, "column", &label.column)?;
            if label.classes.len() < 2 {
                return Err(SchemaError::Classes { got: label.classes.len() });
            }
            let mut classes = HashSet::new();
            for class in &label.classes {
                check_name("class", class)?;
                distinct(&mut classes, "class", class)?;
            }
        }
        for column in &columns {
            check_name("column", &column.name)?;
            distinct(&mut names, "column", &column.name)?;
        }
        let mut names = HashSet::new();
        for feature in &features {
            check_name("feature", &feature.name)?;
            if let Some(group) = &feature.group {
                check_name("group", group)?;
            }
            distinct(&mut names, "feature", &feature.name)?;
            let bad = |reason| Err(SchemaError::Feature { feature: feature.name.clone(), reason });
            if !(feature.min.is_finite() && feature.max.is_finite() && (feature.max - feature.min).is_finite()) {
                return bad("its range is not finite");
            }
            if feature.min > feature.max {
                return bad("min is above max");
            }
        }
        Ok(Self { id_column, label, columns, features })
    }

    /// The schema of the same features as normalised numbers: one column per feature, range 0 to 1.
    #[must_use]
    pub(super) fn normalised(&self) -> Self {
        let features: Vec<_> = self.features.iter().map(FeatureSpec::normalised).collect();
        let columns = features
            .iter()
            .enumerate()
            .map(|(first, f)| FileColumn { name: f.name.clone(), content: Content::Number { clamp: false }, first })
            .collect();
        Self { id_column: self.id_column.clone(), label: self.label.clone(), columns, features }
    }

    /// The features in the order of the block's rows.
    #[must_use]
    pub fn features(&self) -> &[FeatureSpec] {
        &self.features
    }

    /// Number of features d of the block.
    #[must_use]
    pub fn len(&self) -> usize {
        self.features.len()
    }

    /// Whether the party has no feature (an active party may hold labels alone).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.features.is_empty()
    }

    /// The label column, where the party has one.
    #[must_use]
    pub fn label(&self) -> Option<&LabelSpec> {
        self.label.as_ref()
    }

    /// The column of the CSV file that holds the record ids.
    #[must_use]
    pub fn id_column(&self) -> &str {
        &self.id_column
    }

    pub(super) fn columns(&self) -> &[FileColumn] {
        &self.columns
    }
}

fn distinct<'a>(seen: &mut HashSet<&'a str>, what: &'static str, name: &'a str) -> Result<(), SchemaError> {
    if seen.insert(name) { Ok(()) } else { Err(SchemaError::Duplicate { what, name: name.into() }) }
}

pub(super) fn check_name(what: &'static str, name: &str) -> Result<(), SchemaError> {
    // The reader takes blanks off the ends of fields, and a byte order mark off the file, so a name with any could not be met.
    let blank = name.trim() != name || name.is_empty() || name.starts_with('\u{feff}');
    if blank || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(SchemaError::Name { what, name: name.chars().take(80).collect() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const FULL: &str = r#"
        id = "customer"
        [label]
        column = "outcome"
        classes = ["no", "yes"]
        [[features]]
        name = "age"
        kind = "numeric"
        min = 17
        max = 98
        clamp = true
        [[features]]
        name = "phone"
        kind = "binary"
        [[features]]
        name = "degree"
        kind = "ordinal"
        categories = ["none", "school", "university"]
        [[features]]
        name = "job"
        kind = "categorical"
        categories = ["clerk", "unknown"]
    "#;

    #[test]
    fn categories_become_a_group_of_binary_features() {
        let schema = FeatureSchema::from_toml(FULL).unwrap();
        let names: Vec<_> = schema.features().iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["age", "phone", "degree", "job=clerk", "job=unknown"]);
        assert_eq!(schema.features()[4].group.as_deref(), Some("job"));
        assert_eq!(schema.features()[4].kind, FeatureKind::Binary);
        assert_eq!((schema.features()[2].min, schema.features()[2].max), (0.0, 2.0));
        assert_eq!(FeatureSchema::from_toml(&schema.to_toml().unwrap()).unwrap(), schema);
    }

    #[test]
    fn bad_schemas_are_refused() {
        let feature = |body: &str| format!("id = \"id\"\n[[features]]\nname = \"f\"\n{body}\n");
        let cases = [
            (feature("kind = \"numeric\"\nmin = 0\nmax = 1\nunit = \"m\""), "unknown field `unit`"),
            ("id = \"id\"\nrows = 3".into(), "unknown field `rows`"),
            (feature("kind = \"number\"\nmin = 0\nmax = 1"), "unknown variant `number`"),
            (feature("kind = \"numeric\"\nmin = 0"), "a numeric feature needs min and max"),
            (feature("kind = \"numeric\"\nmin = 2\nmax = 1"), "min is above max"),
            (feature("kind = \"numeric\"\nmin = 0\nmax = inf"), "not finite"),
            (feature("kind = \"numeric\"\nmin = nan\nmax = 1"), "not finite"),
            (feature("kind = \"numeric\"\nmin = -1.7e308\nmax = 1.7e308"), "not finite"),
            (feature("kind = \"categorical\""), "needs its categories"),
            (feature("kind = \"categorical\"\ncategories = [\"a\", \"a\"]"), "twice"),
            (feature("kind = \"categorical\"\ncategories = [\"a\", \"b\"]\nmin = 0"), "categories take no min"),
            (feature("kind = \"binary\"\ncategories = [\"a\", \"b\"]"), "takes no categories"),
            (format!("{FULL}\n[[features]]\nname = \"age\"\nkind = \"binary\""), "declared twice"),
            (format!("{FULL}\n[[features]]\nname = \"job=clerk\"\nkind = \"binary\""), "declared twice"),
            (format!("{FULL}\n[[features]]\nname = \"customer\"\nkind = \"binary\""), "declared twice"),
            (feature("kind = \"categorical\"\ncategories = [\"a\", \" b\"]"), "not a valid name"),
            ("id = \"\"".into(), "not a valid name"),
            ("id = \"\u{feff}id\"".into(), "a byte order mark"),
            ("id = \"a\"\n[label]\ncolumn = \"y\"\nclasses = [\"1\"]".into(), "1 classes"),
            ("id = \"a\"\n[label]\ncolumn = \"a\"\nclasses = [\"1\", \"2\"]".into(), "declared twice"),
        ];
        for (text, expected) in cases {
            let error = FeatureSchema::from_toml(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}\n→ {error}\nexpected: {expected}");
        }
    }
}
