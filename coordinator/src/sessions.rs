//! Audit sessions for requests: those of this coordinator alone, or of all that share a ledger.
//!
//! A shared session is in the database: what it is about, the rows left, the shares bound, what was
//! released. Each coordinator keeps in memory what does not change of it: its records and its
//! prepared policy.

use std::path::Path;
use std::sync::Arc;

use vfl_core::metrics::UtilityTotals;
use vfl_core::types::{ModelVersion, PartyName, RecordIds, ReleasedScores};
use vfl_defense::Policy;
use vfl_protocol::audit::SessionSummary;
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::state_file::{StateFile, StateFileError};

use crate::audit::{Audits, MAX_BOUND, Session, full, new_name, summary, too_many, unknown};
use crate::config::AuditPolicy;
use crate::ledger::LedgerError;
use crate::policy::{Policies, Purpose, ReadyPolicy, UndefendedOutputs};
use crate::registry::PublishedModel;
use crate::replicas::{
    EndedSession, OpenOutcome, Replicas, SessionLimits, SpendOutcome, StoredSession,
};
use crate::share::ShareHash;

/// Errors from opening the sessions.
#[derive(Debug, thiserror::Error)]
pub enum SessionsError {
    /// An error of the sets of earlier audits in the state directory.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// An error of the database.
    #[error(transparent)]
    Database(#[from] LedgerError),
}

/// The open audit sessions.
#[derive(Debug)]
pub struct Sessions {
    here: Arc<Audits>,
    policy: AuditPolicy,
    shared: Option<Arc<Replicas>>,
}

/// An audit session, for one request.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    session: Arc<Session>,
    shared: Option<(Arc<Replicas>, String)>,
    lifetime_s: i64,
}

impl Sessions {
    /// Creates the sessions: none yet, or those that are open in the database.
    ///
    /// # Errors
    /// [`SessionsError`].
    pub async fn new(
        policy: AuditPolicy,
        state_dir: &Path,
        shared: Option<Arc<Replicas>>,
    ) -> Result<Self, SessionsError> {
        let here = Arc::new(Audits::new(policy, state_dir)?);
        if let Some(replicas) = &shared
            && let Some(sets) =
                StateFile::new(state_dir.join("audited.sets"), "restore it from a backup").read()?
        {
            replicas.adopt_sets(&sets).await?;
        }
        Ok(Self { here, policy, shared })
    }

    /// Checks that the operator allows audits: see [`Audits::allowed`].
    ///
    /// # Errors
    /// PERMISSION_DENIED when the operator does not allow audits.
    pub fn allowed(&self) -> Result<(), Refusal> {
        self.here.allowed()
    }

    /// Checks that a session about these records may be opened: see [`Audits::check`].
    ///
    /// # Errors
    /// As [`Audits::check`].
    pub fn check(&self, ids: &RecordIds) -> Result<(), Refusal> {
        self.here.check(ids)
    }

    fn lifetime_s(&self) -> i64 {
        i64::try_from(self.policy.session_lifetime_s).unwrap_or(i64::MAX / 2)
    }

    /// Opens a session; returns its secret name and its budget in rows.
    ///
    /// # Errors
    /// As [`Audits::open`]; UNAVAILABLE if the database does not answer.
    pub async fn open(
        &self,
        model: &PublishedModel,
        active_party: PartyName,
        policy: ReadyPolicy,
        ids: &RecordIds,
    ) -> Result<(String, u64), Refusal> {
        let (version, passive) = (model.manifest.version.clone(), &model.passive_fingerprint);
        let Some(replicas) = &self.shared else {
            return self.here.open(version, passive, active_party, policy, ids);
        };
        self.check(ids)?;
        let budget = self.policy.rows_per_record.saturating_mul(ids.len() as u64);
        let stored = StoredSession {
            model: version.as_str().to_owned(),
            passive: passive.clone(),
            active_party: active_party.as_str().to_owned(),
            policy: serde_json::to_string(&policy.policy)
                .map_err(|e| Refusal::internal(e.to_string()))?,
            records: ids.iter().flat_map(|id| [id, "\n"]).collect(),
            rows_left: i64::try_from(budget).unwrap_or(i64::MAX),
        };
        let limits = SessionLimits {
            sessions: self.policy.max_sessions as u64,
            bound: MAX_BOUND as u64,
            lifetime_s: self.lifetime_s(),
        };
        let name = new_name();
        match replicas.open_session(&name, &stored, limits).await.map_err(|e| unavailable(&e))? {
            OpenOutcome::Yes => {}
            OpenOutcome::TooMany(open) => return Err(too_many(open)),
            OpenOutcome::Replaced => return Err(replaced()),
            OpenOutcome::Full => {
                return Err(full("or have the operator empty the table `audit_bound`"));
            }
        }
        self.here.enter(&name, Session::new(version, active_party, policy, ids, budget));
        Ok((name, budget))
    }

    /// Returns an open session to the party that may use it; prepares it here if another
    /// coordinator has opened it.
    ///
    /// # Errors
    /// As [`Audits::find`]; UNAVAILABLE if the database does not answer.
    pub async fn find(
        &self,
        name: &str,
        caller: &PartyName,
        model: &PublishedModel,
        policies: &Policies,
    ) -> Result<SessionHandle, Refusal> {
        let lifetime_s = self.lifetime_s();
        let Some(replicas) = &self.shared else {
            return Ok(SessionHandle {
                session: self.here.find(name, caller)?,
                shared: None,
                lifetime_s,
            });
        };
        let session = match self.here.find(name, caller) {
            Err(refusal) if refusal.kind == RefusalKind::NotFound => {
                let stored =
                    replicas.session(name, lifetime_s).await.map_err(|e| unavailable(&e))?;
                self.ready(name, stored.ok_or_else(unknown)?, model, policies).await?;
                self.here.find(name, caller)?
            }
            found => found?,
        };
        Ok(SessionHandle { session, shared: Some((replicas.clone(), name.to_owned())), lifetime_s })
    }

    async fn ready(
        &self,
        name: &str,
        stored: StoredSession,
        model: &PublishedModel,
        policies: &Policies,
    ) -> Result<(), Refusal> {
        let damaged =
            || Refusal::internal("the audit session in the database is damaged; open another one");
        if stored.model != model.manifest.version.as_str() {
            return Err(replaced());
        }
        let policy: Policy = serde_json::from_str(&stored.policy).map_err(|_| damaged())?;
        let version = ModelVersion::new(stored.model).map_err(|_| damaged())?;
        let active_party = PartyName::new(stored.active_party).map_err(|_| damaged())?;
        let ids = RecordIds::new(stored.records.lines()).map_err(|_| damaged())?;
        let policy = policies.prepare(model, &policy, Purpose::Audit).await?;
        self.here.enter(name, Session::new(version, active_party, policy, &ids, 0));
        Ok(())
    }

    /// Ends a session and, unless `without_summary`, returns the cost of its policy.
    ///
    /// # Errors
    /// NOT_FOUND when no session has that name, UNAVAILABLE when the set cannot be recorded.
    pub async fn close(
        &self,
        name: String,
        without_summary: bool,
    ) -> Result<SessionSummary, Refusal> {
        let Some(replicas) = &self.shared else {
            let here = self.here.clone();
            let closed =
                tokio::task::spawn_blocking(move || here.close(&name, without_summary)).await;
            return closed.map_err(|_| Refusal::internal("closing the session failed"))?;
        };
        self.here.forget(&name);
        let ended =
            replicas.end_session(&name).await.map_err(|e| unavailable(&e))?.ok_or_else(unknown)?;
        if without_summary {
            return Ok(summary::silent());
        }
        let EndedSession { records, released, costs } = ended;
        let ids = RecordIds::new(records.lines()).map_err(|e| Refusal::internal(e.to_string()))?;
        let (mut rows, mut utility) = (0, UtilityTotals::default());
        for (released, cost) in costs {
            rows += u64::try_from(released).unwrap_or_default();
            let lost =
                || Refusal::internal("the sums of the session are damaged; open another one");
            utility += UtilityTotals::from_text(&cost).ok_or_else(lost)?;
        }
        let closed = |cost| SessionSummary { rows, records: released, cost };
        if let Err(partial) = summary::over_all(released, ids.len()) {
            return Ok(closed(Err(partial)));
        }
        let admitted = replicas.admit(&ids).await.map_err(|error| {
            tracing::error!(%error, "the set of an audit was not recorded; its summary is withheld");
            Refusal::unavailable("the coordinator cannot record the set of the session now; open another session")
        })?;
        Ok(closed(summary::cost(&utility, released, admitted)))
    }
}

impl SessionHandle {
    /// Returns the session itself.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Takes rows off the budget before anything is computed, so that rows that fail cost too.
    /// Returns how often the models of the coordinators had changed then.
    ///
    /// # Errors
    /// As [`Session::spend`]; NOT_FOUND for a session that was closed elsewhere; UNAVAILABLE if the
    /// database does not answer.
    pub async fn spend(&self, rows: u64) -> Result<u64, Refusal> {
        let Some((replicas, name)) = &self.shared else {
            return self.session.spend(rows).map(|()| 0);
        };
        match replicas
            .spend_session(name, rows, self.lifetime_s)
            .await
            .map_err(|e| unavailable(&e))?
        {
            SpendOutcome::Yes { changes } => Ok(changes),
            SpendOutcome::Left(left) => Err(Session::spent(left, rows)),
            SpendOutcome::Gone => Err(unknown()),
        }
    }

    /// Binds the logit shares of records: see [`Session::bind`].
    ///
    /// # Errors
    /// UNAVAILABLE if the database does not answer.
    pub async fn bind(
        &self,
        passive: &str,
        ids: &RecordIds,
        shares: &[ShareHash],
    ) -> Result<Vec<bool>, Refusal> {
        let Some((replicas, _)) = &self.shared else {
            return Ok(self.session.bind(ids.iter().zip(shares.iter().copied())));
        };
        if self.session.policy.policy.unbound_shares {
            return Ok(vec![true; ids.len()]);
        }
        // Only shares of the session's records are kept, so their number is bounded.
        let ours: Vec<usize> = (0..ids.len())
            .filter(|&at| ids.get(at).is_some_and(|id| self.session.contains(id)))
            .collect();
        let asked: Vec<(&str, ShareHash)> =
            ours.iter().filter_map(|&at| Some((ids.get(at)?, *shares.get(at)?))).collect();
        let same = replicas.bind(passive, &asked).await.map_err(|e| unavailable(&e))?;
        let mut bound = vec![true; ids.len()];
        for (position, &at) in ours.iter().enumerate() {
            bound[at] = same.contains(&position);
        }
        Ok(bound)
    }

    /// Counts the release of the records `ids` on shares, of whose scores nothing is known here.
    ///
    /// # Errors
    /// As [`SessionHandle::measure`].
    pub async fn count(&self, ids: &RecordIds) -> Result<(), Refusal> {
        let Some((replicas, name)) = &self.shared else {
            self.session.count(ids);
            return Ok(());
        };
        let nothing = |_: &[usize]| UtilityTotals::default().to_text();
        match replicas.measure(name, ids, nothing).await.map_err(|e| unavailable(&e))? {
            true => Ok(()),
            false => Err(unknown()),
        }
    }

    /// Adds the cost of releasing the records `ids`.
    ///
    /// # Errors
    /// NOT_FOUND for a session that was closed elsewhere, UNAVAILABLE if the database does not
    /// answer: nothing may be released then.
    pub async fn measure(
        &self,
        ids: &RecordIds,
        undefended: &UndefendedOutputs,
        released: &ReleasedScores,
    ) -> Result<(), Refusal> {
        let Some((replicas, name)) = &self.shared else {
            self.session.measure(ids, undefended, released);
            return Ok(());
        };
        let cost = |first: &[usize]| {
            Session::cost_of(first, undefended, released).unwrap_or_default().to_text()
        };
        match replicas.measure(name, ids, cost).await.map_err(|e| unavailable(&e))? {
            true => Ok(()),
            false => Err(unknown()),
        }
    }
}

/// Returns the refusal of a session of another model.
pub(crate) fn replaced() -> Refusal {
    Refusal::precondition("another model has been published since the audit session was opened")
}

fn unavailable(error: &LedgerError) -> Refusal {
    tracing::error!(%error, "an audit session cannot be read or written");
    Refusal::unavailable("the database of the coordinators does not answer; try again")
}
