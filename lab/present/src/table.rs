//! A table: columns of cells, for a terminal, a page, or a document in Markdown.

use comfy_table::{
    Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, Width, presets,
};
use maud::{Markup, html};

use crate::number::align_left;
use crate::page::said;
use crate::text::{printable, shortened};

/// The widest phrase on a terminal, in columns.
const PHRASE: u16 = 26;

/// A table. Columns are added from left to right, each with all its cells.
#[derive(Clone, Default)]
pub struct Table {
    class: Option<&'static str>,
    caption: Option<Markup>,
    columns: Vec<Column>,
    kinds: Vec<RowKind>,
}

#[derive(Clone)]
struct Column {
    heading: String,
    kind: ColumnKind,
    cells: Vec<Cell>,
}

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// The name of what the row is about.
    Name,
    /// Words.
    Text,
    /// Words that a terminal breaks into short lines.
    Phrase,
    /// A hash or an address.
    Hash,
    /// Numbers as they are written.
    Number,
    /// Numbers whose decimal points a terminal aligns.
    Figure,
    /// Numbers whose ends a terminal aligns.
    Right,
}

/// The meaning of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RowKind {
    /// Nothing more than its cells say.
    #[default]
    Plain,
    /// The attack with the smallest error.
    Strongest,
    /// Any other attack.
    Attack,
    /// A guess or a baseline.
    Guess,
    /// An attack without figures.
    NotRun,
    /// A row whose two sides differ.
    Differs,
}

/// The lines drawn in a table on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// Lines around the table, between its columns and below its head.
    Full,
    /// No lines: a row takes one line, and so does the head.
    None,
}

/// The attributes of a table on a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Headed,
    Cards,
    Bare,
}

/// The content of one cell: a text, or markup for pages alone.
#[derive(Clone)]
pub enum Cell {
    /// A text, which is sanitised for the reader.
    Text(String),
    /// Markup, which only a page shows.
    Page(Markup),
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Markup> for Cell {
    fn from(markup: Markup) -> Self {
        Self::Page(markup)
    }
}

impl Cell {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Page(_) => "",
        }
    }

    fn markup(&self) -> Markup {
        match self {
            Self::Text(text) => said(text),
            Self::Page(markup) => markup.clone(),
        }
    }
}

impl RowKind {
    /// Returns the class of the row in the style sheets.
    fn class(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strongest => Some("best"),
            Self::Attack => Some("attack"),
            Self::Guess => Some("guess"),
            Self::NotRun => Some("not-run"),
            Self::Differs => Some("differs"),
        }
    }

    fn painted(self, text: String) -> comfy_table::Cell {
        let cell = comfy_table::Cell::new(text);
        match self {
            Self::Strongest => cell.add_attribute(Attribute::Bold),
            Self::Guess | Self::NotRun => cell.fg(Color::DarkGrey),
            Self::Plain | Self::Attack | Self::Differs => cell,
        }
    }
}

impl Column {
    /// Replaces each text of the column.
    fn each(&mut self, new: impl Fn(&[String]) -> Vec<String>) {
        let old: Vec<String> = self.cells.iter().map(|cell| cell.text().to_owned()).collect();
        for (cell, new) in self.cells.iter_mut().zip(new(&old)) {
            if let Cell::Text(text) = cell {
                *text = new;
            }
        }
    }

    fn class(&self, style: Style) -> Option<&'static str> {
        match self.kind {
            ColumnKind::Name => (style == Style::Bare).then_some("name"),
            ColumnKind::Text | ColumnKind::Phrase => None,
            ColumnKind::Hash => Some("hash"),
            ColumnKind::Number | ColumnKind::Figure | ColumnKind::Right => Some("n"),
        }
    }
}

impl Table {
    /// Creates a table without columns.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a table of rows, each with a cell for every column; missing cells are empty.
    #[must_use]
    pub fn of_rows<H: Into<String>, C: Into<Cell>, R: IntoIterator<Item = C>>(
        columns: impl IntoIterator<Item = (H, ColumnKind)>,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        let mut table = columns.into_iter().fold(Self::new(), |table, (heading, kind)| {
            table.column(heading, kind, Vec::<Cell>::new())
        });
        for row in rows {
            let mut cells = row.into_iter().map(Into::into);
            for column in &mut table.columns {
                column.cells.push(cells.next().unwrap_or_else(|| "".into()));
            }
        }
        table
    }

    /// Adds a column at the right.
    #[must_use]
    pub fn column<C: Into<Cell>>(
        mut self,
        heading: impl Into<String>,
        kind: ColumnKind,
        cells: impl IntoIterator<Item = C>,
    ) -> Self {
        let cells = cells.into_iter().map(Into::into).collect();
        self.columns.push(Column { heading: heading.into(), kind, cells });
        self
    }

    /// Adds a column at the right if it is `shown`.
    #[must_use]
    pub fn column_if<C: Into<Cell>>(
        self,
        shown: bool,
        heading: impl Into<String>,
        kind: ColumnKind,
        cells: impl IntoIterator<Item = C>,
    ) -> Self {
        if shown { self.column(heading, kind, cells) } else { self }
    }

    /// Sets the kind of each row; rows without one are plain.
    #[must_use]
    pub fn kinds(self, kinds: impl IntoIterator<Item = RowKind>) -> Self {
        Self { kinds: kinds.into_iter().collect(), ..self }
    }

    /// Sets the caption on a page.
    #[must_use]
    pub fn caption(self, caption: Markup) -> Self {
        Self { caption: Some(caption), ..self }
    }

    /// Sets the class on a page.
    #[must_use]
    pub fn class(self, class: &'static str) -> Self {
        Self { class: Some(class), ..self }
    }

    /// Shortens names and texts to at most `longest` terminal columns.
    #[must_use]
    pub fn shorten(mut self, longest: usize) -> Self {
        for column in &mut self.columns {
            if matches!(column.kind, ColumnKind::Name | ColumnKind::Text) {
                column.each(|cells| cells.iter().map(|cell| shortened(cell, longest)).collect());
            }
        }
        self
    }

    /// Aligns the decimal points of figures with `pad` at their left.
    #[must_use]
    pub fn align(mut self, pad: char) -> Self {
        for column in self.columns.iter_mut().filter(|c| c.kind == ColumnKind::Figure) {
            column.each(|cells| align_left(cells, pad));
        }
        self
    }

    /// Returns true if there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows() == 0
    }

    fn rows(&self) -> usize {
        self.columns.iter().map(|column| column.cells.len()).max().unwrap_or_default()
    }

    fn kind(&self, row: usize) -> RowKind {
        self.kinds.get(row).copied().unwrap_or_default()
    }

    /// Renders the table for a terminal of `width` columns, or as wide as its cells. ANSI colours
    /// only if `colour`. Ends without a newline.
    #[must_use]
    pub fn text(&self, frame: Frame, width: Option<usize>, colour: bool) -> String {
        let mut table = comfy_table::Table::new();
        let preset = match frame {
            Frame::Full => presets::UTF8_FULL_CONDENSED,
            Frame::None => presets::NOTHING,
        };
        table.load_style(preset).force_no_tty();
        match width {
            Some(width) => table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(u16::try_from(width).unwrap_or(u16::MAX)),
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        if colour {
            table.enforce_styling();
        }
        table.set_header(self.columns.iter().map(|column| column.heading.as_str()));
        let shown = self.clone().align(' ');
        for row in 0..self.rows() {
            let kind = if colour { self.kind(row) } else { RowKind::Plain };
            let cell = |column: &Column| printable(column.cells.get(row).map_or("", Cell::text));
            table.add_row(shown.columns.iter().map(|column| kind.painted(cell(column))));
        }
        for (at, column) in self.columns.iter().enumerate() {
            let Some(shown) = table.column_mut(at) else { continue };
            match column.kind {
                ColumnKind::Phrase => {
                    shown.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(PHRASE)));
                }
                ColumnKind::Right => {
                    shown.set_cell_alignment(CellAlignment::Right);
                }
                _ => {}
            }
        }
        match frame {
            Frame::Full => table.to_string(),
            Frame::None => {
                table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// Renders the table in Markdown, numbers at the right. Ends without a newline.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        let escaped = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        let rule = |column: &Column| match column.class(Style::Headed) {
            Some("n") => "---:|",
            _ => "---|",
        };
        let head = self.columns.iter().map(|column| escaped(&column.heading)).collect();
        let rules: String = self.columns.iter().map(rule).collect();
        let mut lines = vec![line(head), format!("|{rules}")];
        for row in 0..self.rows() {
            let cell = |column: &Column| escaped(column.cells.get(row).map_or("", Cell::text));
            lines.push(line(self.columns.iter().map(cell).collect()));
        }
        lines.join("\n")
    }

    /// Renders the table for a page. The first cell of a row is its heading.
    #[must_use]
    pub fn html(&self) -> Markup {
        self.page(self.class, Style::Headed)
    }

    /// Renders the table for a page; on a narrow screen each row is a card. Roles are stated
    /// because the cards would lose them.
    #[must_use]
    pub fn cards(&self) -> Markup {
        self.page(Some("cards"), Style::Cards)
    }

    /// Renders the table for a page, without headings of rows.
    #[must_use]
    pub fn bare(&self) -> Markup {
        self.page(self.class, Style::Bare)
    }

    fn page(&self, class: Option<&str>, style: Style) -> Markup {
        let role = |role: &'static str| (style == Style::Cards).then_some(role);
        let label = |column: &Column| role("cell").map(|_| column.heading.clone());
        let scope = (style != Style::Bare).then_some("col");
        html! {
            table class=[class] role=[role("table")] {
                @if let Some(caption) = &self.caption { caption { (caption) } }
                thead role=[role("rowgroup")] { tr role=[role("row")] {
                    @for column in &self.columns {
                        th scope=[scope] role=[role("columnheader")] { (said(&column.heading)) }
                    }
                } }
                tbody role=[role("rowgroup")] {
                    @for row in 0..self.rows() {
                        tr class=[self.kind(row).class()] role=[role("row")] {
                            @for (at, column) in self.columns.iter().enumerate() {
                                @let content = column.cells.get(row).map(Cell::markup);
                                @if at == 0 && style != Style::Bare {
                                    th scope="row" role=[role("rowheader")] { @if let Some(content) = content { (content) } }
                                } @else {
                                    td role=[role("cell")] data-label=[label(column)] class=[column.class(style)] {
                                        @if let Some(content) = content { (content) }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::new()
            .class("sides")
            .caption(html! { "Errors" })
            .column("attack", ColumnKind::Name, ["<rcc1>", "half"])
            .column("error", ColumnKind::Figure, ["12.5", "0.25"])
            .column_if(false, "left out", ColumnKind::Text, ["a", "b"])
            .kinds([RowKind::Plain, RowKind::Guess])
    }

    #[test]
    fn a_page_shows_headings_rows_and_classes() {
        assert_eq!(
            table().html().into_string(),
            "<table class=\"sides\"><caption>Errors</caption>\
             <thead><tr><th scope=\"col\">attack</th><th scope=\"col\">error</th></tr></thead>\
             <tbody><tr><th scope=\"row\">&lt;rcc1&gt;</th><td class=\"n\">12.5</td></tr>\
             <tr class=\"guess\"><th scope=\"row\">half</th><td class=\"n\">0.25</td></tr></tbody></table>"
        );
        let bare = Table::of_rows([("a", ColumnKind::Name)], [[html! { b { "x" } }]]).bare();
        assert_eq!(
            bare.into_string(),
            "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td class=\"name\"><b>x</b></td></tr></tbody></table>"
        );
    }

    #[test]
    fn cards_state_their_roles_and_labels() {
        let rows = [["p", "127.0.0.1:1"]];
        let columns = [("party", ColumnKind::Name), ("address", ColumnKind::Hash)];
        assert_eq!(
            Table::of_rows(columns, rows).cards().into_string(),
            "<table class=\"cards\" role=\"table\"><thead role=\"rowgroup\"><tr role=\"row\">\
             <th scope=\"col\" role=\"columnheader\">party</th><th scope=\"col\" role=\"columnheader\">address</th>\
             </tr></thead><tbody role=\"rowgroup\"><tr role=\"row\"><th scope=\"row\" role=\"rowheader\">p</th>\
             <td role=\"cell\" data-label=\"address\" class=\"hash\">127.0.0.1:1</td></tr></tbody></table>"
        );
    }

    #[test]
    fn markdown_escapes_bars_and_puts_numbers_at_the_right() {
        let columns = [("what", ColumnKind::Text), ("n", ColumnKind::Number)];
        let table = Table::of_rows(columns, [["a|b", "1"], ["c", "2"]]);
        assert_eq!(table.markdown(), "| what | n |\n|---|---:|\n| a\\|b | 1 |\n| c | 2 |");
    }

    #[test]
    fn a_terminal_gets_aligned_figures_and_no_controls() {
        let text = table().text(Frame::None, None, false);
        let points: Vec<Option<usize>> = text.lines().skip(1).map(|line| line.find('.')).collect();
        assert!(points.len() == 2 && points[0].is_some() && points[0] == points[1], "{text}");
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
        let evil = Table::new().column("a", ColumnKind::Text, ["\x1b[31m"]);
        assert!(!evil.text(Frame::Full, Some(80), true).contains("\x1b[31m"));
        assert!(table().text(Frame::Full, Some(80), true).contains('\x1b'));
        let short = table().shorten(3).align('~');
        assert!(short.html().into_string().contains("~0.25"));
        assert!(short.text(Frame::None, None, false).contains("<r…"));
        assert!(Table::new().is_empty() && !table().is_empty());
    }
}
