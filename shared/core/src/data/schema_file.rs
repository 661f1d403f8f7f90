//! The TOML form of a [`FeatureSchema`].

use serde::{Deserialize, Serialize};

use super::date::{day, days};
use super::scale::Scale;
use super::schema::{
    Categories, Content, FeatureKind, FeatureSchema, FeatureSpec, FileColumn, LabelSpec,
    SchemaError, check_name, is_missing,
};

impl FeatureSchema {
    /// Reads a schema file (see [`crate::data::table`] for the format).
    ///
    /// # Errors
    /// [`SchemaError`]: not TOML, an unknown key, or anything that [`FeatureSchema::new`] refuses.
    pub fn from_toml(text: &str) -> Result<Self, SchemaError> {
        let file: SchemaFile =
            toml::from_str(text).map_err(|e| SchemaError::Toml(e.to_string().trim_end().into()))?;
        file.try_into()
    }

    /// Writes the schema file that [`FeatureSchema::from_toml`] reads back.
    ///
    /// # Errors
    /// [`SchemaError::Toml`] if the serialiser fails.
    pub fn to_toml(&self) -> Result<String, SchemaError> {
        toml::to_string(&SchemaFile::from(self)).map_err(|e| SchemaError::Toml(e.to_string()))
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaFile {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<LabelSpec>,
    #[serde(default)]
    features: Vec<FeatureEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EntryKind {
    Numeric,
    Binary,
    Ordinal,
    Categorical,
    Date,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FeatureEntry {
    name: String,
    kind: EntryKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<Bound>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<Bound>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    categories: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tolerance: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    clamp: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    missing: Option<MissingValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scale: Option<Scale>,
}

/// An end of a range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Bound {
    Number(f64),
    Date(String),
}

impl Bound {
    /// Returns the number, or the days since 1970-01-01 of a date; `None` for the other one.
    fn value(&self, date: bool) -> Option<f64> {
        match (self, date) {
            (Self::Number(value), false) => Some(*value),
            (Self::Date(text), true) => days(text).map(f64::from),
            _ => None,
        }
    }
}

/// The value that a missing one counts as.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum MissingValue {
    Number(f64),
    Category(String),
}

impl TryFrom<SchemaFile> for FeatureSchema {
    type Error = SchemaError;

    fn try_from(file: SchemaFile) -> Result<Self, SchemaError> {
        let mut columns = Vec::with_capacity(file.features.len());
        let mut features = Vec::with_capacity(file.features.len());
        for entry in file.features {
            let first = features.len();
            let content = entry.expand(&mut features)?;
            columns.push(FileColumn { name: entry.name, content, first });
        }
        FeatureSchema::build(file.id, file.label, columns, features)
    }
}

impl FeatureEntry {
    /// Appends the features of this column and returns the column's content.
    fn expand(&self, features: &mut Vec<FeatureSpec>) -> Result<Content, SchemaError> {
        let bad = |reason| SchemaError::Feature { feature: self.name.clone(), reason };
        if let Some(categories) = &self.categories {
            if matches!(self.kind, EntryKind::Numeric | EntryKind::Binary | EntryKind::Date) {
                return Err(bad(
                    "a numeric or binary feature, and a date, takes no categories; use ordinal or categorical",
                ));
            }
            let ranged = self.min.is_some() || self.max.is_some();
            let measured = ranged || self.step.is_some() || self.tolerance.is_some();
            if measured || self.group.is_some() || self.clamp || self.scale.is_some() {
                return Err(bad(
                    "categories take no min, max, step, tolerance, group, clamp or scale: they are numbered from 0",
                ));
            }
            let mut seen = std::collections::HashSet::new();
            if !categories.iter().all(|c| seen.insert(c)) {
                return Err(bad("a category is listed twice"));
            }
            for category in categories.iter().filter(|c| !c.is_empty()) {
                check_name("category", category)?;
            }
            if categories.is_empty() {
                return Err(bad("its list of categories is empty"));
            }
        }
        let with_missing = |texts: &Vec<String>| {
            let not_listed = || bad("`missing` is not one of its categories: add it to them");
            let missing = match &self.missing {
                None => None,
                Some(MissingValue::Category(text)) => {
                    Some(texts.iter().position(|t| t == text).ok_or_else(not_listed)?)
                }
                Some(MissingValue::Number(_)) => return Err(not_listed()),
            };
            let other = self.other.as_ref().map(|text| {
                let place = texts.iter().position(|t| t == text);
                place.ok_or_else(|| bad("`other` is not one of its categories: add it to them"))
            });
            Ok(Categories { texts: texts.clone(), missing, other: other.transpose()? })
        };
        if self.other.is_some() && self.categories.is_none() {
            return Err(bad("`other` is one of its categories, and it has none"));
        }
        match (self.kind, &self.categories) {
            (EntryKind::Categorical, None) => {
                Err(bad("a categorical feature needs its categories"))
            }
            (EntryKind::Categorical, Some(categories)) => {
                features.extend(categories.iter().map(|category| one_hot(&self.name, category)));
                with_missing(categories).map(Content::OneHot)
            }
            (_, Some(categories)) => {
                let max = (categories.len() - 1) as f64;
                // With a single category the range is a point.
                let step = (max > 0.0).then_some(1.0);
                let kind = FeatureKind::Ordinal;
                features.push(FeatureSpec {
                    kind,
                    step,
                    ..FeatureSpec::numeric(&self.name, 0.0, max)
                });
                with_missing(categories).map(Content::Steps)
            }
            (kind, None) => {
                let date = kind == EntryKind::Date;
                let value = |bound: &Option<Bound>| bound.as_ref().map(|bound| bound.value(date));
                let (min, max) = match (value(&self.min), value(&self.max)) {
                    (Some(None), _) | (_, Some(None)) if !date => {
                        return Err(bad("its min and max are numbers; a date has kind = \"date\""));
                    }
                    (min, max) => (min.flatten(), max.flatten()),
                };
                let (min, max) = match (kind, min, max) {
                    (_, Some(min), Some(max)) => (min, max),
                    (EntryKind::Binary, None, None) => (0.0, 1.0),
                    (EntryKind::Binary, ..) => {
                        return Err(bad("a binary feature has both min and max, or neither"));
                    }
                    (EntryKind::Ordinal, ..) => {
                        return Err(bad("an ordinal feature needs min and max, or categories"));
                    }
                    (EntryKind::Date, ..) => {
                        return Err(bad("a date needs min and max, as \"2005-01-01\""));
                    }
                    _ => return Err(bad("a numeric feature needs min and max")),
                };
                if date && self.step.is_some_and(|step| step.fract() != 0.0) {
                    return Err(bad("the step of a date is a whole number of days"));
                }
                if date && self.scale.is_some() {
                    return Err(bad("a date counts in days and takes no scale"));
                }
                if kind == EntryKind::Binary && self.clamp {
                    return Err(bad(
                        "a binary feature is its min or its max, it cannot be clamped",
                    ));
                }
                let kind = match kind {
                    EntryKind::Binary => FeatureKind::Binary,
                    EntryKind::Ordinal => FeatureKind::Ordinal,
                    _ => FeatureKind::Numeric,
                };
                let step = self.step.or((date && max > min).then_some(1.0));
                let (group, tolerance) = (self.group.clone(), self.tolerance);
                let (name, scale) = (self.name.clone(), self.scale.clone());
                let spec = FeatureSpec { name, kind, min, max, group, step, tolerance, scale };
                let missing = self.missing_number(&spec)?;
                features.push(spec);
                features.extend(missing.map(|_| is_missing(&self.name)));
                Ok(Content::Number { clamp: self.clamp, missing, date })
            }
        }
    }
}

impl FeatureEntry {
    /// Returns the number that a missing value counts as, which must be a value of the feature.
    fn missing_number(&self, spec: &FeatureSpec) -> Result<Option<f64>, SchemaError> {
        let bad = |reason| Err(SchemaError::Feature { feature: self.name.clone(), reason });
        let date = self.kind == EntryKind::Date;
        let value = match &self.missing {
            None => return Ok(None),
            Some(MissingValue::Number(value)) if !date => *value,
            Some(MissingValue::Category(text)) if date => match days(text) {
                Some(days) => f64::from(days),
                None => return bad("`missing` of a date is a date, as \"2005-01-01\""),
            },
            Some(_) if date => return bad("`missing` of a date is a date, as \"2005-01-01\""),
            Some(_) => return bad("`missing` of a number is a number"),
        };
        if spec.group.is_some() {
            return bad(
                "a column of a group takes no `missing`: exactly one column of the group is 1",
            );
        }
        if !spec.takes(value) {
            return bad("`missing` is not a value of the feature: take one of its range and step");
        }
        Ok(Some(value))
    }
}

/// Returns the binary feature for one category of a feature.
pub fn one_hot(feature: &str, category: &str) -> FeatureSpec {
    FeatureSpec {
        kind: FeatureKind::Binary,
        group: Some(feature.to_owned()),
        ..FeatureSpec::numeric(format!("{feature}={category}"), 0.0, 1.0)
    }
}

impl From<&FeatureSchema> for SchemaFile {
    fn from(schema: &FeatureSchema) -> Self {
        let entry = |column: &FileColumn| {
            let name = column.name.clone();
            let (kind, Categories { texts, missing, other }) = match &column.content {
                Content::Steps(categories) => (EntryKind::Ordinal, categories.clone()),
                Content::OneHot(categories) => (EntryKind::Categorical, categories.clone()),
                Content::Number { clamp, missing, date } => {
                    let spec = &schema.features()[column.first];
                    let bound = |value: f64| match date {
                        true => Bound::Date(day(value)),
                        false => Bound::Number(value),
                    };
                    let missing = missing.map(|value| match date {
                        true => MissingValue::Category(day(value)),
                        false => MissingValue::Number(value),
                    });
                    let kind = match spec.kind {
                        FeatureKind::Numeric if *date => EntryKind::Date,
                        FeatureKind::Numeric => EntryKind::Numeric,
                        FeatureKind::Binary => EntryKind::Binary,
                        FeatureKind::Ordinal => EntryKind::Ordinal,
                    };
                    return FeatureEntry {
                        name,
                        kind,
                        min: Some(bound(spec.min)),
                        max: Some(bound(spec.max)),
                        categories: None,
                        step: spec.step,
                        tolerance: spec.tolerance,
                        group: spec.group.clone(),
                        clamp: *clamp,
                        missing,
                        other: None,
                        scale: spec.scale.clone(),
                    };
                }
            };
            let (min, max, step, tolerance) = (None, None, None, None);
            let text = |place: Option<usize>| place.and_then(|at| texts.get(at).cloned());
            let (missing, other) = (text(missing).map(MissingValue::Category), text(other));
            let (categories, group, clamp) = (Some(texts), None, false);
            FeatureEntry {
                name,
                kind,
                min,
                max,
                categories,
                step,
                tolerance,
                group,
                clamp,
                missing,
                other,
                scale: None,
            }
        };
        Self {
            id: schema.id_column().to_owned(),
            label: schema.label_spec().cloned(),
            features: schema.columns().iter().map(entry).collect(),
        }
    }
}
