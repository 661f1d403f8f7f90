//! Row-by-row reading of a file, and the table made of its rows.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use nalgebra::DMatrix;

use super::cell::{Cell, ColumnRole};
use super::csv_error::{FilePosition, TableError, TableProblem};
use super::csv_lines::Limits;
use crate::data::schema::FeatureSchema;
use crate::data::table::FeatureTable;
use crate::types::{FeatureBlock, IdError, RecordIdsBuilder};

/// A callback that takes a value and the position of its column in [`RawRows::names`].
pub type TakeCell<'a> = dyn FnMut(usize, Cell<'_>) -> Result<(), TableProblem> + 'a;

/// A source of rows with named columns, such as a file.
pub trait RawRows {
    /// Returns the path of the file, for errors.
    fn file(&self) -> &Path;

    /// Returns the names of the columns, in the order of the values.
    fn names(&self) -> &[String];

    /// Returns the place of the names, if they are on a line.
    fn names_at(&self) -> Option<FilePosition> {
        None
    }

    /// Passes the values of the next row to `take` in the order of the columns, and returns the
    /// row's place; `None` at the end.
    ///
    /// # Errors
    /// [`TableError`] with the place, if the file is malformed or `take` fails.
    fn next_row(&mut self, take: &mut TakeCell<'_>) -> Result<Option<FilePosition>, TableError>;
}

/// Creates an error about a file.
pub(super) fn error(
    file: &Path,
    place: Option<FilePosition>,
    column: Option<&str>,
    problem: TableProblem,
) -> TableError {
    TableError { file: PathBuf::from(file), place, column: column.map(str::to_owned), problem }
}

/// Assigns a role to each column. Every declared column must be there once. A column that the
/// schema does not declare gets `None`; the caller refuses it or leaves it out.
///
/// # Errors
/// The name of the column and the problem with it.
pub fn match_columns(
    schema: &FeatureSchema,
    names: &[String],
) -> Result<Vec<Option<ColumnRole>>, (String, TableProblem)> {
    let wanted = schema.source_columns();
    let declared: HashMap<&str, ColumnRole> =
        wanted.iter().map(|c| (c.name.as_str(), c.target)).collect();
    let mut seen = HashSet::new();
    let mut targets = Vec::with_capacity(names.len());
    for name in names {
        match declared.get(name.as_str()) {
            Some(_) if !seen.insert(name.as_str()) => {
                return Err((name.clone(), TableProblem::RepeatedColumn));
            }
            found => targets.push(found.copied()),
        }
    }
    // In the schema's order, so that the same column is named every time.
    match wanted.iter().find(|column| !seen.contains(column.name.as_str())) {
        Some(missing) => Err((missing.name.clone(), TableProblem::MissingColumn)),
        None => Ok(targets),
    }
}

impl FeatureTable {
    /// Reads the rows of a file. Columns that the schema does not declare are left out.
    ///
    /// # Errors
    /// [`TableError`] names the file and, if known, the place and the column; never a value.
    pub fn from_rows(
        schema: FeatureSchema,
        rows: &mut dyn RawRows,
        limits: &Limits,
    ) -> Result<Self, TableError> {
        let file = rows.file().to_owned();
        let fail = |place: Option<FilePosition>, column: Option<&str>, problem| {
            error(&file, place, column, problem)
        };
        let targets = match_columns(&schema, rows.names())
            .map_err(|(column, problem)| fail(rows.names_at(), Some(&column), problem))?;
        let d = schema.len();
        let (mut ids, mut places) = (RecordIdsBuilder::default(), Vec::new());
        let (mut values, mut labels): (Vec<f64>, Vec<u32>) = (Vec::new(), Vec::new());
        loop {
            let base = values.len();
            // A row too many is refused before its values are read.
            let full = places.len() == limits.records;
            let row = rows.next_row(&mut |at, cell| {
                if full {
                    return Ok(());
                }
                match targets[at] {
                    None => {}
                    Some(ColumnRole::Id) => ids.push(&cell.text()?),
                    Some(ColumnRole::Label) => labels.push(schema.read_label(cell)?),
                    Some(ColumnRole::Column(column)) => {
                        if values.len() == base {
                            values.resize(base + d, 0.0);
                        }
                        schema.read_feature(column, cell, &mut values[base..])?;
                    }
                }
                Ok(())
            })?;
            let Some(place) = row else { break };
            if full {
                let problem = TableProblem::TooLarge {
                    what: "the number of records",
                    limit: limits.records as u64,
                };
                return Err(fail(Some(place), None, problem));
            }
            places.push(place);
        }
        if places.is_empty() {
            return Err(fail(None, None, TableProblem::NoRecord));
        }
        let ids = ids.finish().map_err(|e| {
            let (position, problem) = match e {
                IdError::Duplicate { position } => (Some(position), TableProblem::RepeatedId),
                IdError::Empty { position }
                | IdError::TooLong { position, .. }
                | IdError::Control { position } => (Some(position), TableProblem::Id(e)),
                IdError::Malformed { .. } => (None, TableProblem::Id(e)),
            };
            let place = position.and_then(|p| places.get(p)).copied();
            fail(place, Some(schema.id_column()), problem)
        })?;
        let labels = schema.label().map(|_| labels);
        let table = FeatureBlock::new(DMatrix::from_vec(d, ids.len(), values))
            .map_err(|_| TableProblem::NotFinite)
            .and_then(|block| {
                FeatureTable::new(schema, ids, block, labels).map_err(TableProblem::from)
            });
        table.map_err(|problem| fail(None, None, problem))
    }
}
