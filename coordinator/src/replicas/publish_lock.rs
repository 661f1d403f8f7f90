//! The turn to train and to publish, which one coordinator has at a time.

use std::time::SystemTime;

use super::database::{CURRENT, Replicas, count_change};
use super::models::{Publication, add_trained, add_version};
use crate::ledger::LedgerError;
use crate::ledger::connection::{Arg, Connection};

impl Replicas {
    /// Takes the lock of the one coordinator that trains or publishes; `None` if another one has
    /// it. The lock lives as long as the connection, and so no longer than this process.
    pub(crate) async fn turn(&self) -> Result<Option<DatabasePublishLock>, LedgerError> {
        let mut connection = self.connect().await?;
        let sql =
            "SELECT pg_try_advisory_lock(hashtext('cloison training'), hashtext(current_schema()))";
        match connection.row::<(bool,)>(sql, &[]).await? {
            Some((true,)) => {
                let current = connection.meta(CURRENT).await?.unwrap_or_default();
                Ok(Some(DatabasePublishLock { connection, current }))
            }
            _ => {
                connection.close().await;
                Ok(None)
            }
        }
    }
}

/// The right to train and to publish, held by one coordinator at a time.
pub(crate) struct DatabasePublishLock {
    connection: Connection,
    /// The version in service when the turn began; empty if there was none.
    current: String,
}

impl std::fmt::Debug for DatabasePublishLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Turn")
    }
}

/// Returns `true` if a connection holds the lock. Even one that is alive may not: a pooler may have
/// exchanged the session behind it.
async fn holds(connection: &mut Connection) -> Result<bool, LedgerError> {
    let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND pid = pg_backend_pid() \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
        AND CAST(classid AS BIGINT) = CAST(hashtext('cloison training') AS BIGINT) & 4294967295 \
        AND CAST(objid AS BIGINT) = CAST(hashtext(current_schema()) AS BIGINT) & 4294967295";
    Ok(connection.row::<(i64,)>(sql, &[]).await?.is_some_and(|(held,)| held > 0))
}

impl DatabasePublishLock {
    /// Returns `true` if this coordinator still has the turn.
    pub(crate) async fn held(&mut self) -> Result<bool, LedgerError> {
        holds(&mut self.connection).await
    }

    /// Begins a transaction, if this coordinator still has the turn.
    async fn begin(&mut self) -> Result<(), LedgerError> {
        self.connection.begin().await?;
        if holds(&mut self.connection).await? {
            return Ok(());
        }
        self.connection.execute("ROLLBACK", &[]).await?;
        Err(LedgerError::Storage("the lock of the one that trains is no longer held".into()))
    }

    /// Records the ids of a training that begins: no coordinator scores them any more, from its
    /// next request on.
    pub(crate) async fn begin_training(
        &mut self,
        ids: &str,
        records: &str,
        at: SystemTime,
    ) -> Result<(), LedgerError> {
        self.begin().await?;
        let connection = &mut self.connection;
        if add_trained(connection, ids, records, at).await? {
            count_change(connection).await?;
        }
        connection.commit().await
    }

    /// Puts a version in service, all of it in one transaction, on the very connection that holds
    /// the lock: a coordinator that has lost the lock publishes nothing. Returns `false` if another
    /// version was put in service since the turn began.
    pub(crate) async fn publish(
        &mut self,
        publication: &Publication,
        at: SystemTime,
    ) -> Result<bool, LedgerError> {
        self.begin().await?;
        let connection = &mut self.connection;
        let switch = "UPDATE meta SET value = $2 WHERE name = $1 AND value = $3";
        let args = [Arg::Text(CURRENT), Arg::Text(&publication.version), Arg::Text(&self.current)];
        let switched = connection.execute(switch, &args).await? == 1;
        if switched {
            add_version(connection, publication, at).await?;
            count_change(connection).await?;
        }
        connection.commit().await?;
        if switched {
            self.current.clone_from(&publication.version);
        }
        Ok(switched)
    }

    /// Ends the turn, so that another coordinator may have it.
    pub(crate) async fn end(self) {
        self.connection.close().await;
    }
}
