//! Which policy meets thresholds at the least cost.
//!
//! Policies are ordered in ladders, each from the one that tells most to the one that tells least. The search finds the
//! first rung of each ladder that meets the threshold on one half of the records, and at most three of these, the cheapest ones, are
//! scored again on the other half: among many policies one may meet a threshold by chance, on records that had no part in the
//! choice it may not. The truth stays where it is: a passive party scores each attempt as in any audit.

mod ladders;
mod text;

use vfl_active_party::attack::{AttackConfig, Method};
use vfl_shared::policy::Policy;
use vfl_shared::rpc::Refusal;
use vfl_shared::types::RecordIds;

use ladders::{Ladder, ladders};
pub use text::coordinator_config;

use crate::audit::{self, Findings, Plan, Targets};
use crate::report::{Audit, Compliance, ThresholdResult, Thresholds, Utility, together, worst};
use crate::set_facts::SetFacts;
use vfl_shared::metrics::{Metric, RecordsWithin};

/// The most candidates that are scored again on fresh records.
pub const CONFIRMED: usize = 3;

/// The fewest records of each half.
pub const LEAST_RECORDS: usize = 100;

/// What is demanded of a policy.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Demands {
    /// What an adversary may achieve; one of the two at least.
    pub thresholds: Thresholds,
    /// The accuracy that the policy may cost, as a share of the records.
    pub max_accuracy_loss: Option<f64>,
}

/// A policy, what it costs, and what its scores add.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The policy.
    pub policy: Policy,
    /// What it costs.
    pub utility: Utility,
    /// Added risk of the strongest attack, with the ends of its 95 % interval; `None` if no attack could be compared with its control.
    pub added: Option<Added>,
    /// How it stands to each threshold: all audits of it together.
    pub results: Vec<ThresholdResult>,
}

/// What the scores of a policy add for the strongest attack that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Added {
    /// The attack.
    pub attack: String,
    /// The worst attribute, which the figures are of; `None`: they are of all features together.
    pub attribute: Option<String>,
    /// 1 − error / error of the control, read off other records than attack and attribute were chosen by ([`worst`]).
    pub value: f64,
    /// The ends of the 95 % interval.
    pub interval: (f64, f64),
}

impl Trial {
    /// Whether it meets every threshold, upper ends of intervals included: what could not be measured meets nothing.
    #[must_use]
    pub fn meets(&self) -> bool {
        self.results.iter().all(|result| result.compliance == Compliance::Met)
    }

    /// The accuracy that it costs on the records tried, as a share of them; below 0 it gains.
    #[must_use]
    pub fn accuracy_loss(&self) -> Option<f64> {
        self.utility.accuracy_change.map(|change| -change)
    }

    /// Whether it costs no more accuracy than `max`, where there is a limit: the loss itself, without an interval.
    #[must_use]
    pub fn affordable(&self, max: Option<f64>) -> bool {
        // A difference of two shares may be off by round-off.
        max.is_none_or(|max| self.accuracy_loss().is_some_and(|loss| loss <= max + 1e-9))
    }

    /// What the policy costs, to be compared: the share of records whose class changes, then the distance of the scores. A change of the
    /// accuracy would be that of single records, which may come to be right by chance.
    fn cost(&self) -> (f64, f64) {
        let Utility { accuracy, arg_max_kept, total_variation, .. } = self.utility;
        (1.0 - arg_max_kept.or(accuracy).unwrap_or(0.0), total_variation.unwrap_or(f64::INFINITY))
    }

    /// The trials of an audit, one for each policy. `undefended` is the accuracy of exact scores on the same records, where it is known.
    fn of(findings: &Findings, policies: &[Policy], thresholds: &Thresholds, undefended: Option<f64>) -> Vec<Self> {
        let one = |policy: &Policy| {
            let facts = audit::facts(policy);
            let audits: Vec<&Audit> = findings.audits.iter().filter(|audit| audit.policy == facts).collect();
            let mut utility = audits.first().map(|audit| audit.utility).unwrap_or_default();
            utility.accuracy_change = utility.accuracy.zip(undefended).map(|(accuracy, exact)| accuracy - exact);
            Self { policy: policy.clone(), utility, added: Added::of(&audits), results: together(thresholds, &audits) }
        };
        policies.iter().map(one).collect()
    }
}

impl Added {
    /// Of the worst attribute of a policy's audits; `None` if no attack has a control, or there is no interval.
    fn of(audits: &[&Audit]) -> Option<Self> {
        let worst = worst(audits, None)?;
        let interval = worst.risk.low.zip(worst.risk.high)?;
        let attribute = Some(worst.figures.attribute.clone());
        Some(Self { attack: worst.attack.to_owned(), attribute, value: worst.risk.value?, interval })
    }
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// The data of a demonstration; `None` for a running deployment.
    pub set: Option<SetFacts>,
    /// What was demanded.
    pub demands: Demands,
    /// Records that the adversary knows whole.
    pub known_records: usize,
    /// Records of the search, and fresh ones.
    pub records: (usize, usize),
    /// Defenses that were left out, because the model in service was imported and they are fitted on scores of a training.
    pub unfitted: Vec<&'static str>,
    /// All policies tried in the search, in the order of their ladders.
    pub tried: Vec<Trial>,
    /// The cheapest that met the threshold there, scored on fresh records, cheapest first.
    pub confirmed: Vec<Trial>,
}

impl Recommendation {
    /// The cheapest policy that met all demands on fresh records too; `None`: none does.
    #[must_use]
    pub fn recommended(&self) -> Option<&Trial> {
        self.confirmed.iter().find(|trial| self.demands.met_by(trial))
    }
}

impl Demands {
    /// Whether a trial meets every threshold and costs no more than it may.
    #[must_use]
    pub fn met_by(&self, trial: &Trial) -> bool {
        trial.meets() && trial.affordable(self.max_accuracy_loss)
    }
}

/// The accuracy of exact scores, if they were audited and labels are known.
fn accuracy_of_exact(findings: &Findings) -> Option<f64> {
    findings.audits.iter().find(|audit| audit.policy.is_none())?.utility.accuracy
}

/// The attacks of a search: those that know moments or records whole. The one that knows neither opens the session whose summary says
/// what a policy costs.
fn attacks() -> Vec<AttackConfig> {
    [
        Method::ClampedHalfStar,
        Method::Lattice,
        Method::Gaussian,
        Method::PosteriorMean,
        Method::KernelRidge,
        Method::InformedLattice,
    ]
    .map(Into::into)
    .into()
}

/// Searches on the first half of the records of `plan`, and confirms on the second. Its attacks and policies are not looked at; its help
/// names the records that the adversary knows whole. `on_stage` is told what is done, as (done, total, words).
///
/// # Errors
/// [`Refusal`] if no threshold is given, if there are too few records, or no known ones, and as an audit.
pub async fn run(
    targets: &Targets,
    plan: &Plan,
    demands: Demands,
    mut on_stage: impl FnMut(usize, usize, &str),
) -> Result<Recommendation, Refusal> {
    let Some(known) = plan.help.auxiliary_ids.as_ref().map(RecordIds::len) else {
        let message = "the search is for an adversary that knows some records whole: name them (`auxiliary_ids`)";
        return Err(Refusal::invalid(message));
    };
    let thresholds = &demands.thresholds;
    if thresholds.is_empty() {
        return Err(Refusal::invalid("nothing is demanded: give `max_added_risk`, `max_exact_share` or `max_bits`"));
    }
    let half = plan.ids.len() / 2;
    if half < LEAST_RECORDS {
        let (least, got) = (2 * LEAST_RECORDS, plan.ids.len());
        return Err(Refusal::invalid(format!(
            "{got} records are too few to search and to confirm; name at least {least}"
        )));
    }
    let (searched, fresh) = (plan.ids.slice(0, half), plan.ids.slice(half, plan.ids.len()));
    let with = |ids: &RecordIds, policies: &[Policy]| Plan {
        ids: ids.clone(),
        policies: policies.to_vec(),
        attacks: attacks(),
        training_ids: None,
        // A share is demanded of any attack, as in an audit: of those as well that know the policy and no record.
        aware: thresholds.max_exact_share.is_some(),
        metrics: Some(thresholds.max_exact_share.map(|_| &RecordsWithin as &dyn Metric).into_iter().collect()),
        ..plan.clone()
    };
    let model = audit::model(targets).await?;
    let mut ladders = ladders(model.class_names.len());
    // What is fitted on scores of the training has none where there was no training here.
    let unfitted: Vec<&str> = ladders.iter().filter(|_| model.training.imported).filter_map(Ladder::fitted).collect();
    if model.training.imported {
        ladders.retain(|ladder| ladder.fitted().is_none());
    }
    let (mut asked, total) = (0, ladders.iter().map(Ladder::questions).sum::<usize>() + CONFIRMED);
    let mut tried: Vec<(usize, usize, Trial)> = Vec::new();
    let mut undefended = None;
    loop {
        // One rung of every ladder that is not done, in one audit.
        let next: Vec<(usize, usize, Policy)> = ladders
            .iter()
            .enumerate()
            .filter_map(|(at, ladder)| ladder.next().map(|(rung, policy)| (at, rung, policy.clone())))
            .collect();
        if next.is_empty() {
            break;
        }
        let policies: Vec<Policy> = next.iter().map(|(.., policy)| policy.clone()).collect();
        let plan = with(&searched, &policies);
        let findings = audit::run(targets, &plan, |done, of, stage| {
            on_stage(asked + policies.len() * done / of.max(1), total, stage);
        });
        let findings = findings.await?;
        // Exact scores are among the first policies asked about.
        undefended = undefended.or(accuracy_of_exact(&findings));
        let trials = Trial::of(&findings, &policies, thresholds, undefended);
        asked += trials.len();
        for ((at, rung, _), trial) in next.into_iter().zip(trials) {
            ladders[at].told(rung, trial.meets());
            tried.push((at, rung, trial));
        }
    }
    tried.sort_by_key(|(at, rung, _)| (*at, *rung));
    let mut candidates: Vec<Trial> = ladders
        .iter()
        .enumerate()
        .filter_map(|(at, ladder)| {
            let rung = ladder.found()?;
            tried.iter().find(|(a, r, _)| (*a, *r) == (at, rung)).map(|(.., trial)| trial.clone())
        })
        .collect();
    let cheaper = |a: &Trial, b: &Trial| {
        let ((a, far), (b, off)) = (a.cost(), b.cost());
        a.total_cmp(&b).then(far.total_cmp(&off))
    };
    candidates.retain(|trial| demands.met_by(trial));
    candidates.sort_by(cheaper);
    candidates.truncate(CONFIRMED);
    let mut confirmed = Vec::new();
    if !candidates.is_empty() {
        let policies: Vec<Policy> = candidates.into_iter().map(|trial| trial.policy).collect();
        let mut asked = policies.clone();
        if demands.max_accuracy_loss.is_some() && !asked.iter().any(Policy::is_none) {
            asked.insert(0, Policy::default());
        }
        let plan = with(&fresh, &asked);
        let findings = audit::run(targets, &plan, |_, _, stage| {
            on_stage(total - CONFIRMED, total, &format!("fresh records, {stage}"));
        });
        let findings = findings.await?;
        confirmed = Trial::of(&findings, &policies, thresholds, accuracy_of_exact(&findings));
        confirmed.sort_by(cheaper);
    }
    Ok(Recommendation {
        set: None,
        demands,
        known_records: known,
        records: (searched.len(), fresh.len()),
        unfitted,
        tried: tried.into_iter().map(|(.., trial)| trial).collect(),
        confirmed,
    })
}
