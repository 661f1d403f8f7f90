//! Prints results on the screen.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

/// Prints lines as JSON, or as a table whose columns from `numbers` on are numbers.
pub(super) fn print<L: Serialize, const N: usize>(
    lines: &[L],
    json: bool,
    header: [&str; N],
    numbers: usize,
    row: impl Fn(&L) -> [String; N],
) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout();
    if json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(lines)?)?);
    }
    Ok(writeln!(out, "{}", table(lines, header, numbers, row))?)
}

/// Returns the lines as a table, at most 120 columns wide.
pub(super) fn table<L, const N: usize>(
    lines: &[L],
    header: [&str; N],
    numbers: usize,
    row: impl Fn(&L) -> [String; N],
) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(120);
    table.set_header(header).add_rows(lines.iter().map(row));
    for column in numbers..N {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
