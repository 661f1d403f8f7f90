//! Features in a table of a SQLite file.

use std::path::PathBuf;

use serde::Deserialize;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Decode, Row, Sqlite, TypeInfo, ValueRef};
use tokio::sync::OnceCell;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::table::{Failure, StoreError};
use vfl_core::data::{Cell, SourceColumn};
use vfl_core::types::{RecordIds, RecordIdsBuilder};

use crate::features::{
    LookupResult, MAX_LOOKUP_RECORDS, RemoteStore, ReportedIds, RowCollector, StoreFuture,
};
use crate::stores::DataError;
use crate::stores::bounds::{Bounds, connections, timeout_ms};
use crate::stores::sql::{Pages, check_table, failed, quoted, within};

/// The table `[data.sqlite]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqliteConfig {
    /// The SQLite file, which `load-features` creates.
    pub file: PathBuf,
    /// The table in the file. Default `features`.
    #[serde(default = "table")]
    pub table: String,
    /// The number of connections to the file. Default 8.
    #[serde(default = "connections")]
    pub connections: u32,
    /// The time limit of a look-up, in milliseconds. Default 5000.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
}

fn table() -> String {
    "features".into()
}

impl SqliteConfig {
    /// Creates the settings of the table `features` of a file.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            table: table(),
            connections: connections(),
            timeout_ms: timeout_ms(),
        }
    }
}

/// Features in a table of a SQLite file.
pub struct SqliteStore {
    config: SqliteConfig,
    bounds: Bounds,
    schema: FeatureSchema,
    columns: Vec<SourceColumn>,
    words: String,
    statements: Statements,
    pool: OnceCell<SqlitePool>,
}

/// The SQL statements of the store.
struct Statements {
    /// The statement that selects rows. It takes the ids as a JSON array.
    select: String,
    /// The statement that selects ids. It takes the ids as a JSON array.
    held: String,
    pages: Pages,
}

impl Statements {
    fn new(table: &str, columns: &[SourceColumn], id: &str) -> Self {
        let names: Vec<String> = columns.iter().map(|column| quoted(&column.name)).collect();
        let (table, id) = (quoted(table), quoted(id));
        let of = |shown: &str| {
            format!("SELECT {shown} FROM {table} WHERE {id} IN (SELECT value FROM json_each($1))")
        };
        let column = format!("r.{id}");
        Self {
            select: of(&names.join(", ")),
            held: of(&id),
            pages: Pages::new(&table, &column, &column, "$1"),
        }
    }
}

impl SqliteStore {
    /// Creates a store that opens its file when it is first used.
    ///
    /// # Errors
    /// [`DataError::Config`] that names the key.
    pub fn new(config: SqliteConfig, schema: FeatureSchema) -> Result<Self, DataError> {
        check_table("sqlite", &config.table)?;
        let bounds =
            Bounds::new("sqlite", config.connections, config.timeout_ms, config.timeout_ms)?;
        let columns = schema.source_columns();
        let statements = Statements::new(&config.table, &columns, schema.id_column());
        let words = format!("the SQLite table {:?}", config.table);
        Ok(Self { config, bounds, schema, columns, words, statements, pool: OnceCell::new() })
    }

    fn failed(&self, error: &sqlx::Error) -> StoreError {
        failed(&self.words, error)
    }

    /// Returns the connections, after the columns of the table were checked.
    async fn pool(&self) -> Result<&SqlitePool, StoreError> {
        self.pool.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<SqlitePool, StoreError> {
        let fail = |failure, reason: String| StoreError::failed(&self.words, failure, reason);
        let file = &self.config.file;
        if !file.is_file() {
            let reason = format!("there is no file {}; `load-features` makes it", file.display());
            return Err(fail(Failure::Unreachable, reason));
        }
        let options = SqliteConnectOptions::new()
            .filename(file)
            .read_only(true)
            .busy_timeout(self.bounds.timeout)
            .disable_statement_logging();
        // All connections are opened at once and never replaced: after an exchange of the file, all
        // of them read the old one until a restart.
        let pool = SqlitePoolOptions::new()
            .max_connections(self.bounds.connections)
            .min_connections(self.bounds.connections)
            .acquire_timeout(self.bounds.timeout)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options)
            .await
            .map_err(|e| self.failed(&e))?;
        let found = sqlx::query("SELECT name FROM pragma_table_info($1)")
            .bind(self.config.table.clone())
            .fetch_all(&pool)
            .await;
        let found = found.map_err(|e| self.failed(&e))?;
        let names =
            found.iter().map(|row| row.try_get::<String, _>(0)).collect::<Result<Vec<_>, _>>();
        let names = names.map_err(|e| self.failed(&e))?;
        if names.is_empty() {
            return Err(fail(Failure::Malformed, "there is no such table in the file".into()));
        }
        match self.columns.iter().find(|column| !names.contains(&column.name)) {
            Some(missing) => {
                Err(fail(Failure::Malformed, format!("it has no column {:?}", missing.name)))
            }
            None => Ok(pool),
        }
    }

    /// Returns the rows that a statement selects for some ids.
    async fn rows(&self, statement: &str, ids: &RecordIds) -> Result<Vec<SqliteRow>, StoreError> {
        let asked: Vec<&str> = ids.iter().collect();
        let malformed =
            |_| StoreError::failed(&self.words, Failure::Malformed, "the ids cannot be written");
        let asked = serde_json::to_string(&asked).map_err(malformed)?;
        let query = sqlx::query(AssertSqlSafe(statement.to_owned())).bind(asked);
        query.fetch_all(self.pool().await?).await.map_err(|e| self.failed(&e))
    }

    /// Returns the id of a row, if its value can be one.
    fn id(&self, row: &SqliteRow) -> Result<Option<String>, StoreError> {
        let id = with_cell(row, 0, |cell| cell.text().map(|text| text.into_owned()).ok());
        id.map_err(|e| self.failed(&e))
    }

    fn gather(&self, gather: &mut RowCollector<'_>, row: &SqliteRow) -> Result<(), StoreError> {
        let id = self.id(row)?;
        let Some(at) = id.map_or(Ok(None), |id| gather.begin(&id))? else { return Ok(()) };
        for (place, column) in self.columns.iter().enumerate().skip(1) {
            let taken =
                with_cell(row, place, |cell| gather.take(at, &column.name, column.target, cell));
            taken.map_err(|e| self.failed(&e))??;
        }
        Ok(())
    }
}

/// Passes a value to `take` in SQLite's own type, which depends on the value and not on the column.
fn with_cell<T>(
    row: &SqliteRow,
    place: usize,
    take: impl FnOnce(Cell<'_>) -> T,
) -> Result<T, sqlx::Error> {
    let value = row.try_get_raw(place)?;
    if value.is_null() {
        return Ok(take(Cell::Missing));
    }
    let decode = |source| sqlx::Error::ColumnDecode { index: place.to_string(), source };
    let kind = value.type_info().name().to_owned();
    Ok(match kind.as_str() {
        "INTEGER" | "INT8" | "BOOLEAN" => {
            take(Cell::Integer(<i64 as Decode<Sqlite>>::decode(value).map_err(decode)?))
        }
        "REAL" => take(Cell::Real(<f64 as Decode<Sqlite>>::decode(value).map_err(decode)?)),
        _ => take(Cell::Text(<&str as Decode<Sqlite>>::decode(value).map_err(decode)?)),
    })
}

impl RemoteStore for SqliteStore {
    fn words(&self) -> &str {
        &self.words
    }

    fn schema(&self) -> &FeatureSchema {
        &self.schema
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        Box::pin(
            async move { within(&self.words, self.bounds.timeout, self.pool()).await.map(drop) },
        )
    }

    fn lookup<'a>(&'a self, ids: &'a RecordIds) -> StoreFuture<'a, LookupResult> {
        let work = async move {
            let mut gather = RowCollector::new(&self.words, &self.schema, ids);
            for row in self.rows(&self.statements.select, ids).await? {
                self.gather(&mut gather, &row)?;
            }
            gather.finish()
        };
        Box::pin(within(&self.words, self.bounds.timeout, work))
    }

    fn held<'a>(&'a self, ids: &'a RecordIds) -> StoreFuture<'a, Vec<usize>> {
        let work = async move {
            let mut roll = ReportedIds::new(&self.words, ids);
            for row in self.rows(&self.statements.held, ids).await? {
                if let Some(id) = self.id(&row)? {
                    roll.take(&id)?;
                }
            }
            Ok(roll.held())
        };
        Box::pin(within(&self.words, self.bounds.timeout, work))
    }

    fn ids(&self) -> StoreFuture<'_, RecordIds> {
        Box::pin(async move {
            let Pages { first, next } = &self.statements.pages;
            let mut all = RecordIdsBuilder::default();
            let mut last: Option<String> = None;
            loop {
                let query = match &last {
                    None => sqlx::query(AssertSqlSafe(first.clone())),
                    Some(last) => sqlx::query(AssertSqlSafe(next.clone())).bind(last.clone()),
                };
                let asked = async {
                    query.fetch_all(self.pool().await?).await.map_err(|e| self.failed(&e))
                };
                let rows = within(&self.words, self.bounds.timeout, asked).await?;
                for row in &rows {
                    let id = with_cell(row, 0, |cell| cell.text().map(|text| text.into_owned()));
                    let id = id.map_err(|e| self.failed(&e))?.map_err(|problem| {
                        StoreError::failed(
                            &self.words,
                            Failure::Value,
                            format!("its id column: {problem}"),
                        )
                    })?;
                    all.push(&id);
                    last = Some(id);
                }
                if rows.len() < MAX_LOOKUP_RECORDS {
                    break;
                }
            }
            all.finish().map_err(|e| {
                StoreError::failed(&self.words, Failure::Value, format!("its id column: {e}"))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use sqlx::{Connection, SqliteConnection};
    use vfl_core::data::schema::FeatureSpec;

    use super::*;

    /// Returns SQLite's plan for a statement, one step per line.
    async fn plan(connection: &mut SqliteConnection, statement: &str) -> Vec<String> {
        let query = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")));
        let query = if statement.contains("$1") { query.bind("[\"r1\"]") } else { query };
        let rows = query.fetch_all(connection).await.unwrap();
        rows.iter().map(|row| row.get::<String, _>("detail")).collect()
    }

    /// Every statement goes through the index, with a table of `load-features` and with one of
    /// somebody else's.
    #[tokio::test]
    async fn no_statement_but_the_first_page_scans_the_table() {
        let schema = FeatureSchema::new(vec![FeatureSpec::numeric("f", 0.0, 1.0)], None).unwrap();
        let columns = schema.source_columns();
        let id = quoted(schema.id_column());
        for declared in [
            format!(
                "CREATE TABLE \"t\" ({id} TEXT PRIMARY KEY NOT NULL, f REAL NOT NULL) WITHOUT ROWID"
            ),
            format!("CREATE TABLE \"t\" (f REAL, {id} TEXT UNIQUE)"),
            format!("CREATE TABLE \"t\" ({id} INTEGER PRIMARY KEY, f REAL)"),
        ] {
            let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
            sqlx::query(AssertSqlSafe(declared.clone())).execute(&mut connection).await.unwrap();
            let Statements { select, held, pages } =
                Statements::new("t", &columns, schema.id_column());
            let next = plan(&mut connection, &pages.next).await;
            assert!(
                next.iter().any(|step| step.starts_with("SEARCH r USING")),
                "{declared}: {next:?}"
            );
            for (statement, table) in [(&pages.next, "r"), (&select, "t"), (&held, "t")] {
                let steps = plan(&mut connection, statement).await;
                let scan = steps.iter().any(|step| step.starts_with(&format!("SCAN {table}")));
                assert!(
                    !scan && !steps.iter().any(|step| step.contains("TEMP B-TREE")),
                    "{declared}: {steps:?}"
                );
            }
            // The first page is read in the order of the index, and ends with the page.
            let first = plan(&mut connection, &pages.first).await;
            assert!(
                !first.iter().any(|step| step.contains("TEMP B-TREE")),
                "{declared}: {first:?}"
            );
        }
    }
}
