//! The verdict in a few sentences: one for each release surface, and one on what to do next.

use vfl_present::{figure, significant};

use super::defense::{self, DefenseLine};
use super::document::{Audit, Party, Report};
use super::facts::NONE;
use super::level::Level;
use super::surface::SurfaceKind;
use super::thresholds::{Compliance, Threshold};
use super::verdict::verdict;
use super::worst_attribute::worst;
use super::{attribute_verdict, recommendation};

/// The verdict of a report in a few sentences.
pub(super) struct Brief {
    /// The verdict on the judged policy, by its worst attribute; `None` if there are no figures by
    /// attribute.
    pub(super) headline: Option<Headline>,
    /// The share of error that the scores remove on the mean over features, in addition to the
    /// worst attribute.
    pub(super) mean: Option<String>,
    /// The sentences on each release surface that was measured, and on training.
    pub(super) surfaces: Vec<Sentence>,
    /// The judged policy's compliance with each threshold: a name, a colon and the finding.
    pub(super) demands: Vec<(Compliance, String)>,
    /// The next step, in a sentence.
    pub(super) next: String,
}

/// The first line of a verdict.
pub(super) struct Headline {
    /// The sentence, with a capital and a full stop. Holds names as they stand in the document,
    /// unescaped.
    pub(super) text: String,
    /// The success of the strongest attack.
    pub(super) level: Level,
}

/// The finding on one surface. Both texts hold names as they stand in the document, unescaped.
pub(super) struct Sentence {
    pub(super) surface: &'static str,
    /// The finding, without a capital and a full stop.
    pub(super) text: String,
    /// The success of the strongest attack, if the sentence is about attacks.
    pub(super) level: Option<Level>,
}

/// Returns the verdict of a report.
pub(super) fn brief(report: &Report) -> Brief {
    let lines = defense::lines(report);
    let mut surfaces = Vec::new();
    for kind in [
        SurfaceKind::ScoreVector,
        SurfaceKind::RoundedScore,
        SurfaceKind::Ranking,
        SurfaceKind::ClassLabel,
    ] {
        let of_kind: Vec<&DefenseLine<'_>> =
            lines.iter().filter(|line| line.policy.surface() == kind).collect();
        surfaces.extend(scores(kind, &of_kind));
        if kind == SurfaceKind::ScoreVector {
            surfaces.extend(moments(report));
        }
    }
    surfaces
        .extend(lines.iter().filter(|line| line.judged).flat_map(|line| by_party(report, line)));
    surfaces.extend(no_score(report));
    surfaces.extend(parameters(report));
    surfaces.push(training(report));
    let headline = lines.iter().find(|line| line.judged).and_then(|line| headline(report, line));
    let mean = lines.iter().find(|line| line.judged).and_then(mean);
    Brief {
        headline,
        mean,
        surfaces,
        demands: recommendation::demands(report, &lines),
        next: recommendation::step(report, &lines),
    }
}

/// Returns the verdict on the judged policy: the worst attribute, natural frequencies, the
/// confidence, and the threshold.
fn headline(report: &Report, line: &DefenseLine<'_>) -> Option<Headline> {
    line.worst.as_ref()?;
    let mut text = sentence(line, report.passive_parties().count() > 1);
    let result = line.results.iter().find(|result| result.threshold == Threshold::MaxAddedRisk);
    let limit = report.thresholds.and_then(|thresholds| thresholds.max_added_risk);
    if let (Some(result), Some(limit)) = (result, limit) {
        text.push_str(&format!(
            ". The threshold of {} is {}",
            attribute_verdict::percent(limit),
            result.compliance.label()
        ));
    }
    Some(Headline { text: format!("{}.", capital(&text)), level: line.level })
}

/// Returns the verdict on one policy, by its worst attribute if there is one, in a sentence without
/// a capital and a full stop. `several` adds the name of the attribute's party.
pub(super) fn sentence(line: &DefenseLine<'_>, several: bool) -> String {
    match &line.worst {
        Some(worst) if line.level == Level::Exact => {
            let named = attribute_verdict::frequencies(worst)
                .map_or_else(String::new, |named| format!("; {named}"));
            format!("{}{named}", one(line))
        }
        Some(worst) => attribute_verdict::headline(worst, &line.short, several),
        None => one(line),
    }
}

/// Returns the share of error that the scores of a policy remove over all features together; `None`
/// if noise leaves it open.
fn mean(line: &DefenseLine<'_>) -> Option<String> {
    let (worst, mean) = line.worst.as_ref().zip(line.mean_risk.as_ref())?;
    let stated = (!worst.noised || mean.low.is_some()) && mean.value.is_some();
    stated.then(|| {
        format!(
            "On the mean over all features the scores remove {}.",
            attribute_verdict::removed(mean)
        )
    })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns a verdict for each passive party if there are several: its worst attribute behind the
/// judged policy.
fn by_party(report: &Report, line: &DefenseLine<'_>) -> Vec<Sentence> {
    let audits: Vec<&Audit> =
        report.audits.iter().filter(|audit| audit.policy == *line.policy).collect();
    let parties: Vec<_> = report.passive_parties().collect();
    if parties.len() < 2 {
        return Vec::new();
    }
    let of = |party: &&Party| {
        let worst = worst(&audits, Some(&party.name))?;
        let text =
            format!("{}: {}", party.name, attribute_verdict::headline(&worst, &line.short, false));
        Some(Sentence { surface: "Passive party", text, level: None })
    };
    parties.iter().filter_map(of).collect()
}

/// Returns the finding on the scores behind the policies of one surface.
fn scores(kind: SurfaceKind, lines: &[&DefenseLine<'_>]) -> Option<Sentence> {
    let worst = lines.iter().min_by_key(|line| line.level)?;
    let whom = WITHOUT;
    let decided = |line: &DefenseLine<'_>| line.level != Level::Undecided;
    let undecided = lines.iter().filter(|line| !decided(line)).count();
    let of_them = match undecided {
        0 => String::new(),
        n => format!("; undecided for {n} of them"),
    };
    let value = |line: &DefenseLine<'_>| {
        line.risk.as_ref().and_then(|risk| risk.value).filter(|_| decided(line))
    };
    let by_value = |a: &&&DefenseLine<'_>, b: &&&DefenseLine<'_>| {
        value(a).unwrap_or(f64::NEG_INFINITY).total_cmp(&value(b).unwrap_or(f64::NEG_INFINITY))
    };
    let text = match lines {
        [line] => one(line),
        _ if lines.iter().any(|line| value(line).is_some()) => {
            let measured = || lines.iter().filter(|line| value(line).is_some());
            let (least, most) =
                measured().min_by(by_value).zip(measured().rev().max_by(by_value))?;
            format!(
                "the scores remove {} ({}) to {} ({}) {whom}{of_them}{}",
                least.added(),
                least.short,
                most.added(),
                most.short,
                exactly(worst)
            )
        }
        _ if undecided == lines.len() => format!("it is undecided what the scores add: {NO_BOUND}"),
        _ => {
            let best = lines.iter().max_by_key(|line| line.level)?;
            format!(
                "from {} ({}) to {} ({})",
                worst.level.label(),
                worst.short,
                best.level.label(),
                best.short
            )
        }
    };
    let text = match lines.len() {
        1 => text,
        n => format!("{n} policies, {text}"),
    };
    Some(Sentence { surface: surface(kind), text, level: Some(worst.level) })
}

/// The error that the scores remove a share of.
const WITHOUT: &str = "of the error without scores";
/// The reason that noise leaves a finding undecided.
const NO_BOUND: &str = "the noise of this audit bounds nothing; audit more records";

fn exactly(worst: &DefenseLine<'_>) -> String {
    if worst.level == Level::Exact {
        format!("; behind {} they give all features exactly", worst.short)
    } else {
        String::new()
    }
}

/// Returns the finding on the scores behind one policy, in a sentence without a capital and a full
/// stop.
fn one(line: &DefenseLine<'_>) -> String {
    let whom = WITHOUT;
    let behind = &line.short;
    let interval = line
        .risk
        .as_ref()
        .and_then(attribute_verdict::interval)
        .map_or_else(String::new, |range| format!(" ({range})"));
    match (line.level, &line.risk) {
        (Level::Exact, _) => {
            format!(
                "behind {behind}, {} rebuilds all passive features exactly",
                line.exact.or(line.attack).unwrap_or(NONE)
            )
        }
        (Level::NoMore, Some(_)) => {
            format!("behind {behind}, the scores add nothing that this audit measures{interval}")
        }
        (Level::Undecided, Some(risk)) => match risk.high {
            Some(high) => format!(
                "behind {behind}, it is undecided what the scores add: between nothing and {} {whom}",
                attribute_verdict::percent(high)
            ),
            None => format!("behind {behind}, it is undecided what the scores add: {NO_BOUND}"),
        },
        (_, Some(risk)) => {
            let of = line
                .worst
                .as_ref()
                .map_or_else(String::new, |worst| format!(" on `{}`", worst.figures.attribute));
            format!(
                "behind {behind}, the scores remove {} {whom}{of}",
                attribute_verdict::removed(risk)
            )
        }
        (Level::Unmeasured, None) => format!("behind {behind}, no attack ran"),
        (level, None) => {
            format!(
                "behind {behind}, {} ({} has error {})",
                level.label(),
                line.attack.unwrap_or(NONE),
                line.error()
            )
        }
    }
}

/// Returns the added risk of exact scores for an adversary that knows only moments. No threshold
/// applies to it.
fn moments(report: &Report) -> Option<Sentence> {
    let of = |audit: &&Audit| audit.threat_model.moments && audit.threat_model.sees_scores();
    let audit = report.audits.iter().find(of)?;
    let (_, errors, risk) = audit.added_risk()?;
    // An exact reconstruction is already reported for the scores.
    if errors.is_exact() {
        return None;
    }
    let range =
        attribute_verdict::interval(&risk).map_or_else(String::new, |range| format!(" ({range})"));
    let open = risk.low.is_none() && errors.sigma.is_some();
    let share =
        risk.value.filter(|_| !open).map_or_else(|| NONE.into(), attribute_verdict::percent);
    Some(Sentence {
        surface: "Exact scores, to one who knows only means and covariances",
        text: if open {
            NO_BOUND.into()
        } else {
            format!(
                "they remove {share}{range} of the error of guessing the means ({} against {})",
                figure(errors.mse, errors.sigma),
                significant(risk.control_mse)
            )
        },
        level: None,
    })
}

/// Returns the finding on records whose scores were never released.
fn no_score(report: &Report) -> Option<Sentence> {
    let share = |audit: &Audit| {
        let guess = audit.baselines.half.mse.min(audit.baselines.column_mean.mse);
        audit.strongest().map(|(_, errors)| errors.mse / guess)
    };
    let audits = report.audits.iter().filter(|audit| !audit.threat_model.sees_scores());
    let measured = audits.filter_map(|audit| Some((audit, share(audit)?)));
    let (audit, _) = measured.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (name, errors) = audit.strongest()?;
    let level = verdict(audit).level;
    let guess = significant(audit.baselines.column_mean.mse);
    Some(Sentence {
        surface: "Records without a score",
        text: format!(
            "{} ({name} has error {}, guessing the column mean {guess})",
            level.label(),
            figure(errors.mse, errors.sigma)
        ),
        level: Some(level),
    })
}

/// Returns the finding on the parameters that are shown.
fn parameters(report: &Report) -> Option<Sentence> {
    let audited =
        |kind: &SurfaceKind| report.surfaces.iter().any(|s| s.surface == *kind && s.audited);
    let kinds = [
        SurfaceKind::ParametersTrue,
        SurfaceKind::ParametersTransformed,
        SurfaceKind::ParametersHidden,
    ];
    let text = match kinds.into_iter().find(audited)? {
        SurfaceKind::ParametersTrue => {
            "the active party is shown the true ones, and the attacks above use them"
        }
        SurfaceKind::ParametersTransformed => {
            "the active party is shown transformed ones, which an aware attack tries to undo"
        }
        _ => "withheld from the active party, so that attacks that need them did not run",
    };
    Some(Sentence { surface: "Parameters", text: text.into(), level: None })
}

/// Returns the finding on training, which follows from the protocol.
fn training(report: &Report) -> Sentence {
    let text = if report.deployment.training.imported {
        "this model was imported; a plain training here would tell labels and scores of its records, whatever the defense"
    } else if report.deployment.training.private {
        "on secret shares: each party learned its own parameters and the number of epochs"
    } else {
        "labels went to the passive parties and scores to the active party at every step, whatever the defense"
    };
    Sentence { surface: "Training", text: text.into(), level: None }
}

fn surface(kind: SurfaceKind) -> &'static str {
    match kind {
        SurfaceKind::ClassLabel => "Class label",
        SurfaceKind::Ranking => "Ranking",
        SurfaceKind::RoundedScore => "Rounded scores",
        _ => "Scores",
    }
}
