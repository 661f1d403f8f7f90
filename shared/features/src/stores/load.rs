//! The import of a file's rows into a SQLite file, with a check of every value (`load-features`).

use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection};
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::{
    Cell, ColumnRole, FilePosition, RawRows, SourceColumn, TableError, TableProblem, check_columns,
    match_columns,
};
use vfl_core::types::{IdError, RecordId};

use crate::stores::SqliteConfig;
use crate::stores::sql::quoted;
use crate::stores::table_file::{TableFile, rows_of};

/// SQLite's limit on the columns of a table.
const MAX_COLUMNS: usize = 2000;

/// Errors from loading a file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The source file cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The target file already exists.
    #[error("{} is there already; `--replace` puts a new one in its place", .0.display())]
    Exists(PathBuf),
    /// The schema has too many columns. PostgreSQL's limit is lower still: 1600.
    #[error(
        "SQLite takes {MAX_COLUMNS} columns at most, the schema has {0}, with those of the id and the label; use a Parquet file"
    )]
    Columns(usize),
    /// The disk or SQLite failed.
    #[error("cannot write {}: {reason}", file.display())]
    Write {
        /// The path of the SQLite file.
        file: PathBuf,
        /// The reason for the failure.
        reason: String,
    },
}

enum StoredValue {
    Text(String),
    Real(f64),
}

/// Loads the rows of `from` (`.parquet`, or else CSV), checks them against the schema, and returns
/// their number. The file is written beside its place and renamed: a service that has the old one
/// open continues with it until it is restarted.
///
/// # Errors
/// [`LoadError`] that names file, row and column; nothing has changed then.
pub async fn load_sqlite(
    config: &SqliteConfig,
    schema: &FeatureSchema,
    from: impl Into<TableFile<'_>>,
    replace: bool,
) -> Result<u64, LoadError> {
    let place = &config.file;
    let failed = |reason: String| LoadError::Write { file: place.clone(), reason };
    if place.exists() && !replace {
        return Err(LoadError::Exists(place.clone()));
    }
    // A label that is a number is a column beside the features, if the file has it.
    let from = from.into();
    let schema = &schema.with_number(rows_of(from, None)?.names());
    let columns = schema.source_columns();
    if columns.len() > MAX_COLUMNS {
        return Err(LoadError::Columns(columns.len()));
    }
    let wanted: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let mut rows = rows_of(from, Some(&wanted))?;
    check_columns(schema, &*rows)?;
    let directory = place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Readable by this user alone.
    let beside = tempfile::Builder::new()
        .prefix(".features")
        .tempfile_in(directory)
        .map_err(|e| failed(e.to_string()))?;
    let options = SqliteConnectOptions::new()
        .filename(beside.path())
        // Nobody reads the file before it is renamed, and an interrupted load starts again, so
        // durability is not needed.
        .journal_mode(SqliteJournalMode::Off)
        .synchronous(SqliteSynchronous::Off)
        .disable_statement_logging();
    let mut connection = options.connect().await.map_err(|e| failed(e.to_string()))?;
    let filled = fill(&mut connection, (config, schema, &columns), &mut *rows).await;
    let closed = connection.close().await;
    let count = filled?;
    closed.map_err(|e| failed(e.to_string()))?;
    beside.as_file().sync_all().map_err(|e| failed(e.to_string()))?;
    beside.persist(place).map_err(|e| failed(e.to_string()))?;
    #[cfg(unix)]
    std::fs::File::open(directory).and_then(|d| d.sync_all()).map_err(|e| failed(e.to_string()))?;
    Ok(count)
}

async fn fill(
    connection: &mut SqliteConnection,
    (config, schema, columns): (&SqliteConfig, &FeatureSchema, &[SourceColumn]),
    rows: &mut dyn RawRows,
) -> Result<u64, LoadError> {
    let failed = |e: &dyn std::fmt::Display| LoadError::Write {
        file: config.file.clone(),
        reason: e.to_string(),
    };
    let file = rows.file().to_owned();
    let wrong = |place: Option<FilePosition>, column: &str, problem| {
        LoadError::Table(TableError {
            file: file.clone(),
            place,
            column: Some(column.to_owned()),
            problem,
        })
    };
    let targets = match_columns(schema, rows.names())
        .map_err(|(column, problem)| wrong(rows.names_at(), &column, problem))?;
    let kind = |column: &SourceColumn| match (column.target, column.number) {
        (ColumnRole::Id, _) => "TEXT PRIMARY KEY NOT NULL",
        (_, true) if column.may_be_missing => "REAL",
        (_, true) => "REAL NOT NULL",
        (_, false) if column.may_be_missing => "TEXT",
        (_, false) => "TEXT NOT NULL",
    };
    let declared: Vec<String> =
        columns.iter().map(|c| format!("{} {}", quoted(&c.name), kind(c))).collect();
    let table = quoted(&config.table);
    let create = format!("CREATE TABLE {table} ({}) WITHOUT ROWID", declared.join(", "));
    sqlx::query(AssertSqlSafe(create)).execute(&mut *connection).await.map_err(|e| failed(&e))?;
    let names: Vec<String> = columns.iter().map(|c| quoted(&c.name)).collect();
    let marks = vec!["?"; columns.len()].join(", ");
    let insert = format!("INSERT INTO {table} ({}) VALUES ({marks})", names.join(", "));
    sqlx::query("BEGIN").execute(&mut *connection).await.map_err(|e| failed(&e))?;
    let mut count = 0u64;
    let mut normalised = vec![0.0; schema.len()];
    loop {
        normalised.fill(0.0);
        let mut row: Vec<Option<StoredValue>> = columns.iter().map(|_| None).collect();
        let next = rows.next_row(&mut |at, cell| {
            let Some(target) = targets[at] else { return Ok(()) };
            let Some(to) = columns.iter().position(|column| column.target == target) else {
                return Ok(());
            };
            row[to] = checked(schema, &columns[to], cell, &mut normalised, count)?;
            Ok(())
        })?;
        let Some(place) = next else { break };
        let mut query = sqlx::query(AssertSqlSafe(insert.clone()));
        for value in row {
            query = match value {
                Some(StoredValue::Text(text)) => query.bind(text),
                Some(StoredValue::Real(value)) => query.bind(value),
                None => query.bind(None::<String>),
            };
        }
        query.execute(&mut *connection).await.map_err(|e| match &e {
            sqlx::Error::Database(error) if error.is_unique_violation() => {
                wrong(Some(place), schema.id_column(), TableProblem::RepeatedId)
            }
            _ => failed(&e),
        })?;
        count += 1;
    }
    if count == 0 {
        return Err(LoadError::Table(TableError {
            file,
            place: None,
            column: None,
            problem: TableProblem::NoRecord,
        }));
    }
    sqlx::query("COMMIT").execute(&mut *connection).await.map_err(|e| failed(&e))?;
    Ok(count)
}

/// Returns the raw value, after the schema has accepted it; `None` where it is missing.
fn checked(
    schema: &FeatureSchema,
    column: &SourceColumn,
    cell: Cell<'_>,
    normalised: &mut [f64],
    row: u64,
) -> Result<Option<StoredValue>, TableProblem> {
    match column.target {
        ColumnRole::Id => {
            let id = cell.text()?.into_owned();
            let at = |position| usize::try_from(row).unwrap_or(position);
            let numbered = |e| match e {
                IdError::Empty { position } => IdError::Empty { position: at(position) },
                IdError::TooLong { position, bytes } => {
                    IdError::TooLong { position: at(position), bytes }
                }
                IdError::Control { position } => IdError::Control { position: at(position) },
                other => other,
            };
            RecordId::new(id.clone()).map_err(|e| TableProblem::Id(numbered(e)))?;
            return Ok(Some(StoredValue::Text(id)));
        }
        ColumnRole::Label => schema.read_label(cell).map(drop)?,
        ColumnRole::Column(at) => schema.read_feature(at, cell, normalised)?,
    }
    if column.may_be_missing && cell.is_missing(column.number) {
        // Blank text stays what it is: it may be a category.
        let blank = matches!(cell, Cell::Text(_) | Cell::CommaText(_)) && !column.number;
        return Ok(blank.then(|| StoredValue::Text(String::new())));
    }
    match column.number {
        true => cell.truth().map_or_else(|| cell.number(), Ok).map(StoredValue::Real),
        false => cell.text().map(|text| StoredValue::Text(text.trim().to_owned())),
    }
    .map(Some)
}
