//! The errors of computing, reading and writing figures.

use std::io;
use std::path::PathBuf;

use vfl_attack::{AttackError, MethodError, PriorError};
use vfl_core::metrics::MetricError;
use vfl_core::model::TrainingConfigError;
use vfl_core::types::ShapeError;
use vfl_datasets::{DataError, DatasetName, VerticalSplitError};
use vfl_defense::DefenseError;
use vfl_present::plot::PlotError;
use vfl_present::result_cache::{CacheError, StoreError};
use vfl_transform::TransformError;

use super::version::SCHEMA_VERSION;

/// Errors from computing, reading or writing a figure.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// The data set could not be loaded.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The file of weights is not valid.
    #[error("model {}: {reason}", path.display())]
    Model {
        /// The path of the file.
        path: PathBuf,
        /// The defect of the file.
        reason: ModelFileError,
    },
    /// The figure is not computed on this data set.
    #[error("{figure} is computed on {}, not on {got}", expected.iter().map(|d| d.as_str()).collect::<Vec<_>>().join(", "))]
    Dataset {
        /// The name of the figure.
        figure: &'static str,
        /// The requested data set.
        got: DatasetName,
        /// The data sets of the figure.
        expected: &'static [DatasetName],
    },
    /// The figure does not have this attack.
    #[error("the figure has no attack {name:?}; it has: {known}")]
    NotInFigure {
        /// The requested name, cut to 80 characters.
        name: String,
        /// The names of the figure's attacks.
        known: String,
    },
    /// The figure does not take this option.
    #[error("{figure} has no choice of {what}")]
    NoChoice {
        /// The name of the figure.
        figure: &'static str,
        /// The option that it does not take.
        what: &'static str,
    },
    /// No attack is left to run.
    #[error("none of the figure's attacks can run: {notes}")]
    NothingToRun {
        /// The reason of each attack that cannot run.
        notes: String,
    },
    /// The attack does not take this setting.
    #[error(transparent)]
    Method(#[from] MethodError),
    /// The moments are not valid.
    #[error(transparent)]
    Prior(#[from] PriorError),
    /// The number of passive features is out of range.
    #[error("{got} passive features, expected 1 to {total}, the features of the data set")]
    Dimension {
        /// The requested number.
        got: usize,
        /// The total number of features, d_t.
        total: usize,
    },
    /// The figure's axis does not have this point.
    #[error("{what} is {got}, expected {from} to {to} (`--dimensions`)")]
    Point {
        /// The quantity on the axis.
        what: &'static str,
        /// The requested point.
        got: usize,
        /// The least valid point.
        from: usize,
        /// The largest valid point.
        to: usize,
    },
    /// The data set does not have the feature that the figure is about.
    #[error("data set {dataset} has no feature {feature}")]
    NoFeature {
        /// The name of the data set.
        dataset: String,
        /// The name of the feature.
        feature: &'static str,
    },
    /// The figure is for binary models.
    #[error("the model has {got} classes, this figure is of 2")]
    Classes {
        /// The number of classes of the model.
        got: usize,
    },
    /// There are not enough records.
    #[error("{got} records to draw from, expected at least {expected}")]
    TooFewRecords {
        /// The number of records.
        got: usize,
        /// The number of records that are needed.
        expected: usize,
    },
    /// Too few test records are left besides those attacked.
    #[error(
        "{attacked} test records are attacked, which leaves {got} to be known whole, expected at least {expected}: attack fewer \
         (`--records`)"
    )]
    NoneLeft {
        /// The number of attacked records.
        attacked: usize,
        /// The number of records that are left.
        got: usize,
        /// The number of records that are needed.
        expected: usize,
    },
    /// An attack failed.
    #[error("{curve} with d = {d} passive features from column {k0}: {error}")]
    Attack {
        /// The name of its curve.
        curve: String,
        /// Number of passive features.
        d: usize,
        /// First passive column.
        k0: usize,
        /// The cause of the failure.
        error: AttackError,
    },
    /// A defense could not be applied.
    #[error("{defense}: {error}")]
    Defense {
        /// The text form of the defense.
        defense: String,
        /// The cause of the failure.
        error: DefenseError,
    },
    /// More than one number of passive features was given for a figure of one.
    #[error("{figure} is of one number of passive features; name one")]
    OneDimension {
        /// The name of the figure.
        figure: &'static str,
    },
    /// An attack returned an estimate that is not finite.
    #[error(
        "{curve} with d = {d} passive features from column {k0} gave an estimate that is not finite"
    )]
    NotFinite {
        /// The name of its curve.
        curve: String,
        /// Number of passive features.
        d: usize,
        /// First passive column.
        k0: usize,
    },
    /// A block has a wrong shape or value, see [`ShapeError`].
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A metric cannot be computed, see [`MetricError`].
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// The split of the columns is not valid, see [`VerticalSplitError`].
    #[error(transparent)]
    Split(#[from] VerticalSplitError),
    /// The settings of the training are not valid, see [`TrainingConfigError`].
    #[error(transparent)]
    Training(#[from] TrainingConfigError),
    /// The parties in this process failed.
    #[error("over the sockets: {0}")]
    Sockets(String),
    /// Parameters could not be transformed.
    #[error("{transform} with d = {d} passive features from column {k0}: {error}")]
    Transform {
        /// The text form of the transform.
        transform: String,
        /// Number of passive features.
        d: usize,
        /// First passive column.
        k0: usize,
        /// The cause of the failure.
        error: TransformError,
    },
    /// A computation did not finish.
    #[error("{what} with d = {d} passive features from column {k0}: {reason}")]
    Failed {
        /// The name of the computation.
        what: &'static str,
        /// Number of passive features.
        d: usize,
        /// First passive column.
        k0: usize,
        /// The cause of the failure.
        reason: String,
    },
    /// Threads could not be started.
    #[error("cannot start threads: {0}")]
    Threads(String),
    /// The JSON is not a document of a figure.
    #[error("not a figure of schema version {SCHEMA_VERSION}: {0}")]
    Json(#[from] serde_json::Error),
    /// The document has another schema version.
    #[error("the figure has schema version {got}, this program reads version {SCHEMA_VERSION}")]
    Version {
        /// The version found.
        got: u64,
    },
    /// The plot could not be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The store of finished work cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The cause of the failure.
        source: io::Error,
    },
}

impl From<CacheError> for ReproduceError {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Store(why) => Self::Store(why),
            CacheError::Write { path, source } => Self::Write { path, source },
        }
    }
}

/// Errors from reading a file of weights.
#[derive(Debug, thiserror::Error)]
pub enum ModelFileError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// It does not have the fields `W` (rows of classes) and `b`.
    #[error("is not JSON with `W`, rows of numbers, and `b`: {0}")]
    Json(serde_json::Error),
    /// Its size differs from that of the data.
    #[error("has {got} {what}, expected {expected}")]
    Size {
        /// The quantity that differs.
        what: &'static str,
        /// The number that the data has.
        expected: usize,
        /// The number in the file.
        got: usize,
    },
    /// Its test rows are not valid.
    #[error(
        "`test_row_in_file` is empty, or names a row twice, or one that is not among the {records} of the data set"
    )]
    TestRows {
        /// Records of the data set.
        records: usize,
    },
}
