//! The sections of the page, in the order of a reader's questions: what came out, at what cost, how sure, how again.

use maud::{Markup, PreEscaped, html};

use super::plots::Plots;
use crate::page::said;
use crate::report::added;
use crate::report::document::{Audit, Report};
use crate::report::facts::{self, RowKind, Rows};
use crate::report::level::Level;
use crate::report::number::{self, align_left, four, significant};
use crate::report::surface::{SurfaceKind, TRAINING_DISCLOSURE};
use crate::report::threat::ThreatModel;
use crate::report::verdict::verdict;

/// As wide as a digit, unlike a space.
const FIGURE_SPACE: char = '\u{2007}';

/// What was audited, and how to tell whether it is the same.
pub(super) fn about(report: &Report) -> Vec<(&'static str, Markup)> {
    let mut about: Vec<(&'static str, Markup)> =
        facts::about(report).into_iter().map(|(label, value)| (label, said(&value))).collect();
    about.push(("source", said(&report.data.source)));
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

fn badge(level: Level) -> Markup {
    let class = match level {
        Level::Exact | Level::SomeExact => "badge bad",
        Level::Partial => "badge mid",
        Level::ColumnMean | Level::Half | Level::NoMore | Level::Unresolved | Level::Unmeasured => "badge flat",
    };
    html! { span class=(class) { (level.label()) } }
}

/// What the scores add for an adversary with a control, where there is one.
pub(super) fn added(report: &Report) -> Markup {
    let lines = added::lines(report);
    let column = |of: fn(&added::AddedLine) -> &str| -> Vec<String> {
        align_left(&lines.iter().map(|line| of(line).to_owned()).collect::<Vec<_>>(), FIGURE_SPACE)
    };
    let (error, control) = (column(|l| &l.error), column(|l| &l.control));
    let (risk, interval) = (column(|l| &l.added), column(|l| &l.interval));
    html! {
        @if let Some(heading) = added::heading(report) {
            section {
                h2 { (said(&heading)) }
                div class="card" {
                    div class="scroll" {
                        table {
                            thead { tr {
                                th { "defense" } th { "what the scores tell" } th { "strongest attack" }
                                th { "added risk" } th { "95 %" } th { "MSE with scores" } th { "without" }
                            } }
                            tbody {
                                @for (i, line) in lines.iter().enumerate() {
                                    tr {
                                        td class="name" { (said(&line.defense)) }
                                        td { (badge(line.level)) }
                                        td { (said(&line.attack)) }
                                        @for column in [&risk, &interval, &error, &control] {
                                            td class="n" { (column[i]) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                    p class="small muted" { (added::READING) }
                }
            }
        }
    }
}

pub(super) fn summary(report: &Report) -> Markup {
    // Adversaries with a control have a table of their own.
    let audits: Vec<&Audit> = report.audits.iter().filter(|audit| audit.threat_model.known_records == 0).collect();
    let or_none = |x: Option<String>| x.unwrap_or_else(|| facts::NONE.into());
    let column = |of: &dyn Fn(&Audit) -> Option<String>| -> Vec<String> {
        align_left(&audits.iter().map(|audit| or_none(of(audit))).collect::<Vec<_>>(), FIGURE_SPACE)
    };
    let error = column(&|a| a.strongest().map(|(_, errors)| number::figure(errors.mse, errors.sigma)));
    let half = column(&|a| Some(number::figure(a.baselines.half.mse, a.baselines.half.sigma)));
    let mean = column(&|a| Some(number::figure(a.baselines.column_mean.mse, a.baselines.column_mean.sigma)));
    let accuracy = column(&|a| a.utility.accuracy.map(four));
    let kl = column(&|a| a.utility.mean_kl_nats.map(significant));
    let bits = column(&|a| a.utility.bits.map(significant));
    html! {
        section {
            h2 { "Verdict" }
            @if report.audits.is_empty() {
                p { "No defense was audited." }
            } @else {
                div class="card" {
                    div class="scroll" {
                        table {
                            thead { tr {
                                th { "defense" } th { "adversary" } th { "what the attacks achieve" } th { "strongest attack" }
                                th { "its MSE" } th { "guessing ½" } th { "column mean" } th { "accuracy" } th { "KL, nats" }
                                th { "bits" }
                            } }
                            tbody {
                                @for (i, audit) in audits.iter().enumerate() {
                                    tr {
                                        td class="name" { (said(&audit.policy.label())) }
                                        td { (facts::adversary(audit)) }
                                        td { (badge(verdict(audit).level)) }
                                        td { (said(audit.strongest().map_or(facts::NONE, |(name, _)| name))) }
                                        @for column in [&error, &half, &mean, &accuracy, &kl, &bits] {
                                            td class="n" { (column[i]) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                    p class="small muted" {
                        "MSE: mean squared error per feature, features in [0, 1], scored by the passive party (to three significant "
                        "digits; ± is one standard deviation of the noise it added). Guessing ½ needs no knowledge; guessing the column mean is open to whoever "
                        "knows public averages. An aware adversary knows the defense, an unaware one takes the release for the "
                        "true scores. Bits: what the release of one record tells at most, however often it is asked for. A "
                        "dash: not defined, not bounded, or not measured."
                    }
                }
            }
            div class="card callout" {
                @for words in facts::scoring(report) { p { (said(&words)) } }
                @for words in facts::metrics(report) { p { (said(&words)) } }
                p { (facts::SCOPE) }
                p { strong { "Training is a release surface of its own. " } (TRAINING_DISCLOSURE) }
            }
            @for note in &report.notes { p { strong { "Note. " } (said(note)) } }
        }
    }
}

fn figure(svg: &str, caption: Markup) -> Markup {
    html! {
        figure {
            div class="scroll" { (PreEscaped(svg)) }
            figcaption { (caption) }
        }
    }
}

pub(super) fn plots(report: &Report, plots: &Plots) -> Markup {
    html! {
        @if let (Some(svg), Some(sweep)) = (&plots.sweep, &report.sweep) {
            section {
                h2 { "Error by number of passive features" }
                (figure(svg, html! {
                    "Defense: " (said(&sweep.policy.label())) ". " (facts::counted(sweep.records, "record")) " at each point. "
                    "The error axis is logarithmic; errors of 0 and round-off below 1e-16 share the band at its foot, "
                    "where height means nothing. Attacks are set side by side at each d. The adversary " (said(&sweep.threat_model.phrases().join(", "))) "."
                }))
            }
        }
        @if let Some(svg) = &plots.defenses {
            section {
                h2 { "Error by defense" }
                (figure(svg, html! {
                    "Each dot is one attack; further left is worse for the passive party. Left of both vertical lines an "
                    "attack does better than either guess. Logarithmic axis."
                }))
            }
        }
    }
}

pub(super) fn audits(report: &Report, features: &[Option<String>]) -> Markup {
    html! {
        @if !report.audits.is_empty() {
            section {
                h2 { "Defense by defense" }
                @for (i, audit) in report.audits.iter().enumerate() {
                    (one(report, audit, features.get(i).and_then(Option::as_deref), i == 0))
                }
            }
        }
    }
}

fn one(report: &Report, audit: &Audit, plot: Option<&str>, open: bool) -> Markup {
    let rows = Rows::of(report, audit);
    let verdict = verdict(audit);
    let mut columns = vec![
        ("MSE per feature", rows.column(|r| &r.mse)),
        ("ratio to guessing ½", rows.column(|r| &r.vs_half)),
        ("ratio to column mean", rows.column(|r| &r.vs_mean)),
    ];
    for (i, party) in rows.parties.iter().enumerate() {
        columns.push((party, rows.column(|r| r.by_party.get(i).map_or(facts::NONE, String::as_str))));
    }
    for (i, title) in rows.metrics.iter().enumerate() {
        columns.push((title, rows.metric(i)));
    }
    let aligned: Vec<Vec<String>> = columns.iter().map(|(_, cells)| align_left(cells, FIGURE_SPACE)).collect();
    html! {
        article class="card" {
            h3 { (said(&audit.policy.label())) (facts::against(audit)) " " (badge(verdict.level)) }
            p { strong { "Result: " } (said(&verdict.text)) "." }
            dl class="facts" {
                @for (label, value) in facts::utility(&audit.utility) {
                    div { dt { (label) } dd { (said(&value)) } }
                }
                div { dt { "records scored" } dd { (audit.records) } }
            }
            div class="scroll" {
                table {
                    thead { tr {
                        th { "attack" } th { "equations" }
                        @for (i, (title, _)) in columns.iter().enumerate() {
                            th { @if (3..3 + rows.parties.len()).contains(&i) { "MSE, " } (said(title)) }
                        }
                    } }
                    tbody {
                        @for (i, row) in rows.rows.iter().enumerate() {
                            tr class=(class(row.kind)) {
                                td class="name" { (said(&row.name)) }
                                td { (said(&row.how)) }
                                @for column in &aligned { td class="n" { (column[i]) } }
                            }
                        }
                    }
                }
            }
            @for (names, reason) in &rows.not_scored {
                p class="small muted" { strong { (said(names)) } ": " (said(reason)) }
            }
            @for (name, reason) in &rows.not_run {
                p class="small muted" { strong { (said(name)) } " did not run: " (said(reason)) }
            }
            @for remark in facts::limits(audit).iter().chain(&audit.remarks) { p class="small" { (said(remark)) } }
            @if let Some(svg) = plot {
                details open[open] {
                    summary { "Error by feature" }
                    (figure(svg, html! {
                        "The strongest attack, feature by feature, beside both guesses on the same records. "
                        "Left of both lines the feature leaks. Logarithmic axis."
                    }))
                }
            }
        }
    }
}

fn class(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Strongest => "best",
        RowKind::Attack => "attack",
        RowKind::Guess => "guess",
        RowKind::NotRun => "not-run",
    }
}

pub(super) fn surfaces(report: &Report) -> Markup {
    html! {
        section {
            h2 { "Release surfaces" }
            p { "Everything by which a party can learn something about another, whether this report measures it or not." }
            div class="card scroll" {
                table {
                    thead { tr { th { "surface" } th { "measured here" } th { "note" } } }
                    tbody {
                        @for surface in &report.surfaces {
                            tr {
                                td class="name" { (surface.surface.label()) }
                                td { @if surface.audited { strong { "yes" } }
                                    // What training tells follows from the protocol: there is nothing to measure.
                                    @else if surface.surface == SurfaceKind::Training && !report.deployment.training.imported { strong { "certain" } }
                                    @else { "no" } }
                                td { (said(&surface.note)) }
                            }
                        }
                    }
                }
            }
            div class="card callout" {
                h3 { "Training" }
                p { (TRAINING_DISCLOSURE) }
                @if report.deployment.training.imported {
                    p {
                        "The model audited was imported, not trained here: no training of it took place between these parties. "
                        "The figures above are about serving only."
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

pub(super) fn threat_models(report: &Report) -> Markup {
    // One entry per distinct adversary, with the defenses it was tried on.
    let mut distinct: Vec<(&ThreatModel, Vec<String>)> = Vec::new();
    let audits = report.audits.iter().map(|audit| (&audit.threat_model, audit.policy.label()));
    let sweep = report.sweep.iter().map(|s| (&s.threat_model, format!("{}, by number of features", s.policy.label())));
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
                "The adversary is the active party. It follows the protocol, except where stated, and attacks what it receives. The coordinator, which "
                "sees undefended scores, and the auditor are trusted. True features never leave the passive parties: they "
                "score the estimates themselves."
            }
            @for (model, labels) in distinct {
                div class="card" {
                    h3 { "The adversary" }
                    ul { @for phrase in model.phrases() { li { (said(&phrase)) } } }
                    p class="small muted" { "Audited: " (said(&labels.join("; "))) "." }
                }
            }
        }
    }
}

pub(super) fn reproduce(report: &Report) -> Markup {
    let config = serde_json::to_string_pretty(&report.generated.config).unwrap_or_default();
    html! {
        section {
            h2 { "How to reproduce" }
            p { "With " (said(&facts::tool(report))) " and the same data, this command gives the same report, byte for byte (seed " code { (report.seed) } "):" }
            pre { code { (said(&report.command)) } }
            details {
                summary { "Configuration" }
                pre { code { @for line in config.lines() { (said(line)) "\n" } } }
            }
        }
    }
}
