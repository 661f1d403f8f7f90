//! Lines of separated fields.
//!
//! This is not a general CSV reader: a record is one line. So line numbers are exact, memory is
//! bounded whatever the file holds, and an open quote is reported on its own line instead of at the
//! end of the file.

use std::io::{BufRead, BufReader, Read, Take};

use super::csv_dialect::Separator;
use super::csv_error::TableProblem;

/// The longest line, in bytes: room for the largest number of features.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// The size limits of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Number of records.
    pub records: usize,
    /// Bytes of one field.
    pub field_bytes: usize,
}

impl Default for Limits {
    /// Returns 4 GiB, 20 million records and 1024 bytes a field.
    fn default() -> Self {
        Self { file_bytes: 4 << 30, records: 20_000_000, field_bytes: 1024 }
    }
}

/// The fields of one line, concatenated, and the end of each.
#[derive(Default)]
pub(super) struct Fields {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Fields {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// Splits a line, which has no line break, at its separators. A field that begins with a quote
    /// ends at the next single quote, which a separator or the end of the line must follow; two
    /// quotes in it stand for one.
    fn split(&mut self, line: &[u8], separator: u8) -> Result<(), TableProblem> {
        self.bytes.clear();
        self.ends.clear();
        let mut rest = line;
        loop {
            let after = if let Some(mut quoted) = rest.strip_prefix(b"\"") {
                loop {
                    let close =
                        quoted.iter().position(|&b| b == b'"').ok_or(TableProblem::Quote)?;
                    self.bytes.extend_from_slice(&quoted[..close]);
                    quoted = &quoted[close + 1..];
                    match quoted.strip_prefix(b"\"") {
                        Some(more) => {
                            self.bytes.push(b'"');
                            quoted = more;
                        }
                        None => break quoted,
                    }
                }
            } else {
                let end = rest.iter().position(|&b| b == separator).unwrap_or(rest.len());
                self.bytes.extend_from_slice(&rest[..end]);
                &rest[end..]
            };
            self.ends.push(self.bytes.len());
            match after {
                [] => return Ok(()),
                [next, after @ ..] if *next == separator => rest = after,
                _ => return Err(TableProblem::Quote),
            }
        }
    }
}

/// A reader of records that counts lines.
pub(super) struct Lines<R> {
    source: BufReader<Take<R>>,
    limit: u64,
    line: u64,
    buffer: Vec<u8>,
    /// `None` until the first line that is not blank.
    separator: Option<Separator>,
    /// True from the header on.
    begun: bool,
}

impl<R: Read> Lines<R> {
    /// Creates a reader. Without a separator the first line decides, see [`CsvDialect`].
    ///
    /// [`CsvDialect`]: super::CsvDialect
    pub(super) fn new(source: R, separator: Option<Separator>, limits: &Limits) -> Self {
        // One byte past the limit distinguishes a file that is too large from one that ends there.
        let source =
            BufReader::with_capacity(1 << 16, source.take(limits.file_bytes.saturating_add(1)));
        Self {
            source,
            limit: limits.file_bytes,
            line: 0,
            buffer: Vec::new(),
            separator,
            begun: false,
        }
    }

    /// Reads the next line that is not blank into `fields` and returns its number, from 1; `None`
    /// at the end of the file.
    ///
    /// An error contains the line number if the problem is on a line.
    pub(super) fn next_record(
        &mut self,
        fields: &mut Fields,
    ) -> Result<Option<u64>, (Option<u64>, TableProblem)> {
        loop {
            self.buffer.clear();
            let mut line = (&mut self.source).take(MAX_LINE_BYTES + 1);
            let read = line
                .read_until(b'\n', &mut self.buffer)
                .map_err(|e| (None, TableProblem::Io(e)))?;
            if self.source.get_ref().limit() == 0 && self.source.buffer().is_empty() {
                let problem =
                    TableProblem::TooLarge { what: "the file's size in bytes", limit: self.limit };
                return Err((None, problem));
            }
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            let first = self.line == 1;
            if read as u64 > MAX_LINE_BYTES {
                // A file without line feeds is one line.
                if first && self.buffer.contains(&b'\r') {
                    return Err((Some(1), TableProblem::CarriageReturns));
                }
                let problem = TableProblem::TooLarge {
                    what: "the length of the line in bytes",
                    limit: MAX_LINE_BYTES,
                };
                return Err((Some(self.line), problem));
            }
            let text = match self.line {
                1 => self.buffer.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&self.buffer),
                _ => &self.buffer,
            };
            if first && [&b"\xff\xfe"[..], b"\xfe\xff"].iter().any(|mark| text.starts_with(mark)) {
                return Err((Some(1), TableProblem::Utf16));
            }
            let text = text.strip_suffix(b"\n").unwrap_or(text);
            // Some programs write `\r\r\n`.
            let end = text.iter().rposition(|byte| *byte != b'\r').map_or(0, |last| last + 1);
            let text = &text[..end];
            // A line of tabs is a record of blank fields where tabs separate.
            let blank = |byte: &u8| match self.separator {
                Some(Separator::Tab) => *byte == b' ',
                _ => byte.is_ascii_whitespace(),
            };
            if text.iter().all(blank) {
                continue;
            }
            if let Some(named) = Separator::of_line(text).filter(|_| first) {
                self.separator = self.separator.or(Some(named));
                continue;
            }
            if !self.begun && text.contains(&b'\r') {
                return Err((Some(self.line), TableProblem::CarriageReturns));
            }
            self.begun = true;
            let separator = *self.separator.get_or_insert_with(|| Separator::of_header(text));
            let split = fields.split(text, separator.byte());
            split.map_err(|problem| (Some(self.line), problem))?;
            return Ok(Some(self.line));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn split(line: &str) -> Result<Vec<String>, String> {
        let mut fields = Fields::default();
        fields.split(line.as_bytes(), b',').map_err(|e| e.to_string())?;
        Ok(fields.iter().map(|f| String::from_utf8(f.to_vec()).unwrap()).collect())
    }

    #[test]
    fn quotes_follow_rfc_4180() {
        assert_eq!(split(r#"a,,"b,""c""""#).unwrap(), ["a", "", "b,\"c\""]);
        assert_eq!(split(r#"5" pipe,"""#).unwrap(), ["5\" pipe", ""]);
        assert_eq!(split("a,").unwrap(), ["a", ""]);
        for bad in
            [r#""a"#, r#"x,"a"b"#, r#""a""#.trim_end_matches('"'), r#"""""#.get(..3).unwrap()]
        {
            assert!(split(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        /// The `csv` crate is the oracle: what it writes is read back.
        #[test]
        fn what_a_csv_writer_writes_is_read(row in proptest::collection::vec("[a-c,\" é]{0,5}", 1..6)) {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(&row).unwrap();
            let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
            prop_assert_eq!(split(text.trim_end_matches('\n')).unwrap(), row);
        }
    }
}
