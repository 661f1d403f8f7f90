//! A whole data set, before it is divided among parties: the lab's view, which no party has.

use std::fmt;
use std::path::PathBuf;

use nalgebra::DMatrix;
use sha2::{Digest, Sha256};

use super::encode::EncodeError;
use super::names::{DatasetName, UnknownDataset};
use super::schema::{FeatureSpec, SchemaError};
use super::split::{Part, Split, SplitError};
use super::synthetic::SyntheticError;
use super::table::AssembleError;
use super::variant::{UnknownVariant, Variant};
use super::vertical::VerticalSplitError;
use crate::hex;
use crate::types::{IdError, RecordIds, ShapeError};

/// Why a data set could not be loaded or divided.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A name that no loader has.
    #[error(transparent)]
    Unknown(#[from] UnknownDataset),
    /// A variant that the set does not have.
    #[error(transparent)]
    Variant(#[from] UnknownVariant),
    /// A public set that is not included was asked for, and no directory given.
    #[error(
        "data set {dataset} does not come with the program: pass --data-dir DIR or set CLOISON_DATA_DIR (scripts/fetch-datasets.sh downloads the public sets)"
    )]
    NoDirectory {
        /// The data set.
        dataset: DatasetName,
    },
    /// A set that is generated, where one with files is needed.
    #[error("data set {dataset} is generated, it has no files")]
    NoFiles {
        /// The data set.
        dataset: DatasetName,
    },
    /// A file that is not there, plain or compressed.
    #[error("data set {dataset}: neither {file} nor {file}.gz is in {}; pass --data-dir DIR or set CLOISON_DATA_DIR, or run scripts/fetch-datasets.sh", .directory.display())]
    MissingFile {
        /// The data set.
        dataset: DatasetName,
        /// The file, relative to the directory.
        file: String,
        /// The directory.
        directory: PathBuf,
    },
    /// A file that cannot be read.
    #[error("data set {dataset}: {} cannot be read: {source}", .file.display())]
    Read {
        /// The data set.
        dataset: DatasetName,
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file whose content is not what the data set's description says.
    #[error("data set {dataset}: {}, line {line}: {reason}", .file.display())]
    Malformed {
        /// The data set.
        dataset: DatasetName,
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// Per-part normalisation of a set without parts.
    #[error("data set {dataset} has no official training and test part to normalise separately; use all rows")]
    NoParts {
        /// The data set.
        dataset: DatasetName,
    },
    /// A file that cannot be written.
    #[error("{} cannot be written: {source}", .file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// See [`EncodeError`].
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// See [`SplitError`].
    #[error(transparent)]
    Split(#[from] SplitError),
    /// See [`SyntheticError`].
    #[error(transparent)]
    Synthetic(#[from] SyntheticError),
    /// See [`VerticalSplitError`].
    #[error(transparent)]
    Vertical(#[from] VerticalSplitError),
    /// The vertical split is of another number of columns.
    #[error("the vertical split divides {got} columns, the data set has {expected}")]
    Columns {
        /// Features of the data set.
        expected: usize,
        /// Columns of the split.
        got: usize,
    },
    /// See [`SchemaError`].
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// See [`IdError`].
    #[error(transparent)]
    Ids(#[from] IdError),
    /// See [`ShapeError`].
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// See [`AssembleError`].
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}

/// A data set with everything in one place: features d × n normalised to [0, 1], labels, ids and a split. The order of
/// the records is that of the source (training part, then test part).
#[derive(Clone, PartialEq)]
pub struct Dataset {
    pub(super) name: String,
    pub(super) variant: Variant,
    pub(super) columns: usize,
    pub(super) ids: RecordIds,
    pub(super) features: Vec<FeatureSpec>,
    pub(super) x: DMatrix<f64>,
    pub(super) labels: Vec<u32>,
    pub(super) class_names: Vec<String>,
    pub(super) parts: Option<Vec<Part>>,
    pub(super) split: Split,
}

impl Dataset {
    /// The name it was asked for by, `satellite` for example.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The variant, which says which columns of the source were taken.
    #[must_use]
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Number of columns of the source that were taken. A column may become several features.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Record ids: the name and the position in the source, `satellite-000123`.
    #[must_use]
    pub fn ids(&self) -> &RecordIds {
        &self.ids
    }

    /// Names, kinds and ranges (in the source's units) of the features, after encoding. Ranges are over all rows, also
    /// where parts were normalised by their own.
    #[must_use]
    pub fn features(&self) -> &[FeatureSpec] {
        &self.features
    }

    /// The features, d × n, one record per column, in [0, 1].
    #[must_use]
    pub fn x(&self) -> &DMatrix<f64> {
        &self.x
    }

    /// The class of each record, from 0.
    #[must_use]
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The classes, in the order that numbers them.
    #[must_use]
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// The official part of each record, where the set has parts.
    #[must_use]
    pub fn parts(&self) -> Option<&[Part]> {
        self.parts.as_deref()
    }

    /// Training, validation and test records.
    #[must_use]
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Number of records n.
    #[must_use]
    pub fn records(&self) -> usize {
        self.ids.len()
    }

    /// SHA-256, in hexadecimal, of everything that was loaded: name, features, classes, ids, labels, parts, split and the
    /// bits of every value. Two runs with one hash worked on the same data.
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
