//! Renders every figure in folded tables.

use maud::{Markup, html};
use vfl_present::number::align_left;
use vfl_present::{four, number, said, significant};

use super::plots::Plots;
use super::widgets::{FIGURE_SPACE, badge, figure, scroll};
use crate::report::document::{Audit, Report};
use crate::report::facts::{self, RowKind, Rows};
use crate::report::verdict::verdict;
use crate::report::{attributes, certificate};

/// Renders all tables, and the plot of every attack.
pub(super) fn all(report: &Report, plots: &Plots) -> Markup {
    html! {
        @if !report.audits.is_empty() {
            section {
                h2 { "Every figure" }
                p class="small muted" { "Open what you need. The same figures are in report.csv, one a row, and in report.json." }
                details class="card" {
                    summary { h3 { "Unaware and aware adversaries" } }
                    (summary(report))
                }
                @if let Some(svg) = &plots.defenses {
                    details class="card" {
                        summary { h3 { "Error of every attack" } }
                        (figure("Error of every attack behind every policy", svg, &html! {
                            "Each dot is one attack; further left is worse for the passive party. Left of both vertical lines an "
                            "attack does better than either guess. Logarithmic axis."
                        }))
                    }
                }
                @for (i, audit) in report.audits.iter().enumerate() {
                    (one(report, audit, plots.features.get(i).and_then(Option::as_deref)))
                }
            }
        }
    }
}

/// Renders the adversaries of the papers, policy by policy.
fn summary(report: &Report) -> Markup {
    // Adversaries with a control have a table of their own.
    let audits: Vec<&Audit> =
        report.audits.iter().filter(|audit| !audit.threat_model.informed()).collect();
    let or_none = |x: Option<String>| x.unwrap_or_else(|| facts::NONE.into());
    let column = |of: &dyn Fn(&Audit) -> Option<String>| -> Vec<String> {
        align_left(&audits.iter().map(|audit| or_none(of(audit))).collect::<Vec<_>>(), FIGURE_SPACE)
    };
    let error =
        column(&|a| a.strongest().map(|(_, errors)| number::figure(errors.mse, errors.sigma)));
    let half = column(&|a| Some(number::figure(a.baselines.half.mse, a.baselines.half.sigma)));
    let mean = column(&|a| {
        Some(number::figure(a.baselines.column_mean.mse, a.baselines.column_mean.sigma))
    });
    let accuracy = column(&|a| a.utility.accuracy.map(four));
    let kl = column(&|a| a.utility.mean_kl_nats.map(significant));
    let bits = column(&|a| a.utility.bits.map(significant));
    let factor = column(&|a| a.utility.bits.map(certificate::factor));
    html! {
        (scroll("The strongest attack of adversaries without known records", &html! {
            table {
                caption {
                    "The strongest attack of adversaries that know no record. An aware adversary knows the defense, an unaware one takes the "
                    "release for the true scores. Bits: what the release of one record tells at most, however often it is asked for. A dash: "
                    "not defined, not bounded, or not measured. " (certificate::reading())
                }
                thead { tr {
                    @for title in ["defense", "adversary", "what the attacks achieve", "strongest attack", "its MSE", "guessing ½", "column mean",
                        "accuracy", "KL, nats", "bits", "factor"] { th scope="col" { (title) } }
                } }
                tbody {
                    @for (i, audit) in audits.iter().enumerate() {
                        tr {
                            th scope="row" { (said(&audit.policy.label())) }
                            td { (facts::adversary(audit)) }
                            td { (badge(verdict(audit).level)) }
                            td { (said(audit.strongest().map_or(facts::NONE, |(name, _)| name))) }
                            @for column in [&error, &half, &mean, &accuracy, &kl, &bits, &factor] { td class="n" { (column[i]) } }
                        }
                    }
                }
            }
        }))
    }
}

/// Renders one audit: its attacks, the cost of the defense, and the errors by feature.
fn one(report: &Report, audit: &Audit, plot: Option<&str>) -> Markup {
    let rows = Rows::of(report, audit);
    let verdict = verdict(audit);
    let mut columns = vec![
        ("MSE per feature", rows.column(|r| &r.mse)),
        ("ratio to guessing ½", rows.column(|r| &r.vs_half)),
        ("ratio to column mean", rows.column(|r| &r.vs_mean)),
    ];
    for (i, party) in rows.parties.iter().enumerate() {
        columns
            .push((party, rows.column(|r| r.by_party.get(i).map_or(facts::NONE, String::as_str))));
    }
    for (i, title) in rows.metrics.iter().enumerate() {
        columns.push((title, rows.metric(i)));
    }
    let aligned: Vec<Vec<String>> =
        columns.iter().map(|(_, cells)| align_left(cells, FIGURE_SPACE)).collect();
    let name = format!("{}{}", audit.policy.label(), facts::against(audit));
    html! {
        details class="card" {
            summary { h3 { (said(&name)) ", " (facts::adversary(audit)) } " " (badge(verdict.level)) }
            p { strong { "Result: " } (said(&verdict.text)) "." }
            dl class="facts" {
                @for (label, value) in facts::utility(&audit.utility) {
                    div { dt { (label) } dd { (said(&value)) } }
                }
                div { dt { "records scored" } dd { (audit.records) } }
            }
            (scroll(&format!("Attacks on {name}"), &html! {
                table {
                    caption { "Attacks on " (said(&name)) }
                    thead { tr {
                        th scope="col" { "attack" } th scope="col" { "equations" }
                        @for (i, (title, _)) in columns.iter().enumerate() {
                            th scope="col" { @if (3..3 + rows.parties.len()).contains(&i) { "MSE, " } (said(title)) }
                        }
                    } }
                    tbody {
                        @for (i, row) in rows.rows.iter().enumerate() {
                            tr class=(class(row.kind)) {
                                th scope="row" { (said(&row.name)) }
                                td { (said(&row.how)) }
                                @for column in &aligned { td class="n" { (column[i]) } }
                            }
                        }
                    }
                }
            }))
            (by_attribute(audit, &name))
            @for (names, reason) in &rows.not_scored {
                p class="small muted" { strong { (said(names)) } ": " (said(reason)) }
            }
            @for (name, reason) in &rows.not_run {
                p class="small muted" { strong { (said(name)) } " did not run: " (said(reason)) }
            }
            @for remark in facts::limits(audit).iter().chain(&audit.remarks) { p class="small" { (said(remark)) } }
            @if let Some(svg) = plot {
                (figure("Error by feature", svg, &html! {
                    "The strongest attack, feature by feature, beside both guesses on the same records. "
                    "Left of both lines the feature leaks. Logarithmic axis."
                }))
            }
        }
    }
}

/// Renders the attributes, each with the attack that finds most of it.
fn by_attribute(audit: &Audit, name: &str) -> Markup {
    let lines = attributes::lines(audit);
    if lines.is_empty() {
        return html! {};
    }
    scroll(
        &format!("Attributes behind {name}"),
        &html! {
            table {
                caption { (attributes::READING) }
                thead { tr {
                    th scope="col" { "attribute" } th scope="col" { "attack" }
                    @for head in attributes::HEADS { th scope="col" { (head) } }
                } }
                tbody {
                    @for line in &lines {
                        tr {
                            th scope="row" { (said(&line.attribute)) }
                            td { (said(&line.attack)) }
                            @for cell in &line.cells { td { (said(cell)) } }
                        }
                    }
                }
            }
        },
    )
}

fn class(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Strongest => "best",
        RowKind::Attack => "attack",
        RowKind::Guess => "guess",
        RowKind::NotRun => "not-run",
    }
}
