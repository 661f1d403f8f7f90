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
        "column {0:?} has more than {1} different texts: leave it out, or give a larger `--max-categories`"
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vfl_core::data::table::{FeatureStore, FeatureTable};

    #[test]
    fn a_guess_reads_its_own_file() {
        let dir = tempfile::tempdir().unwrap();
        let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
        std::fs::write(
            &csv,
            "customer,income,phone,degree,job,outcome\nc1,1.5,0,3,clerk,no\nc2,-2.25,1,1,\"a \"\"b\"\"\",yes\nc3,7,1,2,,no\n",
        )
        .unwrap();
        let asked = Inference { label: Some("outcome".into()), ..Default::default() };
        let text = infer(&csv, &asked).unwrap();
        assert!(text.contains("disclose the extremes"), "{text}");
        std::fs::write(&schema, &text).unwrap();
        let table = FeatureTable::from_csv(&schema, &csv).unwrap();
        let read = FeatureSchema::from_toml(&text).unwrap();
        let kinds: Vec<_> =
            read.features().iter().map(|f| (f.name.as_str(), f.kind, f.min, f.max)).collect();
        use FeatureKind::{Binary, Numeric, Ordinal};
        let jobs = ["job=a \"b\"", "job=clerk", "job=missing"].map(|name| (name, Binary, 0.0, 1.0));
        assert_eq!(
            kinds[..3],
            [
                ("income", Numeric, -2.25, 7.0),
                ("phone", Binary, 0.0, 1.0),
                ("degree", Ordinal, 1.0, 3.0)
            ]
        );
        assert_eq!(kinds[3..], jobs);
        assert_eq!(table.labels(), Some(&[0, 1, 0][..]));
        assert_eq!(read.label().unwrap().classes, ["no", "yes"]);
        let steps: Vec<_> = read.features()[..3].iter().map(|f| f.step).collect();
        assert_eq!(steps, [Some(0.01), None, Some(1.0)]);
        for (asked, says) in [
            (Inference { id: Some("x".into()), ..Default::default() }, "no column \"x\""),
            (
                Inference {
                    id: Some("phone".into()),
                    max_categories: Some(2),
                    ..Default::default()
                },
                "\"customer\" has more",
            ),
        ] {
            assert!(infer(&csv, &asked).unwrap_err().to_string().contains(says));
        }
    }

    /// Whatever numbers a file holds, its guessed schema reads it: a step that round-off would lose
    /// is not proposed.
    #[test]
    fn a_guess_reads_its_own_file_whatever_the_size_of_its_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
        for (first, step, steps, decimals, proposed) in [
            (-122.6, 1e-6, 997, 6, Some(1e-6)),
            (1_000_000.01, 0.01, 9973, 2, Some(0.01)),
            (4_500_000.12, 0.01, 99_991, 2, Some(0.01)),
            (1_700_000_000.0, 0.001, 3_599_999, 3, Some(0.001)),
            (1e15, 0.01, 9973, 2, None),
        ] {
            let mut text = "id,f\n".to_owned();
            for i in 0..1500 {
                let value = first + step * (f64::from(i) * f64::from(steps) / 1499.0).round();
                text.push_str(&format!("r{i},{value:.decimals$}\n"));
            }
            std::fs::write(&csv, text).unwrap();
            let guess = infer(&csv, &Inference::default()).unwrap();
            std::fs::write(&schema, &guess).unwrap();
            let table = FeatureTable::from_csv(&schema, &csv)
                .unwrap_or_else(|e| panic!("{first}: {e}\n{guess}"));
            let [feature] = table.schema().features() else { panic!("one feature") };
            assert_eq!(feature.step, proposed, "{first}");
        }
    }

    #[test]
    fn a_file_without_columns_is_no_table() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, says) in [
            ("customer;x;name\nc1;1;Person 1\n", "semicolons"),
            ("customer\tx\nc1\t1\n", "tabs"),
            ("customer|x\nc1|1\n", "bars"),
            ("customer\nc1\n", "no column beside"),
        ] {
            std::fs::write(file.path(), text).unwrap();
            let error = infer(file.path(), &Inference::default()).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("Person"), "{error}");
        }
    }

    /// Dates and truth values are recognised, and a guess of some columns is of those alone.
    #[test]
    fn dates_and_truth_values_are_recognised() {
        let dir = tempfile::tempdir().unwrap();
        let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
        let rows = "id,opened,staff,branch,same\n\
                    a,2020-01-01,True,Paris,1\nb,2024-01-01,False,Y,1\nc,,no,N,1\n";
        std::fs::write(&csv, rows).unwrap();
        let text = infer(&csv, &Inference::default()).unwrap();
        assert!(
            text.contains("# opened: 1 of 3 records have no value. They count as \"2021-12-31\"")
        );
        assert!(text.contains("# same: all records have the same value. Leave it out."), "{text}");
        std::fs::write(&schema, &text).unwrap();
        let table = FeatureTable::from_csv(&schema, &csv).unwrap();
        let names: Vec<_> = table.schema().features().iter().map(|f| f.name.as_str()).collect();
        let numbers = ["opened", "opened is missing", "staff"];
        let words = ["branch=N", "branch=Paris", "branch=Y", "same"];
        assert_eq!(names, [&numbers[..], &words].concat());
        let of = |record| table.block().matrix().column(record).iter().copied().collect::<Vec<_>>();
        assert_eq!(of(1), [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
        assert_eq!(of(2)[1..3], [1.0, 0.0]);
        let features = Some(vec!["staff".to_owned()]);
        let text = infer(&csv, &Inference { features, ..Default::default() }).unwrap();
        assert_eq!(FeatureSchema::from_toml(&text).unwrap().len(), 1);
        let features = Some(vec!["stuff".to_owned()]);
        let error = infer(&csv, &Inference { features, ..Default::default() }).unwrap_err();
        assert!(error.to_string().contains("no column \"stuff\""), "{error}");
    }

    /// A guess has a rule for the values that are missing, and reads its own file.
    #[test]
    fn missing_values_get_a_rule() {
        let dir = tempfile::tempdir().unwrap();
        let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
        let rows = "id,f,flag,word\na,1.5,0,missing\nb,,1,x\nc,2.5,,\nd,3.5,0,x\n";
        std::fs::write(&csv, rows).unwrap();
        let text = infer(&csv, &Inference::default()).unwrap();
        assert!(text.contains("# f: 1 of 4 records have no value. They count as 2.5"), "{text}");
        assert!(text.contains("step = 0.1\nmissing = 2.5\n"), "{text}");
        std::fs::write(&schema, &text).unwrap();
        let table = FeatureTable::from_csv(&schema, &csv).unwrap();
        let names: Vec<_> = table.schema().features().iter().map(|f| f.name.as_str()).collect();
        let words = ["word=missing", "word=x", "word=missing_"];
        let numbers = ["f", "f is missing", "flag", "flag is missing"];
        assert_eq!(names, [&numbers[..], &words].concat());
        let of = |record| table.block().matrix().column(record).iter().copied().collect::<Vec<_>>();
        assert_eq!(of(1), [0.5, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
        assert_eq!(of(2), [0.5, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    }
}
