//! The added risk of the scores for an informed adversary: its attack is compared with a control
//! that has the same knowledge but no scores.

use vfl_present::{figure, significant};
use vfl_transform::scoring::Halves;

use super::attack_result::AddedRisk;
use super::attribute_verdict::{Finding, finding, headline, interval, percent};
use super::document::{Audit, Report};
use super::errors::Errors;
use super::facts::counted;
use super::level::{Level, Verdict};
use super::worst_attribute::{WorstAttribute, worst};

/// The added risk behind one defense, as text.
pub struct AddedLine {
    /// The name of the defense.
    pub defense: String,
    /// The strongest attack.
    pub(super) attack: String,
    /// The error of the attack.
    pub error: String,
    /// The error of the control.
    pub control: String,
    /// 1 − error / control.
    pub added: String,
    /// The 95 % interval of the added risk.
    pub interval: String,
}

impl Audit {
    /// Returns the strongest attack of an audit that has a control, with its errors and its added
    /// risk.
    ///
    /// The best of several attacks looks better than it is on the records that it was chosen on. If
    /// parties reported figures of two halves of the records, the attack is therefore chosen on
    /// each half and evaluated on the other. The difference of the mean of these figures from that
    /// of the strongest attack of all records is subtracted from its figure and from the ends of
    /// its interval. If both halves choose that attack, nothing is subtracted.
    #[must_use]
    pub fn added_risk(&self) -> Option<(&str, &Errors, AddedRisk)> {
        let (name, errors) = self.strongest()?;
        let risks =
            || self.attacks.iter().filter_map(|a| Some((a.name.as_str(), a.added_risk.as_ref()?)));
        let (_, risk) = risks().find(|(attack, _)| *attack == name)?;
        let halves: Vec<Halves> = risks().filter_map(|(_, risk)| risk.halves).collect();
        let mut risk = risk.clone();
        if let (Some(own), Some(value)) = (risk.halves, risk.value) {
            // The strongest attack of all records comes first among equals, so that round-off
            // chooses nothing.
            let by = |key: fn(&Halves) -> f64| {
                let best = halves
                    .iter()
                    .max_by(|a, b| key(a).total_cmp(&key(b)))
                    .filter(|best| key(best) > key(&own));
                best.copied().unwrap_or(own)
            };
            let (by_first, by_second) = (by(|h| h.first), by(|h| h.second));
            let read_off = by_first.second + by_second.first;
            let flattery = ((own.first + own.second - read_off) / 2.0).max(0.0);
            risk.value = Some(value - flattery);
            (risk.low, risk.high) =
                (risk.low.map(|low| low - flattery), risk.high.map(|high| high - flattery));
        }
        Some((name, errors, risk))
    }
}

/// Returns one line for each defense that an informed adversary attacked, in the order of the
/// report.
pub fn lines(report: &Report) -> Vec<AddedLine> {
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

/// Returns the audits that the lines cover. The added risk for an adversary that knows only moments
/// has a sentence of its own.
fn subjects(report: &Report) -> impl Iterator<Item = &Audit> {
    report.audits.iter().filter(|audit| !audit.threat_model.moments)
}

/// Returns the number of records that the adversary knows, in words.
pub(super) fn known(report: &Report) -> Option<String> {
    let most =
        report.audits.iter().map(|audit| audit.threat_model.known_records).max().unwrap_or(0);
    (most > 0).then(|| counted(most, "record"))
}

/// Returns the heading of the lines.
pub(super) fn heading(report: &Report) -> Option<String> {
    let audit = subjects(report).find(|audit| audit.added_risk().is_some())?;
    Some(format!(
        "What the scores add for an adversary that knows {} records with all their features",
        audit.threat_model.known_records
    ))
}

/// The explanation of the lines.
pub(crate) const READING: &str = "The control is the same adversary without any score: it estimates each record's passive features \
     from its active ones, by whichever of means and a regression errs least on the attribute. Added risk is 1 − error / \
     error of the control. Without noise the attack is chosen on one half of the records and read off the other, which may \
     lower the figure. The release is not to blame for what the control finds. Below 0 % the attack does worse than its control; the scores may still tell more to a better one.";

/// Returns the verdict on an audit whose attacks have a control.
pub(super) fn verdict(audit: &Audit) -> Option<Verdict> {
    let (name, errors, risk) = audit.added_risk()?;
    let (e, c) = (figure(errors.mse, errors.sigma), significant(risk.control_mse));
    let control = &risk.control;
    if let Some(worst) = worst(&[audit], None) {
        return Some(by_attribute(
            &worst,
            audit,
            &format!("{name} has error {e}, {control} without scores {c}"),
            &risk,
        ));
    }
    let level = level(errors, &risk);
    let compared = format!(
        "{name} has error {e}, and {control}, which knows the same but has no score, has {c}"
    );
    let range = interval(&risk).map_or_else(String::new, |range| format!(" ({range}, 95 %)"));
    let text = match (level, risk.value) {
        (Level::Exact, _) => {
            format!(
                "{name} rebuilds the features exactly: error {e}; without scores {control} has {c}"
            )
        }
        (Level::NoMore, _) => {
            format!("the scores add nothing that this audit can measure{range}: {compared}")
        }
        (Level::Undecided, _) => format!("it is undecided what the scores add{range}: {compared}"),
        (_, Some(value)) => format!("the scores add {}{range}: {compared}", percent(value)),
        (_, None) => compared,
    };
    Some(Verdict { level, text })
}

fn level(errors: &Errors, risk: &AddedRisk) -> Level {
    if errors.is_exact() {
        return Level::Exact;
    }
    found(finding(risk, errors.sigma.is_some()))
}

fn found(finding: Finding) -> Level {
    match finding {
        Finding::Leak => Level::Partial,
        Finding::Nothing => Level::NoMore,
        Finding::Undecided => Level::Undecided,
    }
}

/// Returns the success of the attacks, by the worst attribute of these audits.
pub(super) fn level_of(audits: &[&Audit], worst: &WorstAttribute<'_>) -> Level {
    let strongest = audits.iter().filter_map(|audit| audit.strongest());
    if strongest.into_iter().any(|(_, errors)| errors.is_exact()) {
        return Level::Exact;
    }
    match found(finding(&worst.risk, worst.noised)) {
        // One of several attributes is rebuilt, value by value.
        Level::Partial if worst.figures.exact.is_some_and(|exact| exact.attack >= 0.995) => {
            Level::SomeExact
        }
        level => level,
    }
}

/// Returns the verdict by the worst attribute, with the mean over features.
fn by_attribute(
    worst: &WorstAttribute<'_>,
    audit: &Audit,
    compared: &str,
    mean: &AddedRisk,
) -> Verdict {
    let level = level_of(&[audit], worst);
    let range = interval(mean).map_or_else(String::new, |range| format!(" ({range})"));
    let told = mean.value.filter(|_| !worst.noised || mean.low.is_some());
    let share = told.map_or_else(|| "the noise bounds nothing".into(), percent);
    let text = match level {
        Level::Exact => format!("all features come back exactly: {compared}"),
        _ => format!(
            "{}; on the mean over features {share}{range}: {compared}",
            headline(worst, &audit.policy.label(), true)
        ),
    };
    Verdict { level, text }
}
