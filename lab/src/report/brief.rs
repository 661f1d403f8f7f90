//! The verdict in a few sentences: one for each release surface, and what to do next.

use super::added;
use super::defense::{self, DefenseLine};
use super::document::{Audit, Report};
use super::facts::NONE;
use super::level::{EXACT_MSE, Level};
use super::next;
use super::number::{figure, significant};
use super::surface::SurfaceKind;
use super::thresholds::Compliance;
use super::verdict::verdict;

/// What a report comes to.
pub(super) struct Brief {
    /// One for each release surface that was measured, and one for training.
    pub(super) surfaces: Vec<Sentence>,
    /// How the judged policy stands to each threshold: a name, a colon and what was found.
    pub(super) demands: Vec<(Compliance, String)>,
    /// What to do next, in a sentence.
    pub(super) next: String,
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
    surfaces.extend(no_score(report));
    surfaces.extend(parameters(report));
    surfaces.push(training(report));
    Brief { surfaces, demands: next::demands(report, &lines), next: next::step(report, &lines) }
}

/// What the scores behind the policies of one surface give away.
fn scores(kind: SurfaceKind, lines: &[&DefenseLine<'_>]) -> Option<Sentence> {
    let worst = lines.iter().min_by_key(|line| line.level)?;
    let whom = "of the error without scores";
    let value = |line: &DefenseLine<'_>| line.risk.as_ref().and_then(|risk| risk.value);
    let by_value = |a: &&&DefenseLine<'_>, b: &&&DefenseLine<'_>| {
        value(a).unwrap_or(f64::NEG_INFINITY).total_cmp(&value(b).unwrap_or(f64::NEG_INFINITY))
    };
    let text = match lines {
        [line] => one(line, whom),
        _ if lines.iter().any(|line| value(line).is_some()) => {
            let measured = || lines.iter().filter(|line| value(line).is_some());
            let (least, most) = measured().min_by(by_value).zip(measured().rev().max_by(by_value))?;
            format!(
                "the scores remove {} ({}) to {} ({}) {whom}{}",
                least.added(),
                least.short,
                most.added(),
                most.short,
                exactly(worst)
            )
        }
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

fn exactly(worst: &DefenseLine<'_>) -> String {
    if worst.level == Level::Exact {
        format!("; behind {} they give all features exactly", worst.short)
    } else {
        String::new()
    }
}

/// What the scores behind one policy give away.
fn one(line: &DefenseLine<'_>, whom: &str) -> String {
    let behind = &line.short;
    let interval = line.risk.as_ref().and_then(added::interval).map_or_else(String::new, |range| format!(" ({range})"));
    match (line.level, &line.risk) {
        (Level::Exact, _) => {
            format!("behind {behind}, {} rebuilds all passive features exactly", line.attack.unwrap_or(NONE))
        }
        (Level::NoMore, Some(_)) => {
            format!("behind {behind}, the scores add nothing that this audit measures{interval}")
        }
        (_, Some(_)) => format!("behind {behind}, the scores remove {}{interval} {whom}", line.added()),
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
    if errors.mse <= EXACT_MSE && errors.sigma.is_none() {
        return None;
    }
    let range = added::interval(&risk).map_or_else(String::new, |range| format!(" ({range})"));
    let share = risk.value.map_or_else(|| NONE.into(), added::percent);
    Some(Sentence {
        surface: "Exact scores, to one who knows only means and covariances",
        text: format!(
            "they remove {share}{range} of the error of guessing the means ({} against {})",
            figure(errors.mse, errors.sigma),
            significant(risk.control_mse)
        ),
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
