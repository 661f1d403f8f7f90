//! The features of one party as its operator keeps them: a CSV file and a schema file.
//!
//! The CSV file is UTF-8 with a header line; [`CsvDialect`](super::CsvDialect) has its separator
//! and its decimal mark. It has one column with the record ids, one per declared feature, the
//! label column if one is declared, in any order, and no other: a file with more columns than its
//! schema declares is more likely the wrong file than a generous one. Fields may be quoted as in
//! RFC 4180, but none spans lines: neither an id nor any declared name may hold
//! a line break, and so a quote left open is found on its own line. Blank lines are skipped. The
//! schema file is TOML:
//!
//! ```toml
//! id = "customer"                 # the column of the record ids
//!
//! [label]                         # active party only
//! column = "outcome"
//! classes = ["no", "yes"]         # numbered from 0 in this order
//!
//! [[features]]
//! name = "age"
//! kind = "numeric"                # numeric, binary, ordinal, categorical, date
//! min = 17                        # the declared public range: becomes [0, 1]
//! max = 98
//! clamp = true                    # move a value outside the range to its end; without it such a file is refused
//! step = 1                        # values lie on this grid, from `min` on; a file with others is refused
//! tolerance = 5                   # audits count an estimate this close as right
//! scale = "log"                   # ln v is normalised; { box_cox = 0.3 }, { yeo_johnson = 0 }, { quantiles = [17, 40, 98] }
//!
//! [[features]]
//! name = "job"
//! kind = "categorical"            # one binary feature per category; "ordinal" numbers them from 0 instead
//! categories = ["clerk", "teacher", "unknown"]
//! ```
//!
//! A `binary` feature is its `min` or its `max` (0 and 1 unless given). A `numeric` or `ordinal`
//! feature of a range of one point becomes 0. A `date` counts in days, its `min` and `max` are
//! dates. A missing value (NULL, blank text, NaN, a mark such as `NA`) is refused unless `missing`
//! says what it counts as, and a text that is no category unless `other` does.

use std::fmt;

use super::index::IdIndex;
use super::schema::FeatureSchema;
use crate::types::{FeatureBlock, RecordIds, ShapeError};

/// A store of a party's features: rows by record id, in any internal order.
pub trait FeatureStore: Send + Sync {
    /// Returns names, kinds and ranges of the features, in the order of the rows of every block.
    fn schema(&self) -> &FeatureSchema;

    /// Returns the number of records.
    fn len(&self) -> usize;

    /// Returns true if there is no record.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the store's own position of a record, for [`FeatureStore::fetch_at`]; `None` if the
    /// record is unknown.
    fn position(&self, id: &str) -> Option<usize>;

    /// Returns the features of the records at these positions, d × n, one record per column in the
    /// order given. A position may be repeated.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] at the first position that is not below [`FeatureStore::len`].
    fn fetch_at(&self, positions: &[usize]) -> Result<FeatureBlock, StoreError>;

    /// Returns the features of the records, d × n, one record per column in the order of `ids`.
    ///
    /// # Errors
    /// [`StoreError::UnknownRecord`] at the first id that the store does not hold.
    fn fetch(&self, ids: &RecordIds) -> Result<FeatureBlock, StoreError> {
        let positions = ids
            .iter()
            .enumerate()
            .map(|(position, id)| self.position(id).ok_or(StoreError::UnknownRecord { position }))
            .collect::<Result<Vec<_>, _>>()?;
        self.fetch_at(&positions)
    }
}

/// Errors from a feature store. They contain neither ids nor values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// An id that the store does not hold.
    #[error("the record at position {position} of the request is unknown")]
    UnknownRecord {
        /// Position in the request, from 0.
        position: usize,
    },
    /// A position past the end of the store.
    #[error(
        "the store has {records} records, and item {item} of the request asks for one past the end"
    )]
    OutOfRange {
        /// The item of the request, from 0.
        item: usize,
        /// The number of records in the store.
        records: usize,
    },
    /// The store holds a value that is not finite.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A remote store did not give what was requested.
    #[error("{store} {failure}: {reason}")]
    Failed {
        /// The description of the store.
        store: String,
        /// The kind of failure.
        failure: Failure,
        /// The reason, without any value or id.
        reason: String,
    },
    /// An operation that needs all records at once, on a store outside memory.
    #[error(
        "{what} takes all records at once, and the features are in {store}; put them in a file named by `csv` or `parquet` in [data]"
    )]
    NotInMemory {
        /// The operation that needs all records.
        what: &'static str,
        /// The description of the store.
        store: String,
    },
}

impl StoreError {
    /// Creates the error for a failure of the described store.
    pub fn failed(store: &str, failure: Failure, reason: impl Into<String>) -> Self {
        Self::Failed { store: store.to_owned(), failure, reason: reason.into() }
    }
}

/// The kind of failure of a remote store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It is down, refuses the connection, or broke it.
    Unreachable,
    /// It did not answer in time.
    TimedOut,
    /// Its answer does not match the request.
    Malformed,
    /// It holds a value that the schema does not allow, or no value.
    Value,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "cannot be reached",
            Self::TimedOut => "did not answer in time",
            Self::Malformed => "gave an answer that cannot be used",
            Self::Value => "holds a value that the schema does not allow",
        })
    }
}

/// Features of one party in memory, with the labels at the active party. Neither `Serialize` nor
/// any conversion to a wire message exists, and `Debug` shows shapes only.
#[derive(Clone, PartialEq)]
pub struct FeatureTable {
    schema: FeatureSchema,
    ids: RecordIds,
    index: IdIndex,
    block: FeatureBlock,
    labels: Option<Vec<u32>>,
}

impl FeatureTable {
    /// Creates a table from normalised values (d × n, one record per column, entries in [0, 1]).
    ///
    /// # Errors
    /// [`AssembleError`] if numbers of features, records or labels differ, if the schema declares a
    /// label and there is none (or the other way round), if a label is not below the number of
    /// classes or a value is outside [0, 1].
    pub fn new(
        schema: FeatureSchema,
        ids: RecordIds,
        block: FeatureBlock,
        labels: Option<Vec<u32>>,
    ) -> Result<Self, AssembleError> {
        let size = |what, expected, got| {
            if expected == got { Ok(()) } else { Err(AssembleError::Size { what, expected, got }) }
        };
        size("features", schema.len(), block.features())?;
        size("records", ids.len(), block.records())?;
        match (schema.label(), &labels) {
            (None, None) => {}
            (Some(spec), Some(labels)) => {
                size("labels", ids.len(), labels.len())?;
                if let Some(record) = labels.iter().position(|&l| l as usize >= spec.classes.len())
                {
                    return Err(AssembleError::Label { record });
                }
            }
            (declared, _) => {
                return Err(AssembleError::LabelColumn { declared: declared.is_some() });
            }
        }
        if let Some(at) = block.matrix().as_slice().iter().position(|v| !(0.0..=1.0).contains(v)) {
            let d = block.features().max(1);
            return Err(AssembleError::Range {
                feature: schema.features()[at % d].name.clone(),
                record: at / d,
            });
        }
        let index = IdIndex::new(&ids);
        Ok(Self { schema, ids, index, block, labels })
    }

    /// Returns the schema of the output of [`FeatureTable::write_csv`]: one number per feature,
    /// range 0 to 1.
    #[must_use]
    pub fn normalised_schema(&self) -> FeatureSchema {
        self.schema.normalised()
    }

    /// Returns the record ids in the order of the block's columns.
    #[must_use]
    pub fn ids(&self) -> &RecordIds {
        &self.ids
    }

    /// Returns the whole block, d × n, for training by position.
    #[must_use]
    pub fn block(&self) -> &FeatureBlock {
        &self.block
    }

    /// Returns the class of each record, from 0, in the order of [`FeatureTable::ids`]; at the
    /// active party only.
    #[must_use]
    pub fn labels(&self) -> Option<&[u32]> {
        self.labels.as_deref()
    }

    /// Finds the records of `asked` that the table holds. Returns their places in `asked` and their
    /// positions in the table, in the order of `asked`.
    #[must_use]
    pub fn positions(&self, asked: &RecordIds) -> (Vec<usize>, Vec<usize>) {
        self.index.positions(&self.ids, asked)
    }
}

impl FeatureStore for FeatureTable {
    fn schema(&self) -> &FeatureSchema {
        &self.schema
    }

    fn len(&self) -> usize {
        self.ids.len()
    }

    fn position(&self, id: &str) -> Option<usize> {
        self.index.position(&self.ids, id)
    }

    fn fetch_at(&self, positions: &[usize]) -> Result<FeatureBlock, StoreError> {
        match positions.iter().position(|position| *position >= self.ids.len()) {
            None => Ok(self.block.select(positions)),
            Some(item) => Err(StoreError::OutOfRange { item, records: self.ids.len() }),
        }
    }
}

/// Shows shapes only: values, ids and labels are private.
impl fmt::Debug for FeatureTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "FeatureTable({} features × {} records, {}, values withheld)",
            self.schema.len(),
            self.ids.len(),
            if self.labels.is_some() { "with labels" } else { "no labels" }
        )
    }
}

/// Errors from assembling a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// Two numbers that must agree do not.
    #[error("{got} {what}, expected {expected}")]
    Size {
        /// The kind of thing that was counted.
        what: &'static str,
        /// The expected number.
        expected: usize,
        /// The actual number.
        got: usize,
    },
    /// A label that no class has.
    #[error("the label of record {record} is not below the number of classes")]
    Label {
        /// The record's position, from 0.
        record: usize,
    },
    /// Labels without a declared label column, or the other way round.
    #[error("the schema {} a label column and the table {}", if *.declared { "declares" } else { "declares no" }, if *.declared { "has no labels" } else { "has labels" })]
    LabelColumn {
        /// True if the schema declares a label column.
        declared: bool,
    },
    /// A value outside [0, 1].
    #[error(
        "feature {feature:?} of record {record} is outside [0, 1]; normalise it by its declared range first"
    )]
    Range {
        /// The feature's name.
        feature: String,
        /// The record's position, from 0.
        record: usize,
    },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use nalgebra::DMatrix;

    use super::*;
    use crate::data::schema::{FeatureSpec, LabelSpec};

    fn table() -> FeatureTable {
        let label = LabelSpec::of_classes("y", vec!["a".into(), "b".into()]);
        let features =
            vec![FeatureSpec::numeric("f", 0.0, 1.0), FeatureSpec::numeric("g", 0.0, 1.0)];
        let schema = FeatureSchema::new(features, Some(label)).unwrap();
        let block = FeatureBlock::new(DMatrix::from_column_slice(
            2,
            3,
            &[0.125, 0.25, 0.5, 0.75, 0.0, 1.0],
        ))
        .unwrap();
        FeatureTable::new(
            schema,
            RecordIds::new(["r7", "r1", "r4"]).unwrap(),
            block,
            Some(vec![0, 1, 1]),
        )
        .unwrap()
    }

    #[test]
    fn rows_come_in_the_order_of_the_ids() {
        let table = table();
        let block = table.fetch(&RecordIds::new(["r4", "r7"]).unwrap()).unwrap();
        assert_eq!(block.matrix().as_slice(), [0.0, 1.0, 0.125, 0.25]);
        assert_eq!(table.position("r1"), Some(1));
        assert_eq!(table.fetch_at(&[1, 1]).unwrap().matrix().as_slice(), [0.5, 0.75, 0.5, 0.75]);
        assert_eq!(table.fetch_at(&[]).unwrap().records(), 0);
    }

    #[test]
    fn unknown_records_are_named_by_position_alone() {
        let error = table().fetch(&RecordIds::new(["r4", "secret-id"]).unwrap()).unwrap_err();
        assert_eq!(error, StoreError::UnknownRecord { position: 1 });
        assert!(!error.to_string().contains("secret"));
        assert_eq!(
            table().fetch_at(&[0, 3]).unwrap_err(),
            StoreError::OutOfRange { item: 1, records: 3 }
        );
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let good = table();
        let rebuild = |ids: &RecordIds, block: DMatrix<f64>, labels: Option<Vec<u32>>| {
            FeatureTable::new(
                good.schema.clone(),
                ids.clone(),
                FeatureBlock::new(block).unwrap(),
                labels,
            )
            .unwrap_err()
        };
        let x = good.block.matrix().clone();
        let size = |what, expected, got| AssembleError::Size { what, expected, got };
        assert_eq!(
            rebuild(&good.ids, x.clone().remove_row(0), Some(vec![0; 3])),
            size("features", 2, 1)
        );
        assert_eq!(
            rebuild(&good.ids.slice(0, 2), x.clone(), Some(vec![0; 2])),
            size("records", 2, 3)
        );
        assert_eq!(rebuild(&good.ids, x.clone(), Some(vec![0; 2])), size("labels", 3, 2));
        assert_eq!(
            rebuild(&good.ids, x.clone(), Some(vec![0, 2, 1])),
            AssembleError::Label { record: 1 }
        );
        assert_eq!(
            rebuild(&good.ids, x.clone(), None),
            AssembleError::LabelColumn { declared: true }
        );
        let range = AssembleError::Range { feature: "g".into(), record: 1 };
        assert_eq!(rebuild(&good.ids, x * 1.5, Some(vec![0; 3])), range);
    }

    #[test]
    fn debug_shows_no_value() {
        let text = format!("{:?}", table());
        assert_eq!(text, "FeatureTable(2 features × 3 records, with labels, values withheld)");
    }

    /// `Probe::<T>::SERIALIZE` is the inherent constant where `T: Serialize`, else the trait's.
    struct Probe<T>(std::marker::PhantomData<T>);
    trait Fallback {
        const SERIALIZE: bool = false;
    }
    impl<T> Fallback for Probe<T> {}
    impl<T: serde::Serialize> Probe<T> {
        const SERIALIZE: bool = true;
    }

    #[test]
    fn features_cannot_be_serialised() {
        const { assert!(Probe::<String>::SERIALIZE) };
        const { assert!(!Probe::<FeatureTable>::SERIALIZE) };
        const { assert!(!Probe::<FeatureBlock>::SERIALIZE) };
    }
}
