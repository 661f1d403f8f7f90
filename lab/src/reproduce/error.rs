//! Why a figure could not be computed.

use std::io;
use std::path::PathBuf;

use vfl_active_party::attack::{AttackError, MethodError, PriorError};
use vfl_coordinator::defense::DefenseError;
use vfl_passive_party::transform::TransformError;
use vfl_shared::data::{DataError, DatasetName, VerticalSplitError};
use vfl_shared::metrics::MetricError;
use vfl_shared::model::TrainingConfigError;
use vfl_shared::types::ShapeError;

use super::version::SCHEMA_VERSION;
use crate::kept::{KeptError, StoreError};
use crate::report::ReportError;

/// Why a figure could not be computed, read or written.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// The data set could not be loaded.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The file of weights is not one.
    #[error("model {}: {reason}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: ModelFileError,
    },
    /// A figure that is not of this data set.
    #[error("{figure} is computed on {}, not on {got}", expected.iter().map(|d| d.as_str()).collect::<Vec<_>>().join(", "))]
    Dataset {
        /// The figure.
        figure: &'static str,
        /// What came.
        got: DatasetName,
        /// What it takes.
        expected: &'static [DatasetName],
    },
    /// An attack that the figure does not have.
    #[error("the figure has no attack {name:?}; it has: {known}")]
    NotInFigure {
        /// What came, cut to 80 characters.
        name: String,
        /// What there is.
        known: String,
    },
    /// An option that the figure has no use for.
    #[error("{figure} has no choice of {what}")]
    NoChoice {
        /// The figure.
        figure: &'static str,
        /// Of what.
        what: &'static str,
    },
    /// No attack is left to run.
    #[error("none of the figure's attacks can run: {notes}")]
    NothingToRun {
        /// Why each cannot.
        notes: String,
    },
    /// A setting that the attack does not take.
    #[error(transparent)]
    Method(#[from] MethodError),
    /// Moments that are none.
    #[error(transparent)]
    Prior(#[from] PriorError),
    /// A number of passive features that there cannot be.
    #[error("{got} passive features, expected 1 to {total}, the features of the data set")]
    Dimension {
        /// What came.
        got: usize,
        /// d_t.
        total: usize,
    },
    /// A point that the figure's axis does not have.
    #[error("{what} is {got}, expected {from} to {to} (`--dimensions`)")]
    Point {
        /// What the axis counts.
        what: &'static str,
        /// What came.
        got: usize,
        /// The least.
        from: usize,
        /// The largest.
        to: usize,
    },
    /// The data set does not have the feature that the figure is about.
    #[error("data set {dataset} has no feature {feature}")]
    NoFeature {
        /// The data set.
        dataset: String,
        /// The feature.
        feature: &'static str,
    },
    /// A figure of binary models.
    #[error("the model has {got} classes, this figure is of 2")]
    Classes {
        /// What came.
        got: usize,
    },
    /// Not enough records.
    #[error("{got} records to draw from, expected at least {expected}")]
    TooFewRecords {
        /// What there is.
        got: usize,
        /// What it takes.
        expected: usize,
    },
    /// No test records beside those attacked.
    #[error(
        "{attacked} test records are attacked, which leaves {got} to be known whole, expected at least {expected}: attack fewer \
         (`--records`)"
    )]
    NoneLeft {
        /// Records attacked.
        attacked: usize,
        /// What is left.
        got: usize,
        /// What it takes.
        expected: usize,
    },
    /// An attack failed.
    #[error("{curve} with d = {d} passive features from column {k0}: {error}")]
    Attack {
        /// Its curve.
        curve: String,
        /// Number of passive features.
        d: usize,
        /// First passive column.
        k0: usize,
        /// Why.
        error: AttackError,
    },
    /// A defense could not be applied.
    #[error("{defense}: {error}")]
    Defense {
        /// Its text form.
        defense: String,
        /// Why.
        error: DefenseError,
    },
    /// More than one number of passive features for a figure of one.
    #[error("{figure} is of one number of passive features; name one")]
    OneDimension {
        /// The figure.
        figure: &'static str,
    },
    /// An attack gave something that is no number.
    #[error("{curve} with d = {d} passive features from column {k0} gave an estimate that is not finite")]
    NotFinite {
        /// Its curve.
        curve: String,
        /// Number of passive features.
        d: usize,
        /// First passive column.
        k0: usize,
    },
    /// See [`ShapeError`].
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// See [`MetricError`].
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// See [`VerticalSplitError`].
    #[error(transparent)]
    Split(#[from] VerticalSplitError),
    /// See [`TrainingConfigError`].
    #[error(transparent)]
    Training(#[from] TrainingConfigError),
    /// Parties in this process could not do their work.
    #[error("over the sockets: {0}")]
    Sockets(String),
    /// Parameters could not be transformed.
    #[error("{transform} with d = {d} passive features from column {k0}: {error}")]
    Transform {
        /// The transform.
        transform: String,
        /// Number of passive features.
        d: usize,
        /// First passive column.
        k0: usize,
        /// Why.
        error: TransformError,
    },
    /// A computation that did not come to its end.
    #[error("{what} with d = {d} passive features from column {k0}: {reason}")]
    Failed {
        /// Which.
        what: &'static str,
        /// Number of passive features.
        d: usize,
        /// First passive column.
        k0: usize,
        /// Why.
        reason: String,
    },
    /// Threads could not be started.
    #[error("cannot start threads: {0}")]
    Threads(String),
    /// The JSON is no document of a figure.
    #[error("not a figure of schema version {SCHEMA_VERSION}: {0}")]
    Json(#[from] serde_json::Error),
    /// A document of another version.
    #[error("the figure has schema version {got}, this program reads version {SCHEMA_VERSION}")]
    Version {
        /// The version found.
        got: u64,
    },
    /// The plot could not be drawn.
    #[error(transparent)]
    Plot(#[from] ReportError),
    /// The store of finished work cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl From<KeptError> for ReproduceError {
    fn from(error: KeptError) -> Self {
        match error {
            KeptError::Store(why) => Self::Store(why),
            KeptError::Write { path, source } => Self::Write { path, source },
        }
    }
}

/// What is wrong with a file of weights.
#[derive(Debug, thiserror::Error)]
pub enum ModelFileError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// It does not have the fields `W` (rows of classes) and `b`.
    #[error("is not JSON with `W`, rows of numbers, and `b`: {0}")]
    Json(serde_json::Error),
    /// It is of another size than the data.
    #[error("has {got} {what}, expected {expected}")]
    Size {
        /// Of what.
        what: &'static str,
        /// What the data has.
        expected: usize,
        /// What came.
        got: usize,
    },
    /// Its test rows are none.
    #[error(
        "`test_row_in_file` is empty, or names a row twice, or one that is not among the {records} of the data set"
    )]
    TestRows {
        /// Records of the data set.
        records: usize,
    },
}
