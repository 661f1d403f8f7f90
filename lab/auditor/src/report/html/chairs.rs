//! Renders who can learn what of whom.

use maud::{Markup, html};
use vfl_present::ColumnKind::{Name, Text};
use vfl_present::{Table, said};

use super::widgets::scroll;
use crate::report::chairs::{COLUMNS, Cell, Knowledge, READING, chairs as rows};
use crate::report::document::Report;

/// Renders the table: a row for each party and each kind of pair.
pub(super) fn chairs(report: &Report) -> Markup {
    let rows = rows(report);
    let mut table = Table::new()
        .caption(html! { "Who can learn what of whom. " (READING) })
        .column("who", Name, rows.iter().map(|chair| chair.name));
    for (at, heading) in COLUMNS.into_iter().enumerate() {
        table = table.column(heading, Text, rows.iter().map(|chair| cell(&chair.cells[at])));
    }
    html! {
        section {
            h2 { "Who can learn what" }
            (scroll("Who can learn what", &table.html()))
        }
    }
}

fn cell(cell: &Cell) -> Markup {
    let class = match cell.knowledge {
        Knowledge::Told => "badge bad",
        Knowledge::Measured | Knowledge::NotMeasured => "badge mid",
        Knowledge::Excluded => "badge good",
        Knowledge::Own => "badge flat",
    };
    html! {
        span class=(class) { (cell.knowledge.label()) }
        @if !cell.reason.is_empty() { " " span class="small" { (said(&cell.reason)) } }
    }
}
