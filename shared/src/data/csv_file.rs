//! Reading a party's CSV file against its schema, refusal by refusal.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use nalgebra::DMatrix;

use super::csv_error::{TableError, TableProblem};
use super::csv_lines::{Fields, Limits, Lines};
use super::schema::{Content, FeatureKind, FeatureSchema, FileColumn, MAX_FEATURES};
use super::table::{FeatureStore, FeatureTable};
use crate::types::{FeatureBlock, IdError, RecordIdsBuilder};

/// The longest schema file, in bytes.
const MAX_SCHEMA_BYTES: u64 = 16 << 20;

impl FeatureTable {
    /// Reads a schema file and the CSV file it describes, with the default [`Limits`].
    ///
    /// # Errors
    /// [`TableError`] names the file, and where it can the line and the column; never a value.
    pub fn from_csv(schema_path: &Path, csv_path: &Path) -> Result<Self, TableError> {
        Self::from_csv_with(schema_path, csv_path, &Limits::default())
    }

    /// As [`FeatureTable::from_csv`], with other limits.
    ///
    /// # Errors
    /// As [`FeatureTable::from_csv`].
    pub fn from_csv_with(schema_path: &Path, csv_path: &Path, limits: &Limits) -> Result<Self, TableError> {
        let schema = read_schema(schema_path)?;
        read_table(schema, csv_path, limits)
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
        read(schema, name, reader, limits)
    }

    /// Writes the normalised values as CSV, in the shortest form that reads back as the same doubles. Read it with the
    /// schema [`FeatureTable::normalised_schema`].
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_csv(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        write(self, out)
    }
}

fn read_schema(path: &Path) -> Result<FeatureSchema, TableError> {
    let fail = |problem| TableError { file: path.to_owned(), line: None, column: None, problem };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_SCHEMA_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|e| fail(TableProblem::Io(e)))?;
    if bytes.len() as u64 > MAX_SCHEMA_BYTES {
        return Err(fail(TableProblem::TooLarge { what: "the file's size in bytes", limit: MAX_SCHEMA_BYTES }));
    }
    let text = String::from_utf8(bytes).map_err(|_| fail(TableProblem::NotUtf8))?;
    FeatureSchema::from_toml(&text).map_err(|e| fail(e.into()))
}

fn read_table(schema: FeatureSchema, path: &Path, limits: &Limits) -> Result<FeatureTable, TableError> {
    let file = File::open(path).map_err(|e| TableError {
        file: path.to_owned(),
        line: None,
        column: None,
        problem: TableProblem::Io(e),
    })?;
    read(schema, path, file, limits)
}

/// What a column of the file holds.
#[derive(Clone, Copy)]
enum Target<'a> {
    Id,
    Label(&'a [String]),
    Feature(&'a FileColumn),
}

fn read(schema: FeatureSchema, name: &Path, source: impl Read, limits: &Limits) -> Result<FeatureTable, TableError> {
    let fail = |line: Option<u64>, column: Option<&str>, problem: TableProblem| {
        Err(TableError { file: name.to_owned(), line, column: column.map(str::to_owned), problem })
    };
    let mut lines = Lines::new(source, limits);
    let mut fields = Fields::default();
    let header_line = match lines.next_record(&mut fields) {
        Ok(Some(line)) => line,
        Ok(None) => return fail(None, None, TableProblem::Empty),
        Err((line, problem)) => return fail(line, None, problem),
    };
    if fields.len() > MAX_FEATURES + 2 {
        let problem = TableProblem::TooLarge { what: "the number of columns", limit: MAX_FEATURES as u64 + 2 };
        return fail(Some(header_line), None, problem);
    }
    let mut header = Vec::with_capacity(fields.len());
    for field in fields.iter() {
        match std::str::from_utf8(field) {
            Ok(text) if text.len() <= limits.field_bytes => header.push(text.trim().to_owned()),
            Ok(_) => return fail(Some(header_line), None, field_too_long(limits)),
            Err(_) => return fail(Some(header_line), None, TableProblem::NotUtf8),
        }
    }
    let targets = match match_columns(&schema, &header) {
        Ok(targets) => targets,
        Err((column, problem)) => return fail(Some(header_line), Some(&column), problem),
    };

    let d = schema.len();
    let mut ids = RecordIdsBuilder::default();
    let mut line_of_record = Vec::new();
    let mut values: Vec<f64> = Vec::new();
    let mut labels = Vec::new();
    loop {
        let line = match lines.next_record(&mut fields) {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err((line, problem)) => return fail(line, None, problem),
        };
        if fields.len() != header.len() {
            let problem = TableProblem::FieldCount { expected: header.len(), got: fields.len() };
            return fail(Some(line), None, problem);
        }
        if line_of_record.len() == limits.records {
            let problem = TableProblem::TooLarge { what: "the number of records", limit: limits.records as u64 };
            return fail(Some(line), None, problem);
        }
        let base = values.len();
        values.resize(base + d, 0.0);
        for ((field, target), column) in fields.iter().zip(&targets).zip(&header) {
            let read = read_field(field, *target, &schema, limits, &mut ids, &mut values[base..], &mut labels);
            if let Err(problem) = read {
                return fail(Some(line), Some(column), problem);
            }
        }
        line_of_record.push(line);
    }
    if line_of_record.is_empty() {
        return fail(None, None, TableProblem::NoRecord);
    }

    let ids = match ids.finish() {
        Ok(ids) => ids,
        Err(e) => {
            let (position, problem) = match e {
                IdError::Duplicate { position } => (Some(position), TableProblem::RepeatedId),
                IdError::Empty { position } | IdError::TooLong { position, .. } | IdError::Control { position } => {
                    (Some(position), TableProblem::Id(e))
                }
                IdError::Malformed { .. } => (None, TableProblem::Id(e)),
            };
            let line = position.and_then(|p| line_of_record.get(p)).copied();
            return fail(line, Some(schema.id_column()), problem);
        }
    };
    let labels = schema.label().map(|_| labels);
    let table = FeatureBlock::new(DMatrix::from_vec(d, ids.len(), values))
        .map_err(|_| TableProblem::NotFinite)
        .and_then(|block| FeatureTable::new(schema, ids, block, labels).map_err(TableProblem::from));
    table.or_else(|problem| fail(None, None, problem))
}

fn field_too_long(limits: &Limits) -> TableProblem {
    TableProblem::TooLarge { what: "the length of a field in bytes", limit: limits.field_bytes as u64 }
}

/// What each column of the header is for; every declared column must be there once, and no other.
fn match_columns<'a>(schema: &'a FeatureSchema, header: &[String]) -> Result<Vec<Target<'a>>, (String, TableProblem)> {
    let mut declared: std::collections::HashMap<&str, Target<'a>> =
        schema.columns().iter().map(|c| (c.name.as_str(), Target::Feature(c))).collect();
    declared.insert(schema.id_column(), Target::Id);
    if let Some(label) = schema.label() {
        declared.insert(&label.column, Target::Label(&label.classes));
    }
    let mut seen = std::collections::HashSet::new();
    let mut targets = Vec::with_capacity(header.len());
    for name in header {
        match declared.get(name.as_str()) {
            Some(_) if !seen.insert(name.as_str()) => return Err((name.clone(), TableProblem::RepeatedColumn)),
            Some(&target) => targets.push(target),
            None => return Err((name.clone(), TableProblem::UndeclaredColumn)),
        }
    }
    // In the schema's order, so that the same column is named every time.
    let names = std::iter::once(schema.id_column())
        .chain(schema.label().map(|l| l.column.as_str()))
        .chain(schema.columns().iter().map(|c| c.name.as_str()));
    match names.into_iter().find(|name| !seen.contains(name)) {
        Some(missing) => Err((missing.to_owned(), TableProblem::MissingColumn)),
        None => Ok(targets),
    }
}

fn read_field(
    field: &[u8],
    target: Target<'_>,
    schema: &FeatureSchema,
    limits: &Limits,
    ids: &mut RecordIdsBuilder,
    values: &mut [f64],
    labels: &mut Vec<u32>,
) -> Result<(), TableProblem> {
    if field.len() > limits.field_bytes {
        return Err(field_too_long(limits));
    }
    let text = std::str::from_utf8(field).map_err(|_| TableProblem::NotUtf8)?;
    match target {
        Target::Id => ids.push(text),
        Target::Label(classes) => {
            let label = classes.iter().position(|class| class == text.trim());
            labels.push(label.ok_or_else(|| TableProblem::UnknownClass { classes: classes.to_vec() })? as u32);
        }
        Target::Feature(column) => {
            let category = |categories: &[String]| {
                let at = categories.iter().position(|c| c == text.trim());
                at.ok_or(TableProblem::UnknownCategory { categories: categories.len() })
            };
            let spec = &schema.features()[column.first];
            match &column.content {
                Content::OneHot(categories) => values[column.first + category(categories)?] = 1.0,
                Content::Steps(categories) => values[column.first] = spec.normalise(category(categories)? as f64),
                &Content::Number { clamp } => {
                    let (min, max) = (spec.min, spec.max);
                    let mut value = number(text)?;
                    if clamp {
                        value = value.clamp(min, max);
                    }
                    if spec.kind == FeatureKind::Binary && value != min && value != max {
                        return Err(TableProblem::NotBinary { min, max });
                    }
                    if !(min..=max).contains(&value) {
                        return Err(TableProblem::OutOfRange { min, max });
                    }
                    values[column.first] = spec.normalise(value);
                }
            }
        }
    }
    Ok(())
}

fn number(text: &str) -> Result<f64, TableProblem> {
    let text = text.trim();
    if text.is_empty() {
        return Err(TableProblem::EmptyField);
    }
    let value: f64 = text.parse().map_err(|_| TableProblem::NotANumber)?;
    if value.is_finite() { Ok(value) } else { Err(TableProblem::NotFinite) }
}

/// Writes a table whose file has one column per feature with the range 0 to 1.
fn write(table: &FeatureTable, out: &mut dyn Write) -> std::io::Result<()> {
    let schema = table.schema();
    // An id of blanks alone, in a file without any other column, would be a blank line.
    let alone = schema.is_empty() && schema.label().is_none();
    let style = if alone { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary };
    let mut csv = csv::WriterBuilder::new().quote_style(style).from_writer(out);
    let names = schema.features().iter().map(|f| f.name.as_str());
    let label = schema.label();
    csv.write_record(std::iter::once(schema.id_column()).chain(names).chain(label.map(|l| l.column.as_str())))?;
    let mut row = csv::StringRecord::new();
    for (position, (id, values)) in table.ids().iter().zip(table.block().matrix().column_iter()).enumerate() {
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

/// The shortest decimal that reads back as the same double; with an exponent where the plain form is long.
fn decimal(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-5 { format!("{value:e}") } else { value.to_string() }
}
