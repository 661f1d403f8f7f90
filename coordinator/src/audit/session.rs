//! One audit session: its records, its budget of rows, and what its releases cost.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use foldhash::fast::RandomState;
use vfl_core::metrics::UtilityTotals;
use vfl_core::types::{ModelVersion, PartyName, RecordIds, ReleasedScores};
use vfl_protocol::audit::{Cost, SessionSummary};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::disjoint_sets::DisjointSets;

use super::summary;
use crate::policy::{ReadyPolicy, UndefendedOutputs};
use crate::share::ShareHash;

/// The hash of the first logit share of each record, over all sessions about one set of passive
/// parameters.
pub(super) type BoundShares = Arc<Mutex<HashMap<Box<str>, ShareHash, RandomState>>>;

/// An open audit session.
pub struct Session {
    /// The audited model version.
    pub model_version: ModelVersion,
    /// The active party that may use the session.
    pub active_party: PartyName,
    /// The policy under audit.
    pub policy: Arc<ReadyPolicy>,
    ids: HashSet<Box<str>, RandomState>,
    rows_left: AtomicU64,
    /// Shared by all sessions about the same passive parameters: another share in each session
    /// would be another query.
    bound: BoundShares,
    pub(super) opened: Instant,
    measured: Mutex<SessionTotals>,
}

/// The rows released in a session and their cost so far.
#[derive(Default)]
struct SessionTotals {
    rows: u64,
    /// The records released. Only the first release of each is measured: a second one would weigh
    /// that record more than the others.
    records: HashSet<Box<str>, RandomState>,
    utility: UtilityTotals,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} records, {})", self.ids.len(), self.policy.policy)
    }
}

impl Session {
    /// Creates a session, opened here or elsewhere, with no share bound and nothing measured yet.
    pub(crate) fn new(
        model_version: ModelVersion,
        active_party: PartyName,
        policy: ReadyPolicy,
        ids: &RecordIds,
        rows: u64,
    ) -> Self {
        Self {
            model_version,
            active_party,
            policy: Arc::new(policy),
            ids: ids.iter().map(Box::from).collect(),
            rows_left: AtomicU64::new(rows),
            bound: BoundShares::default(),
            opened: Instant::now(),
            measured: Mutex::default(),
        }
    }

    /// Replaces the bound shares by those that the sessions about the same passive parameters
    /// share.
    pub(super) fn bound_by(self, bound: BoundShares) -> Self {
        Self { bound, ..self }
    }

    /// Returns the refusal of `rows` rows where only `left` are left.
    pub(crate) fn spent(left: u64, rows: u64) -> Refusal {
        let message = format!(
            "the audit session has {left} rows left, {rows} were asked for; open another session"
        );
        Refusal::new(RefusalKind::ResourceExhausted, message)
    }

    /// Returns the cost of releasing the rows `first`; `None` if it cannot be measured.
    pub(crate) fn cost_of(
        first: &[usize],
        undefended: &UndefendedOutputs,
        released: &ReleasedScores,
    ) -> Option<UtilityTotals> {
        let cost = if first.len() == released.records() {
            undefended.cost(released)
        } else {
            undefended.select(first)?.cost(&released.select(first))
        };
        // The defense has a defect. The session's figures then cover the other rows only.
        cost.inspect_err(|error| tracing::error!(%error, "the utility of a release is not counted"))
            .ok()
    }

    /// Returns `true` if the session is about this record.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Takes rows off the budget before anything is computed, so that rows that fail cost too.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when fewer are left; nothing is taken then.
    pub fn spend(&self, rows: u64) -> Result<(), Refusal> {
        let taken = self
            .rows_left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(rows));
        taken.map(drop).map_err(|left| Self::spent(left, rows))
    }

    /// Binds the logit shares of records. Returns `false` for a record that came with another share
    /// before and must not be answered. Returns `true` for all where the policy leaves shares
    /// unbound.
    #[must_use]
    pub fn bind<'a>(
        &self,
        shares: impl ExactSizeIterator<Item = (&'a str, ShareHash)>,
    ) -> Vec<bool> {
        if self.policy.policy.unbound_shares {
            return vec![true; shares.len()];
        }
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        // Only shares of the session's records are kept, so their number is bounded.
        let known = |id: &str| self.ids.contains(id);
        shares
            .map(|(id, share)| match bound.get(id) {
                Some(first) => *first == share,
                None => {
                    if known(id) {
                        bound.insert(id.into(), share);
                    }
                    true
                }
            })
            .collect()
    }

    /// Counts the release of the records `ids`, of whose scores nothing is known here.
    pub fn count(&self, ids: &RecordIds) {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        measured.rows += ids.len() as u64;
        measured.records.extend(ids.iter().map(Box::from));
    }

    /// Adds the cost of releasing the records `ids`.
    pub fn measure(
        &self,
        ids: &RecordIds,
        undefended: &UndefendedOutputs,
        released: &ReleasedScores,
    ) {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        measured.rows += ids.len() as u64;
        let first: Vec<usize> = ids
            .iter()
            .enumerate()
            .filter(|(_, id)| measured.records.insert((*id).into()))
            .map(|(at, _)| at)
            .collect();
        if let Some(cost) = Self::cost_of(&first, undefended, released) {
            measured.utility += cost;
        }
    }

    /// Returns the number of rows and records released, and their cost.
    pub(super) fn closed(&self, sets: &Mutex<DisjointSets>) -> Result<SessionSummary, Refusal> {
        let measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = self.cost(&measured, sets)?;
        Ok(SessionSummary { rows: measured.rows, records: measured.records.len() as u64, cost })
    }

    /// Returns the means if they cover all of the session's records and the set may be summarised;
    /// otherwise the reason for withholding them.
    fn cost(
        &self,
        measured: &SessionTotals,
        sets: &Mutex<DisjointSets>,
    ) -> Result<Result<Cost, String>, Refusal> {
        let records = measured.records.len() as u64;
        if let Err(partial) = summary::over_all(records, self.ids.len()) {
            return Ok(Err(partial));
        }
        let ids = RecordIds::new(&self.ids).map_err(|e| Refusal::internal(e.to_string()))?;
        let admitted = sets.lock().unwrap_or_else(PoisonError::into_inner).admit(&ids).map_err(|error| {
            tracing::error!(%error, "the set of an audit was not recorded; its summary is withheld");
            Refusal::unavailable("the coordinator cannot record the set of the session now; open another session")
        })?;
        Ok(summary::cost(&measured.utility, records, admitted))
    }
}
