//! One connection to the ledger's database, of either engine.
//!
//! Statements are written once, in the SQL that both understand (`$1` for parameters, `CAST`, `ON
//! CONFLICT`); the few that differ are pairs, see [`Connection::pick`]. Statements are never
//! logged: their parameters hold record ids.

use std::path::PathBuf;
use std::time::Duration;

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Connection as _, FromRow, SqliteConnection};

use super::LedgerError;

mod migrations;
#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;
mod statement;
#[cfg(any(test, not(feature = "postgres")))]
#[cfg_attr(feature = "postgres", allow(dead_code, reason = "the tests look at its refusal"))]
mod without_postgres;

#[cfg(feature = "postgres")]
use postgres::{PgRow, PostgresConnection, PostgresServer};
pub(crate) use sqlite::{private, sync_directory};
pub(crate) use statement::Arg;
use statement::bound;
#[cfg(not(feature = "postgres"))]
use without_postgres::{PgRow, PostgresConnection, PostgresServer};

/// Number of attempts to take PostgreSQL's lock, and the pause between them.
pub(super) const LOCK_TRIES: u32 = 20;
pub(super) const LOCK_PAUSE: Duration = Duration::from_millis(100);
/// Session settings in PostgreSQL of a coordinator that shares its ledger: one that is frozen in
/// the middle of a transaction, or whose machine is gone, must not hold the others up, and one that
/// waits in vain must say so.
const SHARED_SESSION: &str = "SET idle_in_transaction_session_timeout = '15s'; SET lock_timeout = '20s'; \
    SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; SET tcp_user_timeout = '15s'";
/// Longest time for PostgreSQL to answer a coordinator that serves; longer than it waits for a
/// lock. Without it, a server that fell silent with nothing unacknowledged would be waited for
/// without end.
const ANSWER: Duration = Duration::from_secs(25);

/// The location of a ledger.
#[derive(Clone)]
pub(crate) enum DatabaseLocation {
    Sqlite(PathBuf),
    Postgres(PostgresServer),
}

impl DatabaseLocation {
    /// Reads a ledger URL.
    pub(crate) fn parse(url: &str) -> Result<Self, LedgerError> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || path.starts_with(":memory:") || path.contains('?') {
                return Err(LedgerError::Url(
                    "a SQLite ledger is `sqlite:` and the path of a file, without options",
                ));
            }
            return Ok(Self::Sqlite(PathBuf::from(path)));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres(PostgresServer::parse(url)?));
        }
        Err(LedgerError::Url("a ledger is `sqlite:PATH` or `postgres://…`"))
    }

    /// Returns `true` if there may be a ledger: a file must be there and hold something.
    pub(crate) fn may_hold_a_ledger(&self) -> bool {
        match self {
            Self::Sqlite(path) => std::fs::metadata(path).is_ok_and(|m| m.len() > 0),
            Self::Postgres(_) => true,
        }
    }

    /// Connects, and checks that a commit is on disk when it returns. Creates a missing SQLite file
    /// if `create`.
    pub(crate) async fn connect(&self, create: bool) -> Result<Connection, LedgerError> {
        let mut connection = match self {
            Self::Sqlite(path) => Connection::Sqlite(sqlite::open(path, create).await?),
            Self::Postgres(server) => Connection::Postgres(server.connect().await?),
        };
        connection.check_durable().await?;
        connection.wait_up_to(None);
        Ok(connection)
    }
}

/// An open connection.
pub(crate) enum Connection {
    Sqlite(SqliteConnection),
    Postgres(PostgresConnection),
}

impl Connection {
    /// Returns `true` for a connection to a SQLite file, which one coordinator writes.
    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// Returns the text for this engine.
    pub(crate) fn pick(&self, sqlite: &'static str, postgres: &'static str) -> &'static str {
        match self {
            Self::Sqlite(_) => sqlite,
            Self::Postgres(_) => postgres,
        }
    }

    /// Runs a statement and returns the number of rows it changed.
    pub(crate) async fn execute(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<u64, LedgerError> {
        Ok(match self {
            Self::Sqlite(c) => bound!(sql, args).execute(c).await?.rows_affected(),
            Self::Postgres(c) => c.execute(sql, args).await?,
        })
    }

    /// Runs a statement that was built at run time from checked parts, such as a quoted path.
    pub(crate) async fn execute_text(&mut self, sql: String) -> Result<(), LedgerError> {
        match self {
            Self::Sqlite(c) => Ok(sqlx::raw_sql(AssertSqlSafe(sql)).execute(c).await.map(drop)?),
            Self::Postgres(c) => c.execute_text(sql).await,
        }
    }

    /// Returns every row of a query.
    pub(crate) async fn rows<T>(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<Vec<T>, LedgerError>
    where
        T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow>,
    {
        match self {
            Self::Sqlite(c) => bound!(sql, args)
                .fetch_all(c)
                .await?
                .iter()
                .map(|row| Ok(T::from_row(row)?))
                .collect(),
            Self::Postgres(c) => c.rows(sql, args).await,
        }
    }

    /// Returns the first row of a query.
    pub(crate) async fn row<T>(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<Option<T>, LedgerError>
    where
        T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow>,
    {
        Ok(self.rows(sql, args).await?.into_iter().next())
    }

    /// Begins a transaction that runs beside no other writer of this ledger. SQLite has one writer
    /// anyway; in PostgreSQL a lock that ends with the transaction keeps maintenance and the
    /// coordinator apart.
    pub(crate) async fn begin(&mut self) -> Result<(), LedgerError> {
        match self {
            Self::Sqlite(_) => self.execute("BEGIN IMMEDIATE", &[]).await.map(drop),
            Self::Postgres(_) => {
                // Each statement sees what was committed before it, so those after the lock see all
                // that was before it.
                self.execute("BEGIN ISOLATION LEVEL READ COMMITTED", &[]).await?;
                let lock = "SELECT pg_advisory_xact_lock(hashtext('cloison ledger write'), hashtext(current_schema()))";
                self.execute(lock, &[]).await.map(drop)
            }
        }
    }

    /// Makes the transaction durable.
    pub(crate) async fn commit(&mut self) -> Result<(), LedgerError> {
        self.execute("COMMIT", &[]).await.map(drop)
    }

    /// Applies the migrations that are missing.
    pub(crate) async fn migrate(&mut self) -> Result<(), LedgerError> {
        match self {
            Self::Sqlite(c) => sqlite::migrate(c).await,
            Self::Postgres(c) => c.migrate().await,
        }
    }

    /// Returns `true` if the tables of a ledger are there.
    pub(crate) async fn is_ledger(&mut self) -> Result<bool, LedgerError> {
        let sql = self.pick(
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('meta', 'uses', 'erased')",
            "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename IN ('meta', 'uses', 'erased')",
        );
        Ok(self.row::<(i64,)>(sql, &[]).await? == Some((3,)))
    }

    /// Returns `true` if the migrations of this version have been applied.
    pub(crate) async fn is_current(&mut self) -> Result<bool, LedgerError> {
        let sql = self.pick(
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('approvals', 'events', 'chain', 'bits', 'journal')",
            "SELECT count(*) + 1 FROM pg_tables WHERE schemaname = current_schema() \
             AND tablename IN ('approvals', 'events', 'chain', 'bits')",
        );
        Ok(self.row::<(i64,)>(sql, &[]).await? == Some((5,)))
    }

    /// Reads a row of `meta`.
    pub(crate) async fn meta(&mut self, name: &str) -> Result<Option<String>, LedgerError> {
        let row = self
            .row::<(String,)>("SELECT value FROM meta WHERE name = $1", &[Arg::Text(name)])
            .await?;
        Ok(row.map(|(value,)| value))
    }

    /// Sets a row of `meta`.
    pub(crate) async fn set_meta(&mut self, name: &str, value: &str) -> Result<(), LedgerError> {
        let sql = "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        self.execute(sql, &[Arg::Text(name), Arg::Text(value)]).await.map(drop)
    }

    /// Takes the lock of writers: for one coordinator alone, or among all that share the ledger.
    /// SQLite's is a file lock, see [`super::lock`]; PostgreSQL's lives as long as this connection.
    pub(crate) async fn lock(&mut self, shared: bool) -> Result<(), LedgerError> {
        if let Self::Sqlite(_) = self {
            return Ok(());
        }
        let alone =
            "SELECT pg_try_advisory_lock(hashtext('cloison ledger'), hashtext(current_schema()))";
        let among = "SELECT pg_try_advisory_lock_shared(hashtext('cloison ledger'), hashtext(current_schema()))";
        if shared {
            self.bound().await?;
        }
        // The server releases the lock of a stopped coordinator a moment after its connection is
        // closed.
        for _ in 0..LOCK_TRIES {
            if let Some((true,)) =
                self.row::<(bool,)>(if shared { among } else { alone }, &[]).await?
            {
                return Ok(());
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        // Find out who holds the lock: coordinators that share it let this one in among them.
        match (shared, self.row::<(bool,)>(among, &[]).await?) {
            (true, _) => Err(LedgerError::NotShared),
            (false, Some((true,))) => Err(LedgerError::Shared),
            (false, _) => Err(LedgerError::Locked),
        }
    }

    /// Bounds the wait for PostgreSQL's answers, as a coordinator that serves must. Maintenance of
    /// a large ledger takes its time.
    pub(crate) fn impatient(&mut self) {
        self.wait_up_to(Some(ANSWER));
    }

    fn wait_up_to(&mut self, patience: Option<Duration>) {
        if let Self::Postgres(c) = self {
            c.wait_up_to(patience);
        }
    }

    /// Bounds how long a session in PostgreSQL may hold others up, and how long it waits.
    pub(crate) async fn bound(&mut self) -> Result<(), LedgerError> {
        self.impatient();
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(_) => self.execute_text(SHARED_SESSION.into()).await,
        }
    }

    /// Counts this connection, as long as it lives, among those whose coordinators have agreed on
    /// the terms.
    pub(crate) async fn agreed(&mut self) -> Result<(), LedgerError> {
        let sql =
            "SELECT pg_advisory_lock_shared(hashtext('cloison terms'), hashtext(current_schema()))";
        self.execute(sql, &[]).await.map(drop)
    }

    /// Returns how many other coordinators share the ledger now and have agreed on its terms; one
    /// that waits for its turn to begin has not.
    pub(crate) async fn others(&mut self) -> Result<u64, LedgerError> {
        let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted \
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
            AND CAST(classid AS BIGINT) = CAST(hashtext('cloison terms') AS BIGINT) & 4294967295 \
            AND CAST(objid AS BIGINT) = CAST(hashtext(current_schema()) AS BIGINT) & 4294967295 AND pid <> pg_backend_pid()";
        let (others,) = self.row::<(i64,)>(sql, &[]).await?.unwrap_or_default();
        Ok(u64::try_from(others).unwrap_or_default())
    }

    async fn check_durable(&mut self) -> Result<(), LedgerError> {
        match self {
            Self::Sqlite(_) => {
                let (synchronous,) =
                    self.row::<(i64,)>("PRAGMA synchronous", &[]).await?.unwrap_or_default();
                let (journal,) =
                    self.row::<(String,)>("PRAGMA journal_mode", &[]).await?.unwrap_or_default();
                if synchronous != 2 {
                    return Err(LedgerError::NotDurable(format!(
                        "SQLite's `synchronous` is {synchronous}, not 2 (FULL)"
                    )));
                }
                if !journal.eq_ignore_ascii_case("wal") {
                    let why =
                        "the file system may lack shared memory; put the ledger on a local disk";
                    return Err(LedgerError::NotDurable(format!(
                        "SQLite's journal is `{journal}`, not `wal`: {why}"
                    )));
                }
            }
            Self::Postgres(_) => {
                self.execute("SET synchronous_commit = on", &[]).await?;
                for setting in ["synchronous_commit", "fsync", "full_page_writes"] {
                    let sql = "SELECT current_setting($1)";
                    let (value,) = self
                        .row::<(String,)>(sql, &[Arg::Text(setting)])
                        .await?
                        .unwrap_or_default();
                    if value != "on" {
                        return Err(LedgerError::NotDurable(format!(
                            "PostgreSQL's `{setting}` is `{value}`, not `on`"
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// Closes the connection; a failure to do so is ignored.
    pub(crate) async fn close(self) {
        match self {
            Self::Sqlite(c) => {
                let _ = c.close().await;
            }
            Self::Postgres(c) => c.close().await,
        }
    }
}

/// Opens an existing ledger.
pub(super) async fn existing(place: &DatabaseLocation) -> Result<Connection, LedgerError> {
    let mut connection = place.connect(false).await?;
    if !connection.is_ledger().await? {
        return Err(LedgerError::Missing);
    }
    if !connection.is_current().await? {
        return Err(LedgerError::Unsupported(
            "the ledger was kept by an older version of this program; `coordinator serve` brings it up to date",
        ));
    }
    Ok(connection)
}

/// Returns a JSON array of texts: one parameter for any number of rows.
pub(super) fn json<S: serde::Serialize>(
    texts: impl IntoIterator<Item = S>,
) -> Result<String, LedgerError> {
    let texts: Vec<S> = texts.into_iter().collect();
    serde_json::to_string(&texts).map_err(|e| LedgerError::Storage(e.to_string()))
}
