//! Audits of an adversary that has help: it knows the passive features of some records, or passive
//! parties lend it their logit shares.

use vfl_attack::{AttackConfig, Method};
use vfl_core::types::{PartyName, RecordIds};
use vfl_defense::Policy;
use vfl_protocol::Refusal;
use vfl_protocol::reconstruct::{AuxiliaryIds, ReconstructionRequest};

use super::attack_request::{AttackRequest, Helper};
use super::attack_spec::{spec, spec_behind};
use super::plan::{Help, Plan};
use super::subject::Subject;
use crate::report::DefenseKnowledge;

/// The attacks of a plan whose adversary has help.
pub(super) struct AssistedAttacks<'a> {
    plan: &'a Plan,
    auxiliary: Option<&'a RecordIds>,
    colluders: Vec<PartyName>,
    shadow: Vec<AttackConfig>,
    /// The attacks that know moments; they run with controls.
    informed: Vec<AttackConfig>,
    coalition: Vec<AttackConfig>,
}

impl<'a> AssistedAttacks<'a> {
    /// Selects the attacks that the plan names with its settings; if it names none for a kind of
    /// help, the default attacks for that kind.
    pub(super) fn of(plan: &'a Plan) -> Self {
        let named = |there: bool, method: Method| {
            let mut named: Vec<_> =
                plan.attacks.iter().filter(|a| there && a.method() == method).cloned().collect();
            if there && named.is_empty() {
                named.push(method.into());
            }
            named
        };
        let Help { auxiliary_ids, colluding } = &plan.help;
        // Known records serve the attacks that are named, or all that can use them.
        let there = auxiliary_ids.is_some();
        let names_shadow = plan.attacks.iter().any(|a| a.method() == Method::ShadowModel);
        let named_informed: Vec<_> =
            plan.attacks.iter().filter(|a| is_informed(a.method())).cloned().collect();
        let informed = match named_informed.is_empty() {
            _ if !there => Vec::new(),
            false => named_informed,
            true if names_shadow => Vec::new(),
            true => informed_attacks(),
        };
        let shadow =
            there && (names_shadow || !plan.attacks.iter().any(|a| is_informed(a.method())));
        Self {
            plan,
            auxiliary: auxiliary_ids.as_ref(),
            colluders: colluding.clone(),
            shadow: named(shadow, Method::ShadowModel),
            informed,
            coalition: named(!colluding.is_empty(), Method::Coalition),
        }
    }

    /// Returns true if an attack is run with help, apart from the others.
    pub(super) fn runs(&self, method: Method) -> bool {
        method.is_control()
            || self
                .shadow
                .iter()
                .chain(&self.informed)
                .chain(&self.coalition)
                .any(|a| a.method() == method)
    }

    /// Returns the number of attacks, including controls.
    pub(super) fn attacks(&self) -> usize {
        // Where each attack is scored by itself, its control is scored with it.
        let controls = if self.informed.is_empty() { 0 } else { controls().len() };
        self.shadow.len() + controls + 2 * self.informed.len() + self.coalition.len()
    }

    /// Returns the number of budget parts of their scorings, if only the best of several attacks is
    /// reported.
    pub(super) fn parts(&self) -> usize {
        // The control of informed attacks costs one more part.
        let informed = self.informed.len().min(2);
        self.shadow.len().min(2)
            + informed
            + usize::from(informed > 0)
            + self.coalition.len().min(2)
    }

    /// Opens a session for the help and returns its name. It covers the audited and the auxiliary
    /// records. The session of the audited records alone stays separate, since its summary is
    /// reported and its budget of rows is sized for the other attacks.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if a record is both audited and auxiliary; otherwise what the coordinator
    /// said.
    pub(super) async fn open(
        &self,
        subject: &Subject<'_>,
        policy: &Policy,
    ) -> Result<Option<String>, Refusal> {
        if self.attacks() == 0 {
            return Ok(None);
        }
        let auxiliary = self.auxiliary.into_iter().flat_map(|ids| ids.iter());
        let ids = RecordIds::new(self.plan.ids.iter().chain(auxiliary)).map_err(|e| {
            Refusal::invalid(format!(
                "auxiliary records are to be others than the audited ones: {e}"
            ))
        })?;
        Ok(Some(subject.open(policy, &ids).await?.name))
    }

    /// Returns the auxiliary records, which the session for the help answers; none without it.
    pub(super) fn auxiliary(&self, session: Option<&str>) -> AuxiliaryIds {
        let of = |(ids, session): (&RecordIds, &str)| AuxiliaryIds {
            ids: ids.clone(),
            session: session.to_owned(),
        };
        self.auxiliary.zip(session).map(of).unwrap_or_default()
    }

    /// Returns the request for the attacks that know moments, preceded by their controls.
    fn informed(
        &self,
        mut ask: AttackRequest,
        session: Option<&str>,
        policy: &Policy,
    ) -> AttackRequest {
        // A regression learns the effect of the policy from the known records.
        let learns =
            |attack: &AttackConfig| !attack.method().build(attack.settings()).needs().white_box();
        let known = |attack: &AttackConfig| match policy.is_none() || learns(attack) {
            true => spec_behind(attack, self.plan, policy),
            false => spec(attack, self.plan).with("policy", policy),
        };
        let controls = controls();
        ask.helper = Helper::KnownMoments { controls: controls.len() };
        ask.names = controls.iter().chain(&self.informed).map(ToString::to_string).collect();
        let specs = controls.iter().map(|control| spec(control, self.plan));
        ask.request.attacks = specs.chain(self.informed.iter().map(known)).collect();
        ask.request.auxiliary = self.auxiliary(session);
        if !policy.is_none() {
            ask.defense = DefenseKnowledge::Known;
        }
        ask
    }

    /// Returns the requests for the attacks, otherwise like `request`.
    pub(super) fn asks(
        &self,
        request: &ReconstructionRequest,
        session: Option<&str>,
        policy: &Policy,
    ) -> Vec<AttackRequest> {
        let Some(name) = session else { return Vec::new() };
        let ask = |attacks: &[AttackConfig], helper| {
            let request = ReconstructionRequest {
                session: name.to_owned(),
                attacks: attacks.iter().map(|a| spec_behind(a, self.plan, policy)).collect(),
                ..request.clone()
            };
            AttackRequest { request, names: Vec::new(), defense: DefenseKnowledge::Unknown, helper }
        };
        let mut asks = Vec::new();
        if !self.shadow.is_empty() {
            let mut shadow = ask(&self.shadow, Helper::KnownRecords);
            shadow.request.auxiliary = self.auxiliary(session);
            asks.push(shadow);
        }
        if !self.informed.is_empty() {
            asks.push(self.informed(ask(&[], Helper::Nobody), session, policy));
        }
        if !self.coalition.is_empty() {
            let names = self.colluders.iter().map(ToString::to_string).collect();
            let mut coalition = ask(&self.coalition, Helper::Colluders(names));
            coalition.request.colluders.clone_from(&self.colluders);
            asks.push(coalition);
        }
        asks
    }
}

/// Returns true if an attack knows moments or whole records, and looks at scores.
fn is_informed(method: Method) -> bool {
    !method.is_control() && Method::informed().any(|informed| informed == method)
}

/// Returns the controls: methods that know the same moments or records but see no score. With noise
/// only the first is compared with; it chooses among the others by the known records.
fn controls() -> Vec<AttackConfig> {
    let others =
        variants([Method::Imputation]).into_iter().chain([Method::KernelImputation.into()]);
    std::iter::once(Method::BestImputation.into()).chain(others).collect()
}

/// Returns the default attacks of an adversary that knows whole records: the likeliest point and
/// the mean of the posterior, each with all moments and with those of the passive features alone, a
/// regression, and the likeliest point of the features' grid.
#[must_use]
pub fn informed_attacks() -> Vec<AttackConfig> {
    let others = [Method::KernelRidge, Method::InformedLattice].map(AttackConfig::from);
    variants([Method::Gaussian, Method::PosteriorMean]).into_iter().chain(others).collect()
}

/// Returns each method with all moments, and with those of the passive features alone.
fn variants<const N: usize>(methods: [Method; N]) -> Vec<AttackConfig> {
    let own = |method: Method| AttackConfig::new(method, [("moments", "own")]).ok();
    methods
        .into_iter()
        .flat_map(|method| [Some(method.into()), own(method)].into_iter().flatten())
        .collect()
}

/// Closes the session for the help without a summary: its records are part of the audited set,
/// which another session summarises.
pub(super) async fn close(subject: &Subject<'_>, session: Option<String>) {
    if let Some(session) = session {
        // A session that cannot be closed expires.
        let _ = subject.coordinator.close(&session, false).await;
    }
}
