//! Features in a table or view of a PostgreSQL server.

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};
use tokio::sync::OnceCell;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::table::{Failure, StoreError};
use vfl_core::data::{Cell, SourceColumn};
use vfl_core::types::{RecordIds, RecordIdsBuilder};

use crate::features::{
    LookupResult, MAX_LOOKUP_RECORDS, RemoteStore, ReportedIds, RowCollector, StoreFuture,
};
use crate::stores::bounds::Bounds;
use crate::stores::sql::{Pages, check_table, failed, quoted, within};
use crate::stores::{DataError, PostgresConfig};

/// Features in a table or view of a PostgreSQL server.
pub struct PostgresStore {
    config: PostgresConfig,
    options: PgConnectOptions,
    bounds: Bounds,
    schema: FeatureSchema,
    columns: Vec<SourceColumn>,
    words: String,
    ready: OnceCell<PreparedTable>,
}

/// The connections and statements, after the columns of the table were checked.
struct PreparedTable {
    pool: PgPool,
    /// The statement that selects rows. It takes the ids as an array.
    select: String,
    /// The statement that selects ids. It takes the ids as an array.
    held: String,
    pages: Pages,
    /// True if the id column is of an integer type.
    whole: bool,
}

impl PostgresStore {
    /// Creates a store that connects when it is first used.
    ///
    /// # Errors
    /// [`DataError::Config`] that names the key, never the URL.
    pub fn new(config: PostgresConfig, schema: FeatureSchema) -> Result<Self, DataError> {
        check_table("postgres", &config.table)?;
        let bounds = Bounds::new(
            "postgres",
            config.connections,
            config.timeout_ms,
            config.connect_timeout_ms,
        )?;
        let options = options(&config)?;
        let words = format!("the PostgreSQL table {:?}", config.table);
        let columns = schema.source_columns();
        Ok(Self { config, options, bounds, schema, columns, words, ready: OnceCell::new() })
    }

    fn failed(&self, error: &sqlx::Error) -> StoreError {
        failed(&self.words, error)
    }

    async fn ready(&self) -> Result<&PreparedTable, StoreError> {
        self.ready.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<PreparedTable, StoreError> {
        let ms = self.bounds.timeout.as_millis();
        // A view may do anything except write, or run longer than its caller waits.
        let session =
            format!("SET statement_timeout = {ms}; SET default_transaction_read_only = on");
        let pool = PgPoolOptions::new()
            .max_connections(self.bounds.connections)
            .min_connections(0)
            .acquire_timeout(self.bounds.connect_timeout)
            .after_connect(move |connection, _| {
                let session = session.clone();
                Box::pin(async move {
                    sqlx::raw_sql(AssertSqlSafe(session)).execute(connection).await.map(drop)
                })
            })
            .connect_with(self.options.clone())
            .await
            .map_err(|e| self.failed(&e))?;
        let fail = |reason: String| StoreError::failed(&self.words, Failure::Malformed, reason);
        let kinds = "SELECT a.attname::text, t.typname::text, t.typcategory::text FROM pg_attribute a \
                     JOIN pg_type t ON t.oid = a.atttypid \
                     WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped";
        let found: Vec<(String, String, String)> = sqlx::query_as(kinds)
            .bind(self.table())
            .fetch_all(&pool)
            .await
            .map_err(|e| self.failed(&e))?;
        if found.is_empty() {
            return Err(fail("there is no such table".into()));
        }
        let mut asked = Vec::with_capacity(self.columns.len());
        let (mut whole, mut by) = (false, String::new());
        for (place, column) in self.columns.iter().enumerate() {
            let kind = found.iter().find(|(name, ..)| *name == column.name);
            let Some((_, kind, category)) = kind else {
                return Err(fail(format!("it has no column {:?}", column.name)));
            };
            let name = quoted(&column.name);
            let integer = matches!(kind.as_str(), "int2" | "int4" | "int8");
            if place == 0 {
                whole = integer;
                if !integer && category != "S" {
                    return Err(fail(format!(
                        "its id column is of type {kind}; make it text, or a whole number"
                    )));
                }
                // Other text types are compared and ordered as text, whatever their own order is.
                let own = integer || matches!(kind.as_str(), "text" | "varchar");
                by = if own { format!("r.{name}") } else { format!("r.{name}::text") };
            }
            asked.push(match (column.number, category.as_str()) {
                // Neither type has a direct conversion to a double.
                (true, "N") if kind == "money" => format!("{name}::numeric::float8"),
                (true, "N") if kind == "oid" => format!("{name}::int8::float8"),
                (true, "N") => format!("{name}::float8"),
                (true, "B") => format!("{name}::int::float8"),
                // A time counts as its day, in UTC.
                (false, "D") if kind == "timestamptz" => {
                    format!("to_char({name} AT TIME ZONE 'UTC', 'YYYY-MM-DD')")
                }
                (false, "D") if matches!(kind.as_str(), "date" | "timestamp") => {
                    format!("to_char({name}, 'YYYY-MM-DD')")
                }
                (true, "S") | (false, "N" | "B" | "S" | "E") => format!("{name}::text"),
                _ => {
                    return Err(fail(format!(
                        "column {:?} is of type {kind}, which is not what the schema says of it",
                        column.name
                    )));
                }
            });
        }
        let (table, id) = (self.table(), quoted(self.schema.id_column()));
        // A column that cannot be read is reported now, by name, and not at each look-up.
        let look = async |shown: &str| {
            let look = sqlx::query(AssertSqlSafe(format!("SELECT {shown} FROM {table} LIMIT 0")));
            look.fetch_optional(&pool).await.map(drop)
        };
        if let Err(error) = look(&asked.join(", ")).await {
            for (column, shown) in self.columns.iter().zip(&asked) {
                look(shown).await.map_err(|e| {
                    failed(&format!("{}, column {:?}", self.words, column.name), &e)
                })?;
            }
            return Err(self.failed(&error));
        }
        let of = |shown: &str| format!("SELECT {shown} FROM {table} WHERE {id} = ANY($1)");
        let last = if whole { "$1::bigint" } else { "$1::text" };
        let pages = Pages::new(&table, &format!("r.{id}::text"), &by, last);
        Ok(PreparedTable {
            select: of(&asked.join(", ")),
            held: of(&format!("{id}::text")),
            pages,
            pool,
            whole,
        })
    }

    fn table(&self) -> String {
        self.config.table.split('.').map(quoted).collect::<Vec<_>>().join(".")
    }

    fn gather(&self, gather: &mut RowCollector<'_>, row: &PgRow) -> Result<(), StoreError> {
        let id: Option<&str> = row.try_get(0).map_err(|e| self.failed(&e))?;
        let Some(at) = id.map_or(Ok(None), |id| gather.begin(id))? else { return Ok(()) };
        for (place, column) in self.columns.iter().enumerate().skip(1) {
            // A number arrives as a double, or as text if the column is text.
            let double = column.number.then(|| row.try_get::<Option<f64>, _>(place).ok()).flatten();
            let cell = match double {
                Some(value) => value.map_or(Cell::Missing, Cell::Real),
                None => {
                    let text: Option<&str> = row.try_get(place).map_err(|e| self.failed(&e))?;
                    text.map_or(Cell::Missing, Cell::Text)
                }
            };
            gather.take(at, &column.name, column.target, cell)?;
        }
        Ok(())
    }

    /// Returns the rows that a statement selects for some ids.
    async fn rows(
        &self,
        ready: &PreparedTable,
        statement: &str,
        ids: &RecordIds,
    ) -> Result<Vec<PgRow>, StoreError> {
        let query = sqlx::query(AssertSqlSafe(statement.to_owned()));
        let rows = if ready.whole {
            // Text that is not an integer in its usual form is the id of no row.
            let usual = |id: &str| id.parse::<i64>().ok().filter(|number| number.to_string() == id);
            let whole: Vec<i64> = ids.iter().filter_map(usual).collect();
            query.bind(whole).fetch_all(&ready.pool).await
        } else {
            let text: Vec<String> = ids.iter().map(str::to_owned).collect();
            query.bind(text).fetch_all(&ready.pool).await
        };
        rows.map_err(|e| self.failed(&e))
    }
}

fn options(config: &PostgresConfig) -> Result<PgConnectOptions, DataError> {
    let options = vfl_state::postgres_url::named(
        config.url.as_deref(),
        config.url_file.as_deref(),
        "cloison features",
    );
    let options = options.map_err(|why| DataError::Config(format!("[data.postgres]: {why}")))?;
    Ok(options.disable_statement_logging())
}

impl RemoteStore for PostgresStore {
    fn words(&self) -> &str {
        &self.words
    }

    fn schema(&self) -> &FeatureSchema {
        &self.schema
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        Box::pin(
            async move { within(&self.words, self.bounds.timeout, self.ready()).await.map(drop) },
        )
    }

    fn lookup<'a>(&'a self, ids: &'a RecordIds) -> StoreFuture<'a, LookupResult> {
        let work = async move {
            let ready = self.ready().await?;
            let mut gather = RowCollector::new(&self.words, &self.schema, ids);
            for row in self.rows(ready, &ready.select, ids).await? {
                self.gather(&mut gather, &row)?;
            }
            gather.finish()
        };
        Box::pin(within(&self.words, self.bounds.timeout, work))
    }

    fn held<'a>(&'a self, ids: &'a RecordIds) -> StoreFuture<'a, Vec<usize>> {
        let work = async move {
            let ready = self.ready().await?;
            let mut roll = ReportedIds::new(&self.words, ids);
            for row in self.rows(ready, &ready.held, ids).await? {
                let id: Option<&str> = row.try_get(0).map_err(|e| self.failed(&e))?;
                id.map(|id| roll.take(id)).transpose()?;
            }
            Ok(roll.held())
        };
        Box::pin(within(&self.words, self.bounds.timeout, work))
    }

    fn ids(&self) -> StoreFuture<'_, RecordIds> {
        Box::pin(async move {
            let ready = within(&self.words, self.bounds.timeout, self.ready()).await?;
            let mut all = RecordIdsBuilder::default();
            let mut last: Option<String> = None;
            loop {
                let query = match (&last, ready.whole) {
                    (None, _) => sqlx::query_as::<_, (Option<String>,)>(AssertSqlSafe(
                        ready.pages.first.clone(),
                    )),
                    (Some(last), false) => {
                        sqlx::query_as(AssertSqlSafe(ready.pages.next.clone())).bind(last.clone())
                    }
                    (Some(last), true) => sqlx::query_as(AssertSqlSafe(ready.pages.next.clone()))
                        .bind(last.parse::<i64>().ok()),
                };
                let asked =
                    async { query.fetch_all(&ready.pool).await.map_err(|e| self.failed(&e)) };
                let rows = within(&self.words, self.bounds.timeout, asked).await?;
                let (n, mut more) = (rows.len(), false);
                for (id,) in rows {
                    // NULL is the last of all, and is not an id.
                    more = id.is_some();
                    let Some(id) = id else { break };
                    all.push(&id);
                    last = Some(id);
                }
                if n < MAX_LOOKUP_RECORDS || !more {
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
    use sqlx::{Connection, PgConnection};
    use vfl_core::data::schema::FeatureSpec;

    use super::*;

    /// A plan that is made for any id, as that of a statement that was prepared is after a while:
    /// the next page begins in the index.
    #[tokio::test]
    async fn the_next_page_begins_in_the_index() {
        let Ok(url) = std::env::var("CLOISON_POSTGRES_URL") else {
            eprintln!("not run: CLOISON_POSTGRES_URL is not set");
            return;
        };
        let schema = FeatureSchema::new(vec![FeatureSpec::numeric("f", 0.0, 1.0)], None).unwrap();
        let id = quoted(schema.id_column());
        let name = format!("pages_{:016x}", rand::random_range(0..u64::MAX));
        let mut admin = PgConnection::connect(&url).await.unwrap();
        for kind in ["TEXT", "VARCHAR(40)", "BIGINT"] {
            for statement in [
                format!("CREATE TABLE {name} ({id} {kind} PRIMARY KEY, f FLOAT8)"),
                format!(
                    "INSERT INTO {name} SELECT i::text::{kind}, 0 FROM generate_series(1, 9000) i"
                ),
                format!("ANALYZE {name}"),
                "SET plan_cache_mode = force_generic_plan".to_owned(),
            ] {
                sqlx::query(AssertSqlSafe(statement)).execute(&mut admin).await.unwrap();
            }
            let store =
                PostgresStore::new(PostgresConfig::new(&url, &name), schema.clone()).unwrap();
            let ready = store.ready().await.unwrap();
            let prepared = if ready.whole { "bigint" } else { "text" };
            for statement in [
                format!("PREPARE page({prepared}) AS {}", ready.pages.next),
                "EXPLAIN EXECUTE page('17')".to_owned(),
            ] {
                let steps: Vec<String> = sqlx::raw_sql(AssertSqlSafe(statement))
                    .fetch_all(&mut admin)
                    .await
                    .unwrap()
                    .iter()
                    .map(|row| row.get(0))
                    .collect();
                if let Some(steps) = (!steps.is_empty()).then(|| steps.join("\n")) {
                    assert!(steps.contains("Index Cond"), "{kind}: {steps}");
                    assert!(
                        !steps.contains("Seq Scan") && !steps.contains("Sort"),
                        "{kind}: {steps}"
                    );
                }
            }
            for statement in ["DEALLOCATE page".to_owned(), format!("DROP TABLE {name}")] {
                sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut admin).await.unwrap();
            }
        }
    }
}
