//! Loaders of the public data sets in their original formats, plain or compressed by gzip, from a
//! directory or from the files included in the project.

use std::io::Read;
use std::path::{Path, PathBuf};

use vfl_core::data::schema::FeatureKind;

use super::dataset::DataError;
use super::encode::{RawColumn, RawValues};
use super::names::DatasetName;
use super::raw_dataset::{RawDataset, read_content};
use super::sources::{Column, ColumnKind, Delimiter, Description, Header};
use super::split::Part;
use super::variant::Variant;
use super::{images, included_sets};

/// Reads the files of a public set in one of its variants, from a directory or else from the
/// included files.
pub(super) fn read(
    name: DatasetName,
    directory: Option<&Path>,
    variant: Variant,
) -> Result<RawDataset, DataError> {
    if let Some(shape) = name.image() {
        return images::read(name, shape, directory);
    }
    let set = name.description();
    if set.files.is_empty() {
        return Err(DataError::NoFiles { dataset: name });
    }
    let mut columns: Vec<(Column, ColumnValues)> =
        set.columns(variant).map(|column| (column, ColumnValues::new(column.kind))).collect();
    let mut labels = Vec::new();
    let mut parts = Vec::new();
    for (file, text, part) in open(name, set, directory)? {
        let before = labels.len();
        parse(name, set, &file, &text, &mut columns, &mut labels)?;
        if labels.len() == before {
            return Err(DataError::Malformed {
                dataset: name,
                file,
                line: 1,
                reason: "the file has no record".into(),
            });
        }
        parts.resize(labels.len(), part.unwrap_or(Part::Train));
    }
    Ok(RawDataset {
        columns: columns.into_iter().filter_map(|(column, values)| values.finish(column)).collect(),
        labels,
        class_names: set.classes.clone(),
        parts: parts.contains(&Part::Test).then_some(parts),
    })
}

type OpenFile = (PathBuf, String, Option<Part>);

/// Returns the texts of the first list of files that is complete. Otherwise the error names a
/// missing file, preferably of a list that is partly there. An included set is read from the
/// program if the directory has no folder for it.
fn open(
    name: DatasetName,
    set: &Description,
    directory: Option<&Path>,
) -> Result<Vec<OpenFile>, DataError> {
    let directory =
        directory.filter(|directory| !name.is_included() || directory.join(name.as_str()).exists());
    let mut missing = None;
    for files in &set.files {
        let mut texts = Vec::new();
        for file in files {
            let relative = format!("{name}/{}", file.name);
            let found = match directory {
                Some(directory) => read_text(name, directory, &relative)?,
                None => read_included(name, &relative)?,
            };
            match found {
                Some((path, text)) => texts.push((path, text, file.part)),
                None => {
                    // An alternative that is partly there is the one that was meant.
                    if missing.is_none() || !texts.is_empty() {
                        missing = Some(relative);
                    }
                    break;
                }
            }
        }
        if texts.len() == files.len() {
            return Ok(texts);
        }
    }
    let file = missing.unwrap_or_default();
    match directory {
        Some(directory) => {
            Err(DataError::MissingFile { dataset: name, file, directory: directory.to_owned() })
        }
        None => Err(DataError::NoDirectory { dataset: name }),
    }
}

/// Reads the text of `file` or `file.gz`, or `None` if neither is there.
fn read_text(
    dataset: DatasetName,
    directory: &Path,
    file: &str,
) -> Result<Option<(PathBuf, String)>, DataError> {
    let Some((path, content)) = read_content(dataset, directory, file)? else { return Ok(None) };
    match String::from_utf8(content) {
        Ok(text) => Ok(Some((path, text))),
        Err(e) => Err(DataError::Read {
            dataset,
            file: path,
            error: std::io::Error::other(e.utf8_error()),
        }),
    }
}

/// Reads the text of an included file, or `None` if it is not one.
fn read_included(dataset: DatasetName, file: &str) -> Result<Option<(PathBuf, String)>, DataError> {
    let Some(content) = included_sets::file(file) else { return Ok(None) };
    let (path, mut text) = (PathBuf::from(file), String::new());
    match flate2::read::MultiGzDecoder::new(content).read_to_string(&mut text) {
        Ok(_) => Ok(Some((path, text))),
        Err(error) => Err(DataError::Read { dataset, file: path, error }),
    }
}

/// The values of one column during reading.
enum ColumnValues {
    Numbers(FeatureKind, Vec<f64>),
    Text(Vec<String>, std::collections::HashMap<String, u32>, Vec<u32>),
    Dropped,
}

impl ColumnValues {
    fn new(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Numeric => Self::Numbers(FeatureKind::Numeric, Vec::new()),
            ColumnKind::Ordinal => Self::Numbers(FeatureKind::Ordinal, Vec::new()),
            ColumnKind::Binary => Self::Numbers(FeatureKind::Binary, Vec::new()),
            ColumnKind::Category => Self::Text(Vec::new(), Default::default(), Vec::new()),
            ColumnKind::Drop => Self::Dropped,
        }
    }

    fn push(&mut self, cell: &str) -> Result<(), &'static str> {
        match self {
            Self::Numbers(_, values) => match cell.parse::<f64>() {
                Ok(value) if value.is_finite() => values.push(value),
                _ => return Err("is not a finite number"),
            },
            Self::Text(names, places, codes) => {
                let code = places.get(cell).copied().unwrap_or_else(|| {
                    let code = names.len() as u32;
                    names.push(cell.to_owned());
                    places.insert(cell.to_owned(), code);
                    code
                });
                codes.push(code);
            }
            Self::Dropped => {}
        }
        Ok(())
    }

    /// Puts categories in their fixed order: those with a natural order first in that order, the
    /// others by number if all are numbers, else by name.
    fn finish(self, column: Column) -> Option<RawColumn> {
        let values = match self {
            Self::Numbers(kind, values) => RawValues::Numbers(kind, values),
            Self::Text(names, _, codes) => {
                let numbers: Option<Vec<f64>> = names.iter().map(|n| n.parse().ok()).collect();
                let mut order: Vec<usize> = (0..names.len()).collect();
                order.sort_by(|&a, &b| {
                    let rank = |i: usize| {
                        column
                            .order
                            .iter()
                            .position(|n| *n == names[i])
                            .unwrap_or(column.order.len())
                    };
                    let by_number = numbers
                        .as_ref()
                        .map_or(std::cmp::Ordering::Equal, |n| n[a].total_cmp(&n[b]));
                    rank(a).cmp(&rank(b)).then(by_number).then_with(|| names[a].cmp(&names[b]))
                });
                let mut place = vec![0u32; names.len()];
                order.iter().enumerate().for_each(|(rank, &i)| place[i] = rank as u32);
                let sorted = order.iter().map(|&i| names[i].clone()).collect();
                RawValues::Categories(sorted, codes.iter().map(|&c| place[c as usize]).collect())
            }
            Self::Dropped => return None,
        };
        Some(RawColumn { name: column.name.to_owned(), values })
    }
}

fn parse(
    dataset: DatasetName,
    set: &Description,
    file: &Path,
    text: &str,
    columns: &mut [(Column, ColumnValues)],
    labels: &mut Vec<u32>,
) -> Result<(), DataError> {
    let fail = |line: usize, reason: String| DataError::Malformed {
        dataset,
        file: file.to_owned(),
        line,
        reason,
    };
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    let width = columns.len() + 1;
    if set.header == Header::Named {
        let names = lines
            .next()
            .map(|(_, line)| cells(line, set.delimiter).collect::<Vec<_>>())
            .unwrap_or_default();
        let expected = columns.iter().map(|(column, _)| column.name).chain([set.label.as_str()]);
        if !names.iter().copied().eq(expected) {
            return Err(fail(1, "the header does not have the columns of this data set".into()));
        }
    }
    for (number, line) in lines {
        let skipped = set.header == Header::Comment && number == 1 && line.starts_with('|');
        if skipped || line.trim().is_empty() {
            continue;
        }
        let row: Vec<&str> = cells(line, set.delimiter).collect();
        let Some((&label, values)) = row.split_last().filter(|_| row.len() == width) else {
            return Err(fail(number, format!("{} fields, expected {width}", row.len())));
        };
        for (cell, (column, values)) in values.iter().zip(&mut *columns) {
            values.push(cell).map_err(|e| fail(number, format!("column {} {e}", column.name)))?;
        }
        labels.push(
            set.class(label.trim_end_matches('.'))
                .ok_or_else(|| fail(number, "the last column is none of the classes".into()))?
                as u32,
        );
    }
    Ok(())
}

/// Splits a line into cells, without blanks or quotes around them. None of the sets has a delimiter
/// inside quotes.
fn cells(line: &str, delimiter: Delimiter) -> Box<dyn Iterator<Item = &str> + '_> {
    let split = |c: char| Box::new(line.split(c).map(|cell| cell.trim().trim_matches('"')));
    match delimiter {
        Delimiter::Comma => split(','),
        Delimiter::Semicolon => split(';'),
        Delimiter::Blank => Box::new(line.split_ascii_whitespace()),
        Delimiter::CommaOrBlank => Box::new(
            line.split(|c: char| c == ',' || c.is_ascii_whitespace())
                .filter(|cell| !cell.is_empty()),
        ),
    }
}
