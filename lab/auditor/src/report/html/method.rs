//! Renders the method: the adversary, the surfaces, the measurements, and the command that makes
//! the report again.

use maud::{Markup, html};
use vfl_present::ColumnKind::{Name, Text};
use vfl_present::{Table, said};

use super::widgets::scroll;
use crate::report::document::Report;
use crate::report::surface::{Surface, SurfaceKind};
use crate::report::threat::{DefenseKnowledge, Observations, ThreatModel};
use crate::report::{added_risk, facts};

/// Renders the release surfaces, and the disclosure by training.
pub(super) fn surfaces(report: &Report) -> Markup {
    // The disclosure by training follows from the protocol: there is nothing to measure.
    let certain = |kind| kind == SurfaceKind::Training && !report.deployment.training.imported;
    let measured = |surface: &Surface| {
        html! {
            @if surface.audited { strong { "yes" } }
            @else if certain(surface.surface) { strong { "certain" } }
            @else { "no" }
        }
    };
    let surfaces = || report.surfaces.iter();
    let table = Table::new()
        .caption(html! { "Release surfaces, from the least to the most revealing, training last" })
        .column("surface", Name, surfaces().map(|surface| surface.surface.label()))
        .column("measured here", Text, surfaces().map(measured))
        .column("note", Text, surfaces().map(|surface| &surface.note));
    html! {
        section {
            h2 { "Release surfaces" }
            p { "Everything by which a party can learn something about another, whether this report measures it or not." }
            (scroll("Release surfaces", &table.html()))
            div class="card callout" {
                h3 { "Training" }
                p { (report.deployment.training.disclosure()) }
                @if report.deployment.training.imported {
                    p {
                        "The model audited was imported, not trained here: no training of it took place between these parties. "
                        "The figures above are about serving only."
                    }
                } @else if report.deployment.training.private {
                    p {
                        "This deployment was trained on " (facts::counted(report.data.training, "record")) "."
                    }
                } @else {
                    p {
                        "This deployment was trained on " (facts::counted(report.data.training, "record")) ": their labels "
                        "are known to the passive parties, and their scores to the active party, whatever defense serves "
                        "later. The figures above are about serving only."
                    }
                }
            }
        }
    }
}

/// Renders each distinct adversary once.
pub(super) fn threat_models(report: &Report) -> Markup {
    // One entry per distinct adversary, with the defenses that it attacked.
    let mut distinct: Vec<(&ThreatModel, Vec<String>)> = Vec::new();
    let audits = report.audits.iter().map(|audit| (&audit.threat_model, audit.policy.label()));
    let sweep = report
        .sweep
        .iter()
        .map(|s| (&s.threat_model, format!("{}, by number of features", s.policy.label())));
    for (model, label) in audits.chain(sweep) {
        match distinct.iter_mut().find(|(known, _)| *known == model) {
            Some((_, labels)) => labels.push(label),
            None => distinct.push((model, vec![label])),
        }
    }
    html! {
        section {
            h2 { "Threat model" }
            p {
                "The adversary is the active party. It follows the protocol, except where stated, and attacks what it receives. "
                @if report.deployment.private_release {
                    "Answers are computed on secret shares, of which the coordinator learns nothing while no two parties join hands. "
                    "The auditor is trusted. "
                } @else {
                    "The coordinator, which sees undefended scores, and the auditor are trusted. "
                }
                "True features never leave the passive parties: they score the estimates themselves."
            }
            @for (i, (model, labels)) in distinct.iter().enumerate() {
                details {
                    summary { "Adversary " (i + 1) ": " (said(&headline(model))) }
                    ul { @for phrase in model.phrases() { li { (said(&phrase)) } } }
                    p class="small muted" { "Audited: " (said(&labels.join("; "))) "." }
                }
            }
        }
    }
}

/// Describes an adversary in a few words that set it apart from the others.
fn headline(model: &ThreatModel) -> String {
    let mut words = vec![match model.defense {
        _ if model.known_records > 0 => {
            format!("informed, knows {}", facts::counted(model.known_records, "record"))
        }
        _ if model.moments => "informed, knows means and covariances".into(),
        _ if !model.sees_scores() => "estimates scores".into(),
        DefenseKnowledge::Unknown => "unaware of the defense".into(),
        DefenseKnowledge::Known => "aware of the defense".into(),
    }];
    match model.observations {
        Observations::Repeated { times } => words.push(format!("{times} releases per record")),
        Observations::ScoresOfSome { records } => {
            words.push(format!("sees {}", facts::counted(records, "score")))
        }
        Observations::NoScore | Observations::OneScorePerRecord => {}
    }
    if !model.colluding.is_empty() {
        words.push(format!("helped by {}", model.colluding.join(", ")));
    }
    words.join(", ")
}

/// Explains how reconstructions were measured and scored.
pub(super) fn measured(report: &Report) -> Markup {
    html! {
        section {
            h2 { "How it was measured" }
            p {
                "MSE: mean squared error per feature, features in [0, 1], scored by the passive party (to three significant digits; ± is one "
                "standard deviation of the noise it added). Guessing ½ needs no knowledge; guessing the column mean is open to whoever knows "
                "public averages."
            }
            @if report.audits.iter().any(|audit| audit.threat_model.informed()) { p { (added_risk::READING) } }
            @for words in facts::scoring(report).iter().chain(&facts::metrics(report)) { p { (said(words)) } }
        }
    }
}

/// Renders the audited deployment, the program and the command.
pub(super) fn reproduce(report: &Report) -> Markup {
    let config = serde_json::to_string_pretty(&report.generated.config).unwrap_or_default();
    html! {
        section {
            h2 { "What was audited, and how to reproduce it" }
            dl { @for (label, value) in about(report) { dt { (label) } dd { (value) } } }
            p { "With " (said(&facts::tool(report))) " and the same data, this command gives the same report, byte for byte (seed " code { (report.seed) } "):" }
            pre { code { (said(&report.command)) } }
            details {
                summary { "Configuration" }
                pre { code { @for line in config.lines() { (said(line)) "\n" } } }
            }
        }
    }
}

/// Returns the audited deployment, and the hashes that identify it.
fn about(report: &Report) -> Vec<(&'static str, Markup)> {
    let mut about: Vec<(&'static str, Markup)> =
        facts::about(report).into_iter().map(|(label, value)| (label, said(&value))).collect();
    about.push(("source", said(&report.data.source)));
    about.push(("program", said(&facts::tool(report))));
    about.push(("seed", html! { code { (report.seed) } }));
    about.push((
        "hashes",
        html! {
            span class="small" {
                "configuration sha256 " span class="hash" { (said(&report.generated.config_sha256)) } br;
                "data sha256 " span class="hash" { (said(&report.data.sha256)) }
            }
        },
    ));
    about
}
