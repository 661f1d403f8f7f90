//! Reading and writing of a party's CSV file, checked against its schema.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::cell::Cell;
use super::csv_dialect::{CsvDialect, DecimalMark};
use super::csv_error::{FilePosition, TableError, TableProblem};
use super::csv_lines::{Fields, Limits, Lines};
use super::rows::{RawRows, TakeCell, error};
use crate::data::schema::{FeatureSchema, MAX_FEATURES};
use crate::data::table::{FeatureStore, FeatureTable};

/// The longest schema file, in bytes.
const MAX_SCHEMA_BYTES: u64 = 16 << 20;

impl FeatureTable {
    /// Reads a schema file and the CSV file it describes, with the default [`CsvDialect`] and
    /// [`Limits`].
    ///
    /// # Errors
    /// [`TableError`] names the file and, if known, the line and the column; never a value.
    pub fn from_csv(schema_path: &Path, csv_path: &Path) -> Result<Self, TableError> {
        Self::from_csv_with(schema_path, csv_path, CsvDialect::default(), &Limits::default())
    }

    /// Does the same as [`FeatureTable::from_csv`], with another dialect and other limits.
    ///
    /// # Errors
    /// As [`FeatureTable::from_csv`].
    pub fn from_csv_with(
        schema_path: &Path,
        csv_path: &Path,
        dialect: CsvDialect,
        limits: &Limits,
    ) -> Result<Self, TableError> {
        let schema = read_schema(schema_path)?;
        read(schema, csv_path, open(csv_path)?, dialect, limits)
    }

    /// Reads CSV from any source; `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`FeatureTable::from_csv`].
    pub fn from_reader(
        schema: FeatureSchema,
        name: &Path,
        reader: impl std::io::Read,
        limits: &Limits,
    ) -> Result<Self, TableError> {
        read(schema, name, reader, CsvDialect::default(), limits)
    }

    /// Writes the normalised values as CSV, in the shortest form that reads back as the same
    /// doubles. Read it with the schema [`FeatureTable::normalised_schema`].
    ///
    /// # Errors
    /// The errors of the writer.
    pub fn write_csv(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        write(self, out)
    }
}

/// Reads a schema file.
///
/// # Errors
/// [`TableError`] naming the file.
pub fn read_schema(path: &Path) -> Result<FeatureSchema, TableError> {
    let fail = |problem| error(path, None, None, problem);
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_SCHEMA_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|e| fail(TableProblem::Io(e)))?;
    if bytes.len() as u64 > MAX_SCHEMA_BYTES {
        return Err(fail(TableProblem::TooLarge {
            what: "the file's size in bytes",
            limit: MAX_SCHEMA_BYTES,
        }));
    }
    let text = String::from_utf8(bytes).map_err(|_| fail(TableProblem::NotUtf8))?;
    FeatureSchema::from_toml(&text).map_err(|e| fail(e.into()))
}

fn open(path: &Path) -> Result<File, TableError> {
    File::open(path).map_err(|e| error(path, None, None, TableProblem::Io(e)))
}

/// The lines of a CSV file as rows of text.
pub struct CsvRows<R> {
    file: PathBuf,
    lines: Lines<R>,
    fields: Fields,
    names: Vec<String>,
    header: FilePosition,
    field_bytes: usize,
    decimal: DecimalMark,
}

impl CsvRows<File> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`TableError`] for a file that cannot be read, is empty, or has no proper header.
    pub fn open(path: &Path, dialect: CsvDialect, limits: &Limits) -> Result<Self, TableError> {
        Self::new(path, open(path)?, dialect, limits)
    }
}

impl<R: Read> CsvRows<R> {
    /// Reads the header; `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`CsvRows::open`].
    pub fn new(
        name: &Path,
        source: R,
        dialect: CsvDialect,
        limits: &Limits,
    ) -> Result<Self, TableError> {
        let mut lines = Lines::new(source, dialect.separator, limits);
        let mut fields = Fields::default();
        let line = |line: Option<u64>| line.map(FilePosition::Line);
        let header = match lines.next_record(&mut fields) {
            Ok(Some(line)) => FilePosition::Line(line),
            Ok(None) => return Err(error(name, None, None, TableProblem::Empty)),
            Err((at, problem)) => return Err(error(name, line(at), None, problem)),
        };
        let fail = |problem| Err(error(name, Some(header), None, problem));
        if fields.len() > MAX_FEATURES + 2 {
            return fail(TableProblem::TooLarge {
                what: "the number of columns",
                limit: MAX_FEATURES as u64 + 2,
            });
        }
        let mut names = Vec::with_capacity(fields.len());
        for field in fields.iter() {
            match std::str::from_utf8(field) {
                Ok(text) if text.len() <= limits.field_bytes => names.push(text.trim().to_owned()),
                Ok(_) => return fail(field_too_long(limits.field_bytes)),
                Err(_) => return fail(TableProblem::NotUtf8),
            }
        }
        if let Some(at) = names.iter().position(String::is_empty) {
            return fail(TableProblem::Unnamed(at + 1));
        }
        Ok(Self {
            file: name.to_owned(),
            lines,
            fields,
            names,
            header,
            field_bytes: limits.field_bytes,
            decimal: dialect.decimal,
        })
    }
}

impl<R: Read> RawRows for CsvRows<R> {
    fn file(&self) -> &Path {
        &self.file
    }

    fn names(&self) -> &[String] {
        &self.names
    }

    fn names_at(&self) -> Option<FilePosition> {
        Some(self.header)
    }

    fn next_row(&mut self, take: &mut TakeCell<'_>) -> Result<Option<FilePosition>, TableError> {
        let line = match self.lines.next_record(&mut self.fields) {
            Ok(Some(line)) => FilePosition::Line(line),
            Ok(None) => return Ok(None),
            Err((at, problem)) => {
                return Err(error(&self.file, at.map(FilePosition::Line), None, problem));
            }
        };
        if self.fields.len() != self.names.len() {
            let problem =
                TableProblem::FieldCount { expected: self.names.len(), got: self.fields.len() };
            return Err(error(&self.file, Some(line), None, problem));
        }
        // Files that were put together, each perhaps with a byte order mark.
        let name_in = |field| -> &[u8] {
            <[u8]>::strip_prefix(field, "\u{feff}".as_bytes()).unwrap_or(field).trim_ascii()
        };
        let mut beside = self.fields.iter().zip(&self.names);
        if self.names.len() > 1 && beside.all(|(field, name)| name_in(field) == name.as_bytes()) {
            return Err(error(&self.file, Some(line), None, TableProblem::RepeatedHeader));
        }
        for (at, field) in self.fields.iter().enumerate() {
            let taken = if field.len() > self.field_bytes {
                Err(field_too_long(self.field_bytes))
            } else {
                let text = std::str::from_utf8(field).map_err(|_| TableProblem::NotUtf8);
                text.and_then(|text| {
                    take(
                        at,
                        match self.decimal {
                            DecimalMark::Point => Cell::Text(text),
                            DecimalMark::Comma => Cell::CommaText(text),
                        },
                    )
                })
            };
            taken
                .map_err(|problem| error(&self.file, Some(line), Some(&self.names[at]), problem))?;
        }
        Ok(Some(line))
    }
}

/// Reads a table from a file and refuses columns that the schema does not declare: a file with more
/// columns is more likely the wrong file than a generous one.
fn read(
    schema: FeatureSchema,
    name: &Path,
    source: impl Read,
    dialect: CsvDialect,
    limits: &Limits,
) -> Result<FeatureTable, TableError> {
    let mut rows = CsvRows::new(name, source, dialect, limits)?;
    check_columns(&schema, &rows)?;
    FeatureTable::from_rows(schema, &mut rows, limits)
}

/// Refuses a file with a column that the schema does not declare.
///
/// # Errors
/// [`TableError`] naming the column.
pub fn check_columns(schema: &FeatureSchema, rows: &dyn RawRows) -> Result<(), TableError> {
    let fail = |column: &str, problem| error(rows.file(), rows.names_at(), Some(column), problem);
    let wanted = schema.source_columns();
    let undeclared = |name: &&String| {
        !wanted.iter().any(|column| column.name == **name)
            && schema.number_label() != Some(name.as_str())
    };
    match rows.names().iter().find(undeclared) {
        Some(name) => Err(fail(name, TableProblem::UndeclaredColumn)),
        None => Ok(()),
    }
}

fn field_too_long(limit: usize) -> TableProblem {
    TableProblem::TooLarge { what: "the length of a field in bytes", limit: limit as u64 }
}

/// Writes a table as a file with one column per feature, each with the range 0 to 1.
fn write(table: &FeatureTable, out: &mut dyn Write) -> std::io::Result<()> {
    let schema = table.schema();
    // If the file has no other column, an id of blanks alone would be a blank line without quotes.
    let alone = schema.is_empty() && schema.label().is_none();
    let style = if alone { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary };
    let mut csv = csv::WriterBuilder::new().quote_style(style).from_writer(out);
    let names = schema.features().iter().map(|f| f.name.as_str());
    let label = schema.label();
    csv.write_record(
        std::iter::once(schema.id_column()).chain(names).chain(label.map(|l| l.column.as_str())),
    )?;
    let mut row = csv::StringRecord::new();
    for (position, (id, values)) in
        table.ids().iter().zip(table.block().matrix().column_iter()).enumerate()
    {
        row.clear();
        row.push_field(id);
        values.iter().for_each(|&v| row.push_field(&decimal(v)));
        if let (Some(spec), Some(labels)) = (label, table.labels()) {
            row.push_field(&spec.classes[labels[position] as usize]);
        }
        csv.write_record(&row)?;
    }
    csv.flush()
}

/// Returns the shortest decimal that reads back as the same double, with an exponent if the plain
/// form is long.
fn decimal(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-5 { format!("{value:e}") } else { value.to_string() }
}
