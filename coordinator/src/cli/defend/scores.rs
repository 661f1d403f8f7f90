//! Score and label files of `defend`. No error shows a value of a file.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Cursor, Read as _};
use std::path::Path;

use csv::ByteRecord;
use nalgebra::DMatrix;
use vfl_core::types::{ConfidenceScores, IdError, RecordIds, ReleasedScores};

/// Largest size of a file, in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Largest distance of a record's sum from 1, for scores written with few digits. Such scores are
/// divided by their sum.
const MAX_SUM_ERROR: f64 = 1e-6;

/// A function that returns the content of a file.
pub(super) type FileReader<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// Reads a file from disk, up to one byte more than is allowed.
pub(super) fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = File::open(path)?;
    if file.metadata().is_ok_and(|m| m.is_dir()) {
        return Err(io::Error::other("it is a directory"));
    }
    file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// A file of scores, read and checked.
pub(super) struct ScoreFile {
    /// The columns' names.
    pub(super) classes: Vec<String>,
    pub(super) ids: RecordIds,
    pub(super) scores: ConfidenceScores,
    /// Records whose scores did not sum to 1 within 1e-9 and were divided by their sum.
    pub(super) rescaled: usize,
}

/// A reader of CSV lines that knows the number of the current line.
struct Lines<'a> {
    path: &'a Path,
    reader: csv::Reader<Cursor<Vec<u8>>>,
    row: ByteRecord,
    line: u64,
}

impl<'a> Lines<'a> {
    fn open(path: &'a Path, read: FileReader<'_>) -> Result<Self, String> {
        let content = read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        if content.len() as u64 > MAX_BYTES {
            return Err(format!("{} is over the limit of 1 GiB; split it", path.display()));
        }
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(Cursor::new(content));
        Ok(Self { path, reader, row: ByteRecord::new(), line: 0 })
    }

    fn error(&self, problem: impl std::fmt::Display) -> String {
        format!("{}, line {}: {problem}", self.path.display(), self.line)
    }

    /// Reads the next line's fields; returns `false` at the end.
    fn next(&mut self) -> Result<bool, String> {
        let more = self.reader.read_byte_record(&mut self.row);
        if let Some(start) = self.row.position() {
            // The reader counts blank lines before a record as part of it.
            let content = self.reader.get_ref().get_ref();
            let rest = content.get(start.byte() as usize..).unwrap_or_default();
            let blank = rest
                .iter()
                .take_while(|b| matches!(b, b'\r' | b'\n'))
                .filter(|b| **b == b'\n')
                .count();
            self.line = start.line() + blank as u64;
        }
        more.map_err(|e| self.error(format!("cannot be read: {e}")))
    }

    fn field(&self, at: usize) -> Result<&str, String> {
        let text = std::str::from_utf8(self.row.get(at).unwrap_or_default())
            .map_err(|_| self.error("not UTF-8; convert the file to UTF-8"))?;
        Ok(text.trim())
    }

    /// Reads the first line, whose first name is `id`, and returns the other names.
    fn header(&mut self, expected: &str) -> Result<Vec<String>, String> {
        if !self.next()? {
            return Err(format!(
                "{} is empty; its first line is `{expected}`",
                self.path.display()
            ));
        }
        let mut names = Vec::with_capacity(self.row.len());
        for at in 0..self.row.len() {
            names.push(self.field(at)?.trim_start_matches('\u{feff}').to_owned());
        }
        if names[0] != "id" {
            return Err(
                self.error(format!("the first column is not `id`; the first line is `{expected}`"))
            );
        }
        Ok(names.split_off(1))
    }

    /// Checks that a line has as many fields as the header.
    fn check_fields(&self, expected: usize) -> Result<(), String> {
        let got = self.row.len();
        if got == expected {
            return Ok(());
        }
        let fix =
            "the line may be cut off, hold an unquoted comma, or open a quote that is not closed";
        Err(self.error(format!("{got} fields where the header has {expected}; {fix}")))
    }
}

/// Collects ids; an error names the line of the bad id.
fn ids_of(lines: &Lines<'_>, ids: &[String], at: &[u64]) -> Result<RecordIds, String> {
    RecordIds::new(ids).map_err(|e| {
        let (position, problem) = match e {
            IdError::Duplicate { position } => {
                (position, "an earlier line has the same id".to_owned())
            }
            IdError::Empty { position } => (position, "the id is empty".to_owned()),
            IdError::TooLong { position, bytes } => {
                (position, format!("the id has {bytes} bytes; ids have 1 to 128"))
            }
            IdError::Control { position } => {
                (position, "the id holds a control character".to_owned())
            }
            IdError::Malformed { reason } => (0, reason.to_owned()),
        };
        let line = at.get(position).copied().unwrap_or_default();
        format!("{}, line {line}: {problem}", lines.path.display())
    })
}

impl ScoreFile {
    /// Reads a file `id,<class>,<class>,…` with a probability vector per line.
    pub(super) fn read(path: &Path, read: FileReader<'_>) -> Result<Self, String> {
        let mut lines = Lines::open(path, read)?;
        let classes = lines.header("id,<class>,<class>,…")?;
        let k = classes.len();
        if k < 2 {
            return Err(lines.error(format!(
                "{k} classes; scores have at least 2 (a binary model has two columns)"
            )));
        }
        let mut seen = HashSet::new();
        if let Some(bad) =
            classes.iter().position(|class| class.is_empty() || !seen.insert(class.as_str()))
        {
            let what = if classes[bad].is_empty() {
                "has no name"
            } else {
                "has the name of an earlier one"
            };
            return Err(lines
                .error(format!("column {} {what}; every class has a name of its own", bad + 2)));
        }
        let (mut ids, mut at, mut values, mut rescaled) = (Vec::new(), Vec::new(), Vec::new(), 0);
        while lines.next()? {
            lines.check_fields(k + 1)?;
            ids.push(lines.field(0)?.to_owned());
            at.push(lines.line);
            let from = values.len();
            for (column, class) in classes.iter().enumerate() {
                let of_class =
                    |problem: &str| lines.error(format!("column `{}`: {problem}", cut(class)));
                let value: f64 = lines.field(column + 1)?.parse().map_err(|_| {
                    of_class("not a number (decimal point, no separators between thousands)")
                })?;
                if !(0.0..=1.0 + MAX_SUM_ERROR).contains(&value) {
                    return Err(of_class(
                        "not a score, which is from 0 to 1; give undefended scores, not logits or percentages",
                    ));
                }
                values.push(value);
            }
            let sum: f64 = values[from..].iter().sum();
            if (sum - 1.0).abs() > MAX_SUM_ERROR {
                return Err(
                    lines.error("the scores do not sum to 1 within 1e-6; write more digits, or divide by the sum")
                );
            }
            if (sum - 1.0).abs() > 1e-9 || values[from..].iter().any(|v| *v > 1.0 + 1e-9) {
                values[from..].iter_mut().for_each(|v| *v /= sum);
                rescaled += 1;
            }
        }
        if ids.is_empty() {
            return Err(format!("{}: there is no record under the header", path.display()));
        }
        let ids = ids_of(&lines, &ids, &at)?;
        let scores = ConfidenceScores::new(DMatrix::from_vec(k, ids.len(), values))
            .map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self { classes, ids, scores, rescaled })
    }
}

/// Returns the first 80 characters of a name.
fn cut(name: &str) -> String {
    name.chars().take(80).collect()
}

/// Reads the labels of `file`'s records from a file `id,label`, in any order; other records' labels
/// are left out.
pub(super) fn read_labels(
    path: &Path,
    read: FileReader<'_>,
    file: &ScoreFile,
) -> Result<Vec<u32>, String> {
    let mut lines = Lines::open(path, read)?;
    let names = lines.header("id,label")?;
    if names.len() != 1 {
        return Err(lines.error("the first line is not `id,label`"));
    }
    let classes: HashMap<&str, u32> =
        (0u32..).zip(&file.classes).map(|(at, name)| (name.as_str(), at)).collect();
    let (mut ids, mut at, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    while lines.next()? {
        lines.check_fields(2)?;
        ids.push(lines.field(0)?.to_owned());
        at.push(lines.line);
        let label = classes.get(lines.field(1)?);
        labels.push(
            *label.ok_or_else(|| {
                lines.error("the label is not the name of a column of the scores")
            })?,
        );
    }
    let ids = ids_of(&lines, &ids, &at)?;
    let labels: HashMap<&str, u32> = ids.iter().zip(labels).collect();
    let missing = || {
        format!("{}: a record of the scores has no label here; every one needs it", path.display())
    };
    file.ids.iter().map(|id| labels.get(id).copied().ok_or_else(missing)).collect()
}

/// Returns the text of a released file: the columns of the scores, in their order.
pub(super) fn write(
    classes: &[String],
    ids: &RecordIds,
    released: &ReleasedScores,
) -> Result<Vec<u8>, csv::Error> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(std::iter::once("id").chain(classes.iter().map(String::as_str)))?;
    let mut row = csv::StringRecord::new();
    for (record, id) in ids.iter().enumerate() {
        row.clear();
        row.push_field(id);
        match released {
            ReleasedScores::Probabilities(m) | ReleasedScores::Numbers(m) => {
                m.column(record).iter().for_each(|v| row.push_field(&decimal(*v)));
            }
            ReleasedScores::Ciphertexts(m) => {
                m.column(record).iter().for_each(|v| row.push_field(&v.to_string()))
            }
            ReleasedScores::Labels { classes, labels } => {
                (0..*classes).for_each(|c| {
                    row.push_field(if c == labels[record] as usize { "1" } else { "0" })
                });
            }
        }
        out.write_record(&row)?;
    }
    out.into_inner().map_err(|e| e.into_error().into())
}

/// Formats a value as the shortest decimal that reads back as the same double; with an exponent
/// where the plain form is long.
fn decimal(value: f64) -> String {
    if value != 0.0 && !(1e-5..1e15).contains(&value.abs()) {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}
