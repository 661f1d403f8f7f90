//! The audit, which the auditor runs over the sockets of any deployment. Each defense has a session
//! in which all attacks run. The party that holds the true features scores each reconstruction.

mod adversaries;
mod assisted_attacks;
mod attack_report;
mod attack_request;
mod attack_spec;
mod client;
mod findings;
mod joint;
mod model;
mod owner_simulation;
mod plan;
mod policy;
mod policy_audit;
mod round;
mod schema;
mod scoring;
mod subject;
mod survey;
mod unscored_audit;

use tokio_util::sync::CancellationToken;
use vfl_protocol::Refusal;

use adversaries::Adversaries;
use attack_spec::spec;
use findings::knowledge;
use policy_audit::PolicyAudit;
use scoring::Scorings;
use subject::{Subject, unless_stopped};
use unscored_audit::UnscoredAudit;

pub use assisted_attacks::informed_attacks;
pub use findings::Findings;
pub use model::{Model, Training};
pub use plan::{Help, OBSERVED, Plan, REFINED_FROM, Targets};
pub use scoring::DEFAULT_METRICS;
pub(crate) use survey::{DeploymentState, PartyBudget, ScoringOffer, said, standing};

use crate::report::{Audit, Baselines, ScoringFacts};

/// Asks the coordinator which model is in service.
///
/// # Errors
/// [`Refusal`] for a malformed address, or naming the coordinator.
pub async fn model(targets: &Targets) -> Result<Model, Refusal> {
    client::Coordinator::new(&targets.credentials, &targets.coordinator)?.describe().await
}

/// Runs the audit and reports progress to `on_stage` as (done, total, words).
///
/// # Errors
/// [`Refusal`] naming the party that refused or is not reachable. An attack that cannot run is a
/// finding, not an error.
pub async fn run(
    targets: &Targets,
    plan: &Plan,
    on_stage: impl FnMut(usize, usize, &str),
) -> Result<Findings, Refusal> {
    run_unless_stopped(targets, plan, &CancellationToken::new(), on_stage).await
}

/// Runs the audit until `stop` is cancelled. Sessions are closed then too; a spent budget stays
/// spent.
///
/// # Errors
/// ABORTED once `stop` is cancelled; otherwise as [`run`].
pub async fn run_unless_stopped(
    targets: &Targets,
    plan: &Plan,
    stop: &CancellationToken,
    mut on_stage: impl FnMut(usize, usize, &str),
) -> Result<Findings, Refusal> {
    let coordinator = client::Coordinator::new(&targets.credentials, &targets.coordinator)?;
    let model = coordinator.describe().await?;
    let mut scorings =
        unless_stopped(stop, Scorings::open(targets, &model, &plan.ids, "audited")).await?;
    // Settings derived from the schema are reported as the schema, not number by number.
    let (knows, plan) = (plan.knows(), &schema::known(&scorings.features(), plan)?);
    let subject = Subject::new(targets, (plan, knows), coordinator, model, stop)?;
    let shown = scorings.shown();
    let classes = subject.model.class_names.len();
    let adversaries = Adversaries::of(plan, &shown, (&scorings.features(), classes));
    let plays = !adversaries.policies().is_empty() && owner_simulation::plays(&subject, &scorings);
    let needs = adversaries.needs();
    let needs = if plays { needs.and(owner_simulation::needs()) } else { needs };
    scorings.plan(needs, plan.rho, (plan.metrics.as_deref(), subject.model.combiner, classes))?;
    let baselines = subject.unless_stopped(scorings.baselines()).await?;

    let (policies, attacks) = (adversaries.policies(), adversaries.attacks.len());
    let total = policies.len() * attacks;
    let mut audits: Vec<Audit> = Vec::new();
    for (round, policy) in policies.iter().enumerate() {
        let on_stage = |done: usize, stage: &str| {
            on_stage(round * attacks + done, total, &format!("{policy}: {stage}"))
        };
        let undefended =
            audits.iter().find(|a| a.policy.is_none()).and_then(|a| a.utility.accuracy);
        let behind =
            PolicyAudit { subject: &subject, adversaries: &adversaries, policy, undefended };
        audits.extend(behind.run(&mut scorings, on_stage).await?);
    }
    tell_costs(&mut audits);
    if let Some((last, undefended)) =
        audits.iter().enumerate().rfind(|(_, a)| plays && a.policy.is_none())
    {
        on_stage(total, total, "the adversary that knows moments, played by their owner");
        let (at, utility) = (last + 1, undefended.utility);
        let played = owner_simulation::audit(&subject, &mut scorings, utility, baselines.clone());
        match subject.unless_stopped(played).await {
            Ok(played) => audits.insert(at, played),
            Err(refusal) if stop.is_cancelled() => return Err(refusal),
            // The findings so far have been paid for, so they are kept.
            Err(refusal) => {
                let said =
                    format!("the adversary that knows moments was not played: {}", refusal.message);
                audits
                    .iter_mut()
                    .skip(last)
                    .take(1)
                    .for_each(|audit| audit.remarks.push(said.clone()));
            }
        }
    }
    let mut of_training = Vec::new();
    if let Some(agnostic) = adversaries.agnostic {
        on_stage(total, total, "estimating scores instead of asking");
        let attack = spec(agnostic, plan);
        let without = UnscoredAudit {
            subject: &subject,
            parameters: knowledge(&shown, &subject.model),
            attack,
        };
        let (more, facts) =
            without_scores(&without, adversaries.refined, &mut scorings, &baselines).await?;
        audits.extend(more);
        of_training = facts;
    }
    on_stage(total, total, "done");
    let mut scoring = scorings.facts();
    scoring.extend(of_training);
    let (feature_names, metrics) = (scorings.feature_names(), scorings.metrics().to_vec());
    Ok(Findings { model: subject.model, feature_names, shown, audits, scoring, metrics })
}

/// Fills in the accuracy cost of policies that were audited before the scores without a defense.
pub fn tell_costs(audits: &mut [Audit]) {
    let Some(undefended) =
        audits.iter().find(|a| a.policy.is_none()).and_then(|a| a.utility.accuracy)
    else {
        return;
    };
    for audit in audits.iter_mut().filter(|audit| !audit.policy.is_none()) {
        let utility = &mut audit.utility;
        utility.accuracy_change =
            utility.accuracy_change.or(utility.accuracy.map(|accuracy| accuracy - undefended));
    }
}

/// Runs the audits of records that the active party has no score of: one without asking, one after
/// asking for some scores if `refined`, and one of training records if the plan names any. Returns
/// the audits, and the facts on the scoring of the training records.
async fn without_scores(
    without: &UnscoredAudit<'_>,
    refined: bool,
    scorings: &mut Scorings,
    baselines: &Baselines,
) -> Result<(Vec<Audit>, Vec<ScoringFacts>), Refusal> {
    let mut audits = vec![without.asking(scorings, baselines).await?];
    if refined {
        audits.push(without.asking_for_some(scorings, baselines).await?);
    }
    let Some(ids) = &without.subject.plan.training_ids else { return Ok((audits, Vec::new())) };
    let (audit, facts) = without.of_training(ids).await?;
    audits.push(audit);
    Ok((audits, facts))
}
