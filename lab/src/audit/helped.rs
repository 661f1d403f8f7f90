//! Audits of an adversary that somebody helps: it knows the passive features of some records, or passive parties lend it their
//! logit shares.

use vfl_active_party::attack::{AttackConfig, Method};
use vfl_shared::policy::Policy;
use vfl_shared::rpc::Refusal;
use vfl_shared::types::RecordIds;

use super::ask::{Ask, Helper};
use super::plan::{Help, Plan};
use super::request::{Auxiliary, Request, Spec};
use super::subject::Subject;
use crate::report::DefenseKnowledge;

/// The attacks of a plan that somebody helps.
pub(super) struct Helped<'a> {
    plan: &'a Plan,
    auxiliary: Option<&'a RecordIds>,
    colluders: Vec<String>,
    shadow: Vec<AttackConfig>,
    coalition: Vec<AttackConfig>,
}

impl<'a> Helped<'a> {
    /// Those that the plan names, with its settings, or one with none for each kind of help.
    pub(super) fn of(plan: &'a Plan) -> Self {
        let named = |there: bool, method: Method| {
            let mut named: Vec<_> = plan.attacks.iter().filter(|a| there && a.method() == method).cloned().collect();
            if there && named.is_empty() {
                named.push(method.into());
            }
            named
        };
        let Help { auxiliary_ids, colluding } = &plan.help;
        Self {
            plan,
            auxiliary: auxiliary_ids.as_ref(),
            colluders: colluding.iter().map(ToString::to_string).collect(),
            shadow: named(auxiliary_ids.is_some(), Method::ShadowModel),
            coalition: named(!colluding.is_empty(), Method::Coalition),
        }
    }

    /// Whether an attack is run with help, apart from the others.
    pub(super) fn runs(&self, method: Method) -> bool {
        self.shadow.iter().chain(&self.coalition).any(|a| a.method() == method)
    }

    /// How many attacks there are.
    pub(super) fn attacks(&self) -> usize {
        self.shadow.len() + self.coalition.len()
    }

    /// How many parts of a budget their scorings take, where the best of several is told.
    pub(super) fn parts(&self) -> usize {
        self.shadow.len().min(2) + self.coalition.len().min(2)
    }

    /// Opens a session for the help: about the audited records and the auxiliary ones, apart from the session about the audited
    /// records alone, whose summary is told and whose budget of rows is made for the other attacks. Gives its name.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if a record is both audited and auxiliary; otherwise what the coordinator said.
    pub(super) async fn open(&self, subject: &Subject<'_>, policy: &Policy) -> Result<Option<String>, Refusal> {
        if self.attacks() == 0 {
            return Ok(None);
        }
        let auxiliary = self.auxiliary.into_iter().flat_map(|ids| ids.iter());
        let ids = RecordIds::new(self.plan.ids.iter().chain(auxiliary))
            .map_err(|e| Refusal::invalid(format!("auxiliary records are to be others than the audited ones: {e}")))?;
        Ok(Some(subject.open(policy, &ids).await?.name))
    }

    /// The auxiliary records, which the session for the help answers; `None` without any.
    pub(super) fn auxiliary(&self, session: Option<&str>) -> Option<Auxiliary> {
        let (ids, session) = (self.auxiliary?, session?);
        Some(Auxiliary { ids: ids.clone(), session: session.to_owned() })
    }

    /// The requests for the attacks, like `request` otherwise.
    pub(super) fn asks(&self, request: &Request, session: Option<&str>, policy: &Policy) -> Vec<Ask> {
        let Some(name) = session else { return Vec::new() };
        let ask = |attacks: &[AttackConfig], helper| {
            let request = Request {
                session: name.to_owned(),
                attacks: attacks.iter().map(|a| Spec::behind(a, self.plan, policy)).collect(),
                ..request.clone()
            };
            Ask { request, names: Vec::new(), defense: DefenseKnowledge::Unknown, helper }
        };
        let mut asks = Vec::new();
        if !self.shadow.is_empty() {
            let mut shadow = ask(&self.shadow, Helper::KnownRecords);
            shadow.request.auxiliary = self.auxiliary(session);
            asks.push(shadow);
        }
        if !self.coalition.is_empty() {
            let mut coalition = ask(&self.coalition, Helper::Colluders(self.colluders.clone()));
            coalition.request.colluders.clone_from(&self.colluders);
            asks.push(coalition);
        }
        asks
    }
}

/// Closes the session for the help. Its records are part of the audited set, which another session summarises.
pub(super) async fn close(subject: &Subject<'_>, session: Option<String>) {
    if let Some(session) = session {
        // A session that cannot be closed expires.
        let _ = subject.coordinator.close(&session, false).await;
    }
}
