//! Renders the opening of the page: a sentence for each release surface, the next step, and a line
//! for each policy.

use maud::{Markup, html};
use vfl_present::ColumnKind::{Name, Text};
use vfl_present::{Table, said};

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

/// Renders a table with one policy a row.
fn table(report: &Report, lines: &[DefenseLine<'_>]) -> Markup {
    let informed = lines.iter().any(|line| line.risk.is_some());
    let several = report.passive_parties().count() > 1;
    let worst = lines.iter().any(|line| line.worst.is_some());
    let policy = |line: &DefenseLine<'_>| {
        let is_served = report.in_service.as_ref() == Some(line.policy);
        html! {
            (said(&line.policy.label()))
            @if line.judged { " " span class="tag" { @if is_served { "in service" } @else { "judged" } } }
        }
    };
    let result =
        |line: &DefenseLine<'_>| line.compliance().map_or_else(|| badge(line.level), compliance);
    let results = if report.thresholds.is_some() { "thresholds" } else { "what comes back" };
    let attack = |line: &DefenseLine<'_>| line.attack.unwrap_or(facts::NONE).to_owned();
    let table = Table::new()
        .caption(caption(report, informed))
        .column("policy", Name, lines.iter().map(policy))
        .column(results, Text, lines.iter().map(result))
        .column_if(
            informed,
            "added risk (95 %)",
            Text,
            lines.iter().map(|l| l.added_with_interval()),
        )
        .column_if(worst, "worst attribute", Text, lines.iter().map(|l| l.attribute(several)))
        .column("error", Text, lines.iter().map(|l| l.error()))
        .column_if(informed, "without scores", Text, lines.iter().map(|l| l.control()))
        .column_if(!informed, "column mean", Text, lines.iter().map(|l| l.guess()))
        .column("accuracy lost", Text, lines.iter().map(|l| l.cost()))
        .column("strongest attack", Text, lines.iter().map(attack));
    html! { div class="card" { (table.cards()) } }
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
