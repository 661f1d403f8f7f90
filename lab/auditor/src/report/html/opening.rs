//! Renders the opening of the page: a sentence for each release surface, the next step, and a line
//! for each policy.

use maud::{Markup, html};
use vfl_present::said;

use super::widgets::{badge, compliance};
use crate::report::brief::brief;
use crate::report::defense::{self, DefenseLine};
use crate::report::document::Report;
use crate::report::{added_risk, facts};

/// Renders the verdict.
pub(super) fn verdict(report: &Report) -> Markup {
    let brief = brief(report);
    let lines = defense::lines(report);
    html! {
        section {
            h2 { "Verdict" }
            @if let Some(headline) = &brief.headline { p class="headline" { strong { (said(&headline.text)) } } }
            @if let Some(mean) = &brief.mean { p { (mean) } }
            ul class="verdict" {
                @for sentence in &brief.surfaces {
                    li { strong { (sentence.surface) ": " } (said(&sentence.text)) "." }
                }
            }
            div class="card callout" {
                @for (result, words) in &brief.demands {
                    p { (compliance(*result)) " " (said(words)) "." }
                }
                p { strong { "What to do next. " } (said(&brief.next)) }
            }
            @if lines.is_empty() { p { "No defense was audited." } } @else { (table(report, &lines)) }
            p class="small muted" { (facts::SCOPE) }
            @for note in &report.notes { p class="small muted" { strong { "Note. " } (said(note)) } }
        }
    }
}

/// The heading of a column, and its cell for a policy.
type Column = (&'static str, fn(&DefenseLine<'_>) -> String);

/// Renders a table with one policy a row; on a narrow screen each is a card. Roles are stated
/// because the cards would lose them.
fn table(report: &Report, lines: &[DefenseLine<'_>]) -> Markup {
    let informed = lines.iter().any(|line| line.risk.is_some());
    let demanded = report.thresholds.is_some();
    let mut columns: Vec<Column> = Vec::new();
    if informed {
        columns.push(("added risk (95 %)", |line| line.added_with_interval()));
    }
    if lines.iter().any(|line| line.worst.is_some()) {
        let several = report.passive_parties().count() > 1;
        columns.push((
            "worst attribute",
            if several { |line| line.attribute(true) } else { |line| line.attribute(false) },
        ));
    }
    columns.push(("error", |line| line.error()));
    if informed {
        columns.push(("without scores", |line| line.control()));
    } else {
        columns.push(("column mean", |line| line.guess()));
    }
    columns.push(("accuracy lost", |line| line.cost()));
    columns.push(("strongest attack", |line| line.attack.unwrap_or(facts::NONE).to_owned()));
    html! {
        div class="card" {
            table class="cards" role="table" {
                caption { (caption(report, informed)) }
                thead role="rowgroup" {
                    tr role="row" {
                        th scope="col" role="columnheader" { "policy" }
                        th scope="col" role="columnheader" { @if demanded { "thresholds" } @else { "what comes back" } }
                        @for (title, _) in &columns { th scope="col" role="columnheader" { (title) } }
                    }
                }
                tbody role="rowgroup" {
                    @for line in lines {
                        tr role="row" {
                            th scope="row" role="rowheader" {
                                (said(&line.policy.label()))
                                @if line.judged { " " span class="tag" { @if report.in_service.as_ref() == Some(line.policy) { "in service" } @else { "judged" } } }
                            }
                            td role="cell" data-label=(if demanded { "thresholds" } else { "what comes back" }) {
                                @if let Some(result) = line.compliance() { (compliance(result)) } @else { (badge(line.level)) }
                            }
                            @for (title, cell) in &columns { td role="cell" data-label=(title) { (said(&cell(line))) } }
                        }
                    }
                }
            }
        }
    }
}

fn caption(report: &Report, informed: bool) -> Markup {
    let known = added_risk::known(report).unwrap_or_default();
    html! {
        @if informed {
            "What the scores add for an adversary that knows the policy and " (known) ". Added risk: 1 − error / error without scores, of the "
            "attribute that the scores tell most of. Error: the mean squared error over all features. Without scores: the same of this "
            "adversary without any score. "
        } @else {
            "The strongest attack on each policy. Error: its mean squared error per feature. Column mean: the error of guessing it. No "
            "attack has a control without scores, so what the scores add is not known. "
        }
        "Features lie in [0, 1]. Accuracy lost: percentage points. A dash: not known."
    }
}
