//! A ledger in a SQLite file.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use sqlx::migrate::{Migration, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, SqlSafeStr, SqliteConnection};

use super::super::LedgerError;
use super::migrations::{step, with};

/// SQLite's migrations, with its keyword for tables that are their own index.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let journal = include_str!("../../../migrations/sqlite/0007_journal.sql");
    let all = with([step(7, "journal", journal)]);
    let clustered = all.iter().map(|m| {
        let sql = AssertSqlSafe(m.sql.as_str().replace("/* clustered */", "WITHOUT ROWID"))
            .into_sql_str();
        Migration::new(m.version, m.description.clone(), m.migration_type, sql, m.no_tx)
    });
    Migrator::with_migrations(clustered.collect())
});

/// Longest wait for another process (a backup, an erasure).
const BUSY: Duration = Duration::from_secs(10);
/// The page cache (at most 256 MiB, in KiB), and the pages that the log may hold before they are
/// copied into the database (256 MiB). Record ids come in no order, so a commit writes about one
/// page per row: with a quarter of these, known records went half as fast.
const CACHE_KIB: &str = "-262144";
const CHECKPOINT_PAGES: &str = "65536";

/// Opens a file, and creates a missing one if `create`.
pub(super) async fn open(path: &Path, create: bool) -> Result<SqliteConnection, LedgerError> {
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
        // Deleted data is overwritten, not just unlinked: an erased id may stand in a page that the
        // journal once had.
        .pragma("secure_delete", "ON")
        .pragma("cache_size", CACHE_KIB)
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        .foreign_keys(false)
        .disable_statement_logging();
    Ok(options.connect().await?)
}

/// Applies the migrations that are missing.
pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<(), LedgerError> {
    Ok(MIGRATIONS.run_direct(None, connection, false).await?)
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
