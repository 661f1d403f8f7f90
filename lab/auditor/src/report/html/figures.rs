//! Renders the plots of the page.

use maud::{Markup, PreEscaped, html};
use vfl_present::said;

use super::plots::Plots;
use super::widgets::{figure, scroll};
use crate::report::document::Report;
use crate::report::{defense, facts, inference, private_training};

/// Renders the plots of the policies' cost and risk, of the errors by feature, and of the errors by
/// number of passive features.
pub(super) fn plots(report: &Report, plots: &Plots) -> Markup {
    html! {
        @if let Some((wide, narrow)) = &plots.frontier { (frontier(report, wide, narrow)) }
        (by_feature(report, plots))
        @if let (Some(svg), Some(sweep)) = (&plots.sweep, &report.sweep) {
            section {
                h2 { "Error by number of passive features" }
                (figure("Error by number of passive features", svg, &html! {
                    "Defense: " (said(&sweep.policy.label())) ". " (facts::counted(sweep.records, "record")) " at each point. "
                    "The error axis is logarithmic; errors of 0 and round-off below 1e-16 share the band at its foot, "
                    "where height means nothing. Attacks are set side by side at each d. An attack with `moments = own` knows the means and "
                    "covariances of the passive features: what it has below the column mean the scores add. The adversary of the others " (said(&sweep.threat_model.phrases().join(", "))) "."
                }))
            }
        }
        (private_trainings(report))
        (inferences(report))
    }
}

/// Renders the table of other inferences, a row for each attack.
fn inferences(report: &Report) -> Markup {
    let table =
        inference::table(report).caption(html! { (inference::HEADING) ". " (inference::READING) });
    html! {
        @if !table.is_empty() {
            section {
                h2 { "What else is inferred" }
                (scroll("What else is inferred", &table.html()))
            }
        }
    }
}

/// Renders the table of models trained with noise, a row for each.
fn private_trainings(report: &Report) -> Markup {
    let table = private_training::table(report, "informed: with scores")
        .caption(html! { (private_training::HEADING) ". " (private_training::READING) });
    html! {
        @if !table.is_empty() {
            section {
                h2 { "Trained with noise" }
                (scroll("Models trained with noise", &table.html()))
            }
        }
    }
}

fn frontier(report: &Report, wide: &str, narrow: &str) -> Markup {
    let lines = defense::lines(report);
    let left_out = lines
        .iter()
        .filter(|line| {
            line.accuracy_lost.is_none() || line.risk.as_ref().is_none_or(|r| r.value.is_none())
        })
        .count();
    html! {
        section {
            h2 { "Accuracy lost against added risk" }
            figure {
                div class="wide" { (PreEscaped(wide)) }
                div class="narrow" { (PreEscaped(narrow)) }
                figcaption {
                    "Down and left is better. Bars are intervals of 95 %. A full point: no other policy audited costs less accuracy and adds "
                    "less. Numbers after a name are its parameters. The scale of accuracy is that of square roots, which spreads small "
                    "losses; points that would hide each other stand side by side."
                    @if left_out > 0 { " Left out, because a figure is not known: " (left_out) "." }
                }
            }
        }
    }
}

/// Renders the judged policy by feature: for the informed adversary if there is one.
fn by_feature(report: &Report, plots: &Plots) -> Markup {
    let judged = report.judged();
    let drawn = || {
        let all = report.audits.iter().zip(&plots.features);
        let drawn = all.filter_map(|(audit, svg)| Some((audit, svg.as_deref()?)));
        drawn.filter(|(audit, _)| Some(&audit.policy) == judged)
    };
    let informed = drawn().find(|(audit, _)| audit.added_risk().is_some());
    let Some((audit, svg)) = informed.or_else(|| drawn().next()) else { return html! {} };
    html! {
        section {
            h2 { "Error by feature behind " (said(&audit.policy.label())) }
            (figure("Error by feature", svg, &html! {
                "The strongest attack of the " (facts::adversary(audit)) " adversary on the same records as both guesses. "
                @if informed.is_some() { "From the ring, the same adversary without scores, to the point is what the scores tell. " }
                @else { "Left of both lines the feature leaks. " }
                "Logarithmic axis."
            }))
        }
    }
}
