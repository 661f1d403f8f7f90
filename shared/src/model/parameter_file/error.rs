//! The errors of a parameter file.

pub(super) const SCHEMA: u32 = 1;
/// The most bytes of a file: some ten million numbers.
pub(in crate::model) const MAX_BYTES: u64 = 256 << 20;
/// The most classes of a model.
pub(super) const MAX_CLASSES: usize = 65_536;
/// The longest name, in bytes: what a schema takes.
pub(super) const MAX_NAME_BYTES: usize = 256;

/// The errors of a parameter file. They name keys, classes and features, and show no parameter.
#[derive(Debug, thiserror::Error)]
pub enum ParameterFileError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// It is too large.
    #[error("has more than {} MiB, the most that is read", MAX_BYTES >> 20)]
    TooLarge,
    /// It is not JSON of the right keys.
    #[error("{0}")]
    Json(String),
    /// Another format.
    #[error("`schema` is {0}, this program reads schema {SCHEMA}")]
    Schema(u32),
    /// Too few classes, or too many.
    #[error("`class_names` has {0} names; a model has 2 to {MAX_CLASSES} classes (give both of a binary model)")]
    Classes(usize),
    /// A name that cannot be one.
    #[error("`{key}`, name {at}: a name has 1 to {MAX_NAME_BYTES} bytes and no control characters")]
    Name {
        /// The list.
        key: &'static str,
        /// Its place, from 1.
        at: usize,
    },
    /// A name given twice.
    #[error("`{key}` names `{name}` twice; every name stands for one class or feature")]
    Duplicate {
        /// The list.
        key: &'static str,
        /// The name.
        name: String,
    },
    /// Another number of rows than of classes.
    #[error("`weights` has {rows} rows for {classes} `class_names`; give one row of numbers per class")]
    Rows {
        /// Rows there are.
        rows: usize,
        /// Classes there are.
        classes: usize,
    },
    /// A row of another length than there are features.
    #[error(
        "`weights`, row {row} (class `{class}`) has {got} numbers for {expected} `feature_names`; give one number per feature"
    )]
    Row {
        /// From 1.
        row: usize,
        /// Its class.
        class: String,
        /// Numbers there are.
        got: usize,
        /// Features there are.
        expected: usize,
    },
    /// A weight that cannot be one.
    #[error("`weights`, row {row} (class `{class}`), feature `{feature}`: {problem}")]
    Weight {
        /// From 1.
        row: usize,
        /// The row's class.
        class: String,
        /// The column's feature.
        feature: String,
        /// The mistake and its remedy.
        problem: &'static str,
    },
    /// A bias of another length than there are classes.
    #[error("`bias` has {got} numbers for {classes} `class_names`; give one number per class")]
    BiasLength {
        /// Numbers there are.
        got: usize,
        /// Classes there are.
        classes: usize,
    },
    /// A bias that cannot be one.
    #[error("`bias`, number {at} (class `{class}`): {problem}")]
    Bias {
        /// From 1.
        at: usize,
        /// The class.
        class: String,
        /// The mistake and its remedy.
        problem: &'static str,
    },
    /// A sample that is no record of the model.
    #[error("`samples`, number {at}: {problem}")]
    Sample {
        /// From 1.
        at: usize,
        /// The mistake and its remedy.
        problem: &'static str,
    },
    /// Other names than there should be.
    #[error("`{key}` does not name this party's {what}: {difference}")]
    Names {
        /// The list.
        key: &'static str,
        /// Classes or features.
        what: &'static str,
        /// The names that are missing and those that are too many.
        difference: String,
    },
    /// The active party's file without a bias.
    #[error("`bias` is missing: the active party holds the bias of the model, one number per class")]
    NoBias,
    /// A passive party's file with one.
    #[error("`bias` is not for a passive party: add it to the `bias` of the active party's file and leave it out here")]
    BiasOfPassive,
}
