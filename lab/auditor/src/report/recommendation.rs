//! Recommends the next step in one sentence, and lists the thresholds that are not met.

use vfl_present::printable;

use super::attribute_verdict::percent;
use super::certificate;
use super::defense::{DefenseLine, points};
use super::document::Report;
use super::level::Level;
use super::thresholds::{Compliance, Threshold, ThresholdResult};

/// The accuracy, as a share, that a policy may cost to be recommended without a threshold.
const AFFORDABLE: f64 = 0.01;

/// Returns the next step. Holds names as they stand in the document, unescaped.
pub(super) fn step(report: &Report, lines: &[DefenseLine<'_>]) -> String {
    let Some(judged) = lines.iter().find(|line| line.judged) else {
        return "Audit at least one policy.".into();
    };
    if report.thresholds.is_none() {
        return without_thresholds(judged, lines);
    }
    match judged.compliance() {
        Some(Compliance::Met) | None => format!(
            "Serve {}: it meets every threshold; audit again when the model, the policy or the data change.",
            judged.short
        ),
        Some(Compliance::NotMeasured) => measure(&judged.results),
        Some(Compliance::NotMet) => instead(lines),
    }
}

/// Recommends the first missing measurement.
fn measure(results: &[ThresholdResult]) -> String {
    let missing = results.iter().find(|result| result.compliance == Compliance::NotMeasured);
    match missing.map(|result| result.threshold) {
        Some(Threshold::MaxExactShare) => "Measure the metric records_within (`--metrics`) and audit again.".into(),
        _ => "Name records that the active party may know whole (`auxiliary_ids` of an audit and `known_csv` of the active party, \
              `--known-records` of a demonstration), so that what the scores add is measured."
            .into(),
    }
}

/// Recommends a policy to serve instead of one that does not meet the thresholds.
fn instead(lines: &[DefenseLine<'_>]) -> String {
    let meets = |line: &&DefenseLine<'_>| line.compliance() == Some(Compliance::Met);
    let cost = |line: &DefenseLine<'_>| line.accuracy_lost.unwrap_or(f64::INFINITY);
    let value = |line: &DefenseLine<'_>| {
        line.risk.as_ref().and_then(|risk| risk.value).unwrap_or(f64::INFINITY)
    };
    let cheapest = lines.iter().filter(meets).min_by(|a, b| {
        // Of equal costs the one with less added risk.
        let rounded = |line: &DefenseLine<'_>| (1000.0 * cost(line)).round();
        rounded(a).total_cmp(&rounded(b)).then(value(a).total_cmp(&value(b)))
    });
    let undecided = lines.iter().find(|line| line.judged && line.level == Level::Undecided);
    match (cheapest, undecided) {
        (Some(line), _) => {
            let of = "of the policies audited that meet every threshold";
            match line.accuracy_lost {
                Some(_) => format!(
                    "Serve {} instead: {of} it costs least, at a cost of {} points of accuracy.",
                    line.short,
                    line.cost()
                ),
                None => format!("Serve {} instead, {of}.", line.short),
            }
        }
        (None, Some(judged)) => more_records(judged),
        (None, None) => "No policy audited meets every threshold: audit stronger ones, make fewer features passive or show less of the parameters."
            .into(),
    }
}

fn more_records(line: &DefenseLine<'_>) -> String {
    format!("Audit more records: these do not tell what the scores behind {} add.", line.short)
}

fn without_thresholds(judged: &DefenseLine<'_>, lines: &[DefenseLine<'_>]) -> String {
    if judged.level == Level::Undecided {
        return more_records(judged);
    }
    let decided = |line: &DefenseLine<'_>| line.level != Level::Undecided;
    let value = |line: &DefenseLine<'_>| {
        line.risk.as_ref().and_then(|risk| risk.value).filter(|_| decided(line))
    };
    let affordable =
        |line: &&DefenseLine<'_>| line.accuracy_lost.is_none_or(|lost| lost <= AFFORDABLE);
    let measured = lines.iter().filter(affordable).filter_map(|line| Some((line, value(line)?)));
    let least = measured.min_by(|a, b| a.1.total_cmp(&b.1));
    // Of a model of a number no accuracy is known.
    let (costs, points) =
        (lines.iter().any(|line| line.accuracy_lost.is_some()), 100.0 * AFFORDABLE);
    let exact = judged.level == Level::Exact || judged.level == Level::SomeExact;
    match least {
        Some((line, value)) if line.judged => format!(
            "Decide how much added risk you accept and demand it with `--max-added-risk`: no policy audited{} adds less than {} ({}).",
            if costs {
                format!(" that costs at most {points} point of accuracy")
            } else {
                String::new()
            },
            line.short,
            percent(value)
        ),
        Some((line, value)) => format!(
            "{}ecide how much added risk you accept and demand it with `--max-added-risk`: of the policies {}, {} adds least ({}).",
            if exact { format!("Do not serve {}, and d", judged.short) } else { "D".to_owned() },
            if costs {
                format!("that cost at most {points} point of accuracy")
            } else {
                "audited".to_owned()
            },
            line.short,
            percent(value)
        ),
        None if exact => format!(
            "Do not serve {} as it is: add a defense, or make more features passive than the release has independent numbers.",
            judged.short
        ),
        None => measure(&[]),
    }
}

/// Returns the judged policy's compliance with each threshold, in words.
pub(super) fn demands(report: &Report, lines: &[DefenseLine<'_>]) -> Vec<(Compliance, String)> {
    let judged = lines.iter().find(|line| line.judged);
    let name = judged.map_or("no policy", |line| line.short.as_str());
    let results = judged.map_or_else(|| report.unmet(), |line| line.results.clone());
    let limits = report.thresholds.unwrap_or_default();
    // If nobody asked for this threshold, it is expected that no attack is certain of a record.
    let silent = |result: &ThresholdResult| {
        result.threshold == Threshold::MaxExact && result.attack.is_none()
    };
    let asked =
        results.iter().filter(|result| !(silent(result) && result.compliance == Compliance::Met));
    let said = asked.filter_map(|result| {
        let limit = limits.given().find(|(threshold, _)| *threshold == result.threshold)?.1;
        Some((
            result.compliance,
            format!("{} = {limit}: {}", result.threshold.name(), found(name, result)),
        ))
    });
    said.collect()
}

/// Returns the thresholds that the judged policy does not meet and the next step, in one line;
/// `None` if it meets all, or if there are none.
#[must_use]
pub fn not_met(report: &Report) -> Option<String> {
    let lines = super::defense::lines(report);
    let unmet = demands(report, &lines)
        .into_iter()
        .filter(|(compliance, _)| *compliance != Compliance::Met);
    let said: Vec<String> = unmet.map(|(_, said)| said).collect();
    (!said.is_empty()).then(|| printable(&format!("{}. {}", said.join("; "), step(report, &lines))))
}

fn found(policy: &str, result: &ThresholdResult) -> String {
    let attack = result.attack.as_deref().unwrap_or("an attack");
    match (result.threshold, result.compliance, result.figure) {
        (Threshold::MaxAddedRisk, Compliance::NotMeasured, _) => {
            format!("nothing measures what the scores behind {policy} add")
        }
        (Threshold::MaxAddedRisk, _, Some(figure)) => {
            let of = result.attribute.as_ref().map_or_else(String::new, |of| format!(" on {of}"));
            format!(
                "the scores behind {policy} add up to {} ({attack}{of}, upper end of 95 %)",
                percent(figure)
            )
        }
        (Threshold::MaxAddedRisk, _, None) => {
            format!("the noise bounds nothing that the scores behind {policy} add")
        }
        (Threshold::MaxExactShare, Compliance::NotMeasured, _) => {
            format!("nothing measures the share of records that come back behind {policy}")
        }
        (Threshold::MaxExact, Compliance::NotMeasured, _) => {
            format!("no attack against {policy} says which records it is certain of (lattice does)")
        }
        (Threshold::MaxExact, _, _) if result.attack.is_none() => {
            format!("behind {policy}, no attack is certain of a whole record")
        }
        (Threshold::MaxExact, _, figure) => format!(
            "behind {policy}, {attack} is certain to have rebuilt {} % of the records exactly",
            figure.map_or_else(|| "?".into(), points)
        ),
        (Threshold::MaxBits, Compliance::NotMeasured, _) => {
            format!("no scores behind {policy} were audited")
        }
        (Threshold::MaxBits, _, Some(bits)) => {
            format!("{policy} tells at most {}", certificate::bound(bits))
        }
        (Threshold::MaxBits, _, None) => {
            format!("no finite number of bits bounds what {policy} tells")
        }
        (Threshold::MaxExactShare, _, figure) => format!(
            "behind {policy}, {attack} estimates every value of {} % of the records to within 0.1",
            figure.map_or_else(|| "?".into(), points)
        ),
    }
}
