//! Audits of records that the active party has no score of, with the attack `agnostic`.

use vfl_core::types::RecordIds;
use vfl_defense::Policy;
use vfl_protocol::Refusal;
use vfl_protocol::reconstruct::AttackSpec;

use super::attack_request::{RequestResults, attack};
use super::plan::OBSERVED;
use super::scoring::{ScoringNeeds, Scorings};
use super::subject::Subject;
use crate::report::{
    Audit, Baselines, DefenseKnowledge, Observations, ParameterKnowledge, Policy as PolicyFacts,
    ScoringFacts, Utility,
};

/// The audits of records that the active party has no score of.
pub(super) struct UnscoredAudit<'a> {
    pub(super) subject: &'a Subject<'a>,
    /// The adversary's knowledge of the parameters.
    pub(super) parameters: ParameterKnowledge,
    /// The attack, without the number of records it asks about.
    pub(super) attack: AttackSpec,
}

impl UnscoredAudit<'_> {
    /// Audits without asking for any score.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that refused or is not reachable.
    pub(super) async fn asking(
        &self,
        scorings: &mut Scorings,
        baselines: &Baselines,
    ) -> Result<Audit, Refusal> {
        let policy = PolicyFacts::nothing();
        self.audit(policy, "", 0, &self.subject.plan.ids, scorings, baselines).await
    }

    /// Audits after asking for undefended scores of the first records, in a session. These records
    /// are attacked by their own scores, the others by estimates; the errors are those of all.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that refused or is not reachable.
    pub(super) async fn asking_for_some(
        &self,
        scorings: &mut Scorings,
        baselines: &Baselines,
    ) -> Result<Audit, Refusal> {
        let ids = &self.subject.plan.ids;
        let session = self.subject.open(&Policy::default(), &ids.slice(0, OBSERVED)).await?.name;
        let policy = PolicyFacts::nothing().with("observed", OBSERVED);
        let audit = self.audit(policy, &session, OBSERVED, ids, scorings, baselines).await;
        // Closed without a summary: its records are part of the audited set, which other sessions
        // summarise.
        let closed = self.subject.coordinator.close(&session, false).await;
        let audit = audit?;
        closed.and(Ok(audit))
    }

    /// Audits training records without asking for a score. Returns the audit, and the facts on its
    /// scoring.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that refused or is not reachable.
    pub(super) async fn of_training(
        &self,
        ids: &RecordIds,
    ) -> Result<(Audit, Vec<ScoringFacts>), Refusal> {
        let Subject { plan, targets, model, .. } = self.subject;
        let opened = Scorings::open(targets, model, ids, "training");
        let mut scorings = self.subject.unless_stopped(opened).await?;
        scorings.plan(
            ScoringNeeds { candidates: 1, parts: 1, rounds: 1 },
            plan.rho,
            (plan.metrics.as_deref(), model.combiner, model.class_names.len()),
        )?;
        let baselines = self.subject.unless_stopped(scorings.baselines()).await?;
        let policy = PolicyFacts::nothing().with("records", "training");
        let mut audit = self.audit(policy, "", 0, ids, &mut scorings, &baselines).await?;
        let remark = format!(
            "{} records of the training, whose scores training showed the active party",
            ids.len()
        );
        audit.remarks.insert(0, remark);
        Ok((audit, scorings.facts()))
    }

    /// Attacks records, the first `observed` of which are asked for in `session`.
    async fn audit(
        &self,
        policy: PolicyFacts,
        session: &str,
        observed: usize,
        ids: &RecordIds,
        scorings: &mut Scorings,
        baselines: &Baselines,
    ) -> Result<Audit, Refusal> {
        let spec = self.attack.clone().with("observed", observed);
        let request = self.subject.request(session, ids, vec![spec]);
        let attacked = attack(self.subject, request, (&[], 0), scorings, |_, _| ());
        let RequestResults { results, used, said, .. } =
            self.subject.unless_stopped(attacked).await?;
        let mut threat_model = used.threat_model(DefenseKnowledge::Unknown, self.parameters);
        threat_model.features = self.subject.knows.clone();
        threat_model.observations = match observed {
            0 => Observations::NoScore,
            records => Observations::ScoresOfSome { records },
        };
        let mut audit =
            Audit::new(policy, threat_model, ids.len(), Utility::default(), baselines.clone());
        (audit.attacks, audit.remarks) = (results, said);
        Ok(audit)
    }
}
