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
    ids: IdType,
}

/// The type of the id column.
#[derive(Clone, Copy, PartialEq)]
enum IdType {
    Text,
    Integer,
    Uuid,
}

impl IdType {
    /// Returns the type of a column, by name and category; `None` if its values are no ids.
    fn of(name: &str, category: &str) -> Option<Self> {
        match name {
            "int2" | "int4" | "int8" => Some(Self::Integer),
            "uuid" => Some(Self::Uuid),
            _ => (category == "S").then_some(Self::Text),
        }
    }

    /// Returns the placeholders of an id and of a list of ids, both passed as text.
    fn placeholders(self) -> (&'static str, &'static str) {
        match self {
            // The list takes the type of the column, which may be another one than text.
            Self::Text => ("$1::text", "$1"),
            Self::Integer => ("$1::text::bigint", "$1::text[]::bigint[]"),
            Self::Uuid => ("$1::text::uuid", "$1::text[]::uuid[]"),
        }
    }

    /// Returns `true` if an id is in the form that the database shows. Other text is the id of no
    /// row.
    fn shows(self, id: &str) -> bool {
        match self {
            Self::Text => true,
            Self::Integer => id.parse::<i64>().is_ok_and(|number| number.to_string() == id),
            Self::Uuid => {
                let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                let dash = |at| matches!(at, 8 | 13 | 18 | 23);
                let right = |(at, byte)| if dash(at) { byte == b'-' } else { digit(byte) };
                id.len() == 36 && id.bytes().enumerate().all(right)
            }
        }
    }
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
        let (mut ids, mut by) = (IdType::Text, String::new());
        for (place, column) in self.columns.iter().enumerate() {
            let kind = found.iter().find(|(name, ..)| *name == column.name);
            let Some((_, kind, category)) = kind else {
                return Err(fail(format!("it has no column {:?}", column.name)));
            };
            let name = quoted(&column.name);
            if place == 0 {
                let wrong = || {
                    fail(format!(
                        "its id column is of type {kind}; make it text, a whole number or a UUID"
                    ))
                };
                ids = IdType::of(kind, category).ok_or_else(wrong)?;
                // Other text types are compared and ordered as text, whatever their own order is.
                let own = ids != IdType::Text || matches!(kind.as_str(), "text" | "varchar");
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
                (false, _) if place == 0 => format!("{name}::text"),
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
        let (one, list) = ids.placeholders();
        let of = |shown: &str| format!("SELECT {shown} FROM {table} WHERE {id} = ANY({list})");
        let pages = Pages::new(&table, &format!("r.{id}::text"), &by, one);
        Ok(PreparedTable {
            select: of(&asked.join(", ")),
            held: of(&format!("{id}::text")),
            pages,
            pool,
            ids,
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
        let shown = ids.iter().filter(|id| ready.ids.shows(id));
        let text: Vec<String> = shown.map(str::to_owned).collect();
        let query = sqlx::query(AssertSqlSafe(statement.to_owned())).bind(text);
        query.fetch_all(&ready.pool).await.map_err(|e| self.failed(&e))
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
                let statement = last.as_ref().map_or(&ready.pages.first, |_| &ready.pages.next);
                let query =
                    sqlx::query_as::<_, (Option<String>,)>(AssertSqlSafe(statement.clone()));
                let query = match &last {
                    None => query,
                    Some(last) => query.bind(last.clone()),
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
        let uuid = "00000000-0000-0000-0000-000000000017";
        for (kind, last) in
            [("TEXT", "17"), ("VARCHAR(40)", "17"), ("BIGINT", "17"), ("UUID", uuid)]
        {
            for statement in [
                format!("CREATE TABLE {name} ({id} {kind} PRIMARY KEY, f FLOAT8)"),
                format!(
                    "INSERT INTO {name} SELECT {}::{kind}, 0 FROM generate_series(1, 9000) i",
                    if kind == "UUID" { "lpad(i::text, 32, '0')" } else { "i::text" }
                ),
                format!("ANALYZE {name}"),
                "SET plan_cache_mode = force_generic_plan".to_owned(),
            ] {
                sqlx::query(AssertSqlSafe(statement)).execute(&mut admin).await.unwrap();
            }
            let store =
                PostgresStore::new(PostgresConfig::new(&url, &name), schema.clone()).unwrap();
            let ready = store.ready().await.unwrap();
            for statement in [
                format!("PREPARE page(text) AS {}", ready.pages.next),
                format!("EXPLAIN EXECUTE page('{last}')"),
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
