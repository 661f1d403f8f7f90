//! The audits behind one policy: a session, every attack in it, and what the policy costs.

use vfl_shared::policy::Policy;
use vfl_shared::rpc::Refusal;

use super::adversaries::Adversaries;
use super::ask::Answered;
use super::client::{Cost, Session};
use super::helped;
use super::policy::remarks;
use super::scoring::Scorings;
use super::subject::Subject;
use crate::report::{Audit, Utility};

/// A policy under audit, and who attacks behind it.
pub(super) struct Behind<'a> {
    /// The deployment.
    pub(super) subject: &'a Subject<'a>,
    /// Who attacks.
    pub(super) adversaries: &'a Adversaries<'a>,
    /// The policy.
    pub(super) policy: &'a Policy,
    /// Accuracy without a defense, where it is known already.
    pub(super) undefended: Option<f64>,
}

impl Behind<'_> {
    /// Runs the audits, one for each adversary.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that refused or is not reachable. No session is left open.
    pub(super) async fn run(
        &self,
        scorings: &mut Scorings,
        on_stage: impl FnMut(usize, &str),
    ) -> Result<Vec<Audit>, Refusal> {
        let Self { subject, adversaries, policy, .. } = *self;
        // First, as it may be refused: of what is open then, nothing is left open.
        let beside = adversaries.helped.open(subject, policy).await?;
        let session = match subject.open(policy, &subject.plan.ids).await {
            Ok(session) => session,
            Err(refusal) => {
                helped::close(subject, beside).await;
                return Err(refusal);
            }
        };
        let answers = self.answers(&session, beside.as_deref(), scorings, on_stage);
        let answered = subject.unless_stopped(answers).await;
        // Closed whatever happened: their secret names are lost with this call, and open sessions are few.
        helped::close(subject, beside).await;
        let summary = answered.is_ok() && !adversaries.attacks.is_empty();
        let cost = subject.coordinator.close(&session.name, summary).await;
        let (answered, cost) = (answered?, cost?);
        Ok(self.audits(answered, session, cost))
    }

    /// Has all attacks run and scored.
    async fn answers(
        &self,
        session: &Session,
        beside: Option<&str>,
        scorings: &mut Scorings,
        mut on_stage: impl FnMut(usize, &str),
    ) -> Result<Vec<Answered>, Refusal> {
        let asks = self.adversaries.asks(self.subject, self.policy, &session.name, beside);
        let mut answered = Vec::with_capacity(asks.len());
        for (at, ask) in asks.into_iter().enumerate() {
            // The stages are those of the plan's attacks, which come first.
            let on_stage = |done, stage: &str| {
                if at == 0 {
                    on_stage(done, stage);
                }
            };
            answered.push(ask.run(self.subject, self.policy, scorings, on_stage).await?);
        }
        Ok(answered)
    }

    /// Puts what the policy costs into each audit, and what is to be said of the policy into the first.
    fn audits(&self, answered: Vec<Answered>, session: Session, cost: Result<Cost, String>) -> Vec<Audit> {
        let accuracy = answered.iter().find_map(|answered| answered.accuracy);
        let told = cost.as_ref().ok();
        let utility = Utility {
            accuracy,
            accuracy_change: accuracy.zip(self.undefended).map(|(a, u)| a - u),
            // A divergence below 0 is one of releases that do not sum to 1: it says nothing. Round-off does not count.
            mean_kl_nats: told.and_then(|cost| cost.kl_divergence).filter(|kl| *kl > -1e-9).map(|kl| kl.max(0.0)),
            total_variation: told.and_then(|cost| cost.total_variation),
            arg_max_kept: told.and_then(|cost| cost.arg_max_kept),
            bits: session.bits,
        };
        let mut said = session.notes;
        said.extend(remarks(self.policy, told.is_some_and(|cost| cost.kl_divergence.is_none())));
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
