//! The record of scorings on disk: the sets, their cost, the refusals and the owner's renewals.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_state::files;
use vfl_state::state_dir::StateDir;
use vfl_state::state_file::{NewerContent, StateFile, StateFileError};
use vfl_state::state_table::Revision;
use vfl_transform::scoring::accountant::Budget;

use crate::config::AuditPolicy;

/// The advice for a damaged file.
const FIX: &str = "it counts what auditors were told: restore it from a backup";

/// Errors from using the record of scorings.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// The file of the record, or the lock of the state directory.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// The service holds the record in memory.
    #[error("a passive party serves with this state directory; stop it, renew, and start it again")]
    InUse,
    /// No set, or several, of that name.
    #[error("{count} sets begin with `{prefix}`; `passive-party scorings` lists them")]
    NoSuchSet {
        /// The given beginning of the name.
        prefix: String,
        /// The number of sets that match.
        count: usize,
    },
    /// No set to close.
    #[error("no set was opened since the last time, so that there is nothing to close")]
    NothingToClose,
    /// An empty reason for a renewal.
    #[error("the reason is empty; say why the budget is renewed, it is kept with the renewal")]
    NoReason,
}

/// A set of records that was opened for scoring.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScoredSet {
    /// The hash of the sorted ids.
    pub(super) set: String,
    pub(super) ids: Vec<String>,
    /// The number of candidates scored in trusted mode.
    pub(super) scorings: u32,
    /// True if anything was reported without noise. Older records lack this field: none of their
    /// answers had noise.
    #[serde(default = "yes")]
    pub(super) exact: bool,
    /// The ρ that noised answers have cost.
    #[serde(default)]
    pub(super) rho_spent: f64,
    /// The number of noised answers.
    #[serde(default)]
    pub(super) answers: u32,
    /// The number of the owner's renewals.
    #[serde(default)]
    pub(super) renewals: u32,
    /// The owner has closed it: trusted auditors may open its records in other sets.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) closed: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn yes() -> bool {
    true
}

/// A renewal of a budget by the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// The time of the renewal, in seconds since 1970.
    pub renewed_at_s: u64,
    /// The reason, in the owner's words.
    pub reason: String,
    /// The one set that was renewed; absent if all known ones were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Sets that were closed in place of a renewal; 0 for a renewal.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub closed_sets: usize,
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) sets: Vec<ScoredSet>,
    /// The number of openings refused because of their records.
    #[serde(default)]
    pub(super) refused_openings: u32,
    #[serde(default)]
    pub(super) renewals: Vec<Renewal>,
}

/// Returns the file of the record in a state directory.
pub(super) fn file(dir: &StateDir) -> StateFile {
    dir.file("evaluations.json", FIX)
}

/// Returns the name of a set: a hash of its sorted ids.
pub(super) fn set_name(sorted: &[&str]) -> String {
    let mut hash = Sha256::new();
    for id in sorted {
        hash.update((id.len() as u64).to_le_bytes());
        hash.update(id.as_bytes());
    }
    hex(hash.finalize())
}

impl ScoredSet {
    /// Creates a set of which nothing was reported yet.
    pub(super) fn new(set: String, ids: Vec<String>) -> Self {
        Self {
            set,
            ids,
            scorings: 0,
            exact: false,
            rho_spent: 0.0,
            answers: 0,
            renewals: 0,
            closed: false,
        }
    }

    /// Returns its budget of ρ: the policy's, once more for each renewal.
    pub(super) fn budget(&self, policy: &AuditPolicy) -> Budget {
        Budget::new(policy.rho * f64::from(1 + self.renewals), self.rho_spent)
    }

    /// Returns the most candidates that may be scored in trusted mode.
    pub(super) fn max_scorings(&self, policy: &AuditPolicy) -> u32 {
        policy.max_scorings.saturating_mul(1 + self.renewals)
    }
}

/// The record as it was last read or written, and the revision of that content.
#[derive(Debug)]
pub(super) struct LoadedRecord {
    pub(super) record: Record,
    seen: Revision,
}

impl LoadedRecord {
    fn of(file: &StateFile, (seen, content): NewerContent) -> Result<Self, StateFileError> {
        let record: Record =
            content.map(|content| file.parse(&content)).transpose()?.unwrap_or_default();
        match record.sets.iter().find(|s| !(s.rho_spent.is_finite() && s.rho_spent >= 0.0)) {
            Some(bad) => Err(file.damaged(format!("`rho_spent` is {}", bad.rho_spent))),
            None => Ok(Self { record, seen }),
        }
    }

    /// Reads the record again if another process has changed it.
    pub(super) fn refresh(&mut self, file: &StateFile) -> Result<(), StateFileError> {
        if let Some(newer) = file.read_newer(Some(self.seen))? {
            *self = Self::of(file, newer)?;
        }
        Ok(())
    }

    /// Replaces the record, durably. Returns false if another process has changed it meanwhile, and
    /// nothing was done.
    pub(super) fn replace(
        &mut self,
        file: &StateFile,
        record: Record,
    ) -> Result<bool, StateFileError> {
        let Some(seen) = file.swap(self.seen, &file.json(&record)?)? else { return Ok(false) };
        *self = Self { record, seen };
        Ok(true)
    }
}

impl Record {
    /// Reads the record. A directory without one has an empty record.
    pub(super) fn read(file: &StateFile) -> Result<LoadedRecord, StateFileError> {
        LoadedRecord::of(file, file.read_newer(None)?.unwrap_or_default())
    }

    /// Returns the sets that the owner has not closed.
    pub(super) fn open_sets(&self) -> impl Iterator<Item = &ScoredSet> {
        self.sets.iter().filter(|s| !s.closed)
    }

    pub(super) fn find(&self, set: &str) -> Option<&ScoredSet> {
        self.open_sets().find(|s| s.set == set)
    }

    pub(super) fn find_mut(&mut self, set: &str) -> Option<&mut ScoredSet> {
        self.sets.iter_mut().find(|s| s.set == set && !s.closed)
    }

    /// Returns the number of renewals that were for all sets.
    fn general(&self) -> u32 {
        u32::try_from(
            self.renewals.iter().filter(|r| r.set.is_none() && r.closed_sets == 0).count(),
        )
        .unwrap_or(u32::MAX - 1)
    }

    fn allowed(&self, limit: u32) -> u32 {
        limit.saturating_mul(1 + self.general())
    }

    /// Returns how many more openings may be refused.
    pub(super) fn refusals_left(&self, policy: &AuditPolicy) -> u32 {
        self.allowed(policy.max_refused_openings).saturating_sub(self.refused_openings)
    }

    /// Returns how many more sets may be opened in trusted mode.
    pub(super) fn sets_left(&self, policy: &AuditPolicy) -> u32 {
        let exact = self.open_sets().filter(|s| s.exact).count();
        self.allowed(policy.max_sets).saturating_sub(u32::try_from(exact).unwrap_or(u32::MAX))
    }

    /// Returns how many more candidates of a set may be scored in trusted mode: by its own limit
    /// and that of all sets.
    pub(super) fn scorings_left(&self, set: &ScoredSet, policy: &AuditPolicy) -> u32 {
        let all = self.open_sets().fold(0u32, |sum, s| sum.saturating_add(s.scorings));
        let of_all = self.allowed(policy.max_total_scorings).saturating_sub(all);
        of_all.min(set.max_scorings(policy).saturating_sub(set.scorings))
    }
}

/// Renews a budget: that of all known sets and of the counts over all, or that of one set alone,
/// named by the beginning of its hash. The renewal is recorded durably, with the time and the
/// reason.
///
/// ρ adds up: after k renewals the promise for the records of a set is that of (1 + k) ρ, see
/// [`least_error`](vfl_transform::scoring::accountant::least_error). Earlier answers stay known.
///
/// # Errors
/// [`EvaluationError`], among them [`EvaluationError::InUse`] while a service runs on the
/// directory.
pub fn renew(
    state_dir: impl Into<StateDir>,
    set: Option<&str>,
    reason: &str,
) -> Result<Renewal, EvaluationError> {
    change(&state_dir.into(), reason, |record, reason| record.renew(set, reason))
}

/// Closes all sets, so that a trusted auditor may open their
/// records again, in whatever sets, with new limits. Recorded durably, with the time and the
/// reason. In noised mode their records stay refused: no budget protects them any more.
///
/// # Errors
/// As [`renew`]; [`EvaluationError::NothingToClose`].
pub fn begin_anew(
    state_dir: impl Into<StateDir>,
    reason: &str,
) -> Result<Renewal, EvaluationError> {
    change(&state_dir.into(), reason, Record::close_sets)
}

/// Has the owner change the record, while no service holds the directory.
fn change(
    state_dir: &StateDir,
    reason: &str,
    change: impl Fn(&mut Record, &str) -> Result<Renewal, EvaluationError>,
) -> Result<Renewal, EvaluationError> {
    let reason = reason.trim();
    if reason.is_empty() {
        return Err(EvaluationError::NoReason);
    }
    // A service on a folder keeps the record in memory; services that share a table read it each
    // time.
    let held = match state_dir.folder().map(|folder| folder.join("lock")) {
        None => None,
        Some(lock) => match files::lock(&lock) {
            Ok(Some(held)) => Some(held),
            Ok(None) => return Err(EvaluationError::InUse),
            Err(source) => return Err(StateFileError::io("lock", lock, source).into()),
        },
    };
    let file = file(state_dir);
    let mut kept = Record::read(&file)?;
    loop {
        let mut record = kept.record.clone();
        let renewal = change(&mut record, reason)?;
        if kept.replace(&file, record)? {
            drop(held);
            return Ok(renewal);
        }
        kept.refresh(&file)?;
    }
}

impl Record {
    fn renew(&mut self, set: Option<&str>, reason: &str) -> Result<Renewal, EvaluationError> {
        let record = self;
        let mut renewed: Vec<&mut ScoredSet> = record
            .sets
            .iter_mut()
            .filter(|s| !s.closed && set.is_none_or(|prefix| s.set.starts_with(prefix)))
            .collect();
        if let Some(prefix) = set
            && (renewed.len() != 1 || prefix.is_empty())
        {
            return Err(EvaluationError::NoSuchSet {
                prefix: prefix.to_owned(),
                count: renewed.len(),
            });
        }
        renewed
            .iter_mut()
            .for_each(|s| s.renewals = s.renewals.saturating_add(1).min(u32::MAX - 1));
        let set = set.and_then(|_| renewed.first().map(|s| s.set.clone()));
        Ok(record.noted(Renewal {
            renewed_at_s: seconds_now(),
            reason: reason.to_owned(),
            set,
            closed_sets: 0,
        }))
    }

    /// Closes all open sets. What noise protected them is given up: an overlapping set may be told
    /// of exactly from now on.
    fn close_sets(&mut self, reason: &str) -> Result<Renewal, EvaluationError> {
        let mut closed_sets = 0;
        for set in self.sets.iter_mut().filter(|s| !s.closed) {
            (set.closed, set.exact) = (true, true);
            closed_sets += 1;
        }
        if closed_sets == 0 {
            return Err(EvaluationError::NothingToClose);
        }
        let reason = reason.to_owned();
        Ok(self.noted(Renewal { renewed_at_s: seconds_now(), reason, set: None, closed_sets }))
    }

    fn noted(&mut self, renewal: Renewal) -> Renewal {
        self.renewals.push(renewal.clone());
        renewal
    }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}
