//! The inference of a schema file from the values of a file, for its owner to correct
//! (`schema infer`).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use vfl_core::data::schema::{FeatureKind, FeatureSchema, FeatureSpec, MAX_FEATURES, SchemaError};
use vfl_core::data::{Cell, Decimals, RawRows, TableError, date_text};

use crate::stores::parquet_source::rows_of;

/// The default maximum number of categories of a column that is inferred to be categorical.
pub const MAX_CATEGORIES: usize = 50;
/// Integers with at most this many different values are inferred to be steps.
const MAX_STEPS: usize = 10;

/// The settings of an inference.
#[derive(Debug, Clone, Default)]
pub struct Inference {
    /// The column of the record ids. Default the first.
    pub id: Option<String>,
    /// The column of the labels, for the active party.
    pub label: Option<String>,
    /// The columns that become features. Default all but those of the ids and the labels.
    pub features: Option<Vec<String>>,
    /// The maximum number of categories of a column. Default 50.
    pub max_categories: Option<usize>,
}

/// Errors from inferring a schema.
#[derive(Debug, thiserror::Error)]
pub enum InferError {
    /// The file cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The file does not have a column.
    #[error("the file has no column {0:?}")]
    NoColumn(String),
    /// The file has a column twice.
    #[error("the file has the column {0:?} twice")]
    Twice(String),
    /// A text column has too many values.
    #[error(
        "column {0:?} has more than {1} different texts: leave it out, or guess a schema with more (`schema infer --max-categories`)"
    )]
    Categories(String, usize),
    /// The label has fewer than two classes.
    #[error("column {0:?} has fewer than two classes")]
    Classes(String),
    /// The file has no column besides the ids.
    #[error("the file has no column beside the record ids, and no model is of nothing")]
    NoFeature,
    /// The file has no row.
    #[error("the file has no record")]
    Empty,
    /// The names are not valid in a schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// The statistics of a column.
#[derive(Default)]
struct ColumnStatistics {
    numbers: u64,
    texts: u64,
    missing: u64,
    dates: u64,
    /// Texts that are words of truth values, true ones and false ones.
    truths: [u64; 2],
    decimals: Decimals,
    /// The least and the largest number, or day.
    range: Option<(f64, f64)>,
    sum: f64,
    /// The different texts that are not blank, up to one more than allowed.
    distinct: BTreeSet<String>,
}

impl ColumnStatistics {
    fn take(&mut self, cell: Cell<'_>, most: usize) {
        let text = match cell.text() {
            Ok(text) if !cell.is_missing(false) => text,
            _ => {
                self.missing += 1;
                return;
            }
        };
        let text = text.trim();
        match cell.number() {
            Ok(number) => {
                self.decimals.take(number);
                self.numbers += 1;
                self.measure(number);
            }
            Err(_) => {
                self.texts += 1;
                if let Some(truth) = cell.truth() {
                    self.truths[usize::from(truth == 0.0)] += 1;
                } else if let Ok(day) = cell.date() {
                    self.dates += 1;
                    self.measure(day);
                }
            }
        }
        if self.distinct.len() <= most && !self.distinct.contains(text) {
            self.distinct.insert(text.to_owned());
        }
    }

    fn measure(&mut self, value: f64) {
        self.sum += value;
        let (low, high) = self.range.unwrap_or((value, value));
        self.range = Some((low.min(value), high.max(value)));
    }

    /// Returns the content of the column.
    fn content(&self) -> ColumnContent {
        let Self { numbers, texts, dates, truths: [yes, no], .. } = *self;
        match (numbers, texts) {
            (1.., 0) => ColumnContent::Numbers,
            (0, 1..) if dates == texts => ColumnContent::Dates,
            (0, 1..) if yes + no == texts && yes > 0 && no > 0 => ColumnContent::Truths,
            _ => ColumnContent::Texts,
        }
    }
}

/// Returns the value of a feature that is nearest to the mean of its column, with the digits of its
/// step.
fn mean_of(seen: &ColumnStatistics, spec: &FeatureSpec) -> f64 {
    let mean = spec.nearest(seen.sum / seen.numbers as f64);
    let decimals = |step: f64| step.to_string().split_once('.').map_or(0, |(_, part)| part.len());
    let rounded = spec.step.map(|step| format!("{mean:.0$}", decimals(step)));
    rounded.and_then(|text| text.parse().ok()).unwrap_or(mean)
}

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnContent {
    Numbers,
    Dates,
    Truths,
    Texts,
}

/// Reads `from` (`.parquet`, or else CSV) and returns the text of a schema file.
///
/// # Errors
/// [`InferError`] that names the column.
pub fn infer(from: &Path, asked: &Inference) -> Result<String, InferError> {
    let mut rows = rows_of(from, None)?;
    let names = rows.names().to_vec();
    let mut once = BTreeSet::new();
    if let Some(twice) = names.iter().find(|name| !once.insert(name.as_str())) {
        return Err(InferError::Twice(twice.clone()));
    }
    if names.len() > MAX_FEATURES + 2 {
        return Err(SchemaError::TooManyFeatures { got: names.len() }.into());
    }
    let id = asked.id.clone().or_else(|| names.first().cloned()).ok_or(InferError::Empty)?;
    if names.len() < 2 {
        return Err(InferError::NoFeature);
    }
    let named = asked.features.iter().flatten();
    for name in [Some(&id), asked.label.as_ref()].into_iter().flatten().chain(named) {
        if !names.contains(name) {
            return Err(InferError::NoColumn(name.clone()));
        }
    }
    let most = asked.max_categories.unwrap_or(MAX_CATEGORIES).max(2);
    let is_feature = |name: &String| {
        let other = *name != id && asked.label.as_ref() != Some(name);
        other && asked.features.as_ref().is_none_or(|features| features.contains(name))
    };
    if asked.features.is_some() {
        // The other columns need not be of a kind that can be read.
        let read = |name: &&String| {
            **name == id || asked.label.as_ref() == Some(*name) || is_feature(name)
        };
        let wanted: Vec<String> = names.iter().filter(read).cloned().collect();
        rows = rows_of(from, Some(&wanted))?;
    }
    let names = rows.names().to_vec();
    let (records, seen) = see(&mut *rows, &names, &id, most)?;
    if records == 0 {
        return Err(InferError::Empty);
    }
    let mut guess = Guess { records, most, out: String::new(), notes: String::new() };
    for (name, seen) in names.iter().zip(&seen) {
        if is_feature(name) {
            guess.feature(name, seen)?;
        }
    }
    let mut label = String::new();
    if let Some(name) = &asked.label {
        let classes =
            names.iter().zip(&seen).find(|(n, _)| *n == name).map(|(_, seen)| &seen.distinct);
        let classes: Vec<String> = classes.into_iter().flatten().cloned().collect();
        match classes.len() {
            n if n > most => return Err(InferError::Categories(name.clone(), most)),
            n if n < 2 => return Err(InferError::Classes(name.clone())),
            _ => {}
        }
        let classes: Vec<String> = classes.iter().map(|class| quoted(class)).collect();
        label =
            format!("[label]\ncolumn = {}\nclasses = [{}]\n\n", quoted(name), classes.join(", "));
    }
    let text = format!("id = {}\n\n{label}{}", quoted(&id), guess.out);
    // The result must parse as a schema.
    FeatureSchema::from_toml(&text)?;
    Ok(format!("{}{}{text}", head(records), guess.notes))
}

fn see(
    rows: &mut dyn RawRows,
    names: &[String],
    id: &str,
    most: usize,
) -> Result<(u64, Vec<ColumnStatistics>), InferError> {
    let mut seen: Vec<ColumnStatistics> =
        names.iter().map(|_| ColumnStatistics::default()).collect();
    let mut records = 0;
    while rows
        .next_row(&mut |at, cell| {
            if names[at] != id {
                seen[at].take(cell, most);
            }
            Ok(())
        })?
        .is_some()
    {
        records += 1;
    }
    Ok((records, seen))
}

fn head(records: u64) -> String {
    format!(
        "# Guessed from {records} records. Read every line before you use it.\n\
         #\n\
         # The ranges below are the least and the largest value in the file: single records. A schema is public, so these would\n\
         # disclose the extremes of your data. Replace each `min` and `max` by a range that is known without the data (ages from 0\n\
         # to 120). Add `clamp = true` where a value may lie outside. Categories and classes are those of the file: add those that\n\
         # it could have, and take out those that only a few records have. A `step` says on which grid the values lie, which attacks\n\
         # use: leave it out where values not in this file lie between. `tolerance`, in the units of a column, is how close an\n\
         # estimate must come to count as right in audits.\n"
    )
}

struct Guess {
    records: u64,
    most: usize,
    out: String,
    notes: String,
}

impl Guess {
    fn feature(&mut self, name: &str, seen: &ColumnStatistics) -> Result<(), InferError> {
        let content = seen.content();
        if content == ColumnContent::Texts && seen.distinct.len() > self.most {
            return Err(InferError::Categories(name.to_owned(), self.most));
        }
        if seen.distinct.len() == 1 && seen.missing == 0 {
            let _ =
                writeln!(self.notes, "# {name}: all records have the same value. Leave it out.");
        }
        let (min, max) = seen.range.unwrap_or((0.0, 0.0));
        if let ColumnContent::Dates | ColumnContent::Truths = content {
            return self.dates_or_truths(name, seen, content == ColumnContent::Dates);
        }
        if content == ColumnContent::Numbers {
            let whole = seen.decimals.step() == Some(1.0);
            let kind = match seen.distinct.len() {
                2 if max > min => FeatureKind::Binary,
                n if whole && n <= MAX_STEPS => FeatureKind::Ordinal,
                _ => FeatureKind::Numeric,
            };
            let spec = FeatureSpec { kind, ..FeatureSpec::numeric(name, min, max) }
                .with_step(seen.decimals.step());
            let missing = (seen.missing > 0).then(|| mean_of(seen, &spec));
            if let Some(value) = missing {
                self.note_missing(name, seen.missing, &format!("{value:?}"));
            }
            let name = quoted(name);
            // `{:?}` keeps the point of an integer and every digit of other numbers.
            let _ = write!(
                self.out,
                "[[features]]\nname = {name}\nkind = \"{kind}\"\nmin = {min:?}\nmax = {max:?}\n"
            );
            if let Some(step) = spec.step.filter(|_| max > min) {
                let _ = writeln!(self.out, "step = {step:?}");
            }
            if let Some(value) = missing {
                let _ = writeln!(self.out, "missing = {value:?}");
            }
            self.out.push('\n');
            return Ok(());
        }
        let mut categories: Vec<String> = seen.distinct.iter().map(|c| quoted(c)).collect();
        let mut rule = String::new();
        if seen.missing > 0 {
            let mut missing = "missing".to_owned();
            while seen.distinct.contains(&missing) {
                missing.push('_');
            }
            let _ = writeln!(
                self.notes,
                "# {name}: {} of {} records have no value. They count as the category {missing:?}.",
                seen.missing, self.records
            );
            categories.push(quoted(&missing));
            rule = format!("missing = {}\n", quoted(&missing));
        }
        let _ = write!(
            self.out,
            "[[features]]\nname = {}\nkind = \"categorical\"\ncategories = [{}]\n{rule}\n",
            quoted(name),
            categories.join(", ")
        );
        Ok(())
    }
}

impl Guess {
    /// Writes a column of dates, or of words for true and false.
    fn dates_or_truths(
        &mut self,
        name: &str,
        seen: &ColumnStatistics,
        dates: bool,
    ) -> Result<(), InferError> {
        let day = |value: f64| date_text(value as i32).map_or_else(String::new, |day| quoted(&day));
        let [yes, no] = seen.truths;
        let (kind, value) = match (dates, seen.range) {
            (true, Some((min, max))) => {
                let mean = (seen.sum / seen.dates as f64).round();
                let range = format!("kind = \"date\"\nmin = {}\nmax = {}\n", day(min), day(max));
                (range, day(mean))
            }
            _ => ("kind = \"binary\"\n".to_owned(), u8::from(yes > no).to_string()),
        };
        let mut missing = String::new();
        if seen.missing > 0 {
            self.note_missing(name, seen.missing, &value);
            missing = format!("missing = {value}\n");
        }
        let name = quoted(name);
        self.out.push_str(&format!("[[features]]\nname = {name}\n{kind}{missing}\n"));
        Ok(())
    }

    fn note_missing(&mut self, name: &str, missing: u64, value: &str) {
        let _ = writeln!(
            self.notes,
            "# {name}: {missing} of {} records have no value. They count as {value}, near the mean, and the\n\
             # feature `{name} is missing` tells them apart. Without the line `missing` such records are refused.",
            self.records
        );
    }
}

/// Formats a TOML string.
fn quoted(text: &str) -> String {
    // JSON's escapes are those of a TOML basic string, except for DEL, which no name may contain.
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests;
