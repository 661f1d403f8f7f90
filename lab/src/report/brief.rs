//! The verdict in a few sentences: one for each release surface, and what to do next.

use super::defense::{self, DefenseLine};
use super::document::{Audit, Party, Report};
use super::facts::NONE;
use super::level::Level;
use super::next;
use super::number::{figure, significant};
use super::surface::SurfaceKind;
use super::thresholds::{Compliance, Threshold};
use super::verdict::verdict;
use super::words;
use super::worst::worst;

/// What a report comes to.
pub(super) struct Brief {
    /// The verdict on the policy judged, by its worst attribute; `None` where nothing is told by attribute.
    pub(super) headline: Option<Headline>,
    /// What the scores remove on the mean over features, beside the worst attribute.
    pub(super) mean: Option<String>,
    /// One for each release surface that was measured, and one for training.
    pub(super) surfaces: Vec<Sentence>,
    /// How the judged policy stands to each threshold: a name, a colon and what was found.
    pub(super) demands: Vec<(Compliance, String)>,
    /// What to do next, in a sentence.
    pub(super) next: String,
}

/// The first line of a verdict.
pub(super) struct Headline {
    /// A sentence with a capital and a full stop. Holds names as they stand in the document, unescaped.
    pub(super) text: String,
    /// How far the strongest attack got.
    pub(super) level: Level,
}

/// What there is to say of one surface. Both texts hold names as they stand in the document, unescaped.
pub(super) struct Sentence {
    /// The surface.
    pub(super) surface: &'static str,
    /// What comes of it, without a capital and a full stop.
    pub(super) text: String,
    /// How far the strongest attack got, where the sentence is of attacks.
    pub(super) level: Option<Level>,
}

/// The verdict of a report.
pub(super) fn brief(report: &Report) -> Brief {
    let lines = defense::lines(report);
    let mut surfaces = Vec::new();
    for kind in [SurfaceKind::ScoreVector, SurfaceKind::RoundedScore, SurfaceKind::Ranking, SurfaceKind::ClassLabel] {
        let of_kind: Vec<&DefenseLine<'_>> =
            lines.iter().filter(|line| SurfaceKind::of_policy(&line.policy.name) == kind).collect();
        surfaces.extend(scores(kind, &of_kind));
        if kind == SurfaceKind::ScoreVector {
            surfaces.extend(moments(report));
        }
    }
    surfaces.extend(lines.iter().filter(|line| line.judged).flat_map(|line| by_party(report, line)));
    surfaces.extend(no_score(report));
    surfaces.extend(parameters(report));
    surfaces.push(training(report));
    let headline = lines.iter().find(|line| line.judged).and_then(|line| headline(report, line));
    let mean = lines.iter().find(|line| line.judged).and_then(mean);
    Brief { headline, mean, surfaces, demands: next::demands(report, &lines), next: next::step(report, &lines) }
}

/// The verdict on the policy judged: the worst attribute, natural frequencies, how sure that is, and the threshold.
fn headline(report: &Report, line: &DefenseLine<'_>) -> Option<Headline> {
    line.worst.as_ref()?;
    let mut text = sentence(line, report.passive_parties().count() > 1);
    let result = line.results.iter().find(|result| result.threshold == Threshold::MaxAddedRisk);
    let limit = report.thresholds.and_then(|thresholds| thresholds.max_added_risk);
    if let (Some(result), Some(limit)) = (result, limit) {
        text.push_str(&format!(". The threshold of {} is {}", words::percent(limit), result.compliance.label()));
    }
    Some(Headline { text: format!("{}.", capital(&text)), level: line.level })
}

/// The verdict on one policy, by its worst attribute where there is one, in a sentence without a capital and a full stop. `several`: the
/// party is named whose attribute it is.
pub(super) fn sentence(line: &DefenseLine<'_>, several: bool) -> String {
    match &line.worst {
        Some(worst) if line.level == Level::Exact => {
            let named = words::frequencies(worst).map_or_else(String::new, |named| format!("; {named}"));
            format!("{}{named}", one(line))
        }
        Some(worst) => words::headline(worst, &line.short, several),
        None => one(line),
    }
}

/// What the scores of a policy remove of all features together. What noise leaves open is not stated.
fn mean(line: &DefenseLine<'_>) -> Option<String> {
    let (worst, mean) = line.worst.as_ref().zip(line.mean_risk.as_ref())?;
    let stated = (!worst.noised || mean.low.is_some()) && mean.value.is_some();
    stated.then(|| format!("On the mean over all features the scores remove {}.", words::removed(mean)))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A verdict for each passive party, where there are several: the worst attribute of each behind the policy judged.
fn by_party(report: &Report, line: &DefenseLine<'_>) -> Vec<Sentence> {
    let audits: Vec<&Audit> = report.audits.iter().filter(|audit| audit.policy == *line.policy).collect();
    let parties: Vec<_> = report.passive_parties().collect();
    if parties.len() < 2 {
        return Vec::new();
    }
    let of = |party: &&Party| {
        let worst = worst(&audits, Some(&party.name))?;
        let text = format!("{}: {}", party.name, words::headline(&worst, &line.short, false));
        Some(Sentence { surface: "Passive party", text, level: None })
    };
    parties.iter().filter_map(of).collect()
}

/// What the scores behind the policies of one surface give away.
fn scores(kind: SurfaceKind, lines: &[&DefenseLine<'_>]) -> Option<Sentence> {
    let worst = lines.iter().min_by_key(|line| line.level)?;
    let whom = WITHOUT;
    let decided = |line: &DefenseLine<'_>| line.level != Level::Undecided;
    let undecided = lines.iter().filter(|line| !decided(line)).count();
    let of_them = match undecided {
        0 => String::new(),
        n => format!("; undecided for {n} of them"),
    };
    let value = |line: &DefenseLine<'_>| line.risk.as_ref().and_then(|risk| risk.value).filter(|_| decided(line));
    let by_value = |a: &&&DefenseLine<'_>, b: &&&DefenseLine<'_>| {
        value(a).unwrap_or(f64::NEG_INFINITY).total_cmp(&value(b).unwrap_or(f64::NEG_INFINITY))
    };
    let text = match lines {
        [line] => one(line),
        _ if lines.iter().any(|line| value(line).is_some()) => {
            let measured = || lines.iter().filter(|line| value(line).is_some());
            let (least, most) = measured().min_by(by_value).zip(measured().rev().max_by(by_value))?;
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
            format!("from {} ({}) to {} ({})", worst.level.label(), worst.short, best.level.label(), best.short)
        }
    };
    let text = match lines.len() {
        1 => text,
        n => format!("{n} policies, {text}"),
    };
    Some(Sentence { surface: surface(kind), text, level: Some(worst.level) })
}

/// Whose error the scores remove a share of.
const WITHOUT: &str = "of the error without scores";
/// What noise leaves undecided.
const NO_BOUND: &str = "the noise of this audit bounds nothing; audit more records";

fn exactly(worst: &DefenseLine<'_>) -> String {
    if worst.level == Level::Exact {
        format!("; behind {} they give all features exactly", worst.short)
    } else {
        String::new()
    }
}

/// What the scores behind one policy give away, in a sentence without a capital and a full stop.
fn one(line: &DefenseLine<'_>) -> String {
    let whom = WITHOUT;
    let behind = &line.short;
    let interval = line.risk.as_ref().and_then(words::interval).map_or_else(String::new, |range| format!(" ({range})"));
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
                words::percent(high)
            ),
            None => format!("behind {behind}, it is undecided what the scores add: {NO_BOUND}"),
        },
        (_, Some(risk)) => {
            let of = line.worst.as_ref().map_or_else(String::new, |worst| format!(" on `{}`", worst.figures.attribute));
            format!("behind {behind}, the scores remove {} {whom}{of}", words::removed(risk))
        }
        (Level::Unmeasured, None) => format!("behind {behind}, no attack ran"),
        (level, None) => {
            format!("behind {behind}, {} ({} has error {})", level.label(), line.attack.unwrap_or(NONE), line.error())
        }
    }
}

/// What exact scores add for whoever knows moments alone. No threshold is about it.
fn moments(report: &Report) -> Option<Sentence> {
    let of = |audit: &&Audit| audit.threat_model.moments && audit.threat_model.sees_scores();
    let audit = report.audits.iter().find(of)?;
    let (_, errors, risk) = audit.added_risk()?;
    // What gives everything away to everybody is said of the scores already.
    if errors.is_exact() {
        return None;
    }
    let range = words::interval(&risk).map_or_else(String::new, |range| format!(" ({range})"));
    let open = risk.low.is_none() && errors.sigma.is_some();
    let share = risk.value.filter(|_| !open).map_or_else(|| NONE.into(), words::percent);
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

/// What is told of records whose scores were never released.
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

/// What is shown of the parameters.
fn parameters(report: &Report) -> Option<Sentence> {
    let audited = |kind: &SurfaceKind| report.surfaces.iter().any(|s| s.surface == *kind && s.audited);
    let kinds = [SurfaceKind::ParametersTrue, SurfaceKind::ParametersTransformed, SurfaceKind::ParametersHidden];
    let text = match kinds.into_iter().find(audited)? {
        SurfaceKind::ParametersTrue => "the active party is shown the true ones, and the attacks above use them",
        SurfaceKind::ParametersTransformed => {
            "the active party is shown transformed ones, which an aware attack tries to undo"
        }
        _ => "withheld from the active party, so that attacks that need them did not run",
    };
    Some(Sentence { surface: "Parameters", text: text.into(), level: None })
}

/// What training tells; it follows from the protocol.
fn training(report: &Report) -> Sentence {
    let text = if report.deployment.training.imported {
        "this model was imported; a training here would tell labels and scores of its records, whatever the defense"
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
