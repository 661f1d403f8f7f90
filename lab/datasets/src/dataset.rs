//! Whole data sets, before they are divided among parties. Only the lab has this view.

use std::fmt;
use std::path::PathBuf;

use nalgebra::DMatrix;
use sha2::{Digest, Sha256};
use vfl_core::data::schema::{FeatureSpec, SchemaError};
use vfl_core::data::table::AssembleError;
use vfl_core::hex;
use vfl_core::types::{IdError, RecordIds, ShapeError};

use super::encode::EncodeError;
use super::names::{DatasetName, UnknownDataset};
use super::split::{Part, Split, SplitError};
use super::synthetic::SyntheticError;
use super::variant::{UnknownVariant, Variant};
use super::vertical::{VerticalSplit, VerticalSplitError};

/// Errors from loading or dividing a data set.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A name that no loader has.
    #[error(transparent)]
    Unknown(#[from] UnknownDataset),
    /// A variant that the set does not have.
    #[error(transparent)]
    Variant(#[from] UnknownVariant),
    /// No directory was given for a public set that is not included in the program.
    #[error(
        "data set {dataset} does not come with the program: pass --data-dir DIR or set CLOISON_DATA_DIR (scripts/fetch-datasets.sh downloads the public sets)"
    )]
    NoDirectory {
        /// The data set.
        dataset: DatasetName,
    },
    /// A generated set was named where one with files is needed.
    #[error("data set {dataset} is generated, it has no files")]
    NoFiles {
        /// The data set.
        dataset: DatasetName,
    },
    /// A file that is missing, both plain and compressed.
    #[error("data set {dataset}: neither {file} nor {file}.gz is in {}; pass --data-dir DIR or set CLOISON_DATA_DIR, or run scripts/fetch-datasets.sh", .directory.display())]
    MissingFile {
        /// The data set.
        dataset: DatasetName,
        /// The file, relative to the directory.
        file: String,
        /// The directory that was searched.
        directory: PathBuf,
    },
    /// A file that cannot be read.
    #[error("data set {dataset}: {} cannot be read: {error}", .file.display())]
    Read {
        /// The data set.
        dataset: DatasetName,
        /// The path of the file.
        file: PathBuf,
        /// The I/O error.
        error: std::io::Error,
    },
    /// A file whose content is not what the data set's description says.
    #[error("data set {dataset}: {}, line {line}: {reason}", .file.display())]
    Malformed {
        /// The data set.
        dataset: DatasetName,
        /// The path of the file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem, in words.
        reason: String,
    },
    /// Per-part normalisation of a set without parts.
    #[error(
        "data set {dataset} has no official training and test part to normalise separately; use all rows"
    )]
    NoParts {
        /// The data set.
        dataset: DatasetName,
    },
    /// The active party's table has no labels.
    #[error("the active party's table has no label column: name it with --label")]
    NoLabels,
    /// The label is a number, and the work is about classes.
    #[error(
        "the label is a number, and this is about classes: `cloison try --parameters FILE` takes a model of a number"
    )]
    NumberLabel,
    /// No record id is in the tables of all parties.
    #[error(
        "no record id is in the tables of all parties: is the first column the id in each? Name it with --id"
    )]
    NoCommonRecord,
    /// None of the listed test records is in the tables.
    #[error("none of the ids listed as test records is in the tables of all parties")]
    NoTestRecord,
    /// A file that cannot be written.
    #[error("{} cannot be written: {source}", .file.display())]
    Write {
        /// The path of the file.
        file: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// An error from the encoding.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// An error from the split of the records.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// An error from the generator's parameters.
    #[error(transparent)]
    Synthetic(#[from] SyntheticError),
    /// An error from the vertical split.
    #[error(transparent)]
    Vertical(#[from] VerticalSplitError),
    /// The vertical split divides another number of columns than the data set has.
    #[error("the vertical split divides {got} columns, the data set has {expected}")]
    Columns {
        /// Features of the data set.
        expected: usize,
        /// Columns of the split.
        got: usize,
    },
    /// An error from the schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// An error from the record ids.
    #[error(transparent)]
    Ids(#[from] IdError),
    /// An error from the shape of a block.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The parts of a table do not fit together.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}

/// A data set with everything in one place: features d × n normalised to [0, 1], labels, ids and a
/// split. The order of the records is that of the source (training part, then test part).
#[derive(Clone, PartialEq)]
pub struct Dataset {
    pub(super) name: String,
    pub(super) variant: Variant,
    pub(super) columns: usize,
    pub(super) ids: RecordIds,
    pub(super) features: Vec<FeatureSpec>,
    pub(super) x: DMatrix<f64>,
    pub(super) labels: Vec<u32>,
    pub(super) numbers: Option<(FeatureSpec, Vec<f64>)>,
    pub(super) class_names: Vec<String>,
    pub(super) parts: Option<Vec<Part>>,
    pub(super) split: Split,
    pub(super) owners: Option<VerticalSplit>,
}

impl Dataset {
    /// Returns the name under which the set was requested, for example `satellite`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the variant, which says which columns of the source were taken.
    #[must_use]
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Returns the number of columns of the source that were taken. A column may become several
    /// features.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the record ids: the name and the position in the source, `satellite-000123`.
    #[must_use]
    pub fn ids(&self) -> &RecordIds {
        &self.ids
    }

    /// Returns names, kinds and ranges (in the source's units) of the features, after encoding.
    /// Ranges are over all rows, even if the parts were normalised separately.
    #[must_use]
    pub fn features(&self) -> &[FeatureSpec] {
        &self.features
    }

    /// Returns the features, d × n, one record per column, in [0, 1].
    #[must_use]
    pub fn x(&self) -> &DMatrix<f64> {
        &self.x
    }

    /// Returns true if the label is a number: it has one name in place of classes.
    #[must_use]
    pub fn is_of_numbers(&self) -> bool {
        self.class_names.len() == 1
    }

    /// Returns name and range of a label that is a number, and the number of each record; `None` if
    /// its numbers are not known.
    #[must_use]
    pub fn numbers(&self) -> Option<(&FeatureSpec, &[f64])> {
        self.numbers.as_ref().map(|(label, numbers)| (label, &numbers[..]))
    }

    /// Returns the class of each record, from 0; 0 of a number.
    #[must_use]
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Returns the classes, in the order that numbers them.
    #[must_use]
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// Returns the official part of each record, if the set has parts.
    #[must_use]
    pub fn parts(&self) -> Option<&[Part]> {
        self.parts.as_deref()
    }

    /// Returns the training, validation and test records.
    #[must_use]
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Returns the split of the columns, if the set came in tables of its parties.
    #[must_use]
    pub fn owners(&self) -> Option<&VerticalSplit> {
        self.owners.as_ref()
    }

    /// Returns the number of records n.
    #[must_use]
    pub fn records(&self) -> usize {
        self.ids.len()
    }

    /// Returns the SHA-256, in hexadecimal, of everything that was loaded: name, features, classes,
    /// ids, labels, parts, split and the bits of every value. Two runs with the same hash worked on
    /// the same data.
    #[must_use]
    pub fn data_hash(&self) -> String {
        let mut hash = Sha256::new();
        let mut text = |s: &str| {
            hash.update((s.len() as u64).to_le_bytes());
            hash.update(s.as_bytes());
        };
        text("cloison data 1");
        text(&self.name);
        for class in &self.class_names {
            text(class);
        }
        for f in &self.features {
            text(&f.name);
            text(&f.kind.to_string());
            text(f.group.as_deref().unwrap_or_default());
            text(&format!("{:016x}{:016x}", f.min.to_bits(), f.max.to_bits()));
        }
        for id in self.ids.iter() {
            text(id);
        }
        for numbers in [&self.split.train, &self.split.validation, &self.split.test] {
            hash.update((numbers.len() as u64).to_le_bytes());
            numbers.iter().for_each(|&n| hash.update((n as u64).to_le_bytes()));
        }
        let parts = self.parts.as_deref().unwrap_or_default();
        hash.update((parts.len() as u64).to_le_bytes());
        parts.iter().for_each(|p| hash.update([u8::from(*p == Part::Test)]));
        self.labels.iter().for_each(|l| hash.update(l.to_le_bytes()));
        let numbers = self.numbers.iter().flat_map(|(_, numbers)| numbers);
        numbers.for_each(|v| hash.update(v.to_bits().to_le_bytes()));
        hash.update((self.x.nrows() as u64).to_le_bytes());
        self.x.iter().for_each(|v| hash.update(v.to_bits().to_le_bytes()));
        hex(hash.finalize())
    }
}

/// Shows shapes only.
impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (d, n) = self.x.shape();
        write!(f, "Dataset({}, {d} features × {n} records, values withheld)", self.name)
    }
}
