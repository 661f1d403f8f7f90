//! A figure as one page that needs only a browser, in the style of the reports.

use maud::{Markup, PreEscaped, html};
use vfl_present::number::align_left;
use vfl_present::{Shell, printable, said, significant};

use super::ReproduceError;
use super::document::Document;
use super::heat_map::heat;
use super::names::stem;
use super::plot::plot;
use super::table::{
    ADDED_RISK, ADDED_RISK_COLUMNS, added_risk_cells, capital, facts, with_settings,
};

/// Renders the document as a self-contained page: the plot, the checks and the numbers. The same
/// document gives the same bytes.
///
/// # Errors
/// [`ReproduceError::Plot`] if the plot cannot be drawn.
pub fn render_page(document: &Document) -> Result<String, ReproduceError> {
    let svg = match &document.heat_map {
        Some(map) => heat(map)?,
        None => plot(document)?,
    };
    let title = format!("{}, {}", document.title, document.dataset.name);
    let shell = Shell {
        title: &title,
        generator: &document.program,
        lead: "",
        facts: facts(document).into_iter().map(|(label, value)| (label, said(&value))).collect(),
        source: format!("{}.json", stem(document)),
        schema_version: document.schema_version,
    };
    Ok(shell.page(&html! {
        figure {
            div class="scroll" { (PreEscaped(svg)) }
            figcaption { (printable(&caption(document))) }
        }
        @if !document.added_risk.is_empty() { (added_risk(document)) }
        (checks(document))
        @if !document.attacks.is_empty() { (attacks(document)) }
        @if !document.curves.is_empty() { (numbers(document)) }
        @if !document.notes.is_empty() {
            h2 { "Notes" }
            ul { @for note in &document.notes { li { (printable(note)) } } }
        }
    }))
}

fn caption(document: &Document) -> String {
    if let Some(map) = &document.heat_map {
        return format!(
            "{}. Blue is positive, orange negative; the deepest colour is the largest magnitude.",
            capital(&map.label)
        );
    }
    let what = format!("{} by {}.", capital(&document.measure.label), document.axis.label);
    if document.measure.linear {
        what
    } else {
        format!("{what} Values up to 1e-16 are round-off and stand in the band below.")
    }
}

fn checks(document: &Document) -> Markup {
    html! {
        @if !document.checks.is_empty() {
            h2 { "What is said of it" }
            @for check in &document.checks {
                div class="card" {
                    p {
                        @if check.holds { span class="badge flat" { "holds" } } @else { span class="badge bad" { "does not hold" } }
                        " " span class="badge" { (check.kind.as_str()) } " " (printable(&check.claim)) "."
                    }
                    p class="small muted" { (printable(&check.detail)) "; comparisons: " (check.comparisons) "." }
                    @if !check.violations.is_empty() {
                        ul class="small" { @for violation in &check.violations { li { (printable(violation)) } } }
                    }
                }
            }
        }
    }
}

fn added_risk(document: &Document) -> Markup {
    html! {
        h2 { "Added risk" }
        p class="small muted" { (ADDED_RISK) "." }
        div class="scroll" {
            table {
                thead {
                    tr {
                        th { (printable(&document.axis.symbol)) }
                        @for column in ADDED_RISK_COLUMNS { th { (column) } }
                    }
                }
                tbody {
                    @for risk in &document.added_risk {
                        tr { @for cell in added_risk_cells(risk) { td { (cell) } } }
                    }
                }
            }
        }
    }
}

fn attacks(document: &Document) -> Markup {
    let seconds: Vec<String> =
        document.attacks.iter().map(|a| format!("{:.3}", a.cpu_seconds)).collect();
    html! {
        h2 { "Attacks" }
        div class="scroll" {
            table {
                thead { tr { th { "curve" } th { "attack" } th { "records per split" } th { "processor time, s" } } }
                tbody {
                    @for (attack, seconds) in document.attacks.iter().zip(align_left(&seconds, '\u{2007}')) {
                        tr {
                            td class="name" { (printable(&attack.curve)) }
                            td { (printable(&with_settings(attack))) }
                            td class="n" { (attack.records) }
                            td class="n" { (seconds) }
                        }
                    }
                }
            }
        }
    }
}

fn numbers(document: &Document) -> Markup {
    html! {
        h2 { "Data" }
        p class="small muted" { (printable(&capital(&document.measure.label))) ", with its standard error over the records where they were drawn." }
        div class="scroll card" {
            table {
                thead {
                    tr {
                        th { (printable(&document.axis.symbol)) }
                        @for curve in &document.curves { th { (printable(&curve.name.replace('_', " "))) } }
                    }
                }
                tbody {
                    @for (i, point) in document.axis.points.iter().enumerate() {
                        tr {
                            td class="n" { (point) }
                            @for curve in &document.curves {
                                td class="n" {
                                    @if let Some(mean) = curve.mean.get(i) { (significant(*mean)) }
                                    @if let Some(error) = curve.standard_error.as_ref().and_then(|e| e.get(i)) {
                                        " " span class="muted" { "± " (format!("{error:.0e}")) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
