//! Audit sessions: a policy, a set of records and a budget apart from the live service.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use rand::Rng;
use vfl_shared::hex;
use vfl_shared::metrics::UtilityTotals;
use vfl_shared::numerics::three_significant_digits;
use vfl_shared::rpc::{Refusal, RefusalKind, pb};
use vfl_shared::types::{ConfidenceScores, ModelVersion, PartyName, RecordIds, ReleasedScores};

use crate::config::AuditPolicy;
use crate::policy::ReadyPolicy;
use crate::share::ShareHash;

/// The fewest records of a session: a mean over fewer says too much of each.
pub const MIN_AUDIT_RECORDS: usize = 100;

/// One open session.
pub struct Session {
    /// The version audited.
    pub model_version: ModelVersion,
    /// The active party that may use it.
    pub active_party: PartyName,
    /// The policy.
    pub policy: Arc<ReadyPolicy>,
    ids: HashSet<Box<str>, RandomState>,
    rows_left: AtomicU64,
    /// The first logit share of each record asked for, hashed.
    bound: Mutex<HashMap<Box<str>, ShareHash, RandomState>>,
    opened: Instant,
    utility: Mutex<UtilityTotals>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} records, {})", self.ids.len(), self.policy.policy)
    }
}

impl Session {
    /// Whether the session is about this record.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Takes rows off the budget, before anything is computed: rows that fail cost too.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when fewer are left; nothing is taken then.
    pub fn spend(&self, rows: u64) -> Result<(), Refusal> {
        let taken = self.rows_left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(rows));
        taken.map(drop).map_err(|left| {
            let message =
                format!("the audit session has {left} rows left, {rows} were asked for; open another session");
            Refusal::new(RefusalKind::ResourceExhausted, message)
        })
    }

    /// Binds the logit shares of records: `false` for a record that was asked for before with another share, which then must not
    /// be answered. All are `true` where the policy leaves shares unbound.
    #[must_use]
    pub fn bind<'a>(&self, shares: impl ExactSizeIterator<Item = (&'a str, ShareHash)>) -> Vec<bool> {
        if self.policy.policy.unbound_shares {
            return vec![true; shares.len()];
        }
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        // Only the session's records are kept, which are bounded in number.
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

    /// Adds what a release cost.
    pub fn measure(&self, scores: &ConfidenceScores, released: &ReleasedScores) {
        match UtilityTotals::of(scores, released) {
            Ok(cost) => *self.utility.lock().unwrap_or_else(PoisonError::into_inner) += cost,
            // A defect of the defense; the figures of the session then stand for the other rows.
            Err(error) => tracing::error!(%error, "the utility of a release is not counted"),
        }
    }

    fn summary(&self) -> pb::CloseAuditResponse {
        let totals = *self.utility.lock().unwrap_or_else(PoisonError::into_inner);
        pb::CloseAuditResponse {
            rows: totals.records(),
            kl_divergence: totals.kl_divergence().filter(|kl| kl.is_finite()).map(three_significant_digits),
            total_variation: totals.total_variation().map(three_significant_digits),
            arg_max_kept: totals.arg_max_kept().map_or(0.0, three_significant_digits),
        }
    }
}

/// The open sessions.
#[derive(Debug)]
pub struct Audits {
    policy: AuditPolicy,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
}

impl Audits {
    /// No session yet.
    #[must_use]
    pub fn new(policy: AuditPolicy) -> Self {
        Self { policy, sessions: Mutex::default() }
    }

    /// Whether a session about these records may be opened.
    ///
    /// # Errors
    /// PERMISSION_DENIED when the operator does not allow audits, INVALID_ARGUMENT for too few or too many records.
    pub fn check(&self, ids: &RecordIds) -> Result<(), Refusal> {
        if !self.policy.allowed {
            let message = "audits are not allowed here; the operator may set `allowed = true` in [audit]";
            return Err(Refusal::new(RefusalKind::PermissionDenied, message));
        }
        let (least, most) = (MIN_AUDIT_RECORDS, self.policy.max_records);
        if !(least..=most).contains(&ids.len()) {
            return Err(Refusal::invalid(format!("an audit takes {least} to {most} records, {} came", ids.len())));
        }
        Ok(())
    }

    /// Opens a session and gives its secret name and its budget in rows.
    ///
    /// # Errors
    /// PERMISSION_DENIED when the operator does not allow audits, INVALID_ARGUMENT for too few or too many records,
    /// RESOURCE_EXHAUSTED when too many sessions are open.
    pub fn open(
        &self,
        model_version: ModelVersion,
        active_party: PartyName,
        policy: ReadyPolicy,
        ids: &RecordIds,
    ) -> Result<(String, u64), Refusal> {
        self.check(ids)?;
        let limits = &self.policy;
        let budget = limits.rows_per_record.saturating_mul(ids.len() as u64);
        let session = Session {
            model_version,
            active_party,
            policy: Arc::new(policy),
            ids: ids.iter().map(Box::from).collect(),
            rows_left: AtomicU64::new(budget),
            bound: Mutex::default(),
            opened: Instant::now(),
            utility: Mutex::default(),
        };
        let mut sessions = self.lock();
        let lifetime = Duration::from_secs(limits.session_lifetime_s);
        // A session of a model that is no longer in service answers nothing any more.
        sessions.retain(|_, s| s.opened.elapsed() < lifetime && s.model_version == session.model_version);
        if sessions.len() >= limits.max_sessions {
            let message = format!("{} audit sessions are open; close one first", sessions.len());
            return Err(Refusal::new(RefusalKind::ResourceExhausted, message));
        }
        let mut secret = [0u8; 16];
        rand::rng().fill_bytes(&mut secret);
        let name = hex(secret);
        sessions.insert(name.clone(), Arc::new(session));
        Ok((name, budget))
    }

    /// An open session, for the party that may use it.
    ///
    /// # Errors
    /// NOT_FOUND when there is none of that name (or its time is up), PERMISSION_DENIED for another party.
    pub fn find(&self, name: &str, caller: &PartyName) -> Result<Arc<Session>, Refusal> {
        let session = self.lock().get(name).cloned();
        match session.filter(|s| s.opened.elapsed() < Duration::from_secs(self.policy.session_lifetime_s)) {
            None => Err(unknown()),
            Some(session) if session.active_party == *caller => Ok(session),
            Some(_) => {
                let message = format!("the audit session is not for active party `{caller}`");
                Err(Refusal::new(RefusalKind::PermissionDenied, message))
            }
        }
    }

    /// Ends a session.
    ///
    /// # Errors
    /// NOT_FOUND when there is none of that name.
    pub fn close(&self, name: &str) -> Result<pb::CloseAuditResponse, Refusal> {
        self.lock().remove(name).map(|s| s.summary()).ok_or_else(unknown)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown() -> Refusal {
    Refusal::new(RefusalKind::NotFound, "no such audit session is open; the auditor opens one with OpenAudit")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::DMatrix;
    use vfl_shared::policy::Policy;

    fn audits(allowed: bool) -> Audits {
        Audits::new(AuditPolicy { allowed, max_sessions: 2, rows_per_record: 2, ..AuditPolicy::default() })
    }

    fn ids(n: usize) -> RecordIds {
        RecordIds::new((0..n).map(|i| format!("r{i}"))).unwrap()
    }

    fn open(audits: &Audits, n: usize) -> Result<(String, u64), Refusal> {
        let version = ModelVersion::new("m-1").unwrap();
        audits.open(version, PartyName::new("active").unwrap(), ReadyPolicy::unkeyed(&Policy::default(), 2), &ids(n))
    }

    #[test]
    fn sessions_are_bounded() {
        assert_eq!(open(&audits(false), 100).unwrap_err().kind, RefusalKind::PermissionDenied);
        let audits = audits(true);
        assert_eq!(open(&audits, 99).unwrap_err().kind, RefusalKind::InvalidArgument);
        let (name, budget) = open(&audits, 100).unwrap();
        assert_eq!(budget, 200);
        open(&audits, 100).unwrap();
        assert_eq!(open(&audits, 100).unwrap_err().kind, RefusalKind::ResourceExhausted);
        let other = PartyName::new("other").unwrap();
        assert_eq!(audits.find(&name, &other).unwrap_err().kind, RefusalKind::PermissionDenied);
        let session = audits.find(&name, &PartyName::new("active").unwrap()).unwrap();
        session.spend(150).unwrap();
        assert_eq!(session.spend(51).unwrap_err().kind, RefusalKind::ResourceExhausted);
        session.spend(50).unwrap();
        audits.close(&name).unwrap();
        assert_eq!(audits.close(&name).unwrap_err().kind, RefusalKind::NotFound);
    }

    #[test]
    fn the_first_share_of_a_record_counts() {
        let audits = audits(true);
        let open = |policy: &str| {
            let policy = policy.parse::<Policy>().unwrap();
            let version = ModelVersion::new("m-1").unwrap();
            let ready = ReadyPolicy::unkeyed(&policy, 2);
            let (name, _) = audits.open(version, PartyName::new("active").unwrap(), ready, &ids(100)).unwrap();
            audits.find(&name, &PartyName::new("active").unwrap()).unwrap()
        };
        let session = open("none");
        let ask = |share: u8| session.bind([("r1", [share; 16]), ("r2", [7; 16])].into_iter());
        assert_eq!((ask(1), ask(1), ask(2), ask(1)), (vec![true; 2], vec![true; 2], vec![false, true], vec![true; 2]));
        let session = open("none, unbound shares");
        let ask = |share: u8| session.bind([("r1", [share; 16])].into_iter());
        assert_eq!((ask(1), ask(2)), (vec![true], vec![true]));
    }

    #[test]
    fn utility_is_that_of_the_definition() {
        let audits = audits(true);
        let (name, _) = open(&audits, 100).unwrap();
        let session = audits.find(&name, &PartyName::new("active").unwrap()).unwrap();
        let scores = ConfidenceScores::new(DMatrix::from_vec(2, 2, vec![0.5, 0.5, 0.9, 0.1])).unwrap();
        let released = ReleasedScores::Numbers(DMatrix::from_vec(2, 2, vec![0.25, 0.75, 0.9, 0.1]));
        session.measure(&scores, &released);
        let summary = audits.close(&name).unwrap();
        let kl = 0.5 * (0.5 * (0.5f64 / 0.25).ln() + 0.5 * (0.5f64 / 0.75).ln());
        assert_eq!(summary.kl_divergence, Some(three_significant_digits(kl)));
        assert_eq!(summary.total_variation, Some(0.125));
        assert_eq!((summary.rows, summary.arg_max_kept), (2, 0.5));
    }
}
