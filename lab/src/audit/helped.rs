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
    /// The attacks that know moments; the control comes beside them.
    informed: Vec<AttackConfig>,
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
            informed: informed(plan),
            coalition: named(!colluding.is_empty(), Method::Coalition),
        }
    }

    /// Whether an attack is run with help, apart from the others.
    pub(super) fn runs(&self, method: Method) -> bool {
        method == Method::Imputation
            || self.shadow.iter().chain(&self.informed).chain(&self.coalition).any(|a| a.method() == method)
    }

    /// How many attacks there are, controls counted.
    pub(super) fn attacks(&self) -> usize {
        // Where each attack is scored by itself, its control is scored with it.
        self.shadow.len() + 2 * self.informed.len() + self.coalition.len()
    }

    /// How many parts of a budget their scorings take, where the best of several is told.
    pub(super) fn parts(&self) -> usize {
        // The control of informed attacks is one part more.
        let informed = self.informed.len().min(2);
        self.shadow.len().min(2) + informed + usize::from(informed > 0) + self.coalition.len().min(2)
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
        if !self.informed.is_empty() {
            let mut informed = ask(&[], Helper::KnownMoments);
            let control = AttackConfig::from(Method::Imputation);
            let known = |attack: &AttackConfig| match policy.is_none() {
                true => Spec::behind(attack, self.plan, policy),
                false => Spec::of(attack, self.plan).with("policy", policy),
            };
            informed.request.attacks =
                [Spec::of(&control, self.plan)].into_iter().chain(self.informed.iter().map(known)).collect();
            informed.request.auxiliary = self.auxiliary(session);
            if !policy.is_none() {
                informed.defense = DefenseKnowledge::Known;
            }
            asks.push(informed);
        }
        if !self.coalition.is_empty() {
            let mut coalition = ask(&self.coalition, Helper::Colluders(self.colluders.clone()));
            coalition.request.colluders.clone_from(&self.colluders);
            asks.push(coalition);
        }
        asks
    }
}

/// The attacks of an adversary that knows moments from whole records: those that the plan names, or the likeliest point and the mean
/// of the posterior.
fn informed(plan: &Plan) -> Vec<AttackConfig> {
    if plan.help.auxiliary_ids.is_none() {
        return Vec::new();
    }
    let control = |method: Method| method == Method::Imputation;
    let of = |a: &&AttackConfig| Method::informed().any(|m| m == a.method()) && !control(a.method());
    let named: Vec<AttackConfig> = plan.attacks.iter().filter(of).cloned().collect();
    if named.is_empty() { [Method::Gaussian, Method::PosteriorMean].map(AttackConfig::from).into() } else { named }
}

/// Closes the session for the help. Its records are part of the audited set, which another session summarises.
pub(super) async fn close(subject: &Subject<'_>, session: Option<String>) {
    if let Some(session) = session {
        // A session that cannot be closed expires.
        let _ = subject.coordinator.close(&session, false).await;
    }
}
