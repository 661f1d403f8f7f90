//! Prints results on the screen.

use serde::Serialize;
use vfl_present::ColumnKind::{Right, Text};
use vfl_present::{Frame, Table};

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
) -> String {
    let kind = |at: usize| if at < numbers { Text } else { Right };
    let columns = header.into_iter().enumerate().map(|(at, name)| (name, kind(at)));
    Table::of_rows(columns, lines.iter().map(row)).text(Frame::Full, Some(120), false)
}
