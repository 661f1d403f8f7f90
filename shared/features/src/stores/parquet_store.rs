//! Features in a Parquet file that stays on disk.
//!
//! The ids are read once, into an index of 12 bytes per row. A look-up goes through the row groups
//! in order. In a group it reads the columns that the schema names, and in each column the pages
//! that contain a requested row: a page is the smallest unit that can be unpacked. Only the
//! requested rows of a page are converted to features, or whole stretches of rows where that pays;
//! stretches are cached. So neighbouring records are cheap, and a scattered record costs the
//! unpacking of its pages each time.

mod columns;
mod index;
mod layout;
mod rows;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nalgebra::DMatrix;
use tokio::sync::Semaphore;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::table::{Failure, StoreError};
use vfl_core::data::{TableError, TableProblem};
use vfl_core::types::{FeatureBlock, IdError, RecordId, RecordIds, RecordIdsBuilder};

use crate::features::{LookupResult, RemoteStore, StoreFuture};
use crate::stores::parquet_footer::{DAMAGED, contained};
use crate::stores::{DataError, ParquetConfig};
use columns::{Cursor, ReadError};
use index::RowIndex;
use layout::Layout;
use rows::{Rows, StretchCache};

/// The approximate size of a stretch of rows in bytes.
const STRETCH_BYTES: usize = 1 << 20;
/// The minimum and maximum number of rows in a stretch.
const STRETCH_ROWS: (usize, usize) = (64, 8192);
/// A stretch is read whole if at least one in this many of its rows is requested.
const SPARSE: usize = 64;
/// A stretch is also read whole if the look-up touches at most this many stretches.
const FEW: usize = 8;
/// The number of concurrent look-ups, and of open cursors. Each holds a page of every column.
const READERS: usize = 2;
/// The number of ids that are read at once.
const ID_ROWS: u32 = 8192;

/// Features in a Parquet file that stays on disk.
pub struct ParquetStore {
    reading: Arc<ParquetReader>,
    readers: Arc<Semaphore>,
}

struct ParquetReader {
    words: String,
    schema: FeatureSchema,
    layout: Layout,
    index: RowIndex,
    /// The number of rows in a stretch.
    stretch: u32,
    kept: Mutex<StretchCache>,
    cursors: Mutex<Vec<Cursor>>,
}

impl ParquetStore {
    /// Opens a file and reads all of its ids.
    ///
    /// # Errors
    /// [`DataError::Table`] that names the file, and the row and the column where possible; never a
    /// value.
    pub fn open(config: &ParquetConfig, schema: FeatureSchema) -> Result<Self, DataError> {
        let path = &config.file;
        let (layout, index) = contained(path, None, || {
            let layout = Layout::open(path, &schema)?;
            let index = index_of(&layout, schema.id_column())?;
            Ok((layout, index))
        })?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stretch = STRETCH_BYTES / (8 * schema.len() + 32);
        let reading = ParquetReader {
            words: format!("the Parquet file {name:?}"),
            schema,
            layout,
            index,
            stretch: stretch.clamp(STRETCH_ROWS.0, STRETCH_ROWS.1) as u32,
            kept: Mutex::new(StretchCache::new(config.cache_bytes)),
            cursors: Mutex::default(),
        };
        Ok(Self { reading: Arc::new(reading), readers: Arc::new(Semaphore::new(READERS)) })
    }

    /// Runs work that reads the file on a thread that may block.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ParquetReader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reading = self.reading.clone();
        let gone = || self.reading.damaged(DAMAGED);
        let turn = self.readers.clone().acquire_owned().await.map_err(|_| gone())?;
        let done = tokio::task::spawn_blocking(move || {
            // An abandoned look-up ends before the next one begins.
            let _turn = turn;
            reading.unless_changed(work)
        });
        done.await.unwrap_or_else(|_| Err(gone()))
    }
}

const CHANGED: &str = "the file has changed since it was opened; start this party again, and put a new file in its place by renaming it";

/// Reads the ids of a file.
fn index_of(layout: &Layout, id_column: &str) -> Result<RowIndex, TableError> {
    // The footer may declare any number of rows. The index grows if a short file has more of them
    // than bytes.
    let mut index = RowIndex::with_room((layout.rows() as usize).min(layout.bytes()));
    each_id(layout, |row, id| {
        RecordId::new(id).map_err(|e| match e {
            IdError::TooLong { bytes, .. } => IdError::TooLong { position: row as usize, bytes },
            IdError::Empty { .. } => IdError::Empty { position: row as usize },
            IdError::Control { .. } => IdError::Control { position: row as usize },
            other => other,
        })?;
        index.push(id);
        Ok(())
    })?;
    if index.len() == 0 {
        return Err(layout.error(None, None, TableProblem::NoRecord));
    }
    index.sort();
    let mut from = 0;
    // Two ids may have the same hash, though rarely.
    while let Some((row, earlier)) = index.repeated(from) {
        if id_at(layout, row)? == id_at(layout, earlier)? {
            return Err(layout.error(Some(row), Some(id_column), TableProblem::RepeatedId));
        }
        from = row + 1;
    }
    Ok(index)
}

/// Passes all ids to `take`, in the order of the file.
fn each_id(
    layout: &Layout,
    mut take: impl FnMut(u32, &str) -> Result<(), IdError>,
) -> Result<(), TableError> {
    let ids = &layout.leaves[..1];
    for group in 0..layout.groups() {
        let (first, rows) = layout.group(group);
        let mut cursor = layout.cursor(group, ids).map_err(|e| layout.unread(group, 0, e))?;
        for from in (0..rows).step_by(ID_ROWS as usize) {
            let to = (from + ID_ROWS).min(rows);
            let read =
                cursor.read(ids, std::slice::from_ref(&(from..to)), &mut |_, place, cell| {
                    take(first + from + place as u32, &cell?.text()?).map_err(TableProblem::Id)
                });
            cursor = read.map_err(|e| layout.unread(group, from, e))?;
        }
    }
    Ok(())
}

/// Reads the id of a row of the file.
fn id_at(layout: &Layout, row: u32) -> Result<String, TableError> {
    let ((group, place), ids) = (layout.place(row), &layout.leaves[..1]);
    let mut id = String::new();
    let read = layout.cursor(group, ids).and_then(|cursor| {
        cursor.read(ids, std::slice::from_ref(&(place..place + 1)), &mut |_, _, cell| {
            id = cell?.text()?.into_owned();
            Ok(())
        })
    });
    read.map_err(|e| layout.unread(group, place, e))?;
    Ok(id)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ParquetReader {
    fn damaged(&self, reason: &str) -> StoreError {
        StoreError::failed(&self.words, Failure::Malformed, reason)
    }

    /// Runs work between two checks that the file has not changed.
    fn unless_changed<T>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.layout.has_changed() {
            return Err(self.damaged(CHANGED));
        }
        let done = work(self);
        if self.layout.has_changed() {
            locked(&self.kept).clear();
            locked(&self.cursors).clear();
            return Err(self.damaged(CHANGED));
        }
        done
    }

    fn lookup(&self, ids: &RecordIds) -> Result<LookupResult, StoreError> {
        let (n, d) = (ids.len(), self.schema.len());
        let mut come = vec![false; n];
        let (mut values, mut labels) = (vec![0.0; n * d], vec![0; n]);
        // The rows that may belong to the ids, in the order of the file.
        let rows = ids
            .iter()
            .enumerate()
            .flat_map(|(at, id)| self.index.rows(id).map(move |row| (row, at)));
        let mut wanted: Vec<(u32, usize)> = rows.collect();
        wanted.sort_unstable();
        let stretch_of = |row: u32| {
            let (group, place) = self.layout.place(row);
            (group, place / self.stretch)
        };
        let parts: Vec<&[(u32, usize)]> =
            wanted.chunk_by(|a, b| stretch_of(a.0) == stretch_of(b.0)).collect();
        let few = parts.len() <= FEW;
        let mut cursor = None;
        for part in parts {
            let key = stretch_of(part[0].0);
            let (first, rows) = self.layout.group(key.0);
            let from = key.1 * self.stretch;
            let whole = from..(from + self.stretch).min(rows);
            let mut singles: Vec<u32> = part.iter().map(|&(row, _)| row - first).collect();
            singles.dedup();
            let kept = locked(&self.kept).get(key);
            let read = match kept {
                Some(rows) => StretchRows { rows, places: None, from },
                None if few || singles.len() * SPARSE >= whole.len() => {
                    let rows =
                        Arc::new(self.decode(&mut cursor, key.0, std::slice::from_ref(&whole))?);
                    locked(&self.kept).put(key, rows.clone());
                    StretchRows { rows, places: None, from }
                }
                None => {
                    let rows = Arc::new(self.decode(&mut cursor, key.0, &ranges(&singles))?);
                    StretchRows { rows, places: Some(singles), from }
                }
            };
            for &(row, at) in part {
                let place = read.place(row - first);
                // Another id has the same hash.
                if read.rows.id(place) != ids.get(at) {
                    continue;
                }
                let (features, label) =
                    read.rows.row(place, d).map_err(|why| self.bad_value(why))?;
                values[at * d..(at + 1) * d].copy_from_slice(features);
                (labels[at], come[at]) = (label, true);
            }
        }
        if let Some(cursor) = cursor {
            let mut cursors = locked(&self.cursors);
            cursors.truncate(READERS - 1);
            cursors.insert(0, cursor);
        }
        let held: Vec<usize> = (0..n).filter(|&at| come[at]).collect();
        for (to, &at) in held.iter().enumerate() {
            values.copy_within(at * d..(at + 1) * d, to * d);
            labels[to] = labels[at];
        }
        values.truncate(held.len() * d);
        labels.truncate(held.len());
        let block = FeatureBlock::new(DMatrix::from_vec(d, held.len(), values))?;
        Ok(LookupResult { held, block, labels: self.schema.label().map(|_| labels) })
    }

    fn bad_value(&self, why: &str) -> StoreError {
        StoreError::failed(&self.words, Failure::Value, why)
    }

    /// Reads rows of a group, from a cursor that stands before them if there is one.
    fn decode(
        &self,
        cursor: &mut Option<Cursor>,
        group: usize,
        ranges: &[Range<u32>],
    ) -> Result<Rows, StoreError> {
        let first = ranges.first().map_or(0, |range| range.start);
        let here = cursor.take().filter(|cursor| cursor.reaches(group, first));
        let parked = || {
            let mut cursors = locked(&self.cursors);
            let at = cursors.iter().position(|cursor| cursor.reaches(group, first));
            // The least recently used cursor is replaced, so that their number stays bounded.
            let taken = at.map(|at| cursors.remove(at));
            if taken.is_none() {
                cursors.pop();
            }
            taken
        };
        let opened = match here.or_else(parked) {
            Some(cursor) => Ok(cursor),
            None => self.layout.cursor(group, &self.layout.leaves),
        };
        let read = opened
            .and_then(|cursor| Rows::read(cursor, (&self.schema, &self.layout.leaves), ranges));
        match read {
            Ok((rows, at)) => {
                *cursor = Some(at);
                Ok(rows)
            }
            Err(unread) => Err(self.unread(group, first, unread)),
        }
    }

    /// Returns an error without the path and the row: the store's name already names the file.
    fn unread(&self, group: usize, first: u32, unread: ReadError) -> StoreError {
        let error = self.layout.unread(group, first, unread);
        self.damaged(&error.problem.to_string())
    }

    fn ids(&self) -> Result<RecordIds, StoreError> {
        let mut all = RecordIdsBuilder::default();
        let read = each_id(&self.layout, |_, id| {
            all.push(id);
            Ok(())
        });
        read.map_err(|e| self.damaged(&e.problem.to_string()))?;
        all.finish().map_err(|e| self.damaged(&format!("its id column: {e}")))
    }
}

/// The rows that were read: a whole stretch, or some of it.
struct StretchRows {
    rows: Arc<Rows>,
    /// The row numbers in the group; `None` if all rows from `from` on were read.
    places: Option<Vec<u32>>,
    from: u32,
}

impl StretchRows {
    /// Returns the position of a row of the group among those that were read.
    fn place(&self, row: u32) -> usize {
        match &self.places {
            None => (row - self.from) as usize,
            Some(places) => places.binary_search(&row).unwrap_or(usize::MAX),
        }
    }
}

/// Converts increasing rows to ranges.
fn ranges(rows: &[u32]) -> Vec<Range<u32>> {
    let runs = rows.chunk_by(|a, b| a + 1 == *b);
    runs.map(|run| run[0]..run[0] + run.len() as u32).collect()
}

impl RemoteStore for ParquetStore {
    fn words(&self) -> &str {
        &self.reading.words
    }

    fn schema(&self) -> &FeatureSchema {
        &self.reading.schema
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.read(|_| Ok(())))
    }

    fn lookup<'a>(&'a self, ids: &'a RecordIds) -> StoreFuture<'a, LookupResult> {
        let ids = ids.clone();
        Box::pin(self.read(move |reading| reading.lookup(&ids)))
    }

    fn ids(&self) -> StoreFuture<'_, RecordIds> {
        Box::pin(self.read(ParquetReader::ids))
    }
}
