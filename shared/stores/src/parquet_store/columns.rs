//! Values of some rows of a row group, a column at a time.

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
use vfl_shared::data::{Cell, TableProblem, Target};

use crate::parquet_file::{is_uuid, text_cell, with_cell, with_uuid};
use crate::parquet_pages::PageFile;

/// Values that are taken from a page at once.
const BATCH: usize = 4096;
/// The longest text, in bytes: as in a file that is read into memory.
const MAX_FIELD_BYTES: usize = 1024;

/// A column that the schema names.
pub(crate) struct Leaf {
    /// Its name.
    pub(crate) name: String,
    /// What it is for.
    pub(crate) target: Target,
    /// Its place among the columns of the file.
    pub(crate) at: usize,
    /// Its type.
    pub(crate) kind: ColumnDescPtr,
}

/// Why rows cannot be read.
pub(crate) enum Unread {
    /// The file.
    File(ParquetError),
    /// There are fewer values than rows.
    Cut,
    /// A value: the place of its column, its place among the rows, and what is wrong.
    Value(usize, usize, TableProblem),
}

impl From<ParquetError> for Unread {
    fn from(error: ParquetError) -> Self {
        Self::File(error)
    }
}

/// Takes a value, or what keeps it from being one: the place of its column, and its place among the rows that are read.
pub(crate) type Take<'a> = dyn FnMut(usize, usize, Result<Cell<'_>, TableProblem>) -> Result<(), TableProblem> + 'a;

/// Some columns of a row group, opened, and read up to a row: later rows are had without unpacking the page again.
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
    ) -> Result<Self, Unread> {
        let rows = usize::try_from(of.num_rows()).map_err(|_| Unread::Cut)?;
        let open = |leaf: &Leaf| {
            let reader = SerializedPageReader::new(pages.clone(), of.column(leaf.at), rows, None)?;
            Ok(get_column_reader(leaf.kind.clone(), Box::new(reader)))
        };
        let readers = leaves.iter().map(open).collect::<Result<_, ParquetError>>()?;
        Ok(Self { group, next: 0, readers })
    }

    /// Whether rows of a group from `row` on can be had from here.
    pub(crate) fn reaches(&self, group: usize, row: u32) -> bool {
        self.group == group && self.next <= row
    }

    /// Hands over the values of rows of this group, in ranges that increase, of one column after the other. Gives the cursor back where
    /// all columns stand at the same row.
    pub(crate) fn read(mut self, leaves: &[Leaf], ranges: &[Range<u32>], take: &mut Take<'_>) -> Result<Self, Unread> {
        for (column, (reader, leaf)) in self.readers.iter_mut().zip(leaves).enumerate() {
            let mut each = |place: usize, cell: Result<Cell<'_>, TableProblem>| {
                take(column, place, cell).map_err(|problem| Unread::Value(column, place, problem))
            };
            read_column(reader, &leaf.kind, (self.next, ranges), &mut each)?;
        }
        self.next = ranges.last().map_or(self.next, |last| last.end);
        Ok(self)
    }
}

/// Whether a column holds what a cell can be: numbers, text, true and false, one a row.
pub(crate) fn is_readable(kind: &ColumnDescriptor) -> bool {
    use ConvertedType as C;
    kind.max_rep_level() == 0
        && kind.path().parts().len() == 1
        && match kind.physical_type() {
            Physical::BOOLEAN | Physical::FLOAT | Physical::DOUBLE => true,
            Physical::INT32 => matches!(
                kind.converted_type(),
                C::NONE | C::INT_8 | C::INT_16 | C::INT_32 | C::UINT_8 | C::UINT_16 | C::UINT_32 | C::DECIMAL
            ),
            Physical::INT64 => matches!(kind.converted_type(), C::NONE | C::INT_64 | C::UINT_64 | C::DECIMAL),
            Physical::INT96 => false,
            Physical::BYTE_ARRAY => is_text(kind) || kind.converted_type() == C::DECIMAL,
            Physical::FIXED_LEN_BYTE_ARRAY => matches!(kind.converted_type(), C::NONE | C::DECIMAL),
        }
}

fn is_text(kind: &ColumnDescriptor) -> bool {
    use ConvertedType as C;
    matches!(kind.converted_type(), C::NONE | C::UTF8 | C::ENUM | C::JSON | C::BSON)
}

type Each<'a> = dyn FnMut(usize, Result<Cell<'_>, TableProblem>) -> Result<(), Unread> + 'a;

fn read_column(
    reader: &mut ColumnReader,
    kind: &ColumnDescPtr,
    wanted: (u32, &[Range<u32>]),
    each: &mut Each<'_>,
) -> Result<(), Unread> {
    use ColumnReader as R;
    // What a value is goes by the same code as in a file that is read into memory.
    let mut field = |place: usize, field: Option<Field>| {
        with_cell(&field.unwrap_or(Field::Null), MAX_FIELD_BYTES, |cell| each(place, cell))
    };
    match reader {
        R::BoolColumnReader(reader) => values(reader, wanted, |at, v| field(at, v.map(|&v| Field::Bool(v)))),
        R::Int32ColumnReader(reader) => {
            values(reader, wanted, |at, v| field(at, v.map(|&v| Field::convert_int32(kind, v))))
        }
        R::Int64ColumnReader(reader) => {
            values(reader, wanted, |at, v| field(at, v.map(|&v| Field::convert_int64(kind, v))))
        }
        R::FloatColumnReader(reader) => values(reader, wanted, |at, v| field(at, v.map(|&v| Field::Float(v)))),
        R::DoubleColumnReader(reader) => values(reader, wanted, |at, v| field(at, v.map(|&v| Field::Double(v)))),
        // Text as it is, without a copy.
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
        R::FixedLenByteArrayColumnReader(reader) => values(reader, wanted, |at, v: Option<&FixedLenByteArray>| {
            field(at, v.map(|v| Field::convert_byte_array(kind, v.clone().into())).transpose()?)
        }),
        R::Int96ColumnReader(reader) => values(reader, wanted, |at, _| each(at, Err(TableProblem::NotAValue))),
    }
}

/// Hands over the values of rows in ranges that increase, from a reader that stands before row `at`.
fn values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    (mut at, ranges): (u32, &[Range<u32>]),
    mut each: impl FnMut(usize, Option<&T::T>) -> Result<(), Unread>,
) -> Result<(), Unread> {
    let (mut place, mut levels, mut some) = (0, Vec::new(), Vec::new());
    for range in ranges {
        let over = range.start.saturating_sub(at) as usize;
        if over > 0 && reader.skip_records(over)? != over {
            return Err(Unread::Cut);
        }
        let mut left = range.len();
        while left > 0 {
            levels.clear();
            some.clear();
            let (rows, values, _) = reader.read_records(left.min(BATCH), Some(&mut levels), None, &mut some)?;
            if rows == 0 || rows > left || values != some.len() {
                return Err(Unread::Cut);
            }
            // A column without NULL has no levels.
            let nullable = !levels.is_empty();
            let mut next = some.iter();
            for row in 0..rows {
                let there = !nullable || levels.get(row).is_some_and(|&level| level > 0);
                let value = there.then(|| next.next().ok_or(Unread::Cut)).transpose()?;
                each(place, value)?;
                place += 1;
            }
            left -= rows;
        }
        at = range.end;
    }
    Ok(())
}
