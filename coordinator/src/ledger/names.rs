//! The names behind the keys of the tables.

use std::collections::BTreeMap;

use super::LedgerError;
use super::connection::Connection;
use super::error::contradiction;

/// The names of parties, models and policies, by key.
pub(super) struct Names {
    parties: BTreeMap<i64, String>,
    models: BTreeMap<i64, String>,
    policies: BTreeMap<i64, String>,
}

impl Names {
    pub(super) async fn read(connection: &mut Connection) -> Result<Self, LedgerError> {
        let parties = connection.rows::<(i64, String)>("SELECT id, name FROM parties", &[]).await?;
        let models = connection.rows::<(i64, String)>("SELECT id, name FROM models", &[]).await?;
        let policies =
            connection.rows::<(i64, String)>("SELECT id, name FROM policies", &[]).await?;
        let [parties, models, policies] =
            [parties, models, policies].map(|rows| rows.into_iter().collect());
        Ok(Self { parties, models, policies })
    }

    /// Returns the parties, in the order of their names.
    pub(super) fn parties(&self) -> impl Iterator<Item = (i64, &str)> {
        let mut all: Vec<(i64, &str)> =
            self.parties.iter().map(|(id, name)| (*id, name.as_str())).collect();
        all.sort_by_key(|(_, name)| *name);
        all.into_iter()
    }

    pub(super) fn party(&self, key: i64) -> Result<String, LedgerError> {
        self.parties.get(&key).cloned().ok_or_else(contradiction)
    }

    pub(super) fn model(&self, key: i64) -> Result<String, LedgerError> {
        self.models.get(&key).cloned().ok_or_else(contradiction)
    }

    pub(super) fn policy(&self, key: i64) -> Result<String, LedgerError> {
        self.policies.get(&key).cloned().ok_or_else(contradiction)
    }
}
