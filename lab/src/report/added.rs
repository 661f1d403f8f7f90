//! What the scores add for an adversary that knows moments of the features: its attack beside a control that knows the same and
//! has no scores.

use super::attack_result::{AddedRisk, Halves};
use super::document::{Audit, Report};
use super::errors::Errors;
use super::facts::counted;
use super::level::{EXACT_MSE, Level, Verdict};
use super::number::{figure, significant};

/// What the scores of one defense add, in words.
pub(crate) struct AddedLine {
    /// The defense.
    pub(crate) defense: String,
    /// The strongest attack.
    pub(super) attack: String,
    /// Its error.
    pub(crate) error: String,
    /// The control's.
    pub(crate) control: String,
    /// 1 − error / control.
    pub(crate) added: String,
    /// Its interval.
    pub(crate) interval: String,
}

impl Audit {
    /// The strongest attack of an audit that has a control, its errors, and what it adds.
    ///
    /// The best of several attacks looks better than it is on the records that it was chosen by. Where parties told the figures of two
    /// halves of the records, the attack is therefore chosen on each half and read off the other. By as much as that is less, on
    /// average, than what the strongest attack of all records achieves on the halves, its figure and the ends of its interval are
    /// lowered. If both halves choose that attack, nothing is.
    #[must_use]
    pub fn added_risk(&self) -> Option<(&str, &Errors, AddedRisk)> {
        let (name, errors) = self.strongest()?;
        let risks = || self.attacks.iter().filter_map(|a| Some((a.name.as_str(), a.added_risk.as_ref()?)));
        let (_, risk) = risks().find(|(attack, _)| *attack == name)?;
        let halves: Vec<Halves> = risks().filter_map(|(_, risk)| risk.halves).collect();
        let mut risk = risk.clone();
        if let (Some(own), Some(value)) = (risk.halves, risk.value) {
            // The strongest attack of all records comes first among equals, so that round-off chooses nothing.
            let by = |key: fn(&Halves) -> f64| {
                let best = halves.iter().max_by(|a, b| key(a).total_cmp(&key(b))).filter(|best| key(best) > key(&own));
                best.copied().unwrap_or(own)
            };
            let (by_first, by_second) = (by(|h| h.first), by(|h| h.second));
            let read_off = by_first.second + by_second.first;
            let flattery = ((own.first + own.second - read_off) / 2.0).max(0.0);
            risk.value = Some(value - flattery);
            (risk.low, risk.high) = (risk.low.map(|low| low - flattery), risk.high.map(|high| high - flattery));
        }
        Some((name, errors, risk))
    }
}

/// One line for each defense that such an adversary was let at, in the order of the report.
pub(crate) fn lines(report: &Report) -> Vec<AddedLine> {
    let line = |audit: &Audit| {
        let (name, errors, risk) = audit.added_risk()?;
        Some(AddedLine {
            defense: audit.policy.label(),
            attack: name.to_owned(),
            error: figure(errors.mse, errors.sigma),
            control: significant(risk.control_mse),
            added: risk.value.map_or_else(|| super::facts::NONE.into(), percent),
            interval: interval(&risk).unwrap_or_else(|| "not bounded".into()),
        })
    };
    subjects(report).filter_map(line).collect()
}

/// The audits that the lines are of. What scores add for whoever knows moments alone is told in a sentence of its own.
fn subjects(report: &Report) -> impl Iterator<Item = &Audit> {
    report.audits.iter().filter(|audit| !audit.threat_model.moments)
}

/// How many records the adversary knows, in words.
pub(super) fn known(report: &Report) -> Option<String> {
    let most = report.audits.iter().map(|audit| audit.threat_model.known_records).max().unwrap_or(0);
    (most > 0).then(|| counted(most, "record"))
}

/// What the lines are about, in a sentence.
pub(super) fn heading(report: &Report) -> Option<String> {
    let audit = subjects(report).find(|audit| audit.added_risk().is_some())?;
    Some(format!(
        "What the scores add for an adversary that knows {} records with all their features",
        audit.threat_model.known_records
    ))
}

/// How to read the lines.
pub(crate) const READING: &str = "The control is the same adversary without any score: it estimates each record's passive features \
     from its active ones (imputation). Added risk is 1 − error / error of the control. Without noise the attack is \
     chosen on one half of the records and read off the other, which may lower the figure. The release is not to blame for \
     what the control finds. Below 0 % the attack does worse than its control; the scores may still tell more to a better one.";

/// The verdict on an audit whose attacks have a control.
pub(super) fn verdict(audit: &Audit) -> Option<Verdict> {
    let (name, errors, risk) = audit.added_risk()?;
    let (e, c) = (figure(errors.mse, errors.sigma), significant(risk.control_mse));
    let control = &risk.control;
    let level = level(errors, &risk);
    let compared = format!("{name} has error {e}, and {control}, which knows the same but has no score, has {c}");
    let range = interval(&risk).map_or_else(String::new, |range| format!(" ({range}, 95 %)"));
    let text = match (level, risk.value) {
        (Level::Exact, _) => {
            format!("{name} rebuilds the features exactly: error {e}; without scores {control} has {c}")
        }
        (Level::NoMore, _) => format!("the scores add nothing that this audit can measure{range}: {compared}"),
        (_, Some(value)) => format!("the scores add {}{range}: {compared}", percent(value)),
        (_, None) => compared,
    };
    Some(Verdict { level, text })
}

fn level(errors: &Errors, risk: &AddedRisk) -> Level {
    if errors.mse <= EXACT_MSE && errors.sigma.is_none() {
        Level::Exact
    } else if risk.low.or(risk.value).is_some_and(|low| low > 0.0) {
        Level::Partial
    } else {
        Level::NoMore
    }
}

pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent.abs() < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

pub(super) fn interval(risk: &AddedRisk) -> Option<String> {
    let (low, high) = risk.low.zip(risk.high)?;
    let end = |share: f64| percent(share).replace(" %", "");
    Some(format!("{} to {} %", end(low), end(high)))
}
