//! Renders every figure in folded tables.

use maud::{Markup, html};
use vfl_present::ColumnKind::{Figure, Name, Text};
use vfl_present::{Table, four, number, said, significant};

use super::plots::Plots;
use super::widgets::{FIGURE_SPACE, badge, figure, scroll};
use crate::report::document::{Audit, Report};
use crate::report::errors::Errors;
use crate::report::facts::{self, Rows};
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
    let error = |errors: &Errors| number::figure(errors.mse, errors.sigma);
    let name = |audit: &&Audit| audit.strongest().map_or(facts::NONE, |(name, _)| name).to_owned();
    let least = |audit: &&Audit| or_none(audit.strongest().map(|(_, errors)| error(errors)));
    let costs = || audits.iter().map(|audit| &audit.utility);
    let table = Table::new()
        .caption(html! {
            "The strongest attack of adversaries that know no record. An aware adversary knows the defense, an unaware one takes the "
            "release for the true scores. Bits: what the release of one record tells at most, however often it is asked for. A dash: "
            "not defined, not bounded, or not measured. " (certificate::reading())
        })
        .column("defense", Name, audits.iter().map(|audit| audit.policy.label()))
        .column("adversary", Text, audits.iter().map(|audit| facts::adversary(audit)))
        .column("what the attacks achieve", Text, audits.iter().map(|audit| badge(verdict(audit).level)))
        .column("strongest attack", Text, audits.iter().map(name))
        .column("its MSE", Figure, audits.iter().map(least))
        .column("guessing ½", Figure, audits.iter().map(|audit| error(&audit.baselines.half)))
        .column("column mean", Figure, audits.iter().map(|audit| error(&audit.baselines.column_mean)))
        .column("accuracy", Figure, costs().map(|cost| or_none(cost.accuracy.map(four))))
        .column("KL, nats", Figure, costs().map(|cost| or_none(cost.mean_kl_nats.map(significant))))
        .column("bits", Figure, costs().map(|cost| or_none(cost.bits.map(significant))))
        .column("factor", Figure, costs().map(|cost| or_none(cost.bits.map(certificate::factor))));
    let label = "The strongest attack of adversaries without known records";
    scroll(label, &table.align(FIGURE_SPACE).html())
}

/// Renders one audit: its attacks, the cost of the defense, and the errors by feature.
fn one(report: &Report, audit: &Audit, plot: Option<&str>) -> Markup {
    let rows = Rows::of(report, audit);
    let verdict = verdict(audit);
    let name = format!("{}{}", audit.policy.label(), facts::against(audit));
    let all = || rows.rows.iter();
    let mut attacks = Table::new()
        .caption(html! { "Attacks on " (said(&name)) })
        .kinds(all().map(|row| row.kind))
        .column("attack", Name, all().map(|row| &row.name))
        .column("equations", Text, all().map(|row| &row.how))
        .column("MSE per feature", Figure, all().map(|row| &row.mse))
        .column("ratio to guessing ½", Figure, all().map(|row| &row.vs_half))
        .column("ratio to column mean", Figure, all().map(|row| &row.vs_mean));
    for (at, party) in rows.parties.iter().enumerate() {
        attacks = attacks.column(format!("MSE, {party}"), Figure, all().map(|row| row.party(at)));
    }
    for (at, title) in rows.metrics.iter().enumerate() {
        attacks = attacks.column(title, Figure, all().map(|row| row.metric(at)));
    }
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
            (scroll(&format!("Attacks on {name}"), &attacks.align(FIGURE_SPACE).html()))
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
    let table = attributes::table(audit).caption(html! { (attributes::READING) });
    html! {
        @if !table.is_empty() { (scroll(&format!("Attributes behind {name}"), &table.html())) }
    }
}
