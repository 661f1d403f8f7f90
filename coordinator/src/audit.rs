//! Audit sessions: each has a policy, a set of records and a budget, apart from the live service.

mod session;
pub(crate) mod summary;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::Rng;
use vfl_core::hex;
use vfl_core::types::{ModelVersion, PartyName, RecordIds};
use vfl_protocol::audit::SessionSummary;
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::disjoint_sets::DisjointSets;
use vfl_state::state_file::StateFileError;

use session::BoundShares;
pub use session::Session;
pub use summary::MIN_AUDIT_RECORDS;

use crate::config::AuditPolicy;
use crate::policy::ReadyPolicy;

/// Most records whose shares are bound by sessions, over all models. Beyond it no session with new
/// records opens.
pub(crate) const MAX_BOUND: usize = 1 << 20;

/// The open audit sessions, their bound shares, and the sets of records that were summarised.
#[derive(Debug)]
pub struct Audits {
    policy: AuditPolicy,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// The bound shares by fingerprint of the passive parameters, for the lifetime of this process.
    bound: Mutex<HashMap<String, BoundShares>>,
    /// The sets of records that were summarised.
    sets: Mutex<DisjointSets>,
}

impl Audits {
    /// Creates the table without any session. Reads the sets that were summarised before from the
    /// state directory.
    ///
    /// # Errors
    /// [`StateFileError`] naming the file that cannot be read or is damaged.
    pub fn new(policy: AuditPolicy, state_dir: &Path) -> Result<Self, StateFileError> {
        let sets = DisjointSets::open(state_dir)?;
        Ok(Self {
            policy,
            sessions: Mutex::default(),
            bound: Mutex::default(),
            sets: Mutex::new(sets),
        })
    }

    /// Checks that the operator allows audits.
    ///
    /// # Errors
    /// PERMISSION_DENIED when the operator does not allow them.
    pub fn allowed(&self) -> Result<(), Refusal> {
        if self.policy.allowed {
            return Ok(());
        }
        let message =
            "audits are not allowed here; the operator may set `allowed = true` in [audit]";
        Err(Refusal::new(RefusalKind::PermissionDenied, message))
    }

    /// Checks that a session about these records may be opened.
    ///
    /// # Errors
    /// As [`Audits::allowed`]; INVALID_ARGUMENT for too few or too many records.
    pub fn check(&self, ids: &RecordIds) -> Result<(), Refusal> {
        self.allowed()?;
        let (least, most) = (MIN_AUDIT_RECORDS, self.policy.max_records);
        if !(least..=most).contains(&ids.len()) {
            return Err(Refusal::invalid(format!(
                "an audit takes {least} to {most} records, {} came",
                ids.len()
            )));
        }
        Ok(())
    }

    /// Opens a session; returns its secret name and its budget in rows.
    ///
    /// # Errors
    /// PERMISSION_DENIED when the operator does not allow audits, INVALID_ARGUMENT for too few or
    /// too many records, RESOURCE_EXHAUSTED when too many sessions are open, or too many records
    /// have been audited.
    pub fn open(
        &self,
        model_version: ModelVersion,
        passive_fingerprint: &str,
        active_party: PartyName,
        policy: ReadyPolicy,
        ids: &RecordIds,
    ) -> Result<(String, u64), Refusal> {
        self.check(ids)?;
        let limits = &self.policy;
        let budget = limits.rows_per_record.saturating_mul(ids.len() as u64);
        let bound = self.bound(passive_fingerprint, ids)?;
        let session =
            Session::new(model_version, active_party, policy, ids, budget).bound_by(bound);
        let mut sessions = self.lock();
        let lifetime = Duration::from_secs(limits.session_lifetime_s);
        // A session of a model that is no longer in service answers nothing any more.
        sessions.retain(|_, s| {
            s.opened.elapsed() < lifetime && s.model_version == session.model_version
        });
        if sessions.len() >= limits.max_sessions {
            return Err(too_many(sessions.len() as u64));
        }
        let name = new_name();
        sessions.insert(name.clone(), Arc::new(session));
        Ok((name, budget))
    }

    /// Caches the fixed part of a session that was opened elsewhere. The cache holds as many
    /// sessions as may be open; an evicted one is read from the database when it is asked about
    /// again.
    pub(crate) fn enter(&self, name: &str, session: Session) {
        let lifetime = Duration::from_secs(self.policy.session_lifetime_s);
        let mut sessions = self.lock();
        sessions.retain(|_, s| {
            s.opened.elapsed() < lifetime && s.model_version == session.model_version
        });
        while sessions.len() >= self.policy.max_sessions.max(1) {
            let oldest =
                sessions.iter().min_by_key(|(_, s)| s.opened).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { break };
            sessions.remove(&oldest);
        }
        sessions.insert(name.to_owned(), Arc::new(session));
    }

    /// Drops a session from memory.
    pub(crate) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Returns the shares bound under these passive parameters, if there is room for those of
    /// `ids`.
    fn bound(&self, passive_fingerprint: &str, ids: &RecordIds) -> Result<BoundShares, Refusal> {
        let mut all = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let held = |bound: &BoundShares| bound.lock().unwrap_or_else(PoisonError::into_inner).len();
        let ours = all.get(passive_fingerprint).cloned().unwrap_or_default();
        let new = {
            let ours = ours.lock().unwrap_or_else(PoisonError::into_inner);
            ids.iter().filter(|id| !ours.contains_key(*id)).count()
        };
        if all.values().map(held).sum::<usize>() + new > MAX_BOUND {
            return Err(full("or restart the coordinator"));
        }
        all.insert(passive_fingerprint.to_owned(), ours.clone());
        Ok(ours)
    }

    /// Returns an open session to the party that may use it.
    ///
    /// # Errors
    /// NOT_FOUND when no session has that name or its time is up, PERMISSION_DENIED for another
    /// party.
    pub fn find(&self, name: &str, caller: &PartyName) -> Result<Arc<Session>, Refusal> {
        let session = self.lock().get(name).cloned();
        match session
            .filter(|s| s.opened.elapsed() < Duration::from_secs(self.policy.session_lifetime_s))
        {
            None => Err(unknown()),
            Some(session) if session.active_party == *caller => Ok(session),
            Some(_) => {
                let message = format!("the audit session is not for active party `{caller}`");
                Err(Refusal::new(RefusalKind::PermissionDenied, message))
            }
        }
    }

    /// Ends a session and, unless `without_summary`, returns the cost of its policy. Writes a file,
    /// so it must not run on a runtime's own threads.
    ///
    /// # Errors
    /// NOT_FOUND when no session has that name, UNAVAILABLE when the set cannot be recorded.
    pub fn close(&self, name: &str, without_summary: bool) -> Result<SessionSummary, Refusal> {
        let session = self.lock().remove(name).ok_or_else(unknown)?;
        match without_summary {
            true => Ok(summary::silent()),
            false => session.closed(&self.sets),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Draws a secret name for a session.
pub(crate) fn new_name() -> String {
    let mut secret = [0u8; 16];
    rand::rng().fill_bytes(&mut secret);
    hex(secret)
}

pub(crate) fn too_many(open: u64) -> Refusal {
    let message = format!("{open} audit sessions are open; close one first");
    Refusal::new(RefusalKind::ResourceExhausted, message)
}

/// Returns the refusal for too many bound records; `forget` says how to free some.
pub(crate) fn full(forget: &str) -> Refusal {
    let message = format!(
        "the shares of a million records are bound by audits; audit records that were audited before, {forget}, which forgets them"
    );
    Refusal::new(RefusalKind::ResourceExhausted, message)
}

pub(crate) fn unknown() -> Refusal {
    Refusal::new(
        RefusalKind::NotFound,
        "no such audit session is open; the auditor opens one with OpenAudit",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::UndefendedOutputs;
    use nalgebra::DMatrix;
    use vfl_core::types::{ConfidenceScores, ReleasedScores};
    use vfl_defense::Policy;
    use vfl_numerics::three_significant_digits;

    fn audits(allowed: bool) -> (tempfile::TempDir, Audits) {
        let dir = tempfile::tempdir().unwrap();
        let policy =
            AuditPolicy { allowed, max_sessions: 2, rows_per_record: 2, ..AuditPolicy::default() };
        let audits = Audits::new(policy, dir.path()).unwrap();
        (dir, audits)
    }

    fn ids(n: usize) -> RecordIds {
        RecordIds::new((0..n).map(|i| format!("r{i}"))).unwrap()
    }

    fn open(audits: &Audits, n: usize) -> Result<(String, u64), Refusal> {
        let version = ModelVersion::new("m-1").unwrap();
        audits.open(
            version,
            "f",
            PartyName::new("active").unwrap(),
            ReadyPolicy::unkeyed(&Policy::default(), 2),
            &ids(n),
        )
    }

    #[test]
    fn sessions_are_bounded() {
        assert_eq!(open(&audits(false).1, 100).unwrap_err().kind, RefusalKind::PermissionDenied);
        let (_dir, audits) = audits(true);
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
        audits.close(&name, false).unwrap();
        assert_eq!(audits.close(&name, false).unwrap_err().kind, RefusalKind::NotFound);
    }

    #[test]
    fn the_first_share_of_a_record_counts() {
        let (_dir, audits) = audits(true);
        let open_about = |fingerprint: &str, policy: &str| {
            let policy = policy.parse::<Policy>().unwrap();
            let version = ModelVersion::new("m-1").unwrap();
            let ready = ReadyPolicy::unkeyed(&policy, 2);
            audits.lock().clear();
            let (name, _) = audits
                .open(version, fingerprint, PartyName::new("active").unwrap(), ready, &ids(100))
                .unwrap();
            audits.find(&name, &PartyName::new("active").unwrap()).unwrap()
        };
        let open = |policy: &str| open_about("f", policy);
        let session = open("none");
        let ask = |share: u8| session.bind([("r1", [share; 16]), ("r2", [7; 16])].into_iter());
        assert_eq!(
            (ask(1), ask(1), ask(2), ask(1)),
            (vec![true; 2], vec![true; 2], vec![false, true], vec![true; 2])
        );
        // One share per session would allow as many queries as there are sessions.
        for share in 2..40 {
            assert_eq!(open("class_label").bind([("r1", [share; 16])].into_iter()), [false]);
        }
        assert_eq!(open("class_label").bind([("r1", [1; 16])].into_iter()), [true]);
        let of_others = open_about("g", "none");
        assert_eq!(
            of_others.bind([("r1", [2; 16])].into_iter()),
            [true],
            "other parameters, other shares"
        );
        let session = open("none, unbound shares");
        let ask = |share: u8| session.bind([("r1", [share; 16])].into_iter());
        assert_eq!((ask(1), ask(2)), (vec![true], vec![true]));
    }

    /// Returns scores of n records of two classes, and a release that swaps the classes of the
    /// first `wrong`.
    fn batch(n: usize, wrong: usize) -> (UndefendedOutputs, ReleasedScores) {
        let scores = DMatrix::from_fn(2, n, |class, _| if class == 0 { 0.75 } else { 0.25 });
        let released =
            DMatrix::from_fn(
                2,
                n,
                |class, at| if (class == 0) == (at < wrong) { 0.25 } else { 0.75 },
            );
        let scores = ConfidenceScores::new(scores).unwrap();
        (UndefendedOutputs::Scores(scores), ReleasedScores::Numbers(released))
    }

    fn session(audits: &Audits, ids: &RecordIds) -> (String, Arc<Session>) {
        let (version, active) =
            (ModelVersion::new("m-1").unwrap(), PartyName::new("active").unwrap());
        let ready = ReadyPolicy::unkeyed(&Policy::default(), 2);
        let (name, _) = audits.open(version, "f", active.clone(), ready, ids).unwrap();
        let session = audits.find(&name, &active).unwrap();
        (name, session)
    }

    #[test]
    fn a_summary_is_over_the_first_release_of_each_record_of_the_session() {
        let (_dir, audits) = audits(true);
        let all = ids(125);
        let (name, session) = session(&audits, &all);
        let (scores, released) = batch(100, 25);
        session.measure(&all.slice(0, 100), &scores, &released);
        // The last 25 come with records that were measured already, released in another way.
        let (scores, released) = batch(125, 100);
        session.measure(&all, &scores, &released);
        let closed = audits.close(&name, false).unwrap();
        assert_eq!((closed.rows, closed.records), (225, 125));
        let cost = closed.cost.unwrap();
        // The release swapped 25 of the first 100 and none of the last 25.
        let kl = 0.2 * (0.75 * 3f64.ln() + 0.25 * (1.0f64 / 3.0).ln());
        assert_eq!(cost.kl_divergence, Some(three_significant_digits(kl)));
        assert_eq!((cost.total_variation, cost.arg_max_kept), (Some(0.1), Some(0.8)));
    }

    /// The auditor names a hundred records and has one of them scored, or all but one, or opens a
    /// session about one record more.
    #[test]
    fn no_summary_tells_of_one_record() {
        let (dir, audits) = audits(true);
        let (all, more) = (ids(100), ids(101));
        let release = |audits: &Audits, ids: &RecordIds, released: &[RecordIds]| {
            let (name, session) = session(audits, ids);
            for ids in released {
                let (scores, released) = batch(ids.len(), 1);
                session.measure(ids, &scores, &released);
            }
            audits.close(&name, false).unwrap()
        };
        let silent = |closed: &SessionSummary| assert!(closed.cost.is_err(), "{closed:?}");
        silent(&release(&audits, &all, &[]));
        silent(&release(&audits, &all, &[all.slice(0, 1)]));
        silent(&release(&audits, &all, &vec![all.slice(0, 1); 200]));
        silent(&release(&audits, &all, &[all.slice(0, 99)]));
        silent(&release(&audits, &more, std::slice::from_ref(&all)));
        let told = release(&audits, &all, std::slice::from_ref(&all));
        assert_eq!(told.cost.as_ref().unwrap().arg_max_kept, Some(0.99));
        assert_eq!(release(&audits, &all, std::slice::from_ref(&all)), told, "the same set again");
        let restarted = Audits::new(audits.policy, dir.path()).unwrap();
        for audits in [&audits, &restarted] {
            silent(&release(audits, &more, std::slice::from_ref(&more)));
        }
        // A session that wants no summary leaves its records free for another set.
        let other = RecordIds::new((0..150).map(|i| format!("s{i}"))).unwrap();
        let (name, part) = session(&audits, &other.slice(0, 100));
        let (scores, released) = batch(100, 1);
        part.measure(&other.slice(0, 100), &scores, &released);
        silent(&audits.close(&name, true).unwrap());
        assert!(release(&audits, &other, std::slice::from_ref(&other)).cost.is_ok());
    }
}
