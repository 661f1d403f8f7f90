//! The public description of a party's features: names, kinds, ranges, and their form in its CSV
//! file.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

pub use super::feature_spec::{FeatureKind, FeatureSpec};

/// The most columns a feature block may have, one-hot columns included.
pub const MAX_FEATURES: usize = 10_000;
/// The longest name of a feature, a category, a class or a column, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// The content of a label column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelKind {
    /// One of the declared classes.
    #[default]
    Class,
    /// A number, which is read for a training alone.
    Number,
}

impl LabelKind {
    fn is_class(&self) -> bool {
        *self == Self::Class
    }
}

/// The name of the label column, and its classes, in the order that numbers them from 0, or its
/// range if it is a number.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelSpec {
    /// The CSV column.
    pub column: String,
    /// The content of the column.
    #[serde(default, skip_serializing_if = "LabelKind::is_class")]
    pub kind: LabelKind,
    /// The classes as the file spells them; none of a number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// The least number, in the units of the source. A training needs the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The greatest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

impl LabelSpec {
    /// Creates a label of classes.
    #[must_use]
    pub fn of_classes(column: impl Into<String>, classes: Vec<String>) -> Self {
        Self { column: column.into(), classes, ..Self::default() }
    }

    /// Creates a label that is a number, of this range (min, max) if it is known.
    #[must_use]
    pub fn of_number(column: impl Into<String>, range: Option<(f64, f64)>) -> Self {
        let (min, max) = range.unzip();
        Self { column: column.into(), kind: LabelKind::Number, min, max, ..Self::default() }
    }

    /// Checks the range.
    fn check_range(&self) -> Result<(), SchemaError> {
        let reason = match (self.kind, self.min, self.max) {
            (_, None, None) => return Ok(()),
            (LabelKind::Number, Some(min), Some(max)) if min < max && (max - min).is_finite() => {
                return Ok(());
            }
            (LabelKind::Number, Some(_), Some(_)) => "its `min` must be below its `max`",
            (LabelKind::Number, ..) => "its `min` and `max` come together",
            (LabelKind::Class, ..) => "it has classes, and `min` and `max` are of a number",
        };
        Err(SchemaError::Feature { feature: self.column.clone(), reason })
    }
}

/// The content of a column of the CSV file, which determines the features it becomes.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A number: one feature. With a rule for missing values a second one says if it is missing.
    Number {
        /// True if a value outside the range counts as its end.
        clamp: bool,
        /// The number that a missing value counts as; `None`: it is refused.
        missing: Option<f64>,
        /// True if the source has dates, which count in days since 1970-01-01.
        date: bool,
    },
    /// Text from a list, numbered from 0: one ordinal feature.
    Steps(Categories),
    /// Text from a list: one binary feature per category.
    OneHot(Categories),
}

/// The categories of a column, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Categories {
    /// Their texts.
    pub texts: Vec<String>,
    /// The position of the category that a missing value counts as; `None`: it is refused.
    pub missing: Option<usize>,
    /// The position of the category that a text outside the list counts as; `None`: it is refused.
    pub other: Option<usize>,
}

impl Content {
    /// Returns the content of a column that is one number, which cannot be missing.
    const NUMBER: Self = Self::Number { clamp: false, missing: None, date: false };

    /// Returns `true` if a value may be missing.
    pub(super) fn may_be_missing(&self) -> bool {
        match self {
            Self::Number { missing, .. } => missing.is_some(),
            Self::Steps(categories) | Self::OneHot(categories) => categories.missing.is_some(),
        }
    }
}

/// One feature column of the CSV file and the features it becomes (`first..first + width`).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileColumn {
    pub(super) name: String,
    pub(super) content: Content,
    pub(super) first: usize,
}

/// Errors from checking a schema.
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
        /// The kind of thing that has the name.
        what: &'static str,
        /// The name, shortened.
        name: String,
    },
    /// The same name twice.
    #[error("{what} {name:?} is declared twice")]
    Duplicate {
        /// The kind of thing that has the name.
        what: &'static str,
        /// The repeated name.
        name: String,
    },
    /// A feature whose range, step or other settings are not valid.
    #[error("feature {feature:?}: {reason}")]
    Feature {
        /// The feature's name.
        feature: String,
        /// The problem and its fix.
        reason: &'static str,
    },
    /// A label that is a number and has classes.
    #[error("the label is a number and has {got} classes; leave out `kind` or `classes`")]
    ClassesOfNumber {
        /// The number of classes.
        got: usize,
    },
    /// Fewer than two classes.
    #[error(
        "the label has {got} classes, at least 2 are needed (`kind = \"number\"` if it is a number)"
    )]
    Classes {
        /// The number of classes.
        got: usize,
    },
    /// Too many features.
    #[error("{got} features after encoding, at most {MAX_FEATURES} are allowed")]
    TooManyFeatures {
        /// The number of features.
        got: usize,
    },
}

/// The features of one party in the order of its block, and the columns of its CSV file. Names,
/// kinds and ranges are public by agreement; a schema contains no value of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureSchema {
    id_column: String,
    label: Option<LabelSpec>,
    columns: Vec<FileColumn>,
    features: Vec<FeatureSpec>,
}

impl FeatureSchema {
    /// Creates a schema whose CSV file has one column per feature, and the ids in the column `id`.
    ///
    /// # Errors
    /// [`SchemaError`] on bad or repeated names, bad ranges, fewer than two classes.
    pub fn new(features: Vec<FeatureSpec>, label: Option<LabelSpec>) -> Result<Self, SchemaError> {
        let columns = features
            .iter()
            .enumerate()
            .map(|(first, f)| FileColumn { name: f.name.clone(), content: Content::NUMBER, first })
            .collect();
        Self::build("id".into(), label, columns, features)
    }

    pub(super) fn build(
        id_column: String,
        label: Option<LabelSpec>,
        columns: Vec<FileColumn>,
        features: Vec<FeatureSpec>,
    ) -> Result<Self, SchemaError> {
        check_name("column", &id_column)?;
        let mut names = HashSet::from([id_column.as_str()]);
        if let Some(label) = &label {
            check_name("column", &label.column)?;
            distinct(&mut names, "column", &label.column)?;
            match (label.kind, label.classes.len()) {
                (LabelKind::Number, 0) | (LabelKind::Class, 2..) => {}
                (LabelKind::Number, got) => return Err(SchemaError::ClassesOfNumber { got }),
                (LabelKind::Class, got) => return Err(SchemaError::Classes { got }),
            }
            label.check_range()?;
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
        check_features(&features)?;
        Ok(Self { id_column, label, columns, features })
    }

    /// Returns the schema of some columns of the file, in this order, with the label or without it.
    /// Names that the schema does not have are skipped.
    #[must_use]
    pub fn of_columns(&self, names: &[String], labelled: bool) -> Self {
        let (mut columns, mut features) = (Vec::new(), Vec::new());
        for name in names {
            let Some(at) = self.columns.iter().position(|column| column.name == *name) else {
                continue;
            };
            let end = self.columns.get(at + 1).map_or(self.features.len(), |next| next.first);
            let column = FileColumn { first: features.len(), ..self.columns[at].clone() };
            features.extend_from_slice(&self.features[self.columns[at].first..end]);
            columns.push(column);
        }
        let label = self.label.clone().filter(|_| labelled);
        Self { id_column: self.id_column.clone(), label, columns, features }
    }

    /// Returns the schema of the same features as normalised numbers: one column per feature, range
    /// 0 to 1.
    #[must_use]
    pub(super) fn normalised(&self) -> Self {
        let features: Vec<_> = self.features.iter().map(FeatureSpec::normalised).collect();
        let columns = features
            .iter()
            .enumerate()
            .map(|(first, f)| FileColumn { name: f.name.clone(), content: Content::NUMBER, first })
            .collect();
        Self { id_column: self.id_column.clone(), label: self.label.clone(), columns, features }
    }

    /// Returns the features in the order of the block's rows.
    #[must_use]
    pub fn features(&self) -> &[FeatureSpec] {
        &self.features
    }

    /// Returns the number of features d of the block.
    #[must_use]
    pub fn len(&self) -> usize {
        self.features.len()
    }

    /// Returns true if the party has no feature (an active party may hold labels alone).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.features.is_empty()
    }

    /// Returns the label column, if the party has one of classes.
    #[must_use]
    pub fn label(&self) -> Option<&LabelSpec> {
        self.label.as_ref().filter(|label| label.kind.is_class())
    }

    /// Returns the name of the label column, if the party has one, of classes or of numbers.
    #[must_use]
    pub fn label_column(&self) -> Option<&str> {
        self.label.as_ref().map(|label| label.column.as_str())
    }

    /// Returns the name of the label column, if the label is a number. The source of the features
    /// may have the column, and need not.
    #[must_use]
    pub fn number_label(&self) -> Option<&str> {
        let label = self.label.as_ref().filter(|label| !label.kind.is_class());
        label.map(|label| label.column.as_str())
    }

    /// Returns the names of a model's outputs for the label: its classes, or its own name if it is
    /// a number. Empty without a label.
    #[must_use]
    pub fn output_names(&self) -> Vec<String> {
        match &self.label {
            None => Vec::new(),
            Some(LabelSpec { column, kind: LabelKind::Number, .. }) => vec![column.clone()],
            Some(label) => label.classes.clone(),
        }
    }

    /// Returns the schema of the label alone, by which the same source is read: its number as a
    /// feature of its range, and beside it 1 where the source has none. `None` unless the label is
    /// a number with a range.
    #[must_use]
    pub fn number_schema(&self) -> Option<Self> {
        let label = self.label.as_ref().filter(|label| label.kind == LabelKind::Number)?;
        let (name, (min, max)) = (label.column.clone(), (label.min?, label.max?));
        // A record that is in no training may have no label.
        let content = Content::Number { clamp: false, missing: Some(min), date: false };
        let features = vec![FeatureSpec::numeric(name.clone(), min, max), is_missing(&name)];
        let columns = vec![FileColumn { name, content, first: 0 }];
        Some(Self { id_column: self.id_column.clone(), label: None, columns, features })
    }

    /// Returns the schema of all columns of these that a source has: with the label, if it is a
    /// number with a range, as the last feature.
    #[must_use]
    pub fn with_number(&self, names: &[String]) -> Self {
        let mut all = self.clone();
        let number = self.number_schema().filter(|_| {
            self.number_label().is_some_and(|label| names.iter().any(|name| name == label))
        });
        if let Some(mut number) = number {
            number.columns.iter_mut().for_each(|column| column.first = all.features.len());
            all.columns.append(&mut number.columns);
            all.features.append(&mut number.features);
            all.label = None;
        }
        all
    }

    pub(super) fn label_spec(&self) -> Option<&LabelSpec> {
        self.label.as_ref()
    }

    /// Returns the column of the CSV file that holds the record ids.
    #[must_use]
    pub fn id_column(&self) -> &str {
        &self.id_column
    }

    pub(super) fn columns(&self) -> &[FileColumn] {
        &self.columns
    }
}

/// Returns the binary feature that says if a value of a feature is missing.
pub(super) fn is_missing(feature: &str) -> FeatureSpec {
    let kind = FeatureKind::Binary;
    FeatureSpec { kind, ..FeatureSpec::numeric(format!("{feature} is missing"), 0.0, 1.0) }
}

/// Checks features on their own, without the columns of a file.
///
/// # Errors
/// [`SchemaError`] for too many features, bad or repeated names, bad ranges, steps or tolerances.
pub fn check_features(features: &[FeatureSpec]) -> Result<(), SchemaError> {
    if features.len() > MAX_FEATURES {
        return Err(SchemaError::TooManyFeatures { got: features.len() });
    }
    let mut names = HashSet::new();
    for feature in features {
        check_name("feature", &feature.name)?;
        if let Some(group) = &feature.group {
            check_name("group", group)?;
        }
        distinct(&mut names, "feature", &feature.name)?;
        let bad = |reason| Err(SchemaError::Feature { feature: feature.name.clone(), reason });
        if !(feature.min.is_finite()
            && feature.max.is_finite()
            && (feature.max - feature.min).is_finite())
        {
            return bad("its range is not finite");
        }
        if feature.min > feature.max {
            return bad("min is above max");
        }
        if let Some(reason) = feature.wrong_measure() {
            return bad(reason);
        }
    }
    Ok(())
}

fn distinct<'a>(
    seen: &mut HashSet<&'a str>,
    what: &'static str,
    name: &'a str,
) -> Result<(), SchemaError> {
    if seen.insert(name) { Ok(()) } else { Err(SchemaError::Duplicate { what, name: name.into() }) }
}

/// Checks the name of a feature, a group or a column; `what` is its kind for messages.
///
/// # Errors
/// [`SchemaError::Name`] for a name that is empty, too long, or has blanks at its ends or control
/// characters.
pub fn check_name(what: &'static str, name: &str) -> Result<(), SchemaError> {
    // The reader strips blanks from the ends of fields and a byte order mark from the file, so a
    // name with either would never match.
    let blank = name.trim() != name || name.is_empty() || name.starts_with('\u{feff}');
    if blank || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(SchemaError::Name { what, name: name.chars().take(80).collect() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
