//! Errors in a party's file, with the place in the file.

use std::fmt;
use std::path::PathBuf;

use crate::data::schema::SchemaError;
use crate::data::table::AssembleError;
use crate::types::IdError;

/// The error for a file that was refused, with the place in it. It contains no value of a record.
#[derive(Debug, thiserror::Error)]
#[error("{}{}{}: {problem}", .file.display(), OptionalSuffix("", .place.as_ref()), OptionalSuffix("column ", .column.as_ref()))]
pub struct TableError {
    /// The path of the file.
    pub file: PathBuf,
    /// The place where the record (or the header) begins.
    pub place: Option<FilePosition>,
    /// The column's name.
    pub column: Option<String>,
    /// The problem and its fix.
    pub problem: TableProblem,
}

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilePosition {
    /// A line of text, from 1.
    Line(u64),
    /// A row of a table, from 1.
    Row(u64),
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(at) => write!(f, "line {at}"),
            Self::Row(at) => write!(f, "row {at}"),
        }
    }
}

/// A suffix such as `, line 7`, or nothing.
struct OptionalSuffix<'a, T>(&'static str, Option<&'a T>);

impl<T: fmt::Display> fmt::Display for OptionalSuffix<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(at) => write!(f, ", {}{at}", self.0),
            None => Ok(()),
        }
    }
}

/// The problem with a file.
#[derive(Debug, thiserror::Error)]
pub enum TableProblem {
    /// The file cannot be opened or read.
    #[error("cannot be read: {0}")]
    Io(#[source] std::io::Error),
    /// The schema file is not a schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The file is not UTF-8 text.
    #[error("not UTF-8; convert the file to UTF-8")]
    NotUtf8,
    /// The file is empty.
    #[error("the file is empty; a header line and at least one record are needed")]
    Empty,
    /// A header without any record.
    #[error("there is no record under the header")]
    NoRecord,
    /// The file is UTF-16, as spreadsheets write "Unicode text".
    #[error("UTF-16 text; save the file as UTF-8")]
    Utf16,
    /// A separator or a decimal mark for a file of another format.
    #[error("no CSV file, and a separator and a decimal mark are of one: leave these options out")]
    NotCsv,
    /// Lines that end with a carriage return alone.
    #[error("the lines end with carriage returns alone; save the file with line feeds")]
    CarriageReturns,
    /// A column without a name.
    #[error(
        "column {0} has no name; do the lines end with a separator, or was an index written too (`index=False` in pandas)?"
    )]
    Unnamed(usize),
    /// The header once more among the records.
    #[error("the header is repeated here; take out this line")]
    RepeatedHeader,
    /// A column that the schema declares and the header lacks.
    #[error("the schema declares this column and the header does not have it")]
    MissingColumn,
    /// A column that the header has and the schema does not declare.
    #[error("the schema does not declare this column; declare it or take it out of the file")]
    UndeclaredColumn,
    /// The same column twice in the header.
    #[error("the header has this column twice")]
    RepeatedColumn,
    /// A line with more or fewer fields than the header.
    #[error(
        "{got} fields where the header has {expected}; the line may be cut off, or have a separator in a field without quotes"
    )]
    FieldCount {
        /// Fields of the header.
        expected: usize,
        /// Fields of the line.
        got: usize,
    },
    /// A quoted field that is not closed on its line, or goes on after its closing quote.
    #[error("a quoted field is not closed on its line, or goes on after its closing quote")]
    Quote,
    /// An id that is empty, too long or holds a control character.
    #[error("{0}")]
    Id(IdError),
    /// An id that an earlier line has.
    #[error("an earlier line has the same record id")]
    RepeatedId,
    /// An empty field.
    #[error(
        "the field is empty; declare what a missing value counts as (`missing` in the schema), or leave the record out"
    )]
    EmptyField,
    /// A missing value (NULL).
    #[error(
        "there is no value (NULL); declare what a missing value counts as (`missing` in the schema), or leave the record out"
    )]
    Missing,
    /// A value that is neither a number nor text: a list, a structure or a time of day.
    #[error("neither a number nor text; columns are numbers, text, dates, or true and false")]
    NotAValue,
    /// A text that stands for a missing value.
    #[error(
        "the text stands for a missing value; declare what such a value counts as (`missing` in the schema), or leave the record out"
    )]
    MissingMark,
    /// A file that is not of its format.
    #[error("not a valid {format} file: {reason}")]
    Format {
        /// The format that the file was read as.
        format: &'static str,
        /// The message of the reader.
        reason: String,
    },
    /// Text that is not a number.
    #[error(
        "not a number (decimal point, no separators between thousands; a CSV file may have decimal commas, if `decimal = \",\"` in [data] or `--decimal ,` says so)"
    )]
    NotANumber,
    /// Text that is not a number with a decimal comma.
    #[error("not a number (decimal comma, as declared, no separators between thousands)")]
    NotACommaNumber,
    /// A value that is not a date.
    #[error("not a date (YYYY-MM-DD, with or without a time behind it)")]
    NotADate,
    /// A date outside its declared range.
    #[error(
        "the date is outside its declared range {min} to {max}; correct the date, or set `clamp = true` (of a feature; a label takes none) to move it to the end; the range itself may change only before a model is trained or imported"
    )]
    DateOutOfRange {
        /// The first declared day.
        min: String,
        /// The last declared day.
        max: String,
    },
    /// NaN, an infinity, or a number past the range of a double.
    #[error("the number is not finite")]
    NotFinite,
    /// A number outside its declared range.
    #[error(
        "the number is outside its declared range {min} to {max}; correct the number, or set `clamp = true` (of a feature; a label takes none) to move it to the end; the range itself may change only before a model is trained or imported"
    )]
    OutOfRange {
        /// The declared minimum.
        min: f64,
        /// The declared maximum.
        max: f64,
    },
    /// A number that is not on the declared grid.
    #[error(
        "the number is not on the grid that the schema declares, a step of {step} from {min}; correct `step`, or leave it out"
    )]
    OffGrid {
        /// The declared minimum.
        min: f64,
        /// The declared distance of neighbouring values.
        step: f64,
    },
    /// A number that is neither of a binary feature's two values.
    #[error("a binary feature is {min} or {max}")]
    NotBinary {
        /// The lower of the two.
        min: f64,
        /// The upper of the two.
        max: f64,
    },
    /// Text that is not a declared category.
    #[error("not one of the {categories} declared categories")]
    UnknownCategory {
        /// The number of declared categories.
        categories: usize,
    },
    /// Text that is not a declared class.
    #[error("not one of the declared classes {}", .classes.join(", "))]
    UnknownClass {
        /// The declared classes.
        classes: Vec<String>,
    },
    /// Something larger than the limits allow.
    #[error("{what} is over the limit of {limit}")]
    TooLarge {
        /// The quantity that is too large.
        what: &'static str,
        /// The limit on that quantity.
        limit: u64,
    },
    /// The parts of the table do not fit together.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}
