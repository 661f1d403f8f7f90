//! The account of the live service: the ledger records every request before any of its scores are
//! released.

use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest, Sha256};
use tokio::sync::{RwLock, Semaphore};
use vfl_core::hex;
use vfl_core::types::{ModelVersion, PartyName, RecordIds};
use vfl_protocol::{Refusal, RefusalKind};

use crate::ledger::{
    Budgets, Ledger, LedgerConfig, LedgerError, LedgerMeter, RowVerdict, SpendRequest, Summary,
};
use crate::share::{ShareHash, ShareHashKind};

/// Longest time the ledger may take over one request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most reads of the ledger at once.
const READERS: usize = 2;
/// Longest name of a policy in the ledger, in bytes; longer ones end in a hash.
const LONGEST_POLICY: usize = 1000;

/// The ledger of a running coordinator, if it keeps one.
#[derive(Debug)]
pub struct Account {
    kept: bool,
    share_hash: ShareHashKind,
    limited: bool,
    readers: Semaphore,
    meter: LedgerMeter,
    /// Zero of the clock that the rate limit uses.
    started: Instant,
    /// `None` once the service has ended.
    ledger: RwLock<Option<Ledger>>,
}

/// A request to the live service, as the ledger records it.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The active party that asks.
    pub party: &'a PartyName,
    /// The model that is asked.
    pub model: &'a ModelVersion,
    /// The fingerprint of the passive parties' parameters in that model.
    pub passive: &'a str,
    /// The text of the live policy.
    pub policy: &'a str,
    /// Upper bound on the bits that an answer tells of a record; `None` if no finite bound is
    /// known.
    pub bits: Option<f64>,
    /// The caller's name for the request; empty if it gave none.
    pub request_id: &'a str,
    /// The ids of the records.
    pub ids: &'a RecordIds,
    /// The hashed logit shares of the records.
    pub shares: Vec<ShareHash>,
}

impl Account {
    /// Opens the ledger; without a config nothing is recorded, and no share is bound.
    ///
    /// # Errors
    /// [`LedgerError`], among others when another coordinator has the ledger or it was begun with
    /// another noise secret.
    pub async fn open(
        config: Option<&LedgerConfig>,
        secret_fingerprint: &str,
    ) -> Result<Self, LedgerError> {
        let ledger = match config {
            Some(config) => Some(Ledger::open(config, secret_fingerprint).await?),
            None => None,
        };
        let limited = config.is_some_and(|c| c.budgets != Budgets::UNLIMITED);
        let (readers, started) = (Semaphore::new(READERS), Instant::now());
        let share_hash = ledger.as_ref().map_or(ShareHashKind::Blake3, Ledger::share_hash);
        let meter = config.map(|c| c.meter.clone()).unwrap_or_default();
        Ok(Self {
            kept: ledger.is_some(),
            share_hash,
            limited,
            readers,
            meter,
            started,
            ledger: RwLock::new(ledger),
        })
    }

    /// Records a request and, once it is on disk, returns a verdict for each row.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED for a spent budget or rate, FAILED_PRECONDITION for a request id used for
    /// another request, UNAVAILABLE when the ledger cannot be written: nothing may be released
    /// then.
    pub async fn spend(&self, entry: Entry<'_>) -> Result<Vec<RowVerdict>, Refusal> {
        if !self.kept {
            return Ok(vec![RowVerdict::Granted; entry.ids.len()]);
        }
        // The hash serves only to compare a retry with the first request.
        let (request_id, body_hash) = match entry.request_id {
            "" => (None, [0; 32]),
            name => (Some(name.to_owned()), body_hash(&entry)),
        };
        let spend = SpendRequest {
            party: entry.party.clone(),
            model: entry.model.clone(),
            passive: entry.passive.to_owned(),
            policy: named(entry.policy),
            bits: entry.bits,
            request_id,
            body_hash,
            ids: entry.ids.clone(),
            share_hashes: entry.shares,
            at: SystemTime::now(),
            uptime: self.started.elapsed(),
        };
        let spent = async {
            let ledger = self.ledger.read().await;
            let answer = ledger.as_ref().ok_or_else(stopping)?.spend(spend).await;
            self.meter.decided(entry.ids.len(), &answer);
            answer.map_err(refusal)
        };
        // A database that neither answers nor refuses must not block requests or a shutdown
        // forever.
        tokio::time::timeout(PATIENCE, spent)
            .await
            .map_err(|_| refusal(LedgerError::Storage("no answer".into())))?
    }

    /// Returns `true` if a ledger is kept.
    #[must_use]
    pub fn kept(&self) -> bool {
        self.kept
    }

    /// Returns the kind of hash that the ledger wants for logit shares.
    #[must_use]
    pub fn share_hash(&self) -> ShareHashKind {
        self.share_hash
    }

    /// Returns [`Ledger::registry_changes`], or 0 if no ledger is kept.
    pub async fn registry_changes(&self) -> u64 {
        self.ledger.read().await.as_ref().map_or(0, Ledger::registry_changes)
    }

    /// Returns `true` if a budget is set, so that a request or some of its rows may be refused. The
    /// ledger is then asked before any work is done for them.
    #[must_use]
    pub fn limited(&self) -> bool {
        self.limited
    }

    /// Returns what one active party, or all of them, have asked and have left; `None` if no ledger
    /// is kept.
    ///
    /// # Errors
    /// UNAVAILABLE when the ledger cannot be read.
    pub async fn describe(&self, party: Option<&PartyName>) -> Result<Option<Summary>, Refusal> {
        if !self.kept {
            return Ok(None);
        }
        // Each read takes one of the few connections to the database.
        let _permit = self.readers.acquire().await.map_err(|_| stopping())?;
        let read = async {
            let ledger = self.ledger.read().await;
            ledger.as_ref().ok_or_else(stopping)?.describe(party).await.map(Some).map_err(unread)
        };
        let late = |_| unread(LedgerError::Storage("no answer".into()));
        tokio::time::timeout(PATIENCE, read).await.map_err(late)?
    }

    /// Waits for the requests under way, then closes the ledger.
    pub async fn close(&self) {
        let closed = async {
            if let Some(ledger) = self.ledger.write().await.take() {
                ledger.close().await;
            }
        };
        // Requests without an answer by then are not released; committed entries stay.
        if tokio::time::timeout(PATIENCE, closed).await.is_err() {
            tracing::warn!("the ledger did not close in time");
        }
    }
}

/// Returns the policy's name in the ledger; a long one is cut and ends in a hash.
fn named(policy: &str) -> String {
    if policy.len() <= LONGEST_POLICY {
        return policy.to_owned();
    }
    let hash = hex(&Sha256::digest(policy.as_bytes())[..16]);
    let start: String = policy.chars().take(LONGEST_POLICY / 4).collect();
    format!("{start}… (sha256 {hash})")
}

fn unread(error: LedgerError) -> Refusal {
    tracing::warn!(%error, "the ledger cannot be read");
    Refusal::unavailable("the coordinator's ledger cannot be read now; try again")
}

fn stopping() -> Refusal {
    Refusal::unavailable("the coordinator is stopping").worth_again()
}

/// Hashes everything in a request except its id. Lengths are hashed too, so that no two requests
/// give the same bytes.
fn body_hash(entry: &Entry<'_>) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut put = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    put(entry.model.as_str().as_bytes());
    // Another policy would give another answer.
    put(entry.policy.as_bytes());
    entry.ids.iter().for_each(|id| put(id.as_bytes()));
    entry.shares.iter().for_each(|share| put(share));
    hash.finalize().into()
}

fn refusal(error: LedgerError) -> Refusal {
    let kind = match &error {
        LedgerError::TotalBudget { .. } | LedgerError::Rate { .. } => {
            RefusalKind::ResourceExhausted
        }
        LedgerError::RequestIdReused => RefusalKind::FailedPrecondition,
        LedgerError::RequestId => RefusalKind::InvalidArgument,
        _ => {
            tracing::error!(%error, "the ledger cannot be written; nothing is released");
            let message =
                "the coordinator's ledger is not available; nothing is released without it";
            return Refusal::unavailable(message).worth_again();
        }
    };
    Refusal::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_is_of_the_same_model_policy_records_and_shares() {
        let (party, model) = (PartyName::new("active").unwrap(), ModelVersion::new("m-1").unwrap());
        let (other, ids) =
            (ModelVersion::new("m-2").unwrap(), RecordIds::new(["a", "bc"]).unwrap());
        let moved = RecordIds::new(["ab", "c"]).unwrap();
        let hash = |model, policy, ids, share: u8| {
            let (party, passive, request_id, shares) = (&party, "p-1", "x", vec![[share; 16]; 2]);
            body_hash(&Entry { party, model, passive, policy, bits: None, request_id, ids, shares })
        };
        let first = hash(&model, "none", &ids, 1);
        assert_eq!(first, hash(&model, "none", &ids, 1));
        for other in [
            hash(&other, "none", &ids, 1),
            hash(&model, "class_label", &ids, 1),
            hash(&model, "none", &moved, 1),
            hash(&model, "none", &ids, 2),
        ] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn long_policies_have_short_names_of_their_own() {
        assert_eq!(named("none"), "none");
        let long = |last: &str| format!("{}{last}", "σ".repeat(2000));
        assert!(named(&long("1")).len() < LONGEST_POLICY);
        assert_ne!(named(&long("1")), named(&long("2")));
    }
}
