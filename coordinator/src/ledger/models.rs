//! The models of the ledger: versions, and the fingerprints of passive parameters that make several
//! versions one model.

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use vfl_core::clock::seconds;
use vfl_core::types::ModelVersion;

use super::config::FingerprintLookup;
use super::connection::{Arg, Connection, DatabaseLocation, existing};
use super::error::LedgerError;
use super::events::record_event;

/// The row of `meta` with the number of approvals so far.
pub(super) const APPROVALS: &str = "approvals";

/// The models of a ledger, kept in memory: there are few, as each is a training.
#[derive(Default)]
pub(super) struct Models {
    /// The key of each version.
    versions: HashMap<String, i64>,
    /// The key that stands for each fingerprint: the lowest of its versions.
    fingerprints: HashMap<String, i64>,
    /// For each key, the key that stands for its fingerprint.
    passive: HashMap<i64, i64>,
    /// The text that changes with the models, as of the last reading, where others write too.
    state: String,
    approvals: String,
    approved: HashSet<String>,
}

impl Models {
    /// Reads all models.
    pub(super) async fn read(connection: &mut Connection) -> Result<Self, LedgerError> {
        let sql =
            "SELECT id, name, coalesce(fingerprint, 'version ' || name) FROM models ORDER BY id";
        let mut models = Self::default();
        for (id, name, fingerprint) in connection.rows::<(i64, String, String)>(sql, &[]).await? {
            models.add(id, name, fingerprint);
        }
        Ok(models)
    }

    fn add(&mut self, id: i64, name: String, fingerprint: String) {
        let passive = *self.fingerprints.entry(fingerprint).or_insert(id);
        self.versions.insert(name, id);
        self.passive.insert(id, passive);
    }

    async fn read_again(&mut self, connection: &mut Connection) -> Result<(), LedgerError> {
        *self = Self {
            approvals: std::mem::take(&mut self.approvals),
            approved: std::mem::take(&mut self.approved),
            state: std::mem::take(&mut self.state),
            ..Self::read(connection).await?
        };
        Ok(())
    }

    /// Reads the models if another coordinator has added or named one: `state` is a text that
    /// changes with them. Runs inside the writer's transaction.
    pub(super) async fn follow(
        &mut self,
        connection: &mut Connection,
        state: &str,
    ) -> Result<(), LedgerError> {
        if state != self.state {
            self.read_again(connection).await?;
            self.state = state.to_owned();
        }
        Ok(())
    }

    /// Returns the keys of a version and of its passive parameters; adds the version if it is new.
    pub(super) async fn intern(
        &mut self,
        connection: &mut Connection,
        version: &ModelVersion,
        fingerprint: &str,
    ) -> Result<(i64, i64), LedgerError> {
        let version = version.as_str();
        if let Some(&id) = self.versions.get(version)
            && let Some(&passive) = self.fingerprints.get(fingerprint)
            && self.passive.get(&id) == Some(&passive)
        {
            return Ok((id, passive));
        }
        // The version is known under no fingerprint, or not at all.
        let add = "INSERT INTO models (id, name, fingerprint) SELECT coalesce(max(id), 0) + 1, $1, $2 FROM models WHERE true \
            ON CONFLICT (name) DO UPDATE SET fingerprint = coalesce(models.fingerprint, excluded.fingerprint)";
        connection.execute(add, &[Arg::Text(version), Arg::Text(fingerprint)]).await?;
        self.read_again(connection).await?;
        let id = self.versions.get(version).copied();
        let keys = id.and_then(|id| Some((id, self.passive.get(&id).copied()?)));
        match keys {
            Some((id, passive)) if self.fingerprints.get(fingerprint) == Some(&passive) => {
                Ok((id, passive))
            }
            // A version is a hash of its digests: it has one fingerprint.
            _ => Err(LedgerError::Storage(
                "a version has two fingerprints in the ledger; restore a backup".into(),
            )),
        }
    }

    /// Returns the key that stands for the passive parameters of the model with this key.
    pub(super) fn passive(&self, model: i64) -> Option<i64> {
        self.passive.get(&model).copied()
    }

    /// Returns the fingerprint of the passive parameters of the model with this key.
    pub(super) fn fingerprint(&self, model: i64) -> Option<&str> {
        let passive = self.passive(model)?;
        self.fingerprints
            .iter()
            .find(|(_, key)| **key == passive)
            .map(|(fingerprint, _)| fingerprint.as_str())
    }

    /// Reads the approvals if their number has changed. Runs inside the writer's transaction.
    pub(super) async fn refresh(
        &mut self,
        connection: &mut Connection,
        count: &str,
    ) -> Result<(), LedgerError> {
        if count != self.approvals {
            let approved =
                connection.rows::<(String,)>("SELECT fingerprint FROM approvals", &[]).await?;
            self.approved = approved.into_iter().map(|(fingerprint,)| fingerprint).collect();
            self.approvals = count.to_owned();
        }
        Ok(())
    }

    /// Returns `true` if the operator has approved a version with this fingerprint.
    pub(super) fn approved(&self, fingerprint: &str) -> bool {
        self.approved.contains(fingerprint)
    }
}

/// Adds fingerprints to the versions of an older ledger, as far as their manifests are there. A
/// version without one is a model of its own.
pub(super) async fn name_old_ones(
    connection: &mut Connection,
    derive: Option<&FingerprintLookup>,
) -> Result<(), LedgerError> {
    let Some(derive) = derive else { return Ok(()) };
    let sql = "SELECT id, name FROM models WHERE fingerprint IS NULL";
    for (id, version) in connection.rows::<(i64, String)>(sql, &[]).await? {
        if let Some(fingerprint) = derive.of(&version) {
            let set = "UPDATE models SET fingerprint = $2 WHERE id = $1";
            connection.execute(set, &[Arg::Int(id), Arg::Text(&fingerprint)]).await?;
        }
    }
    Ok(())
}

/// Approves a version: records may be answered under it beyond `models_per_record`, and so under
/// every version with the same passive parameters. The approval is recorded with its time; a
/// running coordinator follows it from its next request on. Returns `false` if the version was
/// approved before.
///
/// # Errors
/// [`LedgerError::Url`], [`LedgerError::Missing`], [`LedgerError::Storage`].
pub async fn approve(
    url: &str,
    version: &ModelVersion,
    fingerprint: &str,
    now: SystemTime,
) -> Result<bool, LedgerError> {
    let mut connection = existing(&DatabaseLocation::parse(url)?).await?;
    connection.begin().await?;
    let add = "INSERT INTO approvals (fingerprint, model, at) VALUES ($1, $2, $3) ON CONFLICT (fingerprint) DO NOTHING";
    let args = [Arg::Text(fingerprint), Arg::Text(version.as_str()), Arg::Int(seconds(now))];
    let new = connection.execute(add, &args).await? > 0;
    if new {
        let count =
            "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + 1 AS TEXT) WHERE name = $1";
        connection.execute(count, &[Arg::Text(APPROVALS)]).await?;
        let what = format!(
            "approved version {version} (passive parameters {fingerprint}) beyond models_per_record"
        );
        record_event(&mut connection, now, &what).await?;
    }
    connection.commit().await?;
    connection.close().await;
    Ok(new)
}
