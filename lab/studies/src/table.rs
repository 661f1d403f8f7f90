//! The table of a report.

use comfy_table::{CellAlignment, ContentArrangement, Row, Table, presets};

/// Returns a table without lines, as wide as its cells. The columns in `left` are aligned to the
/// left, all others to the right.
pub(crate) fn plain_table<const N: usize>(
    header: [&str; N],
    left: &[usize],
    rows: impl IntoIterator<Item: Into<Row>>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table.add_rows(rows);
    for (place, column) in table.column_iter_mut().enumerate() {
        if !left.contains(&place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}
