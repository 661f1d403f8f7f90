//! One connection to the ledger's database, of either engine.
//!
//! Statements are written once, in the SQL that both understand (`$1` for parameters, `CAST`, `ON
//! CONFLICT`); the few that differ are pairs, see [`Connection::pick`]. Statements are never
//! logged: their parameters hold record ids.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection as _, FromRow, PgConnection, SqlSafeStr,
    SqliteConnection,
};

use super::LedgerError;

/// The migrations that both engines have. Listed here and not by sqlx's macro, which would build
/// its engines a second time.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let step = |version, name: &'static str, sql: &'static str| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(vec![
        step(1, "ledger", include_str!("../../migrations/0001_ledger.sql")),
        step(2, "models", include_str!("../../migrations/0002_models.sql")),
        step(6, "chain", include_str!("../../migrations/0006_chain.sql")),
        step(8, "bits", include_str!("../../migrations/0008_bits.sql")),
    ])
});

/// SQLite's migrations: the common ones and its own. One set, as applied ones must all be known.
static SQLITE_MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let journal = include_str!("../../migrations/sqlite/0007_journal.sql").into_sql_str();
    let mut all: Vec<Migration> = MIGRATIONS.iter().cloned().collect();
    all.push(Migration::new(7, "journal".into(), MigrationType::Simple, journal, false));
    Migrator::with_migrations(all)
});

/// PostgreSQL's migrations: the common ones, and its own for several coordinators on one ledger.
/// One set, as applied ones must all be known.
static POSTGRES_MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let step = |version, name: &'static str, sql: &'static str| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    let mut all: Vec<Migration> = MIGRATIONS.iter().cloned().collect();
    all.push(step(3, "rates", include_str!("../../migrations/postgres/0003_rates.sql")));
    all.push(step(4, "models", include_str!("../../migrations/postgres/0004_models.sql")));
    all.push(step(5, "audits", include_str!("../../migrations/postgres/0005_audits.sql")));
    all.sort_by_key(|step| step.version);
    Migrator::with_migrations(all)
});

/// Longest wait of SQLite for another process (a backup, an erasure).
const BUSY: Duration = Duration::from_secs(10);
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
/// Longest time for closing a connection.
const FAREWELL: Duration = Duration::from_secs(1);
/// Longest time for PostgreSQL to answer a new connection.
const CONNECT: Duration = Duration::from_secs(10);
/// SQLite's page cache (at most 256 MiB, in KiB), and the pages that the log may hold before they
/// are copied into the database (256 MiB). Record ids come in no order, so a commit writes about
/// one page per row: with a quarter of these, known records went half as fast.
const CACHE_KIB: &str = "-262144";
const CHECKPOINT_PAGES: &str = "65536";

/// The location of a ledger.
#[derive(Clone)]
pub(crate) enum DatabaseLocation {
    Sqlite(PathBuf),
    /// The options of a server. The URL may hold a password: no `Debug`.
    Postgres(Box<PgConnectOptions>),
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
            let options = vfl_state::postgres_url::options(url, "cloison ledger")
                .map_err(|e| LedgerError::Url(e.0))?;
            return Ok(Self::Postgres(Box::new(options)));
        }
        Err(LedgerError::Url("a ledger is `sqlite:PATH` or `postgres://…`"))
    }

    /// Returns `true` if there may be a ledger: a file must be there and hold something.
    pub(crate) fn may_hold_a_ledger(&self) -> bool {
        match self {
            Self::Sqlite(path) => std::fs::metadata(path).is_ok_and(|m| m.len() > 0),
            Self::Postgres(..) => true,
        }
    }

    /// Connects, and checks that a commit is on disk when it returns. Creates a missing SQLite file
    /// if `create`.
    pub(crate) async fn connect(&self, create: bool) -> Result<Connection, LedgerError> {
        let mut connection = match self {
            Self::Sqlite(path) => {
                if create {
                    create_private(path)?;
                } else if !path.exists() {
                    return Err(LedgerError::Missing);
                }
                let options = SqliteConnectOptions::new()
                    .filename(path)
                    .create_if_missing(false)
                    .busy_timeout(BUSY)
                    .journal_mode(SqliteJournalMode::Wal)
                    .synchronous(SqliteSynchronous::Full)
                    // Where fsync does not reach the disk (macOS), SQLite then asks for a full one.
                    .pragma("fullfsync", "1")
                    .pragma("checkpoint_fullfsync", "1")
                    // Deleted data is overwritten, not just unlinked: an erased id may stand in a
                    // page that the journal once had.
                    .pragma("secure_delete", "ON")
                    .pragma("cache_size", CACHE_KIB)
                    .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
                    .foreign_keys(false)
                    .disable_statement_logging();
                Connection::Sqlite(options.connect().await?)
            }
            Self::Postgres(options) => {
                let connecting = options.as_ref().clone().disable_statement_logging();
                Connection::Postgres(
                    answered(Some(CONNECT), connecting.connect()).await?,
                    Some(CONNECT),
                )
            }
        };
        connection.check_durable().await?;
        connection.wait_up_to(None);
        Ok(connection)
    }
}

/// An open connection.
pub(crate) enum Connection {
    Sqlite(SqliteConnection),
    /// A connection to a PostgreSQL server, and how long that may take to answer. After an answer
    /// that did not come in time the connection is of no use any more.
    Postgres(PgConnection, Option<Duration>),
}

/// Waits for the database's answer, at most for `patience`.
async fn answered<T>(
    patience: Option<Duration>,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, LedgerError> {
    let Some(patience) = patience else { return Ok(work.await?) };
    let answer = tokio::time::timeout(patience, work).await;
    Ok(answer.map_err(|_| LedgerError::Storage("the database does not answer".into()))??)
}

/// A parameter of a statement.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    /// A value of SQL type BIGINT.
    Int(i64),
    /// A value of SQL type TEXT.
    Text(&'a str),
    /// A value of SQL type BYTEA.
    Bytes(&'a [u8]),
}

macro_rules! bound {
    ($sql:expr, $args:expr) => {{
        let mut query = sqlx::query($sql);
        for arg in $args {
            query = match *arg {
                Arg::Int(value) => query.bind(value),
                Arg::Text(value) => query.bind(value.to_owned()),
                Arg::Bytes(value) => query.bind(value.to_vec()),
            };
        }
        query
    }};
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
            Self::Postgres(..) => postgres,
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
            Self::Postgres(c, patience) => {
                answered(*patience, bound!(sql, args).execute(c)).await?.rows_affected()
            }
        })
    }

    /// Runs a statement that was built at run time from checked parts, such as a quoted path.
    pub(crate) async fn execute_text(&mut self, sql: String) -> Result<(), LedgerError> {
        match self {
            Self::Sqlite(c) => {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(c).await?;
            }
            Self::Postgres(c, patience) => {
                answered(*patience, sqlx::raw_sql(AssertSqlSafe(sql)).execute(c)).await?;
            }
        }
        Ok(())
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
            Self::Postgres(c, patience) => {
                let rows = answered(*patience, bound!(sql, args).fetch_all(c)).await?;
                rows.iter().map(|row| Ok(T::from_row(row)?)).collect()
            }
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
            Self::Postgres(..) => {
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
            Self::Sqlite(c) => clustered(&SQLITE_MIGRATIONS).run_direct(None, c, false).await?,
            Self::Postgres(c, _) => POSTGRES_MIGRATIONS.run_direct(None, c, false).await?,
        }
        Ok(())
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
        if let Self::Postgres(_, waits) = self {
            *waits = patience;
        }
    }

    /// Bounds how long a session in PostgreSQL may hold others up, and how long it waits.
    pub(crate) async fn bound(&mut self) -> Result<(), LedgerError> {
        self.impatient();
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(..) => self.execute_text(SHARED_SESSION.into()).await,
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
            Self::Postgres(..) => {
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
        let _ = match self {
            Self::Sqlite(c) => c.close().await,
            Self::Postgres(c, _) => match tokio::time::timeout(FAREWELL, c.close()).await {
                Ok(closed) => closed,
                Err(_) => Ok(()),
            },
        };
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

/// Returns the migrations with SQLite's keyword for tables that are their own index.
fn clustered(migrations: &Migrator) -> Migrator {
    let rewritten = migrations.iter().map(|m| {
        let sql = AssertSqlSafe(m.sql.as_str().replace("/* clustered */", "WITHOUT ROWID"))
            .into_sql_str();
        Migration::new(m.version, m.description.clone(), m.migration_type, sql, m.no_tx)
    });
    Migrator::with_migrations(rewritten.collect())
}

/// Creates the file if there is none, for this user alone: the ledger says who was asked about. An
/// existing file is not even opened: closing it again would drop the locks that SQLite holds on it
/// in this process.
fn create_private(path: &Path) -> Result<(), LedgerError> {
    let failed =
        |e: std::io::Error| LedgerError::Storage(format!("cannot make {}: {e}", path.display()));
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    match private(&mut options).open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(failed(e)),
        Ok(_) => sync_directory(path).map_err(failed),
    }
}

/// Restricts a new file to this user.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

/// Makes the name of a new file durable.
pub(crate) fn sync_directory(path: &Path) -> std::io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(parent)?.sync_all() } else { Ok(()) }
}

/// Returns a JSON array of texts: one parameter for any number of rows.
pub(super) fn json<S: serde::Serialize>(
    texts: impl IntoIterator<Item = S>,
) -> Result<String, LedgerError> {
    let texts: Vec<S> = texts.into_iter().collect();
    serde_json::to_string(&texts).map_err(|e| LedgerError::Storage(e.to_string()))
}
