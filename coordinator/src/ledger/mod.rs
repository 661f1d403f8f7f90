//! The query ledger: who asked for which record under which model and policy, how often, when.
//!
//! [`Ledger::spend`] returns only when what it granted is on disk, so whatever was released is
//! recorded: a coordinator killed at any point has recorded as much as it released, or more. A
//! commit that fails grants nothing.
//!
//! One thread of a coordinator writes. It takes the requests that wait, reads what is known of
//! their records, decides them in order (`decide`) and writes the sum of the changes in one
//! transaction: many callers share one synchronisation of the disk. It keeps in memory the names of
//! parties, models and policies, the erased records and, for an embedded ledger, the records that
//! were asked for last.
//!
//! The additions of large groups to an embedded ledger go to its tables by way of a journal
//! (`journal`).
//!
//! Several coordinators may share a ledger in PostgreSQL. Their transactions run one after another,
//! under a lock of the database, and each reads first what others may have changed.
//!
//! Commits that change what was spent go into the signed links of a chain (`chain`), which
//! [`verify()`] checks against the sums.
//!
//! Tables and SQL are the same for SQLite and PostgreSQL (`migrations/`), and are meant to be read
//! with plain SQL.

mod begin;
mod bits;
mod chain;
mod changes;
mod config;
pub(crate) mod connection;
mod decide;
mod erasure;
mod error;
mod events;
mod journal;
mod lock;
mod maintain;
mod mark;
mod meter;
mod models;
mod names;
mod rate;
mod read;
mod records;
mod request;
mod signer;
mod state;
mod verify;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};
use vfl_core::types::PartyName;

use crate::share::ShareHashKind;
pub(crate) use begin::REGISTRY;
pub use begin::secret_fingerprint;
pub use config::{FingerprintLookup, LedgerConfig};
use connection::DatabaseLocation;
pub use error::LedgerError;
pub use journal::JournalLimits;
pub use maintain::{ErasureCounts, RetentionCounts, backup, erase, retain};
pub use meter::LedgerMeter;
pub use models::approve;
pub use read::{record_uses, summary};
pub use request::{MAX_REQUEST_ID_CHARS, RowVerdict, SpendRequest};
pub use verify::{ChainReport, FixedLink, SignerLinks, UnsignedLink, verify};
pub use vfl_protocol::ledger::{Budgets, RecordUse, Summary};
use writer::QueuedRequest;

/// Requests that may wait for the writer before callers have to wait.
const WAITING_REQUESTS: usize = 256;

/// An open ledger: its writer runs until [`Ledger::close`], or until the ledger is dropped.
pub struct Ledger {
    place: DatabaseLocation,
    requests: mpsc::Sender<QueuedRequest>,
    ended: oneshot::Receiver<()>,
    share_hash: ShareHashKind,
    registry: Arc<AtomicU64>,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ledger")
    }
}

impl Ledger {
    /// Opens the ledger, beginning it if there is none, and locks it for this coordinator.
    ///
    /// # Errors
    /// [`LedgerError::Url`], [`LedgerError::Locked`] and its like, [`LedgerError::Terms`],
    /// [`LedgerError::Fingerprint`], [`LedgerError::NotDurable`] where commits are not
    /// synchronised; [`LedgerError::Lost`], [`LedgerError::Another`], [`LedgerError::OldCopy`],
    /// [`LedgerError::DamagedMark`], [`LedgerError::Rewritten`] where it is not the one that the
    /// state directory knows; [`LedgerError::Storage`] for the rest.
    pub async fn open(
        config: &LedgerConfig,
        secret_fingerprint: &str,
    ) -> Result<Self, LedgerError> {
        config.check()?;
        let place = DatabaseLocation::parse(&config.url)?;
        let registry = Arc::<AtomicU64>::default();
        let (requests, waiting) = mpsc::channel(WAITING_REQUESTS);
        let (share_hash, ended) = writer::start(
            place.clone(),
            config,
            secret_fingerprint.to_owned(),
            registry.clone(),
            waiting,
        )
        .await?;
        Ok(Self { place, requests, ended, share_hash, registry })
    }

    /// Returns the kind of hash that this ledger wants for logit shares.
    #[must_use]
    pub fn share_hash(&self) -> ShareHashKind {
        self.share_hash
    }

    /// Records a request and returns once that is on disk: one verdict per row, in the order of the
    /// ids.
    ///
    /// # Errors
    /// [`LedgerError::TotalBudget`], [`LedgerError::Rate`] and [`LedgerError::RequestIdReused`]
    /// refuse the request as a whole and spend nothing. After [`LedgerError::Storage`] nothing is
    /// granted, though it may have been spent.
    pub async fn spend(&self, request: SpendRequest) -> Result<Vec<RowVerdict>, LedgerError> {
        let (hashes, records) = (request.share_hashes.len(), request.ids.len());
        if hashes != 0 && hashes != records {
            return Err(LedgerError::ShareHashes { hashes, records });
        }
        let fits = |id: &String| {
            (1..=MAX_REQUEST_ID_CHARS).contains(&id.chars().count())
                && !id.contains(char::is_control)
        };
        if !request.request_id.as_ref().is_none_or(fits) {
            return Err(LedgerError::RequestId);
        }
        let (answer, answered) = oneshot::channel();
        let stopped = |()| LedgerError::Storage("the ledger's writer has stopped".into());
        self.requests
            .send(QueuedRequest { spend: request, answer })
            .await
            .map_err(|_| stopped(()))?;
        answered.await.map_err(|_| stopped(()))?
    }

    /// Returns how often the registry of the coordinators that share this ledger had changed when
    /// the last request was recorded: at least the number in the transaction of any request that
    /// has been answered.
    #[must_use]
    pub fn registry_changes(&self) -> u64 {
        self.registry.load(Ordering::Acquire)
    }

    /// Returns what one active party, or all of them, have spent and have left.
    ///
    /// # Errors
    /// [`LedgerError::Storage`].
    pub async fn describe(&self, party: Option<&PartyName>) -> Result<Summary, LedgerError> {
        read::summarise(&self.place, party.map(PartyName::as_str)).await
    }

    /// Answers the requests that wait, and closes the ledger.
    pub async fn close(self) {
        drop(self.requests);
        let _ = self.ended.await;
    }
}
