//! A terminal's page: wrapped prose, tables with aligned figures, colours only if wanted.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use vfl_present::number::align_left;
use vfl_present::wrapped;

use super::facts::RowKind;

/// The least width at which a table is readable.
pub(super) const MIN_WIDTH: usize = 60;
/// The longest line of prose: longer ones are hard to read, however wide the terminal.
const MAX_PROSE: usize = 110;

/// The width of a page, and its use of colours.
pub(super) struct Page {
    pub(super) width: usize,
    pub(super) colour: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Paint {
    Bold,
    Red,
    Yellow,
}

/// The lines drawn in a table.
#[derive(Clone, Copy)]
pub(super) enum Frame {
    /// Lines around the table, between its columns and below its head.
    Full,
    /// No lines: a row takes one line, and so does the head.
    None,
}

impl Page {
    /// Creates a page of at least [`MIN_WIDTH`] columns.
    pub(super) fn new(width: usize, colour: bool) -> Self {
        Self { width: width.max(MIN_WIDTH), colour }
    }

    /// Wraps text into lines of this page; lines after the first are indented.
    pub(super) fn prose(&self, text: &str, indent: usize) -> String {
        wrapped(text, self.width.min(MAX_PROSE), indent)
    }

    /// Colours a text that is already printable.
    pub(super) fn paint(&self, text: &str, paint: Paint) -> String {
        let code = match paint {
            Paint::Bold => "1",
            Paint::Red => "1;31",
            Paint::Yellow => "33",
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Returns a table of texts on the left and figures, decimal points aligned, on the right.
    pub(super) fn table(
        &self,
        frame: Frame,
        texts: &[&str],
        figures: Vec<(&str, Vec<String>)>,
        rows: Vec<(Vec<String>, RowKind)>,
    ) -> Table {
        let mut table = Table::new();
        let preset = match frame {
            Frame::Full => presets::UTF8_FULL_CONDENSED,
            Frame::None => presets::NOTHING,
        };
        table.load_style(preset).force_no_tty();
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
        if self.colour {
            table.enforce_styling();
        }
        let header = texts.iter().copied().chain(figures.iter().map(|(title, _)| *title));
        table.set_header(header.map(|title| self.cell(title.into(), RowKind::Attack)));
        let aligned: Vec<Vec<String>> =
            figures.iter().map(|(_, cells)| align_left(cells, ' ')).collect();
        for (i, (left, kind)) in rows.into_iter().enumerate() {
            let numbers = aligned.iter().map(|column| column.get(i).cloned().unwrap_or_default());
            table.add_row(left.into_iter().chain(numbers).map(|text| self.cell(text, kind)));
        }
        table
    }

    fn cell(&self, text: String, kind: RowKind) -> Cell {
        let cell = Cell::new(text);
        match kind {
            _ if !self.colour => cell,
            RowKind::Strongest => cell.add_attribute(Attribute::Bold),
            RowKind::Guess | RowKind::NotRun => cell.fg(Color::DarkGrey),
            RowKind::Attack => cell,
        }
    }
}
