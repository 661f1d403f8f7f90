//! The search for the policy that meets thresholds at the least cost.
//!
//! Policies are ordered in ladders, each from the one that reveals most to the one that reveals
//! least. The search finds the first rung of each ladder that meets the threshold on one half of
//! the records. The cheapest of these, at most three, are scored again on the other half: among
//! many policies one may meet a threshold by chance, which records that had no part in the choice
//! can show. The truth stays with its owner: a passive party scores each attempt as in any audit.

mod ladders;
mod text;

use vfl_attack::{AttackConfig, Method};
use vfl_core::types::RecordIds;
use vfl_defense::Policy;
use vfl_protocol::Refusal;

use ladders::{Ladder, ladders};
pub use text::coordinator_config;

use vfl_core::metrics::{Metric, RecordsWithin};
use vfl_datasets::set_facts::SetFacts;

use crate::audit::{self, Findings, Plan, Targets};
use crate::report::{
    Audit, Compliance, Policy as PolicyFacts, ThresholdResult, Thresholds, Utility, together, worst,
};

/// The most candidates that are scored again on fresh records.
pub const CONFIRMED: usize = 3;

/// The fewest records of each half.
pub const LEAST_RECORDS: usize = 100;

/// The demands on a policy.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Demands {
    /// The thresholds that attacks must not exceed.
    pub thresholds: Thresholds,
    /// The largest loss of accuracy, as a share of the records.
    pub max_accuracy_loss: Option<f64>,
}

/// A tried policy, its cost, and the added risk of its scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The tried policy.
    pub policy: Policy,
    /// The cost of the policy.
    pub utility: Utility,
    /// The added risk of the strongest attack, with the ends of its 95 % interval; `None` if no
    /// attack could be compared with its control.
    pub added: Option<AddedRiskEstimate>,
    /// The result for each threshold, from all audits of the policy together.
    pub results: Vec<ThresholdResult>,
}

/// The added risk of a policy's scores for the strongest attack that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct AddedRiskEstimate {
    /// The name of the attack.
    pub attack: String,
    /// The worst attribute, to which the figures refer; `None`: they refer to all features
    /// together.
    pub attribute: Option<String>,
    /// 1 − error / error of the control, measured on other records than attack and attribute were
    /// chosen by ([`worst`]).
    pub value: f64,
    /// The ends of the 95 % interval.
    pub interval: (f64, f64),
}

impl Trial {
    /// Returns true if it meets every threshold, by the upper ends of intervals. A figure that
    /// could not be measured meets none.
    #[must_use]
    pub fn meets(&self) -> bool {
        self.results.iter().all(|result| result.compliance == Compliance::Met)
    }

    /// Returns the loss of accuracy on the tried records, as a share of them; negative for a gain.
    #[must_use]
    pub fn accuracy_loss(&self) -> Option<f64> {
        self.utility.accuracy_change.map(|change| -change)
    }

    /// Returns true if it loses no more accuracy than `max`, if there is a limit. This compares the
    /// loss itself, without an interval.
    #[must_use]
    pub fn affordable(&self, max: Option<f64>) -> bool {
        // A difference of two shares may have a rounding error.
        max.is_none_or(|max| self.accuracy_loss().is_some_and(|loss| loss <= max + 1e-9))
    }

    /// Returns the cost of the policy for comparison: the share of records whose class changes,
    /// then the distance of the scores. The change of accuracy is not used: it would depend on
    /// single records that become right by chance.
    fn cost(&self) -> (f64, f64) {
        let Utility { accuracy, arg_max_kept, total_variation, .. } = self.utility;
        (1.0 - arg_max_kept.or(accuracy).unwrap_or(0.0), total_variation.unwrap_or(f64::INFINITY))
    }

    /// Returns the trials of an audit, one for each policy. `undefended` is the accuracy of exact
    /// scores on the same records, if known.
    fn of(
        findings: &Findings,
        policies: &[Policy],
        thresholds: &Thresholds,
        undefended: Option<f64>,
    ) -> Vec<Self> {
        let one = |policy: &Policy| {
            let facts = PolicyFacts::from(policy);
            let audits: Vec<&Audit> =
                findings.audits.iter().filter(|audit| audit.policy == facts).collect();
            let mut utility = audits.first().map(|audit| audit.utility).unwrap_or_default();
            utility.accuracy_change =
                utility.accuracy.zip(undefended).map(|(accuracy, exact)| accuracy - exact);
            Self {
                policy: policy.clone(),
                utility,
                added: AddedRiskEstimate::of(&audits),
                results: together(thresholds, &audits),
            }
        };
        policies.iter().map(one).collect()
    }
}

impl AddedRiskEstimate {
    /// Returns the added risk of the worst attribute of a policy's audits; `None` if no attack has
    /// a control, or there is no interval.
    fn of(audits: &[&Audit]) -> Option<Self> {
        let worst = worst(audits, None)?;
        let interval = worst.risk.low.zip(worst.risk.high)?;
        let attribute = Some(worst.figures.attribute.clone());
        Some(Self {
            attack: worst.attack.to_owned(),
            attribute,
            value: worst.risk.value?,
            interval,
        })
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// The data of a demonstration; `None` for a running deployment.
    pub set: Option<SetFacts>,
    /// The demands of the search.
    pub demands: Demands,
    /// The number of records that the adversary knows with all features.
    pub known_records: usize,
    /// The number of records of the search, and of fresh ones.
    pub records: (usize, usize),
    /// Defenses that were left out because they are fitted on scores of a training and the model in
    /// service was imported.
    pub unfitted: Vec<&'static str>,
    /// All policies tried in the search, in the order of their ladders.
    pub tried: Vec<Trial>,
    /// The cheapest policies that met the demands in the search, scored on fresh records, cheapest
    /// first.
    pub confirmed: Vec<Trial>,
}

impl Recommendation {
    /// Returns the cheapest policy that met all demands on fresh records too, if any.
    #[must_use]
    pub fn recommended(&self) -> Option<&Trial> {
        self.confirmed.iter().find(|trial| self.demands.met_by(trial))
    }
}

impl Demands {
    /// Returns true if a trial meets every threshold and its loss of accuracy is allowed.
    #[must_use]
    pub fn met_by(&self, trial: &Trial) -> bool {
        trial.meets() && trial.affordable(self.max_accuracy_loss)
    }
}

/// Returns the accuracy of exact scores, if they were audited and labels are known.
fn accuracy_of_exact(findings: &Findings) -> Option<f64> {
    findings.audits.iter().find(|audit| audit.policy.is_none())?.utility.accuracy
}

/// Returns the attacks of a search: those that know moments or records with all features. The first
/// one knows neither and opens the session whose summary has the cost of a policy.
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

/// Searches on the first half of the records of `plan`, and confirms on the second. Its attacks and
/// policies are ignored; its help names the records that the adversary knows with all features.
/// Calls `on_stage` with (done, total, words).
///
/// # Errors
/// [`Refusal`] if no threshold is given, if there are too few records or no known ones, and for the
/// reasons of an audit.
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
        return Err(Refusal::invalid(
            "nothing is demanded: give `max_added_risk`, `max_exact_share` or `max_bits`",
        ));
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
        // The threshold on exact records applies to every attack, as in an audit: also to attacks
        // that know the policy and no record.
        aware: thresholds.max_exact_share.is_some(),
        metrics: Some(
            thresholds.max_exact_share.map(|_| &RecordsWithin as &dyn Metric).into_iter().collect(),
        ),
        ..plan.clone()
    };
    let model = audit::model(targets).await?;
    if model.class_names.len() < 2 {
        return Err(Refusal::invalid(
            "the search is for models of classes, and this model's output is a number: audit `bins` of several counts",
        ));
    }
    let mut ladders = ladders(model.class_names.len());
    // An imported model, and by default one trained on shares, has no training scores here that a
    // defense could be fitted on.
    let scoreless = model.training.imported || model.training.private;
    let unfitted: Vec<&str> =
        ladders.iter().filter(|_| scoreless).filter_map(Ladder::fitted).collect();
    if scoreless {
        ladders.retain(|ladder| ladder.fitted().is_none());
    }
    let (mut asked, total) = (0, ladders.iter().map(Ladder::questions).sum::<usize>() + CONFIRMED);
    let mut tried: Vec<(usize, usize, Trial)> = Vec::new();
    let mut undefended = None;
    loop {
        // One audit tests a rung of every unfinished ladder.
        let next: Vec<(usize, usize, Policy)> = ladders
            .iter()
            .enumerate()
            .filter_map(|(at, ladder)| {
                ladder.next().map(|(rung, policy)| (at, rung, policy.clone()))
            })
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
        // Exact scores are among the first policies tested.
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
