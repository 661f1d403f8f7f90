//! Records that were erased: a keyed hash stands for the id, and the counts live on under it.
//!
//! Erasing must not hand a budget back, or a party could have a record erased and begin again. The
//! key lies in the ledger itself: the hash hides ids from a reader of the tables, not from somebody
//! who holds the whole ledger and guesses an id.

use std::borrow::Cow;
use std::collections::HashSet;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha512;
use vfl_core::hex;
use vfl_core::types::RecordIds;

use super::LedgerError;
use super::connection::Connection;

/// Prefix of a pseudonym. With its 128 digits a pseudonym is longer than any record id, so that no
/// id can pass for one.
const PREFIX: &str = "erased:";
/// The row of `meta` with the key.
pub(crate) const KEY: &str = "erasure_key";
/// The row of `meta` with the number of erasures so far.
pub(crate) const COUNT: &str = "erasures";

/// The erasure key, drawn at random when a ledger begins.
pub(crate) struct ErasureKey(Hmac<Sha512>);

impl ErasureKey {
    /// Reads the erasure key from `meta`.
    pub(crate) async fn read(connection: &mut Connection) -> Result<Self, LedgerError> {
        let key = connection.meta(KEY).await?;
        let key =
            key.ok_or_else(|| LedgerError::Storage("the ledger has no erasure key".into()))?;
        let mac = Hmac::new_from_slice(key.as_bytes())
            .map_err(|e| LedgerError::Storage(e.to_string()))?;
        Ok(Self(mac))
    }

    /// Returns the pseudonym that stands for an erased record.
    pub(crate) fn pseudonym(&self, record: &str) -> String {
        let mac = self.0.clone().chain_update(record.as_bytes()).finalize();
        format!("{PREFIX}{}", hex(mac.into_bytes()))
    }
}

/// The erased records, kept in memory: there are few, and they are read again whenever their number
/// has changed.
pub(crate) struct ErasedRecords {
    key: ErasureKey,
    count: String,
    records: HashSet<String>,
}

impl ErasedRecords {
    /// Reads the key, but no records yet.
    pub(crate) async fn read(connection: &mut Connection) -> Result<Self, LedgerError> {
        let key = ErasureKey::read(connection).await?;
        Ok(Self { key, count: String::new(), records: HashSet::new() })
    }

    /// Reads the erased records if there are new ones. Runs inside the writer's transaction: an
    /// erasure is before it or after.
    pub(crate) async fn refresh(
        &mut self,
        connection: &mut Connection,
        count: &str,
    ) -> Result<(), LedgerError> {
        if count != self.count {
            let records = connection.rows::<(String,)>("SELECT record FROM erased", &[]).await?;
            self.records = records.into_iter().map(|(record,)| record).collect();
            self.count = count.to_owned();
        }
        Ok(())
    }

    /// Returns the ids as the ledger keeps them.
    pub(crate) fn names<'a>(&self, ids: &'a RecordIds) -> Vec<Cow<'a, str>> {
        let name = |id: &'a str| {
            let pseudonym = (!self.records.is_empty()).then(|| self.key.pseudonym(id));
            pseudonym.filter(|p| self.records.contains(p)).map_or(Cow::Borrowed(id), Cow::Owned)
        };
        ids.iter().map(name).collect()
    }
}
