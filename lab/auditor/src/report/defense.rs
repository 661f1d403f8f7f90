//! The summary line of each policy: the result of the strongest attack, the added risk, and the
//! cost of the policy.

use vfl_present::{figure, printable, significant};

use super::attack_result::AddedRisk;
use super::document::{Audit, Policy, Report};
use super::errors::Errors;
use super::facts::{NONE, adversary};
use super::level::Level;
use super::stronger_attack::{informed, outdone};
use super::thresholds::{Compliance, ThresholdResult};
use super::verdict::verdict;
use super::worst_attribute::{WorstAttribute, worst};
use super::{added_risk, attribute_verdict};

/// The text for a figure that noise leaves open.
const UNDECIDED: &str = "undecided";

/// The summary line of one policy.
pub(super) struct DefenseLine<'a> {
    pub(super) policy: &'a Policy,
    /// A unique name of the policy in the report, without the names of its parameters.
    pub(super) short: String,
    /// True if the report judges this policy.
    pub(super) judged: bool,
    /// The success of the strongest attack: the informed one if it was measured and no other finds
    /// more.
    pub(super) level: Level,
    /// The knowledge of that attack's adversary, in a word.
    pub(super) knowledge: Option<&'static str>,
    /// The attack that the figures belong to, if one ran.
    pub(super) attack: Option<&'a str>,
    /// An attack that rebuilds all features, if any; the worst attribute may be from another.
    pub(super) exact: Option<&'a str>,
    /// The errors of the attack.
    errors: Option<&'a Errors>,
    /// The errors of guessing the column mean.
    mean: Option<&'a Errors>,
    /// The worst attribute, unless an attack without figures by attribute finds more.
    pub(super) worst: Option<WorstAttribute<'a>>,
    /// The share of the control's error that is removed: of the worst attribute, or of all features
    /// if there are no figures by attribute.
    pub(super) risk: Option<AddedRisk>,
    /// The same share on the mean over features, for the attack with the smallest error.
    pub(super) mean_risk: Option<AddedRisk>,
    /// True if the attack finds more than the informed one, so that only noise gives its figure an
    /// interval.
    outdone: bool,
    /// The accuracy that the policy costs, as a share; below 0 it gains. Absent if the accuracy
    /// without a defense is not known.
    pub(super) accuracy_lost: Option<f64>,
    /// The results for each threshold.
    pub(super) results: Vec<ThresholdResult>,
}

/// Returns the lines of the policies whose scores were attacked, in the order of the report.
pub(super) fn lines(report: &Report) -> Vec<DefenseLine<'_>> {
    let mut policies: Vec<&Policy> = Vec::new();
    for audit in report.audits.iter().filter(|audit| audit.threat_model.sees_scores()) {
        if !policies.contains(&&audit.policy) {
            policies.push(&audit.policy);
        }
    }
    let shorts = short_names(&policies);
    policies.into_iter().zip(shorts).map(|(policy, short)| line(report, policy, short)).collect()
}

fn line<'a>(report: &'a Report, policy: &'a Policy, short: String) -> DefenseLine<'a> {
    let audits: Vec<&Audit> = report
        .audits
        .iter()
        .filter(|a| a.policy == *policy && a.threat_model.sees_scores())
        .collect();
    // Adversaries that know only moments are reported apart: their control is weak, and they attack
    // only exact scores.
    let audits: Vec<&Audit> =
        audits.into_iter().filter(|audit| !audit.threat_model.moments).collect();
    let outdone = outdone(&audits);
    let strongest = || {
        let found = audits.iter().filter_map(|audit| Some((audit, audit.strongest()?.1.mse)));
        found.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(audit, _)| *audit)
    };
    let first = outdone.as_ref().map(|found| found.audit).or_else(|| informed(&audits));
    let shown: Option<&Audit> = first.or_else(strongest);
    let worst = worst(&audits, None).filter(|_| outdone.is_none());
    let named = worst.as_ref().and_then(|worst| by_name(&audits, worst.attack));
    let exact =
        audits.iter().find_map(|audit| audit.strongest().filter(|(_, errors)| errors.is_exact()));
    let best = named.map(|(_, best)| best).or_else(|| shown.and_then(Audit::strongest));
    let knowing = named.map(|(audit, _)| audit).or(shown);
    let mean_risk = informed(&audits).and_then(Audit::added_risk).map(|(_, _, risk)| risk);
    let utility = audits.first().map(|audit| audit.utility).unwrap_or_default();
    DefenseLine {
        policy,
        short,
        judged: report.judged() == Some(policy),
        level: match &worst {
            Some(worst) => added_risk::level_of(&audits, worst),
            None => shown.map_or(Level::Unmeasured, |audit| verdict(audit).level),
        },
        knowledge: knowing.map(adversary),
        attack: best.map(|(name, _)| name),
        exact: exact.map(|(name, _)| name),
        errors: best.map(|(_, errors)| errors),
        mean: audits.first().map(|audit| &audit.baselines.column_mean),
        outdone: outdone.is_some()
            || worst.as_ref().is_some_and(|worst| worst.risk.high.is_none() && !worst.noised),
        risk: match (outdone, &worst) {
            (Some(found), _) => Some(found.risk),
            (None, Some(worst)) => Some(worst.risk.clone()),
            (None, None) => mean_risk.clone(),
        },
        mean_risk,
        worst,
        accuracy_lost: match policy.is_none() {
            true => utility.accuracy.map(|_| 0.0),
            false => utility.accuracy_change.map(|change| -change),
        },
        results: report.compliance(policy),
    }
}

/// Returns the attack of this name, with its audit.
fn by_name<'a>(audits: &[&'a Audit], name: &str) -> Option<(&'a Audit, (&'a str, &'a Errors))> {
    let found = |audit: &'a Audit| {
        audit.scored().find(|(attack, _)| *attack == name).map(|found| (audit, found))
    };
    // Attacks of an informed audit come first, if another audit has an attack of that name too.
    let informed = audits.iter().copied().filter(|audit| audit.added_risk().is_some());
    informed.chain(audits.iter().copied()).find_map(found)
}

impl DefenseLine<'_> {
    /// Returns the error of the strongest attack.
    pub(super) fn error(&self) -> String {
        self.errors.map_or_else(|| NONE.into(), |errors| figure(errors.mse, errors.sigma))
    }

    /// Returns the error of guessing the column mean.
    pub(super) fn guess(&self) -> String {
        self.mean.map_or_else(|| NONE.into(), |errors| figure(errors.mse, errors.sigma))
    }

    /// Returns the error of the control, per feature.
    pub(super) fn control(&self) -> String {
        self.mean_risk.as_ref().map_or_else(|| NONE.into(), |risk| significant(risk.control_mse))
    }

    /// Returns the added risk.
    pub(super) fn added(&self) -> String {
        match &self.risk {
            Some(risk) if self.level == Level::Undecided && risk.high.is_none() => UNDECIDED.into(),
            Some(risk) => risk.value.map_or_else(|| NONE.into(), attribute_verdict::percent),
            None => Compliance::NotMeasured.label().into(),
        }
    }

    /// Returns the 95 % interval of the added risk.
    pub(super) fn interval(&self) -> String {
        match &self.risk {
            Some(risk) => attribute_verdict::interval(risk)
                .unwrap_or_else(|| if self.outdone { NONE.into() } else { "not bounded".into() }),
            None => NONE.into(),
        }
    }

    /// Returns the added risk with its interval: `71 % (69 to 74 %)`.
    pub(super) fn added_with_interval(&self) -> String {
        match &self.risk {
            Some(risk) if self.outdone && attribute_verdict::interval(risk).is_none() => {
                self.added()
            }
            Some(_) => format!("{} ({})", self.added(), self.interval()),
            None => self.added(),
        }
    }

    /// Returns the worst attribute, with its party if there are several.
    pub(super) fn attribute(&self, several: bool) -> String {
        match &self.worst {
            Some(worst) if several => format!("{} of {}", worst.figures.attribute, worst.party),
            Some(worst) => worst.figures.attribute.clone(),
            None => NONE.into(),
        }
    }

    /// Returns the accuracy that the policy costs, in percentage points: `0.2 points`.
    pub(super) fn cost(&self) -> String {
        self.accuracy_lost.map_or_else(|| NONE.into(), points)
    }

    /// Returns the compliance with all thresholds together, which is the worst result; `None` if
    /// there are none.
    pub(super) fn compliance(&self) -> Option<Compliance> {
        let has = |compliance| self.results.iter().any(|result| result.compliance == compliance);
        [Compliance::NotMet, Compliance::NotMeasured, Compliance::Met].into_iter().find(|c| has(*c))
    }
}

/// Formats a share as percentage points with one decimal, such as `0.2`. A value that rounds to 0
/// has no sign.
pub fn points(share: f64) -> String {
    let text = format!("{:.1}", 100.0 * share);
    if text == "-0.0" { "0.0".into() } else { text }
}

/// Returns the policies' names with only the numbers of their parameters; the full label if two
/// names would be equal.
fn short_names(policies: &[&Policy]) -> Vec<String> {
    let short = |policy: &Policy| {
        let numbers: Vec<String> = policy
            .parameters
            .values()
            .filter(|value| value.is_number())
            .map(ToString::to_string)
            .collect();
        printable([policy.name.as_str(), &numbers.join(", ")].join(" ").trim_end())
    };
    let all: Vec<String> = policies.iter().map(|policy| short(policy)).collect();
    let unique = |name: &String| all.iter().filter(|other| *other == name).count() == 1;
    all.iter()
        .zip(policies)
        .map(|(name, p)| if unique(name) { name.clone() } else { printable(&p.label()) })
        .collect()
}
