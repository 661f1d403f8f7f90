//! The database that coordinators share, with one connection that requests take in turn.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

use crate::ledger::LedgerError;
use crate::ledger::connection::{Arg, Connection, DatabaseLocation};

/// Rows of `meta`: the version in service, and the number of changes so far.
pub(super) const CURRENT: &str = "current";
pub(super) const CHANGES: &str = crate::ledger::REGISTRY;

/// Longest wait of a request for its turn with the connection.
const TURN: Duration = Duration::from_secs(30);
/// Longest time for a connection to answer that it is alive.
const ALIVE: Duration = Duration::from_secs(5);

/// The database that the coordinators of one name share.
pub struct Replicas {
    place: DatabaseLocation,
    /// One connection, which requests take in turn; `None` after a failure.
    slot: Mutex<Option<Connection>>,
}

impl std::fmt::Debug for Replicas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Replicas")
    }
}

/// The connection, for one piece of work. If that ends early, the connection is dropped, and with
/// it what was not committed.
pub(super) struct Lease<'a> {
    slot: MutexGuard<'a, Option<Connection>>,
    pub(super) connection: Connection,
}

impl Lease<'_> {
    pub(super) fn done(mut self) {
        *self.slot = Some(self.connection);
    }
}

impl Replicas {
    /// Creates the access to the database of an open ledger. Connects on first use.
    ///
    /// # Errors
    /// [`LedgerError::Url`]; [`LedgerError::Unsupported`] in a program that was built without
    /// PostgreSQL.
    pub fn new(url: &str) -> Result<Self, LedgerError> {
        Ok(Self { place: DatabaseLocation::parse(url)?, slot: Mutex::new(None) })
    }

    pub(super) async fn lease(&self) -> Result<Lease<'_>, LedgerError> {
        let silent = |_| LedgerError::Storage("the database does not answer".into());
        let mut slot = tokio::time::timeout(TURN, self.slot.lock()).await.map_err(silent)?;
        // A connection that was lost while nobody asked, as when the database was started again, is
        // made anew.
        if let Some(mut connection) = slot.take()
            && let Ok(Ok(_)) =
                tokio::time::timeout(ALIVE, connection.execute("SELECT 1", &[])).await
        {
            return Ok(Lease { slot, connection });
        }
        let connection = self.connect().await?;
        Ok(Lease { slot, connection })
    }

    pub(super) async fn connect(&self) -> Result<Connection, LedgerError> {
        let mut connection = self.place.connect(false).await?;
        connection.bound().await?;
        Ok(connection)
    }
}

/// Counts a change, which other coordinators must then read.
pub(super) async fn count_change(connection: &mut Connection) -> Result<(), LedgerError> {
    let count = "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + 1 AS TEXT) WHERE name = $1";
    connection.execute(count, &[Arg::Text(CHANGES)]).await.map(drop)
}
