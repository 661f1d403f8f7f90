//! Backup, retention and erasure. They work beside a running coordinator: each transaction is
//! short, and requests that come meanwhile wait for it.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;
use vfl_core::clock::seconds;

use super::chain::{self, RowCounts, Sums};
use super::connection::{Arg, Connection, DatabaseLocation, existing, private, sync_directory};
use super::erasure::{COUNT, ErasureKey};
use super::{LedgerError, journal};

/// Rows of one transaction of [`retain`].
const CHUNK: i64 = 20_000;

/// The counts of what [`retain`] forgot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct RetentionCounts {
    /// Request ids that were forgotten: a retry of one is a new request.
    pub request_ids: u64,
    /// Rows that lost a time but kept the count and the binding.
    pub times: u64,
    /// Records that were deleted, whose budgets and bindings begin anew. 0 unless that was asked
    /// for.
    pub freed_records: u64,
    /// Links of the chain of releases that were removed. The first link that stays has the sums
    /// themselves.
    pub links: u64,
}

/// The counts of what [`erase`] erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ErasureCounts {
    /// Rows whose id and times were erased.
    pub rows: u64,
    /// Queries of these rows, which are kept under a keyed hash of the id.
    pub queries: u64,
}

/// Copies the ledger into a new file, whole and consistent, while the coordinator runs. SQLite
/// only.
///
/// A restored backup hands back the budgets that were spent since it was made.
///
/// # Errors
/// [`LedgerError::Unsupported`] for PostgreSQL, [`LedgerError::Storage`] if the file is there or
/// cannot be written.
pub async fn backup(url: &str, out: &Path) -> Result<(), LedgerError> {
    let place = DatabaseLocation::parse(url)?;
    if let DatabaseLocation::Postgres(_) = place {
        return Err(LedgerError::Unsupported(
            "a ledger in PostgreSQL is backed up with pg_dump or with base backups",
        ));
    }
    let failed =
        |e: std::io::Error| LedgerError::Storage(format!("cannot write {}: {e}", out.display()));
    let mut connection = existing(&place).await?;
    // The name is reserved first, so that nothing is overwritten. The copy is written next to it,
    // so that the name never holds half a copy.
    private(OpenOptions::new().create_new(true).write(true)).open(out).map_err(failed)?;
    let mut partial = out.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let copied = async {
        let made =
            private(OpenOptions::new().create(true).truncate(true).write(true)).open(partial);
        drop(made.map_err(failed)?);
        let name =
            partial.to_str().ok_or(LedgerError::Unsupported("the path of a backup is UTF-8"))?;
        connection.execute("VACUUM INTO $1", &[Arg::Text(name)]).await?;
        File::open(partial).and_then(|f| f.sync_all()).map_err(failed)?;
        std::fs::rename(partial, out).and_then(|()| sync_directory(out)).map_err(failed)
    };
    let copied = copied.await;
    if copied.is_err() {
        let _ = (std::fs::remove_file(partial), std::fs::remove_file(out));
    }
    connection.close().await;
    copied
}

/// Forgets request ids and times older than `days` before `now`. Counts and bindings stay, so no
/// budget is freed; with `free_budgets` the records that nobody asked for since (or whose times are
/// forgotten) are deleted as well, and their budgets and bindings begin anew.
///
/// # Errors
/// [`LedgerError::Url`], [`LedgerError::Missing`], [`LedgerError::Storage`]. What was forgotten
/// before a failure stays so.
pub async fn retain(
    url: &str,
    days: u32,
    free_budgets: bool,
    now: SystemTime,
) -> Result<RetentionCounts, LedgerError> {
    let mut connection = existing(&DatabaseLocation::parse(url)?).await?;
    let before = seconds(now).saturating_sub(i64::from(days) * 86_400);
    let mut retained = RetentionCounts::default();
    connection.begin().await?;
    retained.request_ids =
        connection.execute("DELETE FROM requests WHERE at < $1", &[Arg::Int(before)]).await?;
    connection.commit().await?;
    for (party,) in connection.rows::<(i64,)>("SELECT id FROM parties ORDER BY id", &[]).await? {
        let mut after = String::new();
        loop {
            connection.begin().await?;
            journal::fold(&mut connection).await?;
            let chunk = "SELECT max(record) FROM \
                (SELECT record FROM uses WHERE party = $1 AND record > $2 ORDER BY record LIMIT $3) chunk";
            let args = [Arg::Int(party), Arg::Text(&after), Arg::Int(CHUNK)];
            let Some((Some(to),)) = connection.row::<(Option<String>,)>(chunk, &args).await? else {
                connection.commit().await?;
                break;
            };
            let range = [Arg::Int(party), Arg::Text(&after), Arg::Text(&to), Arg::Int(before)];
            retained.times += connection.execute(FORGET_TIMES, &range).await?;
            if free_budgets {
                retained.freed_records += free(&mut connection, &range, now).await?;
            }
            connection.commit().await?;
            after = to;
        }
    }
    connection.begin().await?;
    retained.links = chain::shorten(&mut connection, before).await?;
    connection.commit().await?;
    scrub(&mut connection).await?;
    connection.close().await;
    Ok(retained)
}

const FORGET_TIMES: &str = "UPDATE uses SET \
    first_at = CASE WHEN first_at < $4 THEN NULL ELSE first_at END, last_at = CASE WHEN last_at < $4 THEN NULL ELSE last_at END \
    WHERE party = $1 AND record > $2 AND record <= $3 AND (first_at < $4 OR last_at < $4)";

/// Deletes the records of a range that were last asked for before the limit: by now, all their last
/// times are NULL. So are those of an erased record; there the time of the erasure counts. Returns
/// the number of records.
async fn free(
    connection: &mut Connection,
    range: &[Arg<'_>; 4],
    now: SystemTime,
) -> Result<u64, LedgerError> {
    let old = "SELECT count(*) FROM (SELECT record FROM uses WHERE party = $1 AND record > $2 AND record <= $3 \
        AND NOT EXISTS (SELECT 1 FROM erased WHERE erased.record = uses.record AND erased.at >= $4) \
        GROUP BY record HAVING count(last_at) = 0) old";
    let (records,) = connection.row::<(i64,)>(old, range).await?.unwrap_or_default();
    let counted = "SELECT parties.name, models.name, policies.name, CAST(sum(uses.queries) AS BIGINT) FROM uses \
        JOIN parties ON parties.id = uses.party JOIN models ON models.id = uses.model JOIN policies ON policies.id = uses.policy \
        WHERE uses.party = $1 AND uses.record > $2 AND uses.record <= $3 \
        AND NOT EXISTS (SELECT 1 FROM erased WHERE erased.record = uses.record AND erased.at >= $4) AND NOT EXISTS \
        (SELECT 1 FROM uses later WHERE later.party = uses.party AND later.record = uses.record AND later.last_at IS NOT NULL) \
        GROUP BY parties.name, models.name, policies.name";
    let counted = connection.rows::<(String, String, String, i64)>(counted, range).await?;
    let delete = "DELETE FROM uses WHERE party = $1 AND record > $2 AND record <= $3 \
        AND NOT EXISTS (SELECT 1 FROM erased WHERE erased.record = uses.record AND erased.at >= $4) AND NOT EXISTS \
        (SELECT 1 FROM uses later WHERE later.party = uses.party AND later.record = uses.record AND later.last_at IS NOT NULL)";
    connection.execute(delete, range).await?;
    let update = "UPDATE parties SET records = records - $2 WHERE id = $1";
    connection.execute(update, &[range[0], Arg::Int(records)]).await?;
    let mut sums = Sums::default();
    for (party, model, policy, queries) in counted {
        sums.records.insert(party.clone(), -records);
        sums.rows.insert(
            (party, model, policy),
            RowCounts { granted: -queries, ..RowCounts::default() },
        );
    }
    if records > 0 {
        let what = format!("retention deleted {records} records: their budgets begin anew");
        chain::note(connection, now, what, sums).await?;
    }
    Ok(u64::try_from(records).unwrap_or_default())
}

/// Erases a person's entries: a keyed hash replaces the id, and the times are deleted; counts and
/// bindings stay under that hash and go on counting. So no budget is handed back, and the id never
/// stands in the ledger again.
///
/// Backups made before still hold the id.
///
/// # Errors
/// [`LedgerError::Url`], [`LedgerError::Missing`], [`LedgerError::Storage`].
pub async fn erase(url: &str, record: &str, now: SystemTime) -> Result<ErasureCounts, LedgerError> {
    let mut connection = existing(&DatabaseLocation::parse(url)?).await?;
    let pseudonym = ErasureKey::read(&mut connection).await?.pseudonym(record);
    let mut erased = ErasureCounts::default();
    connection.begin().await?;
    journal::fold(&mut connection).await?;
    for (party,) in connection.rows::<(i64,)>("SELECT id FROM parties ORDER BY id", &[]).await? {
        let sum = "SELECT CAST(coalesce(sum(queries), 0) AS BIGINT) FROM uses WHERE party = $1 AND record = $2";
        let args = [Arg::Int(party), Arg::Text(record), Arg::Text(&pseudonym)];
        let (queries,) = connection.row::<(i64,)>(sum, &args[..2]).await?.unwrap_or_default();
        let update = "UPDATE uses SET record = $3, first_at = NULL, last_at = NULL WHERE party = $1 AND record = $2";
        erased.rows += connection.execute(update, &args).await?;
        erased.queries += u64::try_from(queries).unwrap_or_default();
    }
    if erased.rows > 0 {
        let add = "INSERT INTO erased (record, at) VALUES ($1, $2) ON CONFLICT (record) DO NOTHING";
        connection.execute(add, &[Arg::Text(&pseudonym), Arg::Int(seconds(now))]).await?;
        // A running coordinator reads the erased records again when this number changes.
        let count =
            "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + 1 AS TEXT) WHERE name = $1";
        connection.execute(count, &[Arg::Text(COUNT)]).await?;
    }
    connection.commit().await?;
    scrub(&mut connection).await?;
    connection.close().await;
    Ok(erased)
}

/// Removes deleted data from the files too, as far as the engine allows.
async fn scrub(connection: &mut Connection) -> Result<(), LedgerError> {
    match connection {
        // The log still holds the old pages until it is copied into the database and truncated.
        Connection::Sqlite(_) => {
            let row =
                connection.row::<(i64, i64, i64)>("PRAGMA wal_checkpoint(TRUNCATE)", &[]).await?;
            match row {
                Some((0, _, _)) => Ok(()),
                _ => Err(LedgerError::Unsupported(
                    "done, but the log file still holds what was removed, as somebody reads the ledger (a backup?); run the same \
                     command again when that has ended",
                )),
            }
        }
        Connection::Postgres(_) => connection.execute_text("VACUUM uses".into()).await,
    }
}
