//! Audits of records that the active party has no score of: `agnostic`, over the sockets.

use tonic::transport::Channel;
use vfl_shared::policy::Policy;
use vfl_shared::rpc::pb::active_party_client::ActivePartyClient;
use vfl_shared::rpc::pb::coordinator_client::CoordinatorClient;
use vfl_shared::rpc::{Refusal, pb};
use vfl_shared::types::RecordIds;

use super::{Attacked, OBSERVED, Scorings, Targets, attack, refused, setting};
use crate::report::{
    Audit, Baselines, DefenseKnowledge, Observations, ParameterKnowledge, Policy as PolicyFacts, Utility,
};

/// Audits of records that the active party has no score of.
pub(super) struct Without<'a> {
    pub(super) active: &'a mut ActivePartyClient<Channel>,
    pub(super) targets: &'a Targets,
    pub(super) model: &'a pb::DescribeModelResponse,
    pub(super) seed: u64,
    pub(super) parameters: ParameterKnowledge,
    /// What is known of the features, in words.
    pub(super) features: Vec<String>,
    /// The attack, without how many records it asks about.
    pub(super) attack: pb::AttackSpec,
}

impl Without<'_> {
    /// No score is asked for.
    pub(super) async fn asking(
        &mut self,
        policy: PolicyFacts,
        ids: &RecordIds,
        scorings: &mut Scorings,
        baselines: &Baselines,
    ) -> Result<Audit, Refusal> {
        self.audit(policy, String::new(), 0, ids, scorings, baselines).await
    }

    /// Undefended scores of the first records are asked for, in a session. These records are attacked by their own scores, the
    /// others by estimates; the errors are those of all.
    pub(super) async fn asking_for_some(
        &mut self,
        coordinator: &mut CoordinatorClient<Channel>,
        ids: &RecordIds,
        scorings: &mut Scorings,
        baselines: &Baselines,
    ) -> Result<Audit, Refusal> {
        let open = pb::OpenAuditRequest {
            model_version: self.model.model_version.clone(),
            policy: Some((&Policy::default()).into()),
            ids: Some((&ids.slice(0, OBSERVED)).into()),
            active_party: self.targets.active.name.as_str().to_owned(),
        };
        let opened = coordinator.open_audit(open).await.map_err(refused(&self.targets.coordinator))?.into_inner();
        let policy = PolicyFacts::new("nothing").with("observed", OBSERVED);
        let session = opened.audit_session;
        let audit = self.audit(policy, session.clone(), OBSERVED, ids, scorings, baselines).await;
        // Its records are part of the audited set, which other sessions summarise.
        let close = pb::CloseAuditRequest { audit_session: session, without_summary: true };
        let closed = coordinator.close_audit(close).await;
        let audit = audit?;
        closed.map_err(refused(&self.targets.coordinator))?;
        Ok(audit)
    }

    async fn audit(
        &mut self,
        policy: PolicyFacts,
        audit_session: String,
        observed: usize,
        ids: &RecordIds,
        scorings: &mut Scorings,
        baselines: &Baselines,
    ) -> Result<Audit, Refusal> {
        let mut spec = self.attack.clone();
        spec.settings.push(setting("observed", observed));
        let request = pb::ReconstructRequest {
            audit_session,
            model_version: self.model.model_version.clone(),
            ids: Some(ids.into()),
            attacks: vec![spec],
            seed: self.seed,
            ..Default::default()
        };
        let Attacked { results, used, said, .. } =
            attack(self.active, &self.targets.active, request, &[], scorings, |_, _| ()).await?;
        let mut threat_model = used.threat_model(DefenseKnowledge::Unknown, self.parameters);
        threat_model.features.clone_from(&self.features);
        threat_model.observations = match observed {
            0 => Observations::NoScore,
            records => Observations::ScoresOfSome { records },
        };
        let mut audit = Audit::new(policy, threat_model, ids.len(), Utility::default(), baselines.clone());
        (audit.attacks, audit.remarks) = (results, said);
        Ok(audit)
    }
}
