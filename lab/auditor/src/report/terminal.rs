//! A terminal's page: wrapped prose and tables, colours only if wanted.

use vfl_present::{Frame, Table, wrapped};

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

    /// Renders a table within the width of the page.
    pub(super) fn table(&self, frame: Frame, table: &Table) -> String {
        table.text(frame, Some(self.width), self.colour)
    }
}
