//! The layout of a Parquet file, and the check that the file has not changed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::{FilePosition, Limits, TableError, TableProblem, match_columns};

use super::columns::{Cursor, Leaf, ReadError, is_readable};
use crate::stores::parquet_file::problem_of;
use crate::stores::parquet_footer::{check_footer, check_sizes, format};
use crate::stores::parquet_pages::{PageFile, check_codecs, read_at};

/// The maximum unpacked size of a page. Writers make pages of 1 MiB by default.
const MAX_PAGE_BYTES: usize = 16 << 20;
/// The length of the end of the file that is compared: the footer, or the end of it.
const TAIL_BYTES: u64 = 4096;

/// A file with its row groups and the columns that a schema names.
pub(crate) struct Layout {
    path: PathBuf,
    pages: Arc<PageFile>,
    metadata: ParquetMetaData,
    /// The first row of each group, and the number of rows.
    starts: Vec<u32>,
    /// The columns: the ids first, then in the order of the schema.
    pub(crate) leaves: Vec<Leaf>,
    stamp: Stamp,
}

/// The properties that change if the file does.
#[derive(PartialEq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    tail: Vec<u8>,
}

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        let about = file.metadata()?;
        let bytes = about.len();
        let mut tail = vec![0; bytes.min(TAIL_BYTES) as usize];
        let read = read_at(file, bytes - tail.len() as u64, &mut tail)?;
        tail.truncate(read);
        Ok(Self { bytes, modified: about.modified().ok(), tail })
    }
}

impl Layout {
    /// Opens a file and reads its footer.
    ///
    /// # Errors
    /// [`TableError`] for a file that cannot be read, is no Parquet file, or lacks columns that the
    /// schema names.
    pub(crate) fn open(path: &Path, schema: &FeatureSchema) -> Result<Self, TableError> {
        let fail = |column: Option<&str>, problem| error(path, None, column, problem);
        let io = |e| fail(None, TableProblem::Io(e));
        let file = File::open(path).map_err(io)?;
        let stamp = Stamp::of(&file).map_err(io)?;
        check_footer(&file).map_err(|problem| fail(None, problem))?;
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file);
        let metadata = metadata.map_err(|e| fail(None, problem_of(&e, false)))?;
        check_sizes(&metadata, stamp.bytes).map_err(|problem| fail(None, problem))?;
        check_codecs(&metadata).map_err(|problem| fail(None, problem))?;
        let most = Limits::default().records;
        let mut starts = vec![0u32];
        for group in metadata.row_groups() {
            let rows = usize::try_from(group.num_rows())
                .map_err(|_| fail(None, format("a row group of no size")))?;
            let total = starts.last().map_or(0, |&before| before as usize).saturating_add(rows);
            if total > most {
                let problem =
                    TableProblem::TooLarge { what: "the number of records", limit: most as u64 };
                return Err(fail(None, problem));
            }
            starts.push(total as u32);
        }
        let root = metadata.file_metadata().schema();
        let names: Vec<String> =
            root.get_fields().iter().map(|field| field.name().to_owned()).collect();
        match_columns(schema, &names).map_err(|(column, problem)| fail(Some(&column), problem))?;
        let columns = metadata.file_metadata().schema_descr().columns();
        let mut leaves = Vec::new();
        for wanted in schema.source_columns() {
            let at = columns
                .iter()
                .position(|column| column.path().parts().first() == Some(&wanted.name));
            let kind = at.map(|at| (at, columns[at].clone())).filter(|(_, kind)| is_readable(kind));
            let (at, kind) =
                kind.ok_or_else(|| fail(Some(&wanted.name), TableProblem::NotAValue))?;
            leaves.push(Leaf { name: wanted.name, target: wanted.target, at, kind });
        }
        if metadata.row_groups().iter().any(|group| group.num_columns() != columns.len()) {
            return Err(fail(None, format("a row group has not all columns")));
        }
        let pages = PageFile::new(file, MAX_PAGE_BYTES).map_err(io)?;
        Ok(Self { path: path.to_owned(), pages: Arc::new(pages), metadata, starts, leaves, stamp })
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u32 {
        self.starts.last().copied().unwrap_or_default()
    }

    /// Returns the length of the file in bytes.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.stamp.bytes).unwrap_or(usize::MAX)
    }

    /// Returns the number of row groups.
    pub(crate) fn groups(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the first row of a group, and its number of rows.
    pub(crate) fn group(&self, group: usize) -> (u32, u32) {
        let (from, to) = (self.starts[group], self.starts[group + 1]);
        (from, to - from)
    }

    /// Returns the group of a row of the file, and its position in the group.
    pub(crate) fn place(&self, row: u32) -> (usize, u32) {
        let group = self.starts.partition_point(|&start| start <= row).saturating_sub(1);
        (group, row - self.starts[group])
    }

    /// Opens some of the leaves in a group.
    pub(crate) fn cursor(&self, group: usize, leaves: &[Leaf]) -> Result<Cursor, ReadError> {
        Cursor::open(&self.pages, (group, self.metadata.row_group(group)), leaves)
    }

    /// Returns true if the opened file was modified. A new file renamed to its path does not count:
    /// the old one stays open.
    pub(crate) fn has_changed(&self) -> bool {
        Stamp::of(self.pages.file()).ok().as_ref() != Some(&self.stamp)
    }

    /// Creates an error about this file, at a row from 0.
    pub(crate) fn error(
        &self,
        row: Option<u32>,
        column: Option<&str>,
        problem: TableProblem,
    ) -> TableError {
        error(&self.path, row.map(|row| FilePosition::Row(u64::from(row) + 1)), column, problem)
    }

    /// Converts a failure to read rows of a group into an error about the file.
    pub(crate) fn unread(&self, group: usize, first: u32, unread: ReadError) -> TableError {
        let row = self.starts[group] + first;
        match unread {
            ReadError::File(e) => self.error(Some(row), None, problem_of(&e, true)),
            ReadError::Cut => self.error(
                Some(row),
                None,
                format("a column has fewer values than the file has rows"),
            ),
            ReadError::Value(column, place, problem) => {
                let name = self.leaves.get(column).map(|leaf| leaf.name.as_str());
                self.error(Some(row + place as u32), name, problem)
            }
        }
    }
}

fn error(
    path: &Path,
    place: Option<FilePosition>,
    column: Option<&str>,
    problem: TableProblem,
) -> TableError {
    TableError { file: path.to_owned(), place, column: column.map(str::to_owned), problem }
}
