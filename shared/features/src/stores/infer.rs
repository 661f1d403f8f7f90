//! The inference of a schema file from the values of a file, for its owner to correct
//! (`schema infer`).

mod statistics;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use vfl_core::data::schema::{FeatureKind, FeatureSchema, FeatureSpec, MAX_FEATURES, SchemaError};
use vfl_core::data::{Cell, RawRows, TableError, date_text};

use crate::stores::table_file::{TableFile, rows_of};
use statistics::{ColumnContent, ColumnStatistics, IdForms, MAX_STEPS};

/// The default maximum number of categories of a column that is inferred to be categorical.
pub const MAX_CATEGORIES: usize = 50;
/// The number of different texts that are counted in all columns, beyond [`MAX_CATEGORIES`] each.
const MAX_COUNTED: usize = 200_000;
/// The number of different texts that are counted in one column.
const MAX_COUNTED_OF_COLUMN: usize = 2000;
/// The share of a range below which the mean of a column with a long tail lies.
const TAIL: f64 = 0.05;

/// The settings of an inference.
#[derive(Debug, Clone, Default)]
pub struct Inference {
    /// The column of the record ids. Default the first.
    pub id: Option<String>,
    /// The column of the labels, for the active party.
    pub label: Option<String>,
    /// True if the label is a number.
    pub number_label: bool,
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
    /// A text column has too many values, and the common ones are of less than half of the records.
    #[error(
        "column {0:?} has more than {1} different texts, and the commonest are of less than half of the records: leave it out, or guess a schema with more (`schema infer --max-categories`)"
    )]
    Categories(String, usize),
    /// Most values of a column are numbers, and the others are text.
    #[error(
        "column {column:?}: {numbers} values are numbers and {texts} are text: correct these, or leave them blank (`missing` in the schema says what a blank counts as)"
    )]
    Mixed {
        /// The name of the column.
        column: String,
        /// The number of values that are numbers.
        numbers: u64,
        /// The number of the others.
        texts: u64,
    },
    /// A label has too many classes.
    #[error(
        "the label {0:?} has more than {1} different values: is it a number? Then say `--number-label`. A class is one of a few (`schema infer --max-categories` takes more)"
    )]
    ManyClasses(String, usize),
    /// A text column of numbers with a comma each.
    #[error(
        "column {0:?} has more than {1} different texts, most of them digits with one comma: if these are decimal commas, say so (`--decimal ,`)"
    )]
    DecimalCommas(String, usize),
    /// A first line of which a third or more are numbers.
    #[error(
        "a third of the columns or more have numbers for their names: the file may lack a header line, which names the columns"
    )]
    NoHeader,
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

/// Returns the value of a feature that is nearest to the mean of its column, with the digits of its
/// step.
fn mean_of(seen: &ColumnStatistics, spec: &FeatureSpec) -> f64 {
    let mean = spec.nearest(seen.sum / seen.numbers as f64);
    let decimals = |step: f64| step.to_string().split_once('.').map_or(0, |(_, part)| part.len());
    let rounded = spec.step.map(|step| format!("{mean:.0$}", decimals(step)));
    rounded.and_then(|text| text.parse().ok()).unwrap_or(mean)
}

/// A guessed schema.
#[derive(Debug, Clone)]
pub struct InferredSchema {
    /// The text of the schema file, with the notes as comments.
    pub text: String,
    /// Notes for the owner, each on one line, with the name of its column.
    pub notes: Vec<String>,
}

/// Reads `from` and guesses its schema.
///
/// # Errors
/// [`InferError`] that names the column.
pub fn infer<'a>(
    from: impl Into<TableFile<'a>>,
    asked: &Inference,
) -> Result<InferredSchema, InferError> {
    let from = from.into();
    let mut rows = rows_of(from, None)?;
    let names = rows.names().to_vec();
    // Before a name is shown, which may be a value of a record.
    let is_number = |name: &&String| {
        name.contains(['.', ','])
            && [Cell::Text, Cell::CommaText].iter().any(|of| of(name).number().is_ok())
    };
    if names.iter().filter(is_number).count() * 3 >= names.len().max(1) {
        return Err(InferError::NoHeader);
    }
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
    let is_wanted = |name: &String| is_feature(name) || asked.label.as_ref() == Some(name);
    let (records, mut seen, ids) = see(&mut *rows, &names, &id, is_wanted, most)?;
    if records == 0 {
        return Err(InferError::Empty);
    }
    let mut guess = Guess { records, most, out: String::new(), notes: Vec::new() };
    guess.note_ids(&id, ids);
    for (name, seen) in names.iter().zip(&mut seen) {
        if is_feature(name) {
            guess.feature(name, std::mem::take(seen).settled())?;
        }
    }
    let mut label = String::new();
    if let Some(name) = asked.label.as_ref().filter(|_| asked.number_label) {
        let column = names.iter().zip(seen).find(|(n, _)| *n == name).map(|(_, seen)| seen);
        let column = column.map(ColumnStatistics::settled);
        let numbers = column.filter(|column| column.content() == ColumnContent::Numbers);
        let range = numbers.and_then(|column| column.range).filter(|(min, max)| min < max);
        let range = range.map(|(min, max)| format!("min = {min:?}\nmax = {max:?}\n"));
        let range = range.unwrap_or_default();
        label = format!("[label]\ncolumn = {}\nkind = \"number\"\n{range}\n", quoted(name));
    } else if let Some(name) = &asked.label {
        let column = names.iter().zip(seen).find(|(n, _)| *n == name).map(|(_, seen)| seen);
        let column = column.map(ColumnStatistics::of_texts).unwrap_or_default();
        let (classes, more) = (column.distinct, column.more);
        match classes.len() {
            n if more || n > most => return Err(InferError::ManyClasses(name.clone(), most)),
            n if n < 2 => return Err(InferError::Classes(name.clone())),
            _ => {}
        }
        let classes: Vec<String> = classes.keys().map(|class| quoted(class)).collect();
        label =
            format!("[label]\ncolumn = {}\nclasses = [{}]\n\n", quoted(name), classes.join(", "));
    }
    let text = format!("id = {}\n\n{label}{}", quoted(&id), guess.out);
    // The result must parse as a schema.
    FeatureSchema::from_toml(&text)?;
    let comments = guess.notes.iter().map(|note| format!("# {note}\n")).collect::<String>();
    Ok(InferredSchema { text: format!("{}{comments}{text}", head(records)), notes: guess.notes })
}

fn see(
    rows: &mut dyn RawRows,
    names: &[String],
    id: &str,
    is_wanted: impl Fn(&String) -> bool,
    most: usize,
) -> Result<(u64, Vec<ColumnStatistics>, IdForms), InferError> {
    let mut seen: Vec<ColumnStatistics> =
        names.iter().map(|_| ColumnStatistics::default()).collect();
    let counted = (MAX_COUNTED / names.len().max(1)).min(MAX_COUNTED_OF_COLUMN).max(most + 1);
    let (mut records, mut ids) = (0, IdForms::default());
    while rows
        .next_row(&mut |at, cell| {
            match &names[at] {
                name if name == id => ids.take(cell),
                name if is_wanted(name) => seen[at].take(cell, most, counted),
                _ => {}
            }
            Ok(())
        })?
        .is_some()
    {
        records += 1;
    }
    Ok((records, seen, ids))
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

/// Returns a name that no category has.
fn new_name(name: &str, categories: &BTreeMap<String, u64>) -> String {
    let mut name = name.to_owned();
    while categories.contains_key(&name) {
        name.push('_');
    }
    name
}

struct Guess {
    records: u64,
    most: usize,
    out: String,
    notes: Vec<String>,
}

impl Guess {
    fn feature(&mut self, name: &str, mut seen: ColumnStatistics) -> Result<(), InferError> {
        let content = seen.content();
        let other = match content {
            ColumnContent::Texts => self.other(name, &mut seen)?,
            _ => None,
        };
        self.note_doubts(name, &seen);
        let seen = &seen;
        if seen.distinct.len() == 1 && seen.missing == 0 && other.is_none() {
            self.notes.push(format!("{name}: all records have the same value. Leave it out."));
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
            if kind == FeatureKind::Numeric && seen.distinct.len() > MAX_STEPS {
                self.note_tail(name, seen.sum / seen.numbers as f64, (min, max));
            }
            let missing = (seen.missing > 0).then(|| mean_of(seen, &spec));
            if missing.is_some() {
                self.note_missing(name, seen.missing);
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
        let mut categories: Vec<String> = seen.distinct.keys().map(|c| quoted(c)).collect();
        let mut rule = String::new();
        if let Some(other) = other {
            categories.push(quoted(&other));
            rule = format!("other = {}\n", quoted(&other));
        }
        if seen.missing > 0 {
            let missing = new_name("missing", &seen.distinct);
            self.notes.push(format!(
                "{name}: {} of {} records have no value. They count as the category {missing:?}.",
                seen.missing, self.records
            ));
            categories.push(quoted(&missing));
            rule += &format!("missing = {}\n", quoted(&missing));
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
    /// Reduces a column of too many texts to the commonest, and returns the name of the category of
    /// the others.
    fn other(
        &mut self,
        name: &str,
        seen: &mut ColumnStatistics,
    ) -> Result<Option<String>, InferError> {
        let (most, all) = (self.most, seen.distinct.len());
        if all <= most && !seen.more {
            return Ok(None);
        }
        let ColumnStatistics { numbers, texts, more, .. } = *seen;
        let of_column = |error: fn(String, usize) -> InferError| Err(error(name.to_owned(), most));
        if seen.has_decimal_commas() {
            return of_column(InferError::DecimalCommas);
        }
        if numbers > texts {
            return Err(InferError::Mixed { column: name.to_owned(), numbers, texts });
        }
        let mut counts: Vec<(u64, String)> =
            std::mem::take(&mut seen.distinct).into_iter().map(|(text, n)| (n, text)).collect();
        counts.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        counts.truncate(most - 1);
        // A text of one record would disclose it.
        counts.retain(|(count, _)| *count > 1);
        let commonest = counts.len();
        let listed: u64 = counts.iter().map(|(count, _)| count).sum();
        // Names and ids have no common values.
        if listed * 2 < texts + numbers {
            return of_column(InferError::Categories);
        }
        let all = if more { format!("more than {all}") } else { all.to_string() };
        seen.distinct = counts.into_iter().map(|(count, text)| (text, count)).collect();
        let other = new_name("other", &seen.distinct);
        let rest = texts + numbers - listed;
        self.notes.push(format!(
            "{name}: {all} different texts. The {commonest} commonest are categories. The {rest} records of the others \
             count as the category {other:?}, as every text does that is not listed."
        ));
        Ok(Some(other))
    }

    /// Notes what may be wrong with a column.
    fn note_doubts(&mut self, name: &str, seen: &ColumnStatistics) {
        let ColumnStatistics { numbers, texts, commas, .. } = *seen;
        let doubt = if seen.has_decimal_commas() {
            format!(
                "{commas} of {texts} texts are digits with one comma. If these are decimal commas, \
                 say `--decimal ,`."
            )
        } else if numbers > 0 && texts > 0 {
            format!("{numbers} records are numbers and {texts} are text. All count as text.")
        } else if seen.row_number.is_some() && texts == 0 && numbers > MAX_STEPS as u64 {
            "each value is the one before and 1, as row numbers are. Leave it out.".into()
        } else {
            return;
        };
        self.notes.push(format!("{name}: {doubt}"));
    }

    /// Notes a range of which the values fill only the beginning.
    fn note_tail(&mut self, name: &str, mean: f64, (min, max): (f64, f64)) {
        if min >= 0.0 && mean - min < TAIL * (max - min) {
            let (scale, function) =
                if min > 0.0 { ("\"log\"", "ln v") } else { ("{ yeo_johnson = 0 }", "ln(1 + v)") };
            self.notes.push(format!(
                "{name}: the mean lies in the first twentieth of the range, as of amounts with a long tail. With the line \
                 `scale = {scale}` the model takes {function} in place of the amount v."
            ));
        }
    }

    /// Notes forms of ids that another party's file is unlikely to have.
    fn note_ids(&mut self, id: &str, IdForms { points, exponents }: IdForms) {
        let doubt = match (points, exponents) {
            (0, 0) => return,
            (points, 0) => format!("{points} ids are whole numbers with `.0`"),
            (_, exponents) => format!("{exponents} ids are numbers with an exponent"),
        };
        self.notes.push(format!(
            "{id}: {doubt}, as programs write that take ids for numbers. Ids are compared as text: \
             see that the other parties write them alike."
        ));
    }

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
            self.note_missing(name, seen.missing);
            missing = format!("missing = {value}\n");
        }
        let name = quoted(name);
        self.out.push_str(&format!("[[features]]\nname = {name}\n{kind}{missing}\n"));
        Ok(())
    }

    fn note_missing(&mut self, name: &str, missing: u64) {
        self.notes.push(format!(
            "{name}: {missing} of {} records have no value. They count as `missing` says, near the mean, and the \
             feature `{name} is missing` tells them apart. Without the line `missing` such records are refused.",
            self.records
        ));
    }
}

/// Formats a TOML string.
fn quoted(text: &str) -> String {
    // JSON's escapes are those of a TOML basic string, except for DEL, which no name may contain.
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests;
