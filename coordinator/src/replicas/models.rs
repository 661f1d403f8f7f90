//! Published models and the records of trainings in the database: bytes under names, which the
//! registry checks.

use std::time::SystemTime;

use vfl_core::clock::seconds;

use super::database::{CHANGES, CURRENT, Replicas, count_change};
use crate::ledger::LedgerError;
use crate::ledger::connection::{Arg, Connection};

/// A version to be put in service.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) version: String,
    /// The file of its manifest.
    pub(crate) manifest: Vec<u8>,
    /// Hash and file of its top model.
    pub(crate) top: Option<(String, Vec<u8>)>,
    /// The fingerprint of its passive parameters.
    pub(crate) passive: String,
    /// Scores that defenses are fitted on.
    pub(crate) calibration: Option<Vec<u8>>,
}

/// The content of an older state directory, for a database that has nothing yet.
#[derive(Debug, Default)]
pub(crate) struct LocalModels {
    /// The version in service.
    pub(crate) current: Option<String>,
    pub(crate) versions: Vec<Publication>,
    /// The records of trainings, one id a line, by the SHA-256 of that text.
    pub(crate) trained: Vec<(String, String)>,
}

/// The changes that are new to a coordinator.
#[derive(Debug)]
pub(crate) struct ModelUpdates {
    /// Number of changes so far.
    pub(crate) changes: u64,
    /// Records of the trainings that began since, one id a line, by number.
    pub(crate) trained: Vec<(i64, String)>,
    /// The version in service, if it is another one than the coordinator has.
    pub(crate) change: Option<Change>,
}

/// A change of the version in service.
#[derive(Debug)]
pub(crate) enum Change {
    /// No version is in service any more: the database was begun anew.
    None,
    /// Another version is in service.
    To(Publication),
}

impl Replicas {
    /// Fills a database that has no model yet from an older state directory; adds the records of
    /// its trainings in any case.
    pub(crate) async fn adopt(
        &self,
        offer: &LocalModels,
        at: SystemTime,
    ) -> Result<(), LedgerError> {
        let mut lease = self.lease().await?;
        let connection = &mut lease.connection;
        connection.begin().await?;
        let mut changed = false;
        for (ids, records) in &offer.trained {
            changed |= add_trained(connection, ids, records, at).await?;
        }
        if let Some(current) = &offer.current
            && connection.meta(CURRENT).await?.is_none_or(|current| current.is_empty())
        {
            for publication in &offer.versions {
                add_version(connection, publication, at).await?;
            }
            connection.set_meta(CURRENT, current).await?;
            changed = true;
        }
        if changed {
            count_change(connection).await?;
        }
        connection.commit().await?;
        lease.done();
        Ok(())
    }

    /// Returns the number of changes so far.
    pub(crate) async fn changes(&self) -> Result<u64, LedgerError> {
        let mut lease = self.lease().await?;
        let changes = read_changes(&mut lease.connection).await?;
        lease.done();
        Ok(changes)
    }

    /// Returns the changes that are new to a coordinator that serves `current` (empty: nothing) and
    /// knows the trainings up to number `known`.
    pub(crate) async fn news(
        &self,
        current: &str,
        known: i64,
    ) -> Result<ModelUpdates, LedgerError> {
        let mut lease = self.lease().await?;
        let connection = &mut lease.connection;
        // Read everything as of one moment.
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", &[]).await?;
        let changes = read_changes(connection).await?;
        let sql = "SELECT number, records FROM trained WHERE number > $1 ORDER BY number";
        let trained = connection.rows::<(i64, String)>(sql, &[Arg::Int(known)]).await?;
        let found = connection.meta(CURRENT).await?.unwrap_or_default();
        let change = match found.as_str() {
            same if same == current => None,
            "" => Some(Change::None),
            version => Some(Change::To(read_version(connection, version).await?)),
        };
        connection.commit().await?;
        lease.done();
        Ok(ModelUpdates { changes, trained, change })
    }
}

async fn read_changes(connection: &mut Connection) -> Result<u64, LedgerError> {
    let changes = connection.meta(CHANGES).await?.and_then(|n| n.parse().ok());
    changes.ok_or_else(|| {
        LedgerError::Storage("the ledger does not count the changes of its models".into())
    })
}

async fn read_version(
    connection: &mut Connection,
    version: &str,
) -> Result<Publication, LedgerError> {
    let missing = || {
        LedgerError::Storage(format!(
            "model {version} is in service, and the database does not hold it"
        ))
    };
    let sql = "SELECT manifest, top, passive FROM versions WHERE version = $1";
    let row = connection.row::<(Vec<u8>, String, String)>(sql, &[Arg::Text(version)]).await?;
    let (manifest, digest, passive) = row.ok_or_else(missing)?;
    let top = match digest.as_str() {
        "" => None,
        _ => {
            let sql = "SELECT content FROM tops WHERE digest = $1";
            let (content,) = connection
                .row::<(Vec<u8>,)>(sql, &[Arg::Text(&digest)])
                .await?
                .ok_or_else(missing)?;
            Some((digest, content))
        }
    };
    let sql = "SELECT content FROM calibrations WHERE passive = $1";
    let calibration = connection.row::<(Vec<u8>,)>(sql, &[Arg::Text(&passive)]).await?;
    let calibration = calibration.map(|(content,)| content);
    Ok(Publication { version: version.to_owned(), manifest, top, passive, calibration })
}

pub(super) async fn add_version(
    connection: &mut Connection,
    publication: &Publication,
    at: SystemTime,
) -> Result<(), LedgerError> {
    let Publication { version, manifest, top, passive, calibration } = publication;
    if let Some((digest, content)) = top {
        let add =
            "INSERT INTO tops (digest, content) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
        connection.execute(add, &[Arg::Text(digest), Arg::Bytes(content)]).await?;
    }
    if let Some(content) = calibration {
        let add = "INSERT INTO calibrations (passive, content) VALUES ($1, $2) ON CONFLICT (passive) DO NOTHING";
        connection.execute(add, &[Arg::Text(passive), Arg::Bytes(content)]).await?;
    }
    let top = top.as_ref().map_or("", |(digest, _)| digest);
    let add = "INSERT INTO versions (version, manifest, top, passive, at) VALUES ($1, $2, $3, $4, $5) \
        ON CONFLICT (version) DO NOTHING";
    let args = [
        Arg::Text(version),
        Arg::Bytes(manifest),
        Arg::Text(top),
        Arg::Text(passive),
        Arg::Int(seconds(at)),
    ];
    connection.execute(add, &args).await.map(drop)
}

/// Adds the records of a training; returns `true` if they were new.
pub(super) async fn add_trained(
    connection: &mut Connection,
    ids: &str,
    records: &str,
    at: SystemTime,
) -> Result<bool, LedgerError> {
    let add = "INSERT INTO trained (ids, number, records, at) SELECT $1, coalesce(max(number), 0) + 1, $2, CAST($3 AS BIGINT) \
        FROM trained WHERE true ON CONFLICT (ids) DO NOTHING";
    let args = [Arg::Text(ids), Arg::Text(records), Arg::Int(seconds(at))];
    Ok(connection.execute(add, &args).await? > 0)
}
