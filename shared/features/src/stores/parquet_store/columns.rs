//! The values of some rows of a row group, read column by column.

use std::ops::Range;
use std::sync::Arc;

use parquet::basic::{ConvertedType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::SerializedPageReader;
use parquet::record::Field;
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};
use vfl_core::data::{Cell, ColumnRole, TableProblem};

use crate::stores::parquet_file::{
    is_nanoseconds, is_uuid, of_nanoseconds, text_cell, with_cell, with_uuid,
};
use crate::stores::parquet_pages::PageFile;

/// The number of values taken from a page at once.
const BATCH: usize = 4096;
/// The maximum length of a text in bytes: the same as in a file that is read into memory.
const MAX_FIELD_BYTES: usize = 1024;

/// A column that the schema names.
pub(crate) struct Leaf {
    /// The name of the column.
    pub(crate) name: String,
    /// The column's role in the schema.
    pub(crate) target: ColumnRole,
    /// The position among the columns of the file.
    pub(crate) at: usize,
    /// The type of the column.
    pub(crate) kind: ColumnDescPtr,
}

/// Errors from reading rows.
pub(crate) enum ReadError {
    /// The file cannot be read.
    File(ParquetError),
    /// There are fewer values than rows.
    Cut,
    /// An invalid value: the position of its column, its position among the rows, and the problem.
    Value(usize, usize, TableProblem),
}

impl From<ParquetError> for ReadError {
    fn from(error: ParquetError) -> Self {
        Self::File(error)
    }
}

/// A callback for a value or its problem, with the position of its column, and its position among
/// the rows that are read.
pub(crate) type Take<'a> =
    dyn FnMut(usize, usize, Result<Cell<'_>, TableProblem>) -> Result<(), TableProblem> + 'a;

/// Open columns of a row group, read up to a row: later rows do not require unpacking the page
/// again.
pub(crate) struct Cursor {
    group: usize,
    next: u32,
    readers: Vec<ColumnReader>,
}

impl Cursor {
    /// Opens columns of a row group before its first row.
    pub(crate) fn open(
        pages: &Arc<PageFile>,
        (group, of): (usize, &RowGroupMetaData),
        leaves: &[Leaf],
    ) -> Result<Self, ReadError> {
        let rows = usize::try_from(of.num_rows()).map_err(|_| ReadError::Cut)?;
        let open = |leaf: &Leaf| {
            let reader = SerializedPageReader::new(pages.clone(), of.column(leaf.at), rows, None)?;
            Ok(get_column_reader(leaf.kind.clone(), Box::new(reader)))
        };
        let readers = leaves.iter().map(open).collect::<Result<_, ParquetError>>()?;
        Ok(Self { group, next: 0, readers })
    }

    /// Returns true if rows of a group from `row` on can be read from here.
    pub(crate) fn reaches(&self, group: usize, row: u32) -> bool {
        self.group == group && self.next <= row
    }

    /// Passes the values of rows of this group, in increasing ranges, to `take`, one column after
    /// the other. Returns the cursor if all columns stand at the same row.
    pub(crate) fn read(
        mut self,
        leaves: &[Leaf],
        ranges: &[Range<u32>],
        take: &mut Take<'_>,
    ) -> Result<Self, ReadError> {
        for (column, (reader, leaf)) in self.readers.iter_mut().zip(leaves).enumerate() {
            let mut each = |place: usize, cell: Result<Cell<'_>, TableProblem>| {
                take(column, place, cell)
                    .map_err(|problem| ReadError::Value(column, place, problem))
            };
            read_column(reader, &leaf.kind, (self.next, ranges), &mut each)?;
        }
        self.next = ranges.last().map_or(self.next, |last| last.end);
        Ok(self)
    }
}

/// Returns true if the values of a column can be cells: numbers, text, dates or Booleans, one per
/// row.
pub(crate) fn is_readable(kind: &ColumnDescriptor) -> bool {
    use ConvertedType as C;
    kind.max_rep_level() == 0
        && kind.path().parts().len() == 1
        && match kind.physical_type() {
            Physical::BOOLEAN | Physical::FLOAT | Physical::DOUBLE => true,
            Physical::INT32 => matches!(
                kind.converted_type(),
                C::NONE
                    | C::INT_8
                    | C::INT_16
                    | C::INT_32
                    | C::UINT_8
                    | C::UINT_16
                    | C::UINT_32
                    | C::DECIMAL
                    | C::DATE
            ),
            Physical::INT64 => matches!(
                kind.converted_type(),
                C::NONE
                    | C::INT_64
                    | C::UINT_64
                    | C::DECIMAL
                    | C::TIMESTAMP_MILLIS
                    | C::TIMESTAMP_MICROS
            ),
            Physical::INT96 => false,
            Physical::BYTE_ARRAY => is_text(kind) || kind.converted_type() == C::DECIMAL,
            Physical::FIXED_LEN_BYTE_ARRAY => matches!(kind.converted_type(), C::NONE | C::DECIMAL),
        }
}

fn is_text(kind: &ColumnDescriptor) -> bool {
    use ConvertedType as C;
    matches!(kind.converted_type(), C::NONE | C::UTF8 | C::ENUM | C::JSON | C::BSON)
}

type Each<'a> = dyn FnMut(usize, Result<Cell<'_>, TableProblem>) -> Result<(), ReadError> + 'a;

fn read_column(
    reader: &mut ColumnReader,
    kind: &ColumnDescPtr,
    wanted: (u32, &[Range<u32>]),
    each: &mut Each<'_>,
) -> Result<(), ReadError> {
    use ColumnReader as R;
    // Values are interpreted by the same code as in a file that is read into memory.
    let mut field = |place: usize, field: Option<Field>| {
        with_cell(&field.unwrap_or(Field::Null), MAX_FIELD_BYTES, |cell| each(place, cell))
    };
    match reader {
        R::BoolColumnReader(reader) => {
            values(reader, wanted, |at, v| field(at, v.map(|&v| Field::Bool(v))))
        }
        R::Int32ColumnReader(reader) => {
            values(reader, wanted, |at, v| field(at, v.map(|&v| Field::convert_int32(kind, v))))
        }
        R::Int64ColumnReader(reader) if is_nanoseconds(kind.self_type().get_basic_info()) => {
            values(reader, wanted, |at, v| field(at, v.map(|&v| of_nanoseconds(v))))
        }
        R::Int64ColumnReader(reader) => {
            values(reader, wanted, |at, v| field(at, v.map(|&v| Field::convert_int64(kind, v))))
        }
        R::FloatColumnReader(reader) => {
            values(reader, wanted, |at, v| field(at, v.map(|&v| Field::Float(v))))
        }
        R::DoubleColumnReader(reader) => {
            values(reader, wanted, |at, v| field(at, v.map(|&v| Field::Double(v))))
        }
        // Text is passed on without a copy.
        R::ByteArrayColumnReader(reader) if is_text(kind) => {
            values(reader, wanted, |at, v: Option<&ByteArray>| match v {
                Some(v) => each(at, text_cell(v.data(), MAX_FIELD_BYTES)),
                None => each(at, Ok(Cell::Missing)),
            })
        }
        R::ByteArrayColumnReader(reader) => values(reader, wanted, |at, v: Option<&ByteArray>| {
            field(at, v.map(|v| Field::convert_byte_array(kind, v.clone())).transpose()?)
        }),
        R::FixedLenByteArrayColumnReader(reader) if is_uuid(kind.self_type().get_basic_info()) => {
            values(reader, wanted, |at, v: Option<&FixedLenByteArray>| match v {
                Some(v) => with_uuid(v.data(), |cell| each(at, cell)),
                None => each(at, Ok(Cell::Missing)),
            })
        }
        R::FixedLenByteArrayColumnReader(reader) => {
            values(reader, wanted, |at, v: Option<&FixedLenByteArray>| {
                field(at, v.map(|v| Field::convert_byte_array(kind, v.clone().into())).transpose()?)
            })
        }
        R::Int96ColumnReader(reader) => {
            values(reader, wanted, |at, _| each(at, Err(TableProblem::NotAValue)))
        }
    }
}

/// Passes the values of rows in increasing ranges to `each`, from a reader that stands before row
/// `at`.
fn values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    (mut at, ranges): (u32, &[Range<u32>]),
    mut each: impl FnMut(usize, Option<&T::T>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let (mut place, mut levels, mut some) = (0, Vec::new(), Vec::new());
    for range in ranges {
        let over = range.start.saturating_sub(at) as usize;
        if over > 0 && reader.skip_records(over)? != over {
            return Err(ReadError::Cut);
        }
        let mut left = range.len();
        while left > 0 {
            levels.clear();
            some.clear();
            let (rows, values, _) =
                reader.read_records(left.min(BATCH), Some(&mut levels), None, &mut some)?;
            if rows == 0 || rows > left || values != some.len() {
                return Err(ReadError::Cut);
            }
            // A column without NULL has no levels.
            let nullable = !levels.is_empty();
            let mut next = some.iter();
            for row in 0..rows {
                let there = !nullable || levels.get(row).is_some_and(|&level| level > 0);
                let value = there.then(|| next.next().ok_or(ReadError::Cut)).transpose()?;
                each(place, value)?;
                place += 1;
            }
            left -= rows;
        }
        at = range.end;
    }
    Ok(())
}
