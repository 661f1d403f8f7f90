//! Audits of an adversary that somebody helps: it knows the passive features of some records, or passive parties lend it their
//! logit shares.

use tonic::transport::Channel;
use vfl_active_party::attack::{AttackConfig, Method};
use vfl_shared::policy::Policy;
use vfl_shared::rpc::pb::coordinator_client::CoordinatorClient;
use vfl_shared::rpc::{Refusal, pb};
use vfl_shared::types::{PartyName, RecordIds};

use super::{Ask, Plan, Targets, attack_spec, refused};
use crate::report::DefenseKnowledge;

/// Who helps the adversary. The default is nobody.
#[derive(Debug, Clone, Default)]
pub struct Help {
    /// Records whose passive features the active party knows (`known_csv` in its config), other than those audited and not used in
    /// training: `shadow_model` estimates the parameters from them, and `undo_transform` looks at them too.
    pub auxiliary_ids: Option<RecordIds>,
    /// Passive parties that lend the active party their logit shares (`[collusion]` in their configs): `coalition` attacks the
    /// features of the others.
    pub colluding: Vec<PartyName>,
}

/// Who helps with an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Helper {
    /// Nobody.
    Nobody,
    /// Records with known passive features do.
    KnownRecords,
    /// Passive parties do.
    Colluders,
}

/// The attacks of a plan that somebody helps.
pub(super) struct Helped<'a> {
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

    /// The parties whose features are no target with this help.
    pub(super) fn colluders(&self, helper: Helper) -> &[String] {
        if helper == Helper::Colluders { &self.colluders } else { &[] }
    }

    /// Opens a session for the help: about the audited records and the auxiliary ones, apart from the session about the audited
    /// records alone, whose summary is told and whose budget of rows is made for the other attacks. Gives its name.
    pub(super) async fn open(
        &self,
        coordinator: &mut CoordinatorClient<Channel>,
        targets: &Targets,
        model: &pb::DescribeModelResponse,
        policy: &Policy,
        plan: &Plan,
    ) -> Result<Option<String>, Refusal> {
        if self.attacks() == 0 {
            return Ok(None);
        }
        let auxiliary = self.auxiliary.into_iter().flat_map(|ids| ids.iter());
        let ids = RecordIds::new(plan.ids.iter().chain(auxiliary))
            .map_err(|e| Refusal::invalid(format!("auxiliary records are to be others than the audited ones: {e}")))?;
        let open = pb::OpenAuditRequest {
            model_version: model.model_version.clone(),
            policy: Some(policy.into()),
            ids: Some(ids.into()),
            active_party: targets.active.name.as_str().to_owned(),
        };
        let opened = coordinator.open_audit(open).await.map_err(refused(&targets.coordinator))?.into_inner();
        Ok(Some(opened.audit_session))
    }

    /// Adds the auxiliary records to a request, where there are any.
    pub(super) fn add_auxiliary(&self, request: &mut pb::ReconstructRequest, session: Option<&str>) {
        if let (Some(ids), Some(session)) = (self.auxiliary, session) {
            request.auxiliary_ids = Some(ids.into());
            request.auxiliary_session = session.to_owned();
        }
    }

    /// The requests for the attacks, like `request` otherwise.
    pub(super) fn asks(
        &self,
        request: &pb::ReconstructRequest,
        session: Option<&str>,
        plan: &Plan,
        policy: &Policy,
    ) -> Vec<Ask> {
        let Some(session) = session else { return Vec::new() };
        let ask = |attacks: &[AttackConfig], helper| {
            let request = pb::ReconstructRequest {
                audit_session: session.to_owned(),
                attacks: attacks.iter().map(|a| attack_spec(a, plan, policy)).collect(),
                ..request.clone()
            };
            Ask { request, names: Vec::new(), defense: DefenseKnowledge::Unknown, helper }
        };
        let mut asks = Vec::new();
        if !self.shadow.is_empty() {
            let mut shadow = ask(&self.shadow, Helper::KnownRecords);
            self.add_auxiliary(&mut shadow.request, Some(session));
            asks.push(shadow);
        }
        if !self.coalition.is_empty() {
            let mut coalition = ask(&self.coalition, Helper::Colluders);
            coalition.request.colluders.clone_from(&self.colluders);
            asks.push(coalition);
        }
        asks
    }
}

/// Closes the session for the help. Its records are part of the audited set, which another session summarises.
pub(super) async fn close(coordinator: &mut CoordinatorClient<Channel>, session: Option<String>) {
    if let Some(audit_session) = session {
        // A session that cannot be closed expires.
        let _ = coordinator.close_audit(pb::CloseAuditRequest { audit_session, without_summary: true }).await;
    }
}
