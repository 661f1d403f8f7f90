//! The bits that an answer tells of its record, by passive parameters and policy.
//!
//! Shares are bound and noise is keyed by the record, the passive parameters and the policy: an
//! answer that comes again tells nothing new, and what answers of other kinds tell adds up (maximal
//! leakage; Issa, Wagner and Kamath, arXiv 1807.07878).

use std::collections::HashMap;

use super::LedgerError;
use super::connection::{Arg, Connection};
use super::error::contradiction;

/// The key of an answer's passive parameters, and that of its policy.
pub(super) type ReleaseKey = (i64, i64);

/// The bits of all kinds of answers, kept in memory: there are few, as there are few models and
/// policies.
#[derive(Default)]
pub(super) struct Bits {
    /// `None` if no finite bound is known.
    told: HashMap<ReleaseKey, Option<f64>>,
}

impl Bits {
    pub(super) async fn read(connection: &mut Connection) -> Result<Self, LedgerError> {
        let mut told = HashMap::new();
        let sql = "SELECT model, policy, bits FROM bits";
        for (model, policy, bits) in connection.rows::<(i64, i64, Option<String>)>(sql, &[]).await?
        {
            let bits = bits.map(|bits| bits.parse().map_err(|_| contradiction())).transpose()?;
            told.insert((model, policy), bits);
        }
        Ok(Self { told })
    }

    /// Reads the table if another coordinator has added to it. Runs inside the writer's
    /// transaction.
    pub(super) async fn follow(
        &mut self,
        connection: &mut Connection,
        rows: u64,
    ) -> Result<(), LedgerError> {
        if rows != self.told.len() as u64 {
            *self = Self::read(connection).await?;
        }
        Ok(())
    }

    /// Records what an answer tells, in the transaction that decides about it.
    pub(super) async fn note(
        &mut self,
        connection: &mut Connection,
        release: ReleaseKey,
        bits: Option<f64>,
    ) -> Result<(), LedgerError> {
        if self.told.get(&release) == Some(&bits) {
            return Ok(());
        }
        let (keys, text) =
            ([Arg::Int(release.0), Arg::Int(release.1)], bits.map(|bits| bits.to_string()));
        let [model, policy] = keys;
        let set = "INSERT INTO bits (model, policy, bits) VALUES ($1, $2, nullif($3, '')) \
            ON CONFLICT (model, policy) DO UPDATE SET bits = excluded.bits";
        connection
            .execute(set, &[model, policy, Arg::Text(text.as_deref().unwrap_or_default())])
            .await?;
        self.told.insert(release, bits);
        Ok(())
    }

    /// Returns the bits that an answer of this kind tells; `None` where no finite bound is known.
    pub(super) fn of(&self, release: ReleaseKey) -> Option<f64> {
        self.told.get(&release).copied().flatten()
    }

    /// Returns the bits that answers of these kinds tell together; `None` where one of them has no
    /// finite bound.
    pub(super) fn sum<'a>(
        &self,
        releases: impl IntoIterator<Item = &'a ReleaseKey>,
    ) -> Option<f64> {
        releases.into_iter().map(|release| self.of(*release)).sum()
    }
}
