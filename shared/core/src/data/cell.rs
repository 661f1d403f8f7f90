//! Raw values of a source, and their conversion by the schema, which is the same for every store.

use std::borrow::Cow;

use super::csv_error::TableProblem;
use super::date::{day, days};
use super::schema::FileColumn;
use crate::data::schema::{Categories, Content, FeatureKind, FeatureSchema};

/// A value as a source gives it.
#[derive(Clone, Copy)]
pub enum Cell<'a> {
    /// Text: a category, a class, an id, or a number in decimal.
    Text(&'a str),
    /// Text of a file whose numbers have a decimal comma.
    CommaText(&'a str),
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
            Self::Text(text) | Self::CommaText(text) => Ok(Cow::Borrowed(text)),
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
            Self::Text(text) | Self::CommaText(text) if text.trim().is_empty() => {
                return Err(TableProblem::EmptyField);
            }
            Self::Text(text) => {
                let text = text.trim();
                text.parse().map_err(|_| no_value(text, TableProblem::NotANumber))?
            }
            // A point may be a decimal point or stand between thousands.
            Self::CommaText(text) if text.contains('.') && !is_missing_mark(text.trim()) => {
                return Err(TableProblem::NotACommaNumber);
            }
            Self::CommaText(text) => {
                let number = text.trim().replacen(',', ".", 1).parse();
                number.map_err(|_| no_value(text.trim(), TableProblem::NotACommaNumber))?
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
        let (Self::Text(text) | Self::CommaText(text)) = self else { return None };
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
            Self::Text(text) | Self::CommaText(text) if text.trim().is_empty() => {
                Err(TableProblem::EmptyField)
            }
            Self::Text(text) | Self::CommaText(text) => {
                let days = days(text).map(f64::from);
                days.ok_or_else(|| no_value(text.trim(), TableProblem::NotADate))
            }
            Self::Missing => Err(TableProblem::Missing),
            _ => Err(TableProblem::NotADate),
        }
    }

    /// Returns `true` if there is no value: NULL, blank text or NaN. A mark such as `NA` is one in
    /// a column of numbers or dates alone, where it cannot be a category.
    #[must_use]
    pub fn is_missing(self, in_numbers: bool) -> bool {
        match self {
            Self::Missing => true,
            Self::Text(text) | Self::CommaText(text) => {
                let text = text.trim();
                text.is_empty() || (in_numbers && is_missing_mark(text))
            }
            Self::Real(value) => value.is_nan(),
            Self::Integer(_) | Self::Bool(_) => false,
        }
    }
}

/// Returns `true` for a text that stands for a missing value where no text can be a value: NaN and
/// the marks that statistics programs, databases and spreadsheets write.
fn is_missing_mark(text: &str) -> bool {
    const MARKS: [&str; 7] = ["na", "n/a", "#n/a", "<na>", "null", "none", "nil"];
    let word = MARKS.iter().any(|mark| text.eq_ignore_ascii_case(mark));
    word || ["-", "?", "."].contains(&text) || text.parse().is_ok_and(f64::is_nan)
}

/// Returns the problem of a text that is no value: `wrong`, unless it stands for a missing one.
fn no_value(text: &str, wrong: TableProblem) -> TableProblem {
    if is_missing_mark(text) { TableProblem::MissingMark } else { wrong }
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

    /// Describes, for each feature, how values of the source become numbers: its range, or its
    /// categories in their order, its scale, and its rules for missing values and unlisted
    /// texts. A model depends on these; kinds, steps and tolerances may change.
    #[must_use]
    pub fn encodings(&self) -> Vec<String> {
        let of_column = |column: &FileColumn| match &column.content {
            Content::Number { missing, date, .. } => {
                let number = |value| if *date { day(value) } else { value.to_string() };
                let unit = if *date { "days from " } else { "" };
                let range = self.features().get(column.first);
                let range = range.map(|f| {
                    let scale =
                        f.scale.as_ref().map_or_else(String::new, |s| format!(", scale {s}"));
                    format!("{unit}{} to {}{scale}", number(f.min), number(f.max))
                });
                let range = range.unwrap_or_default();
                match missing {
                    None => vec![range],
                    Some(value) => vec![
                        format!("{range}, {} where missing", number(*value)),
                        "is missing".to_owned(),
                    ],
                }
            }
            Content::Steps(Categories { texts, missing, other }) => {
                let steps: Vec<String> = texts.iter().map(|step| format!("{step:?}")).collect();
                let rule = |place: Option<usize>, of: &str| {
                    let text = place.and_then(|at| texts.get(at));
                    text.map_or_else(String::new, |text| format!(", {text:?} {of}"))
                };
                let missing = rule(*missing, "where missing");
                vec![steps.join(" < ") + &missing + &rule(*other, "for other texts")]
            }
            Content::OneHot(Categories { texts, missing, other }) => {
                let of_text = |(at, text)| {
                    let rule = |place: Option<usize>, of| if place == Some(at) { of } else { "" };
                    let missing = rule(*missing, " or missing");
                    format!("is {text:?}{missing}{}", rule(*other, " or not listed"))
                };
                texts.iter().enumerate().map(of_text).collect()
            }
        };
        self.columns().iter().flat_map(of_column).collect()
    }

    /// Reads a value of a feature column into a record's features (d values, 0 before). The value
    /// is checked against kind, range and categories, and normalised. A missing one
    /// ([`Cell::is_missing`]) follows the column's rule.
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
            &Content::Number { missing: Some(value), .. } if cell.is_missing(true) => {
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
    let Categories { texts, missing, other } = categories;
    let text = match (cell.text(), missing) {
        (Err(_), Some(missing)) if cell.is_missing(false) => return Ok(*missing),
        (text, _) => text?,
    };
    let text = text.trim();
    let rule = if text.is_empty() { missing } else { other };
    match texts.iter().position(|c| c == text).or(*rule) {
        Some(at) => Ok(at),
        None if text.is_empty() => Err(TableProblem::EmptyField),
        None => Err(TableProblem::UnknownCategory { categories: texts.len() }),
    }
}

#[cfg(test)]
mod tests;
