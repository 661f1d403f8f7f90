//! The verdicts in the document.

use vfl_core::metrics::EventFigures;

use super::brief::sentence;
use super::defense::{self, DefenseLine};
use super::document::Report;
use super::policy_verdict::PolicyVerdict;

/// Returns the verdict on each policy whose scores were attacked, in the order of the report.
pub(super) fn verdicts(report: &Report) -> Vec<PolicyVerdict> {
    let several = report.passive_parties().count() > 1;
    defense::lines(report).iter().map(|line| of(line, several)).collect()
}

fn of(line: &DefenseLine<'_>, several: bool) -> PolicyVerdict {
    let worst = line.worst.as_ref();
    PolicyVerdict {
        policy: line.policy.label(),
        judged: line.judged,
        level: line.level,
        sentence: sentence(line, several),
        knowledge: line.knowledge.map(str::to_owned),
        attack: line.attack.map(str::to_owned),
        party: worst.map(|worst| worst.party.to_owned()),
        attribute: worst.map(|worst| worst.figures.attribute.clone()),
        risk: line.risk.clone(),
        event: worst.and_then(|worst| {
            let (event, beside) = (worst.figures.event.clone()?, worst.beside.event.as_ref()?);
            Some(EventFigures { control: beside.control, ..event })
        }),
        mean: line.mean_risk.clone(),
        accuracy_lost: line.accuracy_lost,
        results: line.results.clone(),
    }
}
