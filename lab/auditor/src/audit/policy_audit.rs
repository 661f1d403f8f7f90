//! The audits behind one policy: opens a session, runs every attack in it and measures the cost of
//! the policy.

use vfl_defense::Policy;
use vfl_protocol::Refusal;
use vfl_protocol::audit::{Cost, OpenSession};

use super::adversaries::Adversaries;
use super::assisted_attacks;
use super::attack_request::AttackAnswer;
use super::policy::remarks;
use super::scoring::Scorings;
use super::subject::Subject;
use crate::report::{Audit, Utility};

/// A policy under audit, with the adversaries that attack behind it.
pub(super) struct PolicyAudit<'a> {
    pub(super) subject: &'a Subject<'a>,
    pub(super) adversaries: &'a Adversaries<'a>,
    pub(super) policy: &'a Policy,
    /// The accuracy without a defense, if it is already known.
    pub(super) undefended: Option<f64>,
}

impl PolicyAudit<'_> {
    /// Runs the audits, one for each adversary, and closes all sessions.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that refused or is not reachable. No session is left open.
    pub(super) async fn run(
        &self,
        scorings: &mut Scorings,
        on_stage: impl FnMut(usize, &str),
    ) -> Result<Vec<Audit>, Refusal> {
        let Self { subject, adversaries, policy, .. } = *self;
        // The session for the help is opened first: if it is refused, no other session has to be
        // closed.
        let beside = adversaries.helped.open(subject, policy).await?;
        let session = match subject.open(policy, &subject.plan.ids).await {
            Ok(session) => session,
            Err(refusal) => {
                assisted_attacks::close(subject, beside).await;
                return Err(refusal);
            }
        };
        let answers = self.answers(&session, beside.as_deref(), scorings, on_stage);
        let answered = subject.unless_stopped(answers).await;
        // Closed in any case: their secret names are lost with this call, and few sessions may be
        // open.
        assisted_attacks::close(subject, beside).await;
        let summary = answered.is_ok() && !adversaries.attacks.is_empty();
        let cost = subject.coordinator.close(&session.name, summary).await;
        let (answered, cost) = (answered?, cost?);
        Ok(self.audits(answered, session, cost))
    }

    /// Runs and scores all attacks.
    async fn answers(
        &self,
        session: &OpenSession,
        beside: Option<&str>,
        scorings: &mut Scorings,
        mut on_stage: impl FnMut(usize, &str),
    ) -> Result<Vec<AttackAnswer>, Refusal> {
        let asks = self.adversaries.asks(self.subject, self.policy, &session.name, beside);
        let mut answered = Vec::with_capacity(asks.len());
        for (at, ask) in asks.into_iter().enumerate() {
            // Only the plan's attacks, which come first, report their stages.
            let on_stage = |done, stage: &str| {
                if at == 0 {
                    on_stage(done, stage);
                }
            };
            answered.push(ask.run(self.subject, self.policy, scorings, on_stage).await?);
        }
        Ok(answered)
    }

    /// Adds the cost of the policy to each audit, and the remarks on the policy to the first.
    fn audits(
        &self,
        answered: Vec<AttackAnswer>,
        session: OpenSession,
        cost: Result<Cost, String>,
    ) -> Vec<Audit> {
        let accuracy = answered.iter().find_map(|answered| answered.accuracy);
        let told = cost.as_ref().ok();
        let utility = Utility {
            accuracy,
            accuracy_change: accuracy.zip(self.undefended).map(|(a, u)| a - u),
            // A divergence below 0 comes from releases that do not sum to 1 and means nothing,
            // except for round-off.
            mean_kl_nats: told
                .and_then(|cost| cost.kl_divergence)
                .filter(|kl| *kl > -1e-9)
                .map(|kl| kl.max(0.0)),
            total_variation: told.and_then(|cost| cost.total_variation),
            arg_max_kept: told.and_then(|cost| cost.arg_max_kept),
            mean_change: told.and_then(|cost| cost.mean_change),
            bits: session.promise.bits,
        };
        let mut said = session.promise.notes;
        // What stands for a score of 0 is about scores.
        if self.subject.model.class_names.len() > 1 {
            let no_divergence = told.is_some_and(|cost| cost.kl_divergence.is_none());
            said.extend(remarks(self.policy, no_divergence));
        }
        if let Err(why) = cost {
            said.push(format!("what the policy costs is withheld: {why}"));
        }
        let mut audits: Vec<Audit> = answered.into_iter().map(|answered| answered.audit).collect();
        for audit in &mut audits {
            audit.utility = utility;
            audit.remarks.splice(0..0, std::mem::take(&mut said));
        }
        audits
    }
}
