//! Audit sessions in the database.

use std::collections::HashSet;

use vfl_core::types::RecordIds;
use vfl_core::{hex, unhex};
use vfl_state::disjoint_sets::DisjointSets;

use super::database::{CURRENT, Replicas};
use crate::ledger::LedgerError;
use crate::ledger::connection::{Arg, Connection};
use crate::share::ShareHash;

/// The only row of `audit_sets`.
const SETS: i64 = 1;

/// Begins a transaction in which each statement sees what was committed before it, whatever the
/// server's default, so that those after a lock see all that was before it.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// A session, as the database stores it.
#[derive(Debug, Clone)]
pub(crate) struct StoredSession {
    /// The audited version.
    pub(crate) model: String,
    /// The fingerprint of its passive parameters.
    pub(crate) passive: String,
    /// The active party that may use the session.
    pub(crate) active_party: String,
    /// The policy, in JSON.
    pub(crate) policy: String,
    /// The records, one id a line.
    pub(crate) records: String,
    /// Rows that the session may still answer.
    pub(crate) rows_left: i64,
}

/// The limits of sessions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionLimits {
    /// Sessions open at once.
    pub(crate) sessions: u64,
    /// Records whose shares are bound, over all models.
    pub(crate) bound: u64,
    pub(crate) lifetime_s: i64,
}

/// The outcome of opening a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenOutcome {
    /// The session is open.
    Yes,
    /// Too many sessions are open: so many.
    TooMany(u64),
    /// The shares of too many records are bound.
    Full,
    /// Another model has been put in service meanwhile.
    Replaced,
}

/// The outcome of taking rows off a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpendOutcome {
    /// The rows were taken.
    Yes {
        /// The number of changes at that time: see [`Replicas::changes`].
        changes: u64,
    },
    /// Fewer rows are left: so many.
    Left(u64),
    /// No such session is open.
    Gone,
}

/// A session that has ended.
#[derive(Debug)]
pub(crate) struct EndedSession {
    /// The records, one id a line.
    pub(crate) records: String,
    /// Number of these records that were released.
    pub(crate) released: u64,
    /// Rows released and their cost, release by release.
    pub(crate) costs: Vec<(i64, String)>,
}

/// The database's clock, in Unix seconds.
macro_rules! now {
    () => {
        "CAST(extract(epoch FROM clock_timestamp()) AS BIGINT)"
    };
}

impl Replicas {
    /// Opens a session, in place of those whose time is up or whose model is no longer in service.
    pub(crate) async fn open_session(
        &self,
        name: &str,
        session: &StoredSession,
        limits: SessionLimits,
    ) -> Result<OpenOutcome, LedgerError> {
        let mut lease = self.lease().await?;
        let opened = open(&mut lease.connection, name, session, limits).await?;
        lease.done();
        Ok(opened)
    }

    /// Reads an open session.
    pub(crate) async fn session(
        &self,
        name: &str,
        lifetime_s: i64,
    ) -> Result<Option<StoredSession>, LedgerError> {
        let mut lease = self.lease().await?;
        let sql = concat!(
            "SELECT model, passive, active_party, policy, records, rows_left FROM audit_sessions WHERE name = $1 AND opened_at > ",
            now!(),
            " - $2"
        );
        let args = [Arg::Text(name), Arg::Int(lifetime_s)];
        let found = lease
            .connection
            .row::<(String, String, String, String, String, i64)>(sql, &args)
            .await?;
        lease.done();
        Ok(found.map(|(model, passive, active_party, policy, records, rows_left)| StoredSession {
            model,
            passive,
            active_party,
            policy,
            records,
            rows_left,
        }))
    }

    /// Takes rows off a session's budget, or takes none.
    pub(crate) async fn spend_session(
        &self,
        name: &str,
        rows: u64,
        lifetime_s: i64,
    ) -> Result<SpendOutcome, LedgerError> {
        let mut lease = self.lease().await?;
        let connection = &mut lease.connection;
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        let take = concat!(
            "UPDATE audit_sessions SET rows_left = rows_left - $2 WHERE name = $1 AND rows_left >= $2 AND opened_at > ",
            now!(),
            " - $3 RETURNING (SELECT CAST(value AS BIGINT) FROM meta WHERE name = 'registry')"
        );
        let args = [Arg::Text(name), Arg::Int(rows), Arg::Int(lifetime_s)];
        let spent = match connection.row::<(i64,)>(take, &args).await? {
            Some((changes,)) => {
                SpendOutcome::Yes { changes: u64::try_from(changes).unwrap_or_default() }
            }
            None => {
                let left = concat!(
                    "SELECT rows_left FROM audit_sessions WHERE name = $1 AND opened_at > ",
                    now!(),
                    " - $2"
                );
                match connection
                    .row::<(i64,)>(left, &[Arg::Text(name), Arg::Int(lifetime_s)])
                    .await?
                {
                    Some((left,)) => SpendOutcome::Left(u64::try_from(left).unwrap_or_default()),
                    None => SpendOutcome::Gone,
                }
            }
        };
        lease.done();
        Ok(spent)
    }

    /// Binds shares to records; returns the positions of the records that are bound to these
    /// shares.
    pub(crate) async fn bind(
        &self,
        passive: &str,
        shares: &[(&str, ShareHash)],
    ) -> Result<HashSet<usize>, LedgerError> {
        // The order is the same everywhere: two that wait for each other's rows would wait for
        // ever.
        let mut rows: Vec<String> =
            shares.iter().map(|(record, share)| hex(share) + record).collect();
        rows.sort_unstable_by(|a, b| a.get(32..).cmp(&b.get(32..)));
        let rows = serde_json::to_string(&rows).map_err(|e| LedgerError::Storage(e.to_string()))?;
        let mut lease = self.lease().await?;
        let connection = &mut lease.connection;
        let add = "INSERT INTO audit_bound (passive, record, share) SELECT $1, substr(value, 33), substr(value, 1, 32) \
            FROM json_array_elements_text(CAST($2 AS JSON)) i (value) ON CONFLICT (passive, record) DO NOTHING";
        let args = [Arg::Text(passive), Arg::Text(&rows)];
        connection.execute(add, &args).await?;
        let find = "SELECT record, share FROM audit_bound WHERE passive = $1 AND record IN \
            (SELECT substr(value, 33) FROM json_array_elements_text(CAST($2 AS JSON)) i (value))";
        let found = connection.rows::<(String, String)>(find, &args).await?;
        lease.done();
        let bound: std::collections::HashMap<String, ShareHash> = found
            .into_iter()
            .filter_map(|(record, share)| Some((record, unhex(&share)?)))
            .collect();
        let same = shares
            .iter()
            .enumerate()
            .filter(|(_, (record, share))| bound.get(*record) == Some(share));
        Ok(same.map(|(at, _)| at).collect())
    }

    /// Records a release of a session. `cost` returns the cost of the rows that are released for
    /// the first time, given by position. Returns `false` if the session has ended meanwhile, so
    /// that nothing may be released.
    pub(crate) async fn measure(
        &self,
        name: &str,
        ids: &RecordIds,
        cost: impl FnOnce(&[usize]) -> String + Send,
    ) -> Result<bool, LedgerError> {
        let mut rows: Vec<&str> = ids.iter().collect();
        rows.sort_unstable();
        let rows = serde_json::to_string(&rows).map_err(|e| LedgerError::Storage(e.to_string()))?;
        let mut lease = self.lease().await?;
        let connection = &mut lease.connection;
        connection.execute(BEGIN, &[]).await?;
        // This lock holds up the end of the session, so that its sums have everything that is
        // released.
        let hold = "SELECT name FROM audit_sessions WHERE name = $1 FOR KEY SHARE";
        if connection.row::<(String,)>(hold, &[Arg::Text(name)]).await?.is_none() {
            connection.execute("ROLLBACK", &[]).await?;
            lease.done();
            return Ok(false);
        }
        let add = "INSERT INTO audit_released (session, record) SELECT $1, value FROM \
            json_array_elements_text(CAST($2 AS JSON)) i (value) ON CONFLICT DO NOTHING RETURNING record";
        let first = connection.rows::<(String,)>(add, &[Arg::Text(name), Arg::Text(&rows)]).await?;
        let first: HashSet<String> = first.into_iter().map(|(record,)| record).collect();
        let positions: Vec<usize> = ids
            .iter()
            .enumerate()
            .filter(|(_, id)| first.contains(*id))
            .map(|(at, _)| at)
            .collect();
        let cost = cost(&positions);
        let note = "INSERT INTO audit_costs (session, released, cost) VALUES ($1, $2, $3)";
        let released = i64::try_from(ids.len()).unwrap_or(i64::MAX);
        connection.execute(note, &[Arg::Text(name), Arg::Int(released), Arg::Text(&cost)]).await?;
        connection.commit().await?;
        lease.done();
        Ok(true)
    }

    /// Ends a session and returns its sums; `None` if there is none of that name.
    pub(crate) async fn end_session(
        &self,
        name: &str,
    ) -> Result<Option<EndedSession>, LedgerError> {
        let mut lease = self.lease().await?;
        let connection = &mut lease.connection;
        let args = [Arg::Text(name)];
        connection.execute(BEGIN, &[]).await?;
        // Waits for releases that are being recorded, and keeps later ones off: they find no
        // session. What is read after it is complete.
        let hold = "SELECT records FROM audit_sessions WHERE name = $1 FOR UPDATE";
        let Some((records,)) = connection.row::<(String,)>(hold, &args).await? else {
            connection.execute("ROLLBACK", &[]).await?;
            lease.done();
            return Ok(None);
        };
        let sum = "SELECT count(*) FROM audit_released WHERE session = $1";
        let (released,) = connection.row::<(i64,)>(sum, &args).await?.unwrap_or_default();
        let costs = "SELECT released, cost FROM audit_costs WHERE session = $1";
        let costs = connection.rows::<(i64, String)>(costs, &args).await?;
        connection.execute("DELETE FROM audit_sessions WHERE name = $1", &args).await?;
        connection.commit().await?;
        lease.done();
        let released = u64::try_from(released).unwrap_or_default();
        Ok(Some(EndedSession { records, released, costs }))
    }

    /// Admits a set as [`DisjointSets::admit`] does, over the sets of all coordinators.
    pub(crate) async fn admit(&self, ids: &RecordIds) -> Result<Result<(), usize>, LedgerError> {
        let mut lease = self.lease().await?;
        let connection = &mut lease.connection;
        connection.begin().await?;
        let content = sets(connection).await?;
        let failed = |e: vfl_state::state_file::StateFileError| LedgerError::Storage(e.to_string());
        let admitted = DisjointSets::admit_to(content.as_deref(), ids).map_err(failed)?;
        if let Ok(Some(content)) = &admitted {
            let put = "INSERT INTO audit_sets (id, content) VALUES ($1, $2) \
                ON CONFLICT (id) DO UPDATE SET content = excluded.content";
            connection.execute(put, &[Arg::Int(SETS), Arg::Bytes(content)]).await?;
        }
        connection.commit().await?;
        lease.done();
        Ok(admitted.map(drop))
    }

    /// Takes over the sets of a state directory, if the database has none yet.
    pub(crate) async fn adopt_sets(&self, content: &[u8]) -> Result<(), LedgerError> {
        let mut lease = self.lease().await?;
        let put =
            "INSERT INTO audit_sets (id, content) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";
        lease.connection.execute(put, &[Arg::Int(SETS), Arg::Bytes(content)]).await?;
        lease.done();
        Ok(())
    }
}

async fn sets(connection: &mut Connection) -> Result<Option<Vec<u8>>, LedgerError> {
    let sql = "SELECT content FROM audit_sets WHERE id = $1";
    Ok(connection.row::<(Vec<u8>,)>(sql, &[Arg::Int(SETS)]).await?.map(|(content,)| content))
}

async fn open(
    connection: &mut Connection,
    name: &str,
    session: &StoredSession,
    limits: SessionLimits,
) -> Result<OpenOutcome, LedgerError> {
    connection.begin().await?;
    // The version is the database's, not the one in service here: that may be behind, and the
    // sessions of the new model would be deleted.
    let current = connection.meta(CURRENT).await?.unwrap_or_default();
    let over =
        concat!("DELETE FROM audit_sessions WHERE opened_at <= ", now!(), " - $1 OR model <> $2");
    connection.execute(over, &[Arg::Int(limits.lifetime_s), Arg::Text(&current)]).await?;
    if session.model != current {
        connection.commit().await?;
        return Ok(OpenOutcome::Replaced);
    }
    let count =
        |row: Option<(i64,)>| row.and_then(|(n,)| u64::try_from(n).ok()).unwrap_or_default();
    let open = count(connection.row("SELECT count(*) FROM audit_sessions", &[]).await?);
    let ids: Vec<&str> = session.records.lines().collect();
    let records = serde_json::to_string(&ids).map_err(|e| LedgerError::Storage(e.to_string()))?;
    let new = "SELECT count(*) FROM json_array_elements_text(CAST($2 AS JSON)) i (value) \
        WHERE NOT EXISTS (SELECT 1 FROM audit_bound WHERE passive = $1 AND record = value)";
    let new =
        count(connection.row(new, &[Arg::Text(&session.passive), Arg::Text(&records)]).await?);
    let bound = count(connection.row("SELECT count(*) FROM audit_bound", &[]).await?);
    let opened = if open >= limits.sessions {
        OpenOutcome::TooMany(open)
    } else if bound + new > limits.bound {
        OpenOutcome::Full
    } else {
        let add = concat!(
            "INSERT INTO audit_sessions (name, model, passive, active_party, policy, records, rows_left, opened_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, ",
            now!(),
            ")"
        );
        let StoredSession { model, passive, active_party, policy, records, rows_left } = session;
        let texts = [name, model, passive, active_party, policy, records].map(Arg::Text);
        let [a, b, c, d, e, f] = texts;
        connection.execute(add, &[a, b, c, d, e, f, Arg::Int(*rows_left)]).await?;
        OpenOutcome::Yes
    };
    connection.commit().await?;
    Ok(opened)
}
