//! Statistics of the columns of a file.

use std::collections::BTreeMap;

use vfl_core::data::{Cell, Decimals};

/// Integers with at most this many different values are inferred to be steps.
pub(super) const MAX_STEPS: usize = 10;

/// The statistics of a column.
#[derive(Default)]
pub(super) struct ColumnStatistics {
    pub(super) numbers: u64,
    pub(super) texts: u64,
    pub(super) missing: u64,
    pub(super) dates: u64,
    /// Texts that are words of truth values, true ones and false ones.
    pub(super) truths: [u64; 2],
    /// Texts that are digits with one comma.
    pub(super) commas: u64,
    /// Texts that stand for missing values in a column of numbers or dates.
    pub(super) marks: BTreeMap<String, u64>,
    /// The number before, while each number is its predecessor and 1.
    pub(super) row_number: Option<f64>,
    pub(super) decimals: Decimals,
    /// The least and the largest number, or day.
    pub(super) range: Option<(f64, f64)>,
    pub(super) sum: f64,
    /// The records of each different text that is not blank, of so many that memory is bounded.
    pub(super) distinct: BTreeMap<String, u64>,
    /// True if there are more texts.
    pub(super) more: bool,
}

impl ColumnStatistics {
    /// Includes a cell. Of different texts `counted` are counted, of numbers as many as make them
    /// categories, or steps, and one more.
    pub(super) fn take(&mut self, cell: Cell<'_>, most: usize, counted: usize) {
        let text = match cell.text() {
            Ok(text) if !cell.is_missing(false) => text,
            _ => {
                self.missing += 1;
                return;
            }
        };
        let text = text.trim();
        if cell.is_missing(true) {
            *self.marks.entry(text.to_owned()).or_default() += 1;
            return;
        }
        let mut limit = counted;
        match cell.number() {
            Ok(number) => {
                let next = self.row_number.is_some_and(|before| number == before + 1.0);
                self.row_number = (next || self.numbers + self.texts == 0).then_some(number);
                self.decimals.take(number);
                self.numbers += 1;
                self.measure(number);
                limit = most.max(MAX_STEPS) + 1;
            }
            Err(_) => {
                self.texts += 1;
                if let Some(truth) = cell.truth() {
                    self.truths[usize::from(truth == 0.0)] += 1;
                } else if let Ok(day) = cell.date() {
                    self.dates += 1;
                    self.measure(day);
                }
                self.commas += u64::from(has_decimal_comma(text));
            }
        }
        let full = self.distinct.len() >= limit;
        match self.distinct.get_mut(text) {
            Some(count) => *count += 1,
            None if full => self.more = true,
            None => {
                self.distinct.insert(text.to_owned(), 1);
            }
        }
    }

    fn measure(&mut self, value: f64) {
        self.sum += value;
        let (low, high) = self.range.unwrap_or((value, value));
        self.range = Some((low.min(value), high.max(value)));
    }

    /// Returns the same column as text, in which the marks of missing values are texts.
    pub(super) fn of_texts(mut self) -> Self {
        for (mark, count) in std::mem::take(&mut self.marks) {
            self.texts += count;
            self.distinct.insert(mark, count);
        }
        self
    }

    /// Returns the same column with the marks of missing values counted as what it contains.
    pub(super) fn settled(mut self) -> Self {
        if self.content() == ColumnContent::Texts {
            return self.of_texts();
        }
        self.missing += std::mem::take(&mut self.marks).values().sum::<u64>();
        self
    }

    /// Returns `true` if most texts are digits with one comma, which may be decimal.
    pub(super) fn has_decimal_commas(&self) -> bool {
        self.commas > 0 && self.commas * 2 >= self.texts
    }

    /// Returns the content of the column.
    pub(super) fn content(&self) -> ColumnContent {
        let Self { numbers, texts, dates, truths: [yes, no], .. } = *self;
        match (numbers, texts) {
            (1.., 0) => ColumnContent::Numbers,
            (0, 1..) if dates == texts => ColumnContent::Dates,
            (0, 1..) if yes + no == texts && yes > 0 && no > 0 => ColumnContent::Truths,
            _ => ColumnContent::Texts,
        }
    }
}

/// Returns `true` for digits with one comma, as a number with a decimal comma has.
fn has_decimal_comma(text: &str) -> bool {
    Cell::Text(text).number().is_err()
        && text.contains(',')
        && Cell::CommaText(text).number().is_ok()
}

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnContent {
    Numbers,
    Dates,
    Truths,
    Texts,
}

/// The number of ids that look like numbers of a program.
#[derive(Default, Clone, Copy)]
pub(super) struct IdForms {
    /// Whole numbers with a decimal point.
    pub(super) points: u64,
    /// Numbers with an exponent.
    pub(super) exponents: u64,
}

impl IdForms {
    pub(super) fn take(&mut self, cell: Cell<'_>) {
        let (Cell::Text(text) | Cell::CommaText(text)) = cell else { return };
        let text = text.trim();
        let number = [Cell::Text(text), Cell::CommaText(text)].iter().any(|of| of.number().is_ok());
        if !text.starts_with(|c: char| c.is_ascii_digit()) || !number {
            return;
        }
        self.points += u64::from(text.ends_with(".0"));
        self.exponents += u64::from(text.contains(['e', 'E']) && text.contains(['.', ',', '+']));
    }
}
