//! A figure as one page that needs only a browser, in the style of the reports.

use maud::{Markup, PreEscaped, html};
use vfl_present::ColumnKind::Number;
use vfl_present::{Shell, Table, printable, said, significant};

use super::ReproduceError;
use super::document::{Curve, Document};
use super::heat_map::heat;
use super::names::stem;
use super::plot::plot;
use super::table::{ADDED_RISK, added_risk, attacks, capital, facts};

/// The headings of the figures of an attack.
const ATTACK_FIGURES: [&str; 2] = ["records per split", "processor time, s"];

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
        @if !document.added_risk.is_empty() {
            h2 { "Added risk" }
            p class="small muted" { (ADDED_RISK) "." }
            div class="scroll" { (added_risk(document).bare()) }
        }
        (checks(document))
        @if !document.attacks.is_empty() {
            h2 { "Attacks" }
            div class="scroll" { (attacks(document, ATTACK_FIGURES).align('\u{2007}').bare()) }
        }
        @if !document.curves.is_empty() {
            h2 { "Data" }
            p class="small muted" { (printable(&capital(&document.measure.label))) ", with its standard error over the records where they were drawn." }
            div class="scroll card" { (numbers(document).bare()) }
        }
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

fn numbers(document: &Document) -> Table {
    let points = &document.axis.points;
    let cell = |curve: &Curve, i: usize| {
        let error = curve.standard_error.as_ref().and_then(|errors| errors.get(i));
        html! {
            @if let Some(mean) = curve.mean.get(i) { (significant(*mean)) }
            @if let Some(error) = error { " " span class="muted" { "± " (format!("{error:.0e}")) } }
        }
    };
    let left =
        Table::new().column(&document.axis.symbol, Number, points.iter().map(ToString::to_string));
    document.curves.iter().fold(left, |table, curve| {
        let cells = (0..points.len()).map(|i| cell(curve, i));
        table.column(curve.name.replace('_', " "), Number, cells)
    })
}
