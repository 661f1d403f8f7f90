//! Access to a party's features: a table in memory, or a remote store that is asked for rows by id.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use nalgebra::DMatrix;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::table::{Failure, FeatureStore, FeatureTable, StoreError};
use vfl_core::data::{Cell, ColumnRole, IdIndex, TableProblem};
use vfl_core::types::{FeatureBlock, RecordIds, RowStatus};
use vfl_protocol::{Refusal, RefusalKind};

/// The largest number of records in one request to a remote store. Longer lists are split.
pub const MAX_LOOKUP_RECORDS: usize = 4096;

/// The answer of a store, as a future.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A store outside this process's memory.
pub trait RemoteStore: Send + Sync {
    /// Returns a description for messages, without a password or an address that only the owner
    /// should know.
    fn words(&self) -> &str;

    /// Returns the features, in the order of the rows of every block.
    fn schema(&self) -> &FeatureSchema;

    /// Checks that the store can be reached and has the columns that the schema names.
    fn check(&self) -> StoreFuture<'_, ()>;

    /// Returns the rows of at most [`MAX_LOOKUP_RECORDS`] records. An id that the store does not
    /// hold is not an error. Any other reason why a record's features cannot be read is an error.
    fn lookup<'a>(&'a self, ids: &'a RecordIds) -> StoreFuture<'a, LookupResult>;

    /// Returns which of at most [`MAX_LOOKUP_RECORDS`] records the store holds, by their positions
    /// in the request, increasing. By default the records are looked up; a store that can do so
    /// answers without reading their values.
    fn held<'a>(&'a self, ids: &'a RecordIds) -> StoreFuture<'a, Vec<usize>> {
        Box::pin(async move { Ok(self.lookup(ids).await?.held) })
    }

    /// Returns all record ids, in an order that does not change as long as the records do not.
    fn ids(&self) -> StoreFuture<'_, RecordIds>;

    /// Returns true if the store can list its ids.
    fn lists(&self) -> bool {
        true
    }
}

/// The source of a party's features.
#[derive(Clone)]
pub enum Features {
    /// A table in memory.
    Memory(Arc<FeatureTable>),
    /// A remote store.
    Remote(Arc<dyn RemoteStore>),
}

/// Shows shapes and names only.
impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(table) => table.fmt(f),
            Self::Remote(store) => {
                write!(f, "Features({} of {})", store.schema().len(), store.words())
            }
        }
    }
}

impl From<FeatureTable> for Features {
    fn from(table: FeatureTable) -> Self {
        Self::Memory(Arc::new(table))
    }
}

impl From<Arc<FeatureTable>> for Features {
    fn from(table: Arc<FeatureTable>) -> Self {
        Self::Memory(table)
    }
}

/// The records of a request that a store holds.
#[derive(Clone, PartialEq)]
pub struct LookupResult {
    /// The positions in the request, increasing.
    pub held: Vec<usize>,
    /// The features, d × n, one record per column in the order of `held`.
    pub block: FeatureBlock,
    /// The classes in the same order, if the schema declares a label.
    pub labels: Option<Vec<u32>>,
}

impl LookupResult {
    /// Returns a status for each of the `asked` records of the request.
    #[must_use]
    pub fn status(&self, asked: usize) -> Vec<RowStatus> {
        RowStatus::of_held(&self.held, asked)
    }
}

impl fmt::Debug for LookupResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Found({} records, values withheld)", self.held.len())
    }
}

impl Features {
    /// Returns names, kinds and ranges of the features, in the order of the rows of every block.
    #[must_use]
    pub fn schema(&self) -> &FeatureSchema {
        match self {
            Self::Memory(table) => table.schema(),
            Self::Remote(store) => store.schema(),
        }
    }

    /// Returns the whole table, if it is in memory.
    #[must_use]
    pub fn memory(&self) -> Option<&Arc<FeatureTable>> {
        match self {
            Self::Memory(table) => Some(table),
            Self::Remote(_) => None,
        }
    }

    /// Returns the whole table. `what` names the operation that needs all records at once.
    ///
    /// # Errors
    /// [`StoreError::NotInMemory`] names the store and the operation.
    pub fn whole(&self, what: &'static str) -> Result<&Arc<FeatureTable>, StoreError> {
        match self {
            Self::Memory(table) => Ok(table),
            Self::Remote(store) => {
                Err(StoreError::NotInMemory { what, store: store.words().to_owned() })
            }
        }
    }

    /// Checks that the store can be reached and has the columns that the schema names.
    ///
    /// # Errors
    /// [`StoreError`] names the store and the problem.
    pub async fn check(&self) -> Result<(), StoreError> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Remote(store) => store.check().await,
        }
    }

    /// Looks records up: which of them are held, and their features in the order of `ids`.
    ///
    /// # Errors
    /// [`StoreError`] if a record's features cannot be read for any reason other than an unknown
    /// id.
    pub async fn lookup(&self, ids: &RecordIds) -> Result<LookupResult, StoreError> {
        match self {
            Self::Memory(table) => in_memory(table, ids),
            Self::Remote(store) if ids.len() <= MAX_LOOKUP_RECORDS => store.lookup(ids).await,
            Self::Remote(store) => {
                let (mut held, mut labels, mut values) = (Vec::new(), Vec::new(), Vec::new());
                for from in (0..ids.len()).step_by(MAX_LOOKUP_RECORDS) {
                    let part = store.lookup(&ids.slice(from, from + MAX_LOOKUP_RECORDS)).await?;
                    held.extend(part.held.into_iter().map(|at| from + at));
                    labels.extend(part.labels.unwrap_or_default());
                    values.extend_from_slice(part.block.matrix().as_slice());
                }
                let block =
                    FeatureBlock::new(DMatrix::from_vec(self.schema().len(), held.len(), values))?;
                Ok(LookupResult { held, block, labels: self.schema().label().map(|_| labels) })
            }
        }
    }

    /// Does the same as [`Features::lookup`], from a thread that may block, such as one of
    /// `spawn_blocking`.
    ///
    /// # Errors
    /// As [`Features::lookup`].
    pub fn lookup_waiting(&self, ids: &RecordIds) -> Result<LookupResult, StoreError> {
        match self {
            Self::Memory(table) => in_memory(table, ids),
            Self::Remote(store) => match tokio::runtime::Handle::try_current() {
                Ok(runtime) => runtime.block_on(self.lookup(ids)),
                Err(_) => Err(StoreError::failed(
                    store.words(),
                    Failure::Unreachable,
                    "there is no runtime",
                )),
            },
        }
    }

    /// Reads the features of records that must all be held, d × n in the order of `ids`.
    ///
    /// # Errors
    /// [`StoreError::UnknownRecord`] at the first id that the store does not hold; otherwise as
    /// [`Features::lookup`].
    pub async fn fetch(&self, ids: &RecordIds) -> Result<FeatureBlock, StoreError> {
        let found = self.lookup(ids).await?;
        match (0..ids.len()).find(|&at| found.held.get(at) != Some(&at)) {
            None => Ok(found.block),
            Some(position) => Err(StoreError::UnknownRecord { position }),
        }
    }

    /// Returns the number of records that the store does not hold. For a remote store, every value
    /// of the others is read and checked, and none is kept.
    ///
    /// # Errors
    /// As [`Features::lookup`].
    pub async fn missing(&self, ids: &RecordIds) -> Result<usize, StoreError> {
        match self {
            Self::Memory(table) => Ok(ids.iter().filter(|id| table.position(id).is_none()).count()),
            Self::Remote(_) => self.labels(ids).await.map(|(missing, _)| missing),
        }
    }

    /// Returns the number of records that the store does not hold, and the classes of the others in
    /// their order; no classes without a label column.
    ///
    /// # Errors
    /// As [`Features::lookup`].
    pub async fn labels(&self, ids: &RecordIds) -> Result<(usize, Vec<u32>), StoreError> {
        match self {
            Self::Memory(table) => {
                let positions: Vec<usize> =
                    ids.iter().filter_map(|id| table.position(id)).collect();
                let labels = table.labels().map(|all| positions.iter().map(|&p| all[p]).collect());
                Ok((ids.len() - positions.len(), labels.unwrap_or_default()))
            }
            Self::Remote(store) => {
                let (mut missing, mut labels) = (0, Vec::new());
                for from in (0..ids.len()).step_by(MAX_LOOKUP_RECORDS) {
                    let part = ids.slice(from, from + MAX_LOOKUP_RECORDS);
                    let found = store.lookup(&part).await?;
                    missing += part.len() - found.held.len();
                    labels.extend(found.labels.unwrap_or_default());
                }
                Ok((missing, labels))
            }
        }
    }

    /// Returns those of the records that the store holds, in their order. Most stores read no
    /// values for this.
    ///
    /// # Errors
    /// As [`Features::lookup`].
    pub async fn held(&self, ids: &RecordIds) -> Result<RecordIds, StoreError> {
        let held: Vec<usize> = match self {
            Self::Memory(table) => ids
                .iter()
                .enumerate()
                .filter(|(_, id)| table.position(id).is_some())
                .map(|(at, _)| at)
                .collect(),
            Self::Remote(store) => {
                let mut held = Vec::new();
                for from in (0..ids.len()).step_by(MAX_LOOKUP_RECORDS) {
                    let part = store.held(&ids.slice(from, from + MAX_LOOKUP_RECORDS)).await?;
                    held.extend(part.into_iter().map(|at| from + at));
                }
                held
            }
        };
        Ok(ids.select(&held))
    }

    /// Returns true if the store can list all record ids.
    #[must_use]
    pub fn lists(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Remote(store) => store.lists(),
        }
    }

    /// Returns all record ids.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot list them.
    pub async fn ids(&self) -> Result<RecordIds, StoreError> {
        match self {
            Self::Memory(table) => Ok(table.ids().clone()),
            Self::Remote(store) => store.ids().await,
        }
    }
}

fn in_memory(table: &FeatureTable, ids: &RecordIds) -> Result<LookupResult, StoreError> {
    let (held, positions) = table.positions(ids);
    let labels = table.labels().map(|all| positions.iter().map(|&p| all[p]).collect());
    Ok(LookupResult { held, block: table.fetch_at(&positions)?, labels })
}

/// The ids of one request that a store reports as held, in any order.
pub struct ReportedIds<'a> {
    store: &'a str,
    ids: &'a RecordIds,
    index: IdIndex,
    come: Vec<bool>,
}

impl<'a> ReportedIds<'a> {
    /// Starts without any reported id. `store` describes the store in errors, and `ids` are the
    /// request's.
    #[must_use]
    pub fn new(store: &'a str, ids: &'a RecordIds) -> Self {
        Self { store, ids, index: IdIndex::new(ids), come: vec![false; ids.len()] }
    }

    /// Takes a reported id and returns its position in the request, or `None` if it was not
    /// requested.
    ///
    /// # Errors
    /// [`StoreError::Failed`] for an id that was already reported: a store has one row per record.
    pub fn take(&mut self, id: &str) -> Result<Option<usize>, StoreError> {
        let Some(at) = self.index.position(self.ids, id) else { return Ok(None) };
        if std::mem::replace(&mut self.come[at], true) {
            let reason = "it holds more than one row of a record; make the id column unique";
            return Err(StoreError::failed(self.store, Failure::Malformed, reason));
        }
        Ok(Some(at))
    }

    /// Returns the positions of the reported ids, increasing.
    #[must_use]
    pub fn held(&self) -> Vec<usize> {
        (0..self.come.len()).filter(|&at| self.come[at]).collect()
    }
}

/// The rows of one request, which arrive in any order.
pub struct RowCollector<'a> {
    schema: &'a FeatureSchema,
    roll: ReportedIds<'a>,
    values: Vec<f64>,
    labels: Vec<u32>,
}

impl<'a> RowCollector<'a> {
    /// Starts without any row. `store` describes the store in errors, and `ids` are the request's.
    #[must_use]
    pub fn new(store: &'a str, schema: &'a FeatureSchema, ids: &'a RecordIds) -> Self {
        let n = ids.len();
        Self {
            schema,
            roll: ReportedIds::new(store, ids),
            values: vec![0.0; n * schema.len()],
            labels: vec![0; n],
        }
    }

    /// Begins the row of an id and returns its position in the request, or `None` if it was not
    /// requested.
    ///
    /// # Errors
    /// [`StoreError::Failed`] for an id that was already reported: a store has one row per record.
    pub fn begin(&mut self, id: &str) -> Result<Option<usize>, StoreError> {
        self.roll.take(id)
    }

    /// Reads a value into the row of the record at position `at` of the request.
    ///
    /// # Errors
    /// [`StoreError::Failed`] names the column, never the value.
    pub fn take(
        &mut self,
        at: usize,
        name: &str,
        target: ColumnRole,
        cell: Cell<'_>,
    ) -> Result<(), StoreError> {
        let d = self.schema.len();
        let read = match target {
            ColumnRole::Id => Ok(()),
            ColumnRole::Label => self.schema.read_label(cell).map(|label| self.labels[at] = label),
            ColumnRole::Column(column) => {
                self.schema.read_feature(column, cell, &mut self.values[at * d..(at + 1) * d])
            }
        };
        read.map_err(|problem| self.bad(name, &problem))
    }

    fn bad(&self, name: &str, problem: &TableProblem) -> StoreError {
        StoreError::failed(self.roll.store, Failure::Value, format!("column {name}: {problem}"))
    }

    /// Returns the rows that arrived, in the order of the request.
    ///
    /// # Errors
    /// [`StoreError::Shape`], which the checks of the single values rule out.
    pub fn finish(mut self) -> Result<LookupResult, StoreError> {
        let d = self.schema.len();
        let held = self.roll.held();
        for (to, &from) in held.iter().enumerate() {
            self.values.copy_within(from * d..(from + 1) * d, to * d);
            self.labels[to] = self.labels[from];
        }
        self.values.truncate(held.len() * d);
        self.labels.truncate(held.len());
        let block = FeatureBlock::new(DMatrix::from_vec(d, held.len(), self.values))?;
        Ok(LookupResult { held, block, labels: self.schema.label().map(|_| self.labels) })
    }
}

/// Returns the refusal for the party's own owner, who may know which column is affected.
#[must_use]
pub fn refusal(error: &StoreError) -> Refusal {
    Refusal::new(kind(error), error.to_string())
}

/// Logs the error and returns the refusal for another party, which only refers to the log. No value
/// is named. `who` is the holder of the features.
#[must_use]
pub fn refusal_for_others(error: &StoreError, who: &str) -> Refusal {
    tracing::error!(%error, "features cannot be read");
    match kind(error) {
        RefusalKind::Unavailable => Refusal::unavailable(format!(
            "the feature store of {who} does not answer; its log says why"
        )),
        kind => Refusal::new(
            kind,
            format!("{who} cannot read the features of the records; its log says why"),
        ),
    }
}

fn kind(error: &StoreError) -> RefusalKind {
    match error {
        StoreError::Failed { failure: Failure::Unreachable | Failure::TimedOut, .. } => {
            RefusalKind::Unavailable
        }
        StoreError::NotInMemory { .. } => RefusalKind::FailedPrecondition,
        _ => RefusalKind::Internal,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SCHEMA: &str =
        "id = \"id\"\n[[features]]\nname = \"f\"\nkind = \"numeric\"\nmin = 0\nmax = 2\n";

    #[test]
    fn rows_are_put_in_the_order_of_the_request() {
        let schema = FeatureSchema::from_toml(SCHEMA).unwrap();
        let ids = RecordIds::new(["a", "b", "c"]).unwrap();
        let mut gather = RowCollector::new("the store", &schema, &ids);
        for (id, value) in [("c", 2.0), ("x", 1.0), ("a", 1.0)] {
            if let Some(at) = gather.begin(id).unwrap() {
                gather.take(at, "f", ColumnRole::Column(0), Cell::Real(value)).unwrap();
            }
        }
        assert!(gather.begin("c").unwrap_err().to_string().contains("more than one row"));
        let error = gather.take(0, "f", ColumnRole::Column(0), Cell::Real(2.5)).unwrap_err();
        assert_eq!(refusal(&error).kind, RefusalKind::Internal);
        assert!(
            error.to_string().contains("column f") && !error.to_string().contains("2.5"),
            "{error}"
        );
        let found = gather.finish().unwrap();
        assert_eq!(
            (found.held.as_slice(), found.block.matrix().as_slice()),
            (&[0, 2][..], &[0.5, 1.0][..])
        );
        assert_eq!(found.status(3), [RowStatus::Ok, RowStatus::NotFound, RowStatus::Ok]);
    }
}
