//! A reader of the rows of a Parquet file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{LogicalType, TimeUnit};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::types::{BasicTypeInfo, Type};
use vfl_core::data::{
    Cell, FilePosition, Limits, RawRows, TableError, TableProblem, TakeCell, date_text,
};
use vfl_core::hex;

use crate::stores::parquet_footer::{check_footer, check_sizes, contained};
use crate::stores::parquet_pages::{PageFile, check_codecs, page_error};

/// The maximum unpacked size of a page in a file that is read into memory.
const MAX_PAGE_BYTES: usize = 256 << 20;

/// The rows of a Parquet file, in order.
pub struct ParquetRows {
    file: PathBuf,
    names: Vec<String>,
    /// True for each column that holds UUIDs.
    uuids: Vec<bool>,
    /// True for a column of times in nanoseconds.
    nanoseconds: Vec<bool>,
    rows: RowIter<'static>,
    row: u64,
    field_bytes: usize,
}

/// Describes an error of the reader. Its own message may quote the file: it is not used `inside`
/// the file, where the values are.
pub(crate) fn problem_of(error: &ParquetError, inside: bool) -> TableProblem {
    let reason = match (error, page_error(error)) {
        (_, Some(reason)) => reason,
        (ParquetError::NYI(what), _) => format!("not supported: {what}"),
        (ParquetError::EOF(_), _) => "the file is cut off".into(),
        // Only these errors of the reader are about the file as a whole.
        _ if !inside => error.to_string(),
        _ => "the file is damaged here".into(),
    };
    TableProblem::Format { format: "Parquet", reason }
}

fn wrong(file: &Path, place: Option<FilePosition>, error: &ParquetError) -> TableError {
    TableError {
        file: file.to_owned(),
        place,
        column: None,
        problem: problem_of(error, place.is_some()),
    }
}

impl ParquetRows {
    /// Opens a file with its `wanted` columns, or all of them.
    ///
    /// # Errors
    /// [`TableError`] for a file that cannot be read, is too large, or is no Parquet file.
    pub fn open(
        path: &Path,
        wanted: Option<&[String]>,
        limits: &Limits,
    ) -> Result<Self, TableError> {
        contained(path, None, || Self::opened(path, wanted, limits))
    }

    fn opened(path: &Path, wanted: Option<&[String]>, limits: &Limits) -> Result<Self, TableError> {
        let fail =
            |problem| TableError { file: path.to_owned(), place: None, column: None, problem };
        let io = |e| fail(TableProblem::Io(e));
        let file = File::open(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        if bytes > limits.file_bytes {
            return Err(fail(TableProblem::TooLarge {
                what: "the file's size in bytes",
                limit: limits.file_bytes,
            }));
        }
        let wrong = |e: &ParquetError| wrong(path, None, e);
        check_footer(&file).map_err(fail)?;
        let pages = PageFile::new(file, MAX_PAGE_BYTES).map_err(io)?;
        let reader = SerializedFileReader::new(pages).map_err(|e| wrong(&e))?;
        check_sizes(reader.metadata(), bytes).map_err(fail)?;
        check_codecs(reader.metadata()).map_err(fail)?;
        let schema = reader.metadata().file_metadata().schema().clone();
        let is_wanted = |field: &&Arc<Type>| {
            wanted.is_none_or(|wanted| wanted.iter().any(|name| name == field.name()))
        };
        let fields: Vec<Arc<Type>> =
            schema.get_fields().iter().filter(is_wanted).cloned().collect();
        let names = fields.iter().map(|field| field.name().to_owned()).collect();
        let uuids = fields.iter().map(|field| is_uuid(field.get_basic_info())).collect();
        let nanoseconds =
            fields.iter().map(|field| is_nanoseconds(field.get_basic_info())).collect();
        let projection = Type::group_type_builder(schema.name())
            .with_fields(fields)
            .build()
            .map_err(|e| wrong(&e))?;
        let rows = RowIter::from_file_into(Box::new(reader))
            .project(Some(projection))
            .map_err(|e| wrong(&e))?;
        Ok(Self {
            file: path.to_owned(),
            names,
            uuids,
            nanoseconds,
            rows,
            row: 0,
            field_bytes: limits.field_bytes,
        })
    }
}

impl RawRows for ParquetRows {
    fn file(&self) -> &Path {
        &self.file
    }

    fn names(&self) -> &[String] {
        &self.names
    }

    fn next_row(&mut self, take: &mut TakeCell<'_>) -> Result<Option<FilePosition>, TableError> {
        // Without a column the reader would return rows without end.
        if self.names.is_empty() {
            return Ok(None);
        }
        let place = FilePosition::Row(self.row + 1);
        let Self { file, rows, .. } = self;
        let next = contained(file, Some(place), || {
            rows.next().transpose().map_err(|e| wrong(file, Some(place), &e))
        });
        let Some(row) = next? else { return Ok(None) };
        self.row += 1;
        for (at, (name, field)) in row.get_column_iter().enumerate() {
            let taken = match field {
                Field::Bytes(bytes) if self.uuids[at] => {
                    with_uuid(bytes.data(), |cell| take(at, cell?))
                }
                Field::Long(value) if self.nanoseconds[at] => {
                    with_cell(&of_nanoseconds(*value), self.field_bytes, |cell| take(at, cell?))
                }
                _ => with_cell(field, self.field_bytes, |cell| take(at, cell?)),
            };
            taken.map_err(|problem| TableError {
                file: self.file.clone(),
                place: Some(place),
                column: Some(name.clone()),
                problem,
            })?;
        }
        Ok(Some(place))
    }
}

/// Passes a value, or the reason why there is none, to `take`.
pub(crate) fn with_cell<R>(
    field: &Field,
    field_bytes: usize,
    take: impl FnOnce(Result<Cell<'_>, TableProblem>) -> R,
) -> R {
    let (decimal, date);
    take(match field {
        Field::Str(value) => text_cell(value.as_bytes(), field_bytes),
        Field::Bytes(value) => text_cell(value.data(), field_bytes),
        Field::Decimal(_) => {
            decimal = shortest(&field.to_string());
            text_cell(decimal.as_bytes(), field_bytes)
        }
        Field::Date(_) | Field::TimestampMillis(_) | Field::TimestampMicros(_) => {
            date = day_of(field).and_then(date_text).unwrap_or_default();
            match date.is_empty() {
                true => Err(TableProblem::NotADate),
                false => Ok(Cell::Text(&date)),
            }
        }
        Field::Null => Ok(Cell::Missing),
        Field::Bool(value) => Ok(Cell::Bool(*value)),
        Field::Byte(value) => Ok(Cell::Integer((*value).into())),
        Field::Short(value) => Ok(Cell::Integer((*value).into())),
        Field::Int(value) => Ok(Cell::Integer((*value).into())),
        Field::Long(value) => Ok(Cell::Integer(*value)),
        Field::UByte(value) => Ok(Cell::Integer((*value).into())),
        Field::UShort(value) => Ok(Cell::Integer((*value).into())),
        Field::UInt(value) => Ok(Cell::Integer((*value).into())),
        Field::ULong(value) => match i64::try_from(*value) {
            Ok(value) => Ok(Cell::Integer(value)),
            // A double would lose digits.
            Err(_) => {
                decimal = value.to_string();
                text_cell(decimal.as_bytes(), field_bytes)
            }
        },
        Field::Float16(value) => Ok(Cell::Real(f64::from(*value))),
        Field::Float(value) => Ok(Cell::Real((*value).into())),
        Field::Double(value) => Ok(Cell::Real(*value)),
        _ => Err(TableProblem::NotAValue),
    })
}

/// Returns the day of a date, or of a time in UTC, in days since 1970-01-01.
fn day_of(field: &Field) -> Option<i32> {
    const DAY_MS: i64 = 86_400_000;
    let day = match *field {
        Field::Date(day) => i64::from(day),
        Field::TimestampMillis(at) => at.div_euclid(DAY_MS),
        Field::TimestampMicros(at) => at.div_euclid(1000 * DAY_MS),
        _ => return None,
    };
    i32::try_from(day).ok()
}

/// Returns a decimal number in its shortest form, as other numbers are written: `1001` for `1001.`,
/// `0.5` for `.50`.
fn shortest(decimal: &str) -> String {
    let (sign, digits) = decimal.strip_prefix('-').map_or(("", decimal), |digits| ("-", digits));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
    match (whole, part) {
        ("", "") => "0".into(),
        ("", part) => format!("{sign}0.{part}"),
        (whole, "") => format!("{sign}{whole}"),
        (whole, part) => format!("{sign}{whole}.{part}"),
    }
}

/// Returns true if a column holds UUIDs, which are 16 bytes and no text.
pub(crate) fn is_uuid(kind: &BasicTypeInfo) -> bool {
    matches!(kind.logical_type_ref(), Some(LogicalType::Uuid))
}

/// Returns true if a column holds times in nanoseconds, which the reader takes for numbers.
pub(crate) fn is_nanoseconds(kind: &BasicTypeInfo) -> bool {
    let Some(LogicalType::Timestamp(kind)) = kind.logical_type_ref() else { return false };
    kind.unit == TimeUnit::NANOS
}

/// Returns a time in nanoseconds as a field of times.
pub(crate) fn of_nanoseconds(value: i64) -> Field {
    Field::TimestampMicros(value.div_euclid(1000))
}

/// Passes a UUID in its usual form to `take`.
pub(crate) fn with_uuid<R>(
    bytes: &[u8],
    take: impl FnOnce(Result<Cell<'_>, TableProblem>) -> R,
) -> R {
    if bytes.len() != 16 {
        return take(Err(TableProblem::NotAValue));
    }
    let digits = hex(bytes);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    take(Ok(Cell::Text(&parts.join("-"))))
}

/// Returns text of at most so many bytes.
pub(crate) fn text_cell(text: &[u8], field_bytes: usize) -> Result<Cell<'_>, TableProblem> {
    if text.len() > field_bytes {
        return Err(TableProblem::TooLarge {
            what: "the length of a field in bytes",
            limit: field_bytes as u64,
        });
    }
    std::str::from_utf8(text).map(Cell::Text).map_err(|_| TableProblem::NotUtf8)
}
