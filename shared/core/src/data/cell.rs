//! Raw values of a source, and their conversion by the schema, which is the same for every store.

use std::borrow::Cow;

use super::csv_error::TableProblem;
use super::date::{day, days};
use crate::data::schema::{Categories, Content, FeatureKind, FeatureSchema};

/// A value as a source gives it.
#[derive(Clone, Copy)]
pub enum Cell<'a> {
    /// Text: a category, a class, an id, or a number in decimal.
    Text(&'a str),
    /// A floating-point number.
    Real(f64),
    /// A whole number.
    Integer(i64),
    /// A truth value; as a number, 1 or 0.
    Bool(bool),
    /// A missing value (NULL).
    Missing,
}

impl<'a> Cell<'a> {
    /// Returns the value as text, in the form of an id, a category or a class: numbers in their
    /// shortest decimal form, `true` and `false`.
    ///
    /// # Errors
    /// [`TableProblem::Missing`] if there is no value, [`TableProblem::NotFinite`] for NaN or an
    /// infinity.
    pub fn text(self) -> Result<Cow<'a, str>, TableProblem> {
        match self {
            Self::Text(text) => Ok(Cow::Borrowed(text)),
            Self::Real(value) if !value.is_finite() => Err(TableProblem::NotFinite),
            // Each number has one text: adding 0 removes the sign of a negative zero.
            Self::Real(value) => Ok(Cow::Owned((value + 0.0).to_string())),
            Self::Integer(value) => Ok(Cow::Owned(value.to_string())),
            Self::Bool(value) => Ok(Cow::Borrowed(if value { "true" } else { "false" })),
            Self::Missing => Err(TableProblem::Missing),
        }
    }

    /// Returns the value as a finite number.
    ///
    /// # Errors
    /// [`TableProblem`] if the value is not a finite number.
    pub fn number(self) -> Result<f64, TableProblem> {
        let value = match self {
            Self::Text(text) => {
                let text = text.trim();
                if text.is_empty() {
                    return Err(TableProblem::EmptyField);
                }
                text.parse().map_err(|_| TableProblem::NotANumber)?
            }
            Self::Real(value) => value,
            Self::Integer(value) => value as f64,
            Self::Bool(value) => f64::from(u8::from(value)),
            Self::Missing => return Err(TableProblem::Missing),
        };
        if value.is_finite() { Ok(value) } else { Err(TableProblem::NotFinite) }
    }

    /// Returns 1 or 0 for a word of a truth value: `true`, `yes`, `t`, `y` or their opposites, in
    /// any letter case. `None` for anything else.
    #[must_use]
    pub fn truth(self) -> Option<f64> {
        let Self::Text(text) = self else { return None };
        let is = |words: [&str; 4]| words.iter().any(|word| text.trim().eq_ignore_ascii_case(word));
        match is(["true", "yes", "t", "y"]) {
            true => Some(1.0),
            false => is(["false", "no", "f", "n"]).then_some(0.0),
        }
    }

    /// Returns the days since 1970-01-01 of a date (see [`days`]).
    ///
    /// # Errors
    /// [`TableProblem`] if the value is no date.
    pub fn date(self) -> Result<f64, TableProblem> {
        match self {
            Self::Text(text) if text.trim().is_empty() => Err(TableProblem::EmptyField),
            Self::Text(text) => days(text).map(f64::from).ok_or(TableProblem::NotADate),
            Self::Missing => Err(TableProblem::Missing),
            _ => Err(TableProblem::NotADate),
        }
    }

    /// Returns `true` if there is no value: NULL, blank text, or NaN, which text is in a column
    /// of numbers alone.
    #[must_use]
    pub fn is_missing(self, in_numbers: bool) -> bool {
        match self {
            Self::Missing => true,
            Self::Text(text) if in_numbers && !text.trim().is_empty() => {
                text.trim().parse().is_ok_and(f64::is_nan)
            }
            Self::Text(text) => text.trim().is_empty(),
            Self::Real(value) => value.is_nan(),
            Self::Integer(_) | Self::Bool(_) => false,
        }
    }
}

/// The role of a column of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnRole {
    /// The record ids.
    Id,
    /// The label column.
    Label,
    /// A feature column, by its position in the schema.
    Column(usize),
}

/// A column that a schema asks its source for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceColumn {
    /// The name in the source.
    pub name: String,
    /// The role of the column.
    pub target: ColumnRole,
    /// True if the column is a number. Otherwise it is an id, a date, a category or a class, which
    /// is text.
    pub number: bool,
    /// True if the schema has a rule for a missing value.
    pub may_be_missing: bool,
}

impl FeatureSchema {
    /// Returns the columns that a source must have: the id, the label if there is one, then the
    /// features' in their order.
    #[must_use]
    pub fn source_columns(&self) -> Vec<SourceColumn> {
        let text = |name: &str, target| {
            let (name, number, may_be_missing) = (name.to_owned(), false, false);
            SourceColumn { name, target, number, may_be_missing }
        };
        let id = std::iter::once(text(self.id_column(), ColumnRole::Id));
        let label = self.label().map(|label| text(&label.column, ColumnRole::Label));
        let features = self.columns().iter().enumerate().map(|(at, column)| SourceColumn {
            name: column.name.clone(),
            target: ColumnRole::Column(at),
            number: matches!(column.content, Content::Number { date: false, .. }),
            may_be_missing: column.content.may_be_missing(),
        });
        id.chain(label).chain(features).collect()
    }

    /// Reads a value of a feature column into a record's features (d values, 0 before). The value
    /// is checked against kind, range and categories, and normalised. A missing one, NULL, blank
    /// text or NaN, follows the column's rule.
    ///
    /// # Errors
    /// [`TableProblem`] says what is wrong with the value, and never shows it.
    pub fn read_feature(
        &self,
        column: usize,
        cell: Cell<'_>,
        values: &mut [f64],
    ) -> Result<(), TableProblem> {
        let column = &self.columns()[column];
        let spec = &self.features()[column.first];
        match &column.content {
            Content::OneHot(categories) => values[column.first + category(categories, cell)?] = 1.0,
            Content::Steps(categories) => {
                values[column.first] = spec.normalise(category(categories, cell)? as f64)
            }
            &Content::Number { missing: Some(value), date, .. } if cell.is_missing(!date) => {
                values[column.first] = spec.normalise(value);
                values[column.first + 1] = 1.0;
            }
            &Content::Number { clamp, date, .. } => {
                let (min, max) = (spec.min, spec.max);
                let truth = || cell.truth().filter(|_| (min, max) == (0.0, 1.0));
                let mut value = match (date, spec.kind) {
                    (true, _) => cell.date()?,
                    (false, FeatureKind::Binary) => truth().map_or_else(|| cell.number(), Ok)?,
                    (false, _) => cell.number()?,
                };
                if clamp {
                    value = value.clamp(min, max);
                }
                if spec.kind == FeatureKind::Binary && value != min && value != max {
                    return Err(TableProblem::NotBinary { min, max });
                }
                if !(min..=max).contains(&value) {
                    return Err(match date {
                        true => TableProblem::DateOutOfRange { min: day(min), max: day(max) },
                        false => TableProblem::OutOfRange { min, max },
                    });
                }
                if let Some(step) = spec.step.filter(|_| !spec.is_on_grid(value)) {
                    return Err(TableProblem::OffGrid { min, step });
                }
                values[column.first] = spec.normalise(value);
            }
        }
        Ok(())
    }

    /// Reads a value of the label column and returns the number of its class.
    ///
    /// # Errors
    /// [`TableProblem::UnknownClass`], also if the schema declares no label;
    /// [`TableProblem::Missing`] for NULL.
    pub fn read_label(&self, cell: Cell<'_>) -> Result<u32, TableProblem> {
        let classes = self.label().map_or(&[][..], |label| &label.classes);
        let text = cell.text()?;
        let label = classes.iter().position(|class| class == text.trim());
        label
            .map(|label| label as u32)
            .ok_or_else(|| TableProblem::UnknownClass { classes: classes.to_vec() })
    }
}

/// Returns the number of a category. Blank text may be one of its own.
fn category(categories: &Categories, cell: Cell<'_>) -> Result<usize, TableProblem> {
    let Categories { texts, missing } = categories;
    let text = match (cell.text(), missing) {
        (Err(_), Some(missing)) if cell.is_missing(false) => return Ok(*missing),
        (text, _) => text?,
    };
    let text = text.trim();
    match (texts.iter().position(|c| c == text), missing) {
        (Some(at), _) => Ok(at),
        (None, Some(missing)) if text.is_empty() => Ok(*missing),
        (None, _) if text.is_empty() => Err(TableProblem::EmptyField),
        (None, _) => Err(TableProblem::UnknownCategory { categories: texts.len() }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SCHEMA: &str = r#"
        id = "id"
        [[features]]
        name = "age"
        kind = "numeric"
        min = 0
        max = 4
        [[features]]
        name = "job"
        kind = "categorical"
        categories = ["1", "true"]
    "#;

    #[test]
    fn a_number_beside_its_grid_is_refused_without_showing_it() {
        let text = "id = \"id\"\n[[features]]\nname = \"f\"\nkind = \"numeric\"\nmin = -0.1\nmax = 0.2\nstep = 0.01";
        let schema = FeatureSchema::from_toml(text).unwrap();
        let read =
            |text| schema.read_feature(0, Cell::Text(text), &mut [0.0]).map_err(|e| e.to_string());
        for on in ["-0.1", "-0.03", "0", "0.07", "0.13", "0.2"] {
            assert_eq!(read(on), Ok(()), "{on}");
        }
        let refused = read("0.125").unwrap_err();
        assert!(
            refused.contains("step of 0.01 from -0.1") && !refused.contains("0.125"),
            "{refused}"
        );
    }

    /// NULL, blank text and NaN are the same missing value, which counts as the schema says.
    #[test]
    fn missing_values_follow_the_rule_of_their_column() {
        let schema = FeatureSchema::from_toml(
            r#"
            id = "id"
            [[features]]
            name = "age"
            kind = "numeric"
            min = 0
            max = 4
            step = 1
            missing = 3
            [[features]]
            name = "job"
            kind = "categorical"
            categories = ["clerk", "unknown"]
            missing = "unknown"
            [[features]]
            name = "degree"
            kind = "ordinal"
            categories = ["", "school", "university"]
            missing = "school"
            [[features]]
            name = "strict"
            kind = "binary"
            "#,
        )
        .unwrap();
        let names: Vec<_> = schema.features().iter().map(|f| f.name.as_str()).collect();
        let expected = ["age", "age is missing", "job=clerk", "job=unknown", "degree", "strict"];
        assert_eq!(names, expected);
        let read = |column, cell| {
            let mut values = [0.0; 6];
            let read = schema.read_feature(column, cell, &mut values);
            read.map(|()| values).map_err(|e| e.to_string())
        };
        assert_eq!(read(0, Cell::Text("nan")), read(0, Cell::Missing));
        assert!(read(1, Cell::Text("nan")).is_err());
        let null = [Cell::Missing, Cell::Text(" "), Cell::Real(f64::NAN)];
        for cell in null {
            assert_eq!(read(0, cell), Ok([0.75, 1.0, 0.0, 0.0, 0.0, 0.0]));
            assert_eq!(read(1, cell), Ok([0.0, 0.0, 0.0, 1.0, 0.0, 0.0]));
            assert!(read(3, cell).is_err());
        }
        assert_eq!(read(0, Cell::Text("3")), Ok([0.75, 0.0, 0.0, 0.0, 0.0, 0.0]));
        // Blank text is a category of its own here.
        assert_eq!(read(2, Cell::Missing).map(|values| values[4]), Ok(0.5));
        assert_eq!(read(2, Cell::Text("")).map(|values| values[4]), Ok(0.0));
        assert!(read(1, Cell::Text("baker")).is_err() && read(0, Cell::Text("old")).is_err());
        assert!(read(0, Cell::Real(f64::INFINITY)).is_err());
        let may: Vec<bool> = schema.source_columns().iter().map(|c| c.may_be_missing).collect();
        assert_eq!(may, [false, true, true, true, false]);
        assert_eq!(FeatureSchema::from_toml(&schema.to_toml().unwrap()).unwrap(), schema);
        let encodings = schema.encodings();
        assert_eq!(encodings.len(), schema.len());
        let said = ["0 to 4, 3 where missing", "is missing", "is \"clerk\""];
        assert_eq!(encodings[..3], said);
        assert_eq!(encodings[3], "is \"unknown\" or missing");
        assert!(encodings[4].ends_with(", \"school\" where missing"));
    }

    /// A date counts in days, and a binary feature takes the words of truth values.
    #[test]
    fn dates_and_truth_values_are_numbers() {
        let schema = FeatureSchema::from_toml(
            r#"
            id = "id"
            [[features]]
            name = "opened"
            kind = "date"
            min = "2020-01-01"
            max = "2024-01-01"
            missing = "2022-01-01"
            [[features]]
            name = "staff"
            kind = "binary"
            [[features]]
            name = "week"
            kind = "date"
            min = "2024-01-01"
            max = "2024-01-15"
            step = 7
            clamp = true
            "#,
        )
        .unwrap();
        let read = |column, cell| {
            let mut values = [0.0; 4];
            let read = schema.read_feature(column, cell, &mut values);
            read.map(|()| values).map_err(|e| e.to_string())
        };
        let days = 1461.0;
        let opened = &schema.features()[0];
        assert_eq!((opened.max - opened.min, opened.step), (days, Some(1.0)));
        assert_eq!(read(0, Cell::Text("2024-01-01 13:00:00")), Ok([1.0, 0.0, 0.0, 0.0]));
        assert_eq!(read(0, Cell::Text("2020-01-02")), Ok([1.0 / days, 0.0, 0.0, 0.0]));
        assert_eq!(read(0, Cell::Missing), Ok([731.0 / days, 1.0, 0.0, 0.0]));
        let late = read(0, Cell::Text("2024-01-02")).unwrap_err();
        assert!(late.contains("2020-01-01 to 2024-01-01"), "{late}");
        let wrong = read(0, Cell::Text("01/02/2024")).unwrap_err();
        assert!(wrong.contains("YYYY-MM-DD") && !wrong.contains("01/02"), "{wrong}");
        assert!(read(0, Cell::Integer(20_200_101)).is_err());
        for (word, expected) in [("True", 1.0), ("NO", 0.0), ("y", 1.0), ("f", 0.0), ("1", 1.0)] {
            assert_eq!(read(1, Cell::Text(word)).map(|values| values[2]), Ok(expected), "{word}");
        }
        assert!(read(1, Cell::Text("maybe")).is_err());
        assert!(read(2, Cell::Text("2024-01-09")).is_err());
        assert_eq!(read(2, Cell::Text("2030-01-09")).map(|values| values[3]), Ok(1.0));
        assert_eq!(FeatureSchema::from_toml(&schema.to_toml().unwrap()).unwrap(), schema);
        let encodings = schema.encodings();
        let range = "days from 2020-01-01 to 2024-01-01, 2022-01-01 where missing";
        assert_eq!(encodings[..2], [range, "is missing"]);
        let weeks = schema.of_columns(&["week".into(), "opened".into()], false);
        let names: Vec<_> = weeks.features().iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["week", "opened", "opened is missing"]);
        assert_eq!(FeatureSchema::from_toml(&weeks.to_toml().unwrap()).unwrap(), weeks);
        let text: Vec<bool> = schema.source_columns().iter().map(|c| c.number).collect();
        assert_eq!(text, [false, false, true, false]);
        for (wrong, says) in [
            ("min = \"2020-01-01\"", "needs min and max"),
            ("min = \"2020-01-01\"\nmax = 3", "needs min and max"),
            ("min = \"2020-01-01\"\nmax = \"1.2.2024\"", "needs min and max"),
            ("min = \"2020-01-01\"\nmax = \"2024-01-01\"\nstep = 0.5", "whole number of days"),
            ("min = \"2020-01-01\"\nmax = \"2024-01-01\"\nmissing = 5", "is a date"),
        ] {
            let text = format!("id = \"id\"\n[[features]]\nname = \"f\"\nkind = \"date\"\n{wrong}");
            let error = FeatureSchema::from_toml(&text).unwrap_err().to_string();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }

    /// However a source stores a value, it means the same.
    #[test]
    fn every_form_of_a_value_is_read_alike() {
        let schema = FeatureSchema::from_toml(SCHEMA).unwrap();
        let read = |column, cell| {
            let mut values = [0.0; 3];
            schema
                .read_feature(column, cell, &mut values)
                .map(|()| values)
                .map_err(|e| e.to_string())
        };
        for cell in [Cell::Text(" 1 "), Cell::Real(1.0), Cell::Integer(1)] {
            assert_eq!(read(0, cell), Ok([0.25, 0.0, 0.0]));
            assert_eq!(read(1, cell), Ok([0.0, 1.0, 0.0]));
        }
        assert_eq!(read(0, Cell::Bool(true)), Ok([0.25, 0.0, 0.0]));
        assert_eq!(read(1, Cell::Bool(true)), Ok([0.0, 0.0, 1.0]));
        for cell in [Cell::Missing, Cell::Real(f64::NAN), Cell::Integer(5), Cell::Text("")] {
            assert!(read(0, cell).is_err());
        }
        assert!(read(1, Cell::Missing).unwrap_err().contains("NULL"));
        let names: Vec<_> =
            schema.source_columns().into_iter().map(|c| (c.name, c.target, c.number)).collect();
        let wanted = [
            ("id", ColumnRole::Id, false),
            ("age", ColumnRole::Column(0), true),
            ("job", ColumnRole::Column(1), false),
        ];
        assert_eq!(names, wanted.map(|(name, target, number)| (name.to_owned(), target, number)));
    }
}
