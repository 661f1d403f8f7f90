//! A ledger on a PostgreSQL server.

use std::sync::LazyLock;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnectOptions;
pub(super) use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection as _, FromRow, PgConnection};

use super::super::LedgerError;
use super::migrations::{step, with};
use super::statement::{Arg, bound};

/// PostgreSQL's migrations; its own are for several coordinators on one ledger.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    with([
        step(3, "rates", include_str!("../../../migrations/postgres/0003_rates.sql")),
        step(4, "models", include_str!("../../../migrations/postgres/0004_models.sql")),
        step(5, "audits", include_str!("../../../migrations/postgres/0005_audits.sql")),
    ])
});

/// Longest time for the server to answer a new connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest time for closing a connection.
const FAREWELL: Duration = Duration::from_secs(1);

/// The options of a server. The URL may hold a password: no `Debug`.
#[derive(Clone)]
pub(crate) struct PostgresServer(Box<PgConnectOptions>);

impl PostgresServer {
    /// Reads the URL of a server.
    pub(super) fn parse(url: &str) -> Result<Self, LedgerError> {
        let options = vfl_state::postgres_url::options(url, "cloison ledger");
        Ok(Self(Box::new(options.map_err(|e| LedgerError::Url(e.0))?)))
    }

    /// Connects. The connection waits for answers as long as for this one, until
    /// [`PostgresConnection::wait_up_to`].
    pub(super) async fn connect(&self) -> Result<PostgresConnection, LedgerError> {
        let options = self.0.as_ref().clone().disable_statement_logging();
        let connection = answered(Some(CONNECT), options.connect()).await?;
        Ok(PostgresConnection { connection, patience: Some(CONNECT) })
    }
}

/// A connection to a server. After an answer that did not come in time it is of no use any more.
pub(crate) struct PostgresConnection {
    connection: PgConnection,
    /// The longest that the server may take to answer.
    patience: Option<Duration>,
}

impl PostgresConnection {
    pub(super) fn wait_up_to(&mut self, patience: Option<Duration>) {
        self.patience = patience;
    }

    /// Runs a statement and returns the number of rows it changed.
    pub(super) async fn execute(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<u64, LedgerError> {
        let work = bound!(sql, args).execute(&mut self.connection);
        Ok(answered(self.patience, work).await?.rows_affected())
    }

    /// Runs a statement that was built at run time.
    pub(super) async fn execute_text(&mut self, sql: String) -> Result<(), LedgerError> {
        let work = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection);
        answered(self.patience, work).await.map(drop)
    }

    /// Returns every row of a query.
    pub(super) async fn rows<T: for<'r> FromRow<'r, PgRow>>(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<Vec<T>, LedgerError> {
        let work = bound!(sql, args).fetch_all(&mut self.connection);
        let rows = answered(self.patience, work).await?;
        rows.iter().map(|row| Ok(T::from_row(row)?)).collect()
    }

    /// Applies the migrations that are missing.
    pub(super) async fn migrate(&mut self) -> Result<(), LedgerError> {
        Ok(MIGRATIONS.run_direct(None, &mut self.connection, false).await?)
    }

    /// Closes the connection, without waiting long for the server.
    pub(super) async fn close(self) {
        // The server ends the session in any case.
        let _ = tokio::time::timeout(FAREWELL, self.connection.close()).await;
    }
}

/// Waits for the server's answer, at most for `patience`.
async fn answered<T>(
    patience: Option<Duration>,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, LedgerError> {
    let Some(patience) = patience else { return Ok(work.await?) };
    let answer = tokio::time::timeout(patience, work).await;
    Ok(answer.map_err(|_| LedgerError::Storage("the database does not answer".into()))??)
}
