//! The errors of a parameter file.

pub(super) const SCHEMA: u32 = 1;
/// The largest size of a file in bytes: some ten million numbers.
pub(in crate::model) const MAX_BYTES: u64 = 256 << 20;
/// The largest number of classes of a model.
pub(super) const MAX_CLASSES: usize = 65_536;
/// The longest name, in bytes, as in a schema.
pub(super) const MAX_NAME_BYTES: usize = 256;

/// The errors of a parameter file. They name keys, classes and features, and show no parameter.
#[derive(Debug, thiserror::Error)]
pub enum ParameterFileError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// The file is too large.
    #[error("has more than {} MiB, the most that is read", MAX_BYTES >> 20)]
    TooLarge,
    /// The file is not JSON with the right keys.
    #[error("{0}")]
    Json(String),
    /// The file has another format.
    #[error("`schema` is {0}, this program reads schema {SCHEMA}")]
    Schema(u32),
    /// Too few classes, or too many.
    #[error(
        "`class_names` has {0} names; a model has 2 to {MAX_CLASSES} classes (give both of a binary model)"
    )]
    Classes(usize),
    /// Weights of another scale of a feature than its schema declares.
    #[error(
        "feature `{feature}`: the schema has the scale {schema}, and `scales` of the file {file}: `scales` has the scale and the range that the \
         weights were made for, as {{\"{feature}\": {{\"scale\": \"log\", \"min\": 1, \"max\": 1000}}}}"
    )]
    Scale {
        /// The name of the feature.
        feature: String,
        /// The scale that the file names.
        file: String,
        /// The scale of the schema.
        schema: String,
    },
    /// A scale in a file of normalised features.
    #[error(
        "`scales` names `{feature}`, so its weights are not of features that are normalised by their schemas: `split-parameters --raw` and \
         `raw = true` convert them"
    )]
    Normalised {
        /// The name of the feature.
        feature: String,
    },
    /// Other than one output of a model of a number.
    #[error("`class_names` has {0} names; with a `link` of numbers it has one, the label's")]
    Outputs(usize),
    /// A name that is not valid.
    #[error("`{key}`, name {at}: a name has 1 to {MAX_NAME_BYTES} bytes and no control characters")]
    Name {
        /// The key of the list.
        key: &'static str,
        /// The name's place, from 1.
        at: usize,
    },
    /// A name given twice.
    #[error("`{key}` names `{name}` twice; every name stands for one class or feature")]
    Duplicate {
        /// The key of the list.
        key: &'static str,
        /// The repeated name.
        name: String,
    },
    /// Another number of rows than of classes.
    #[error(
        "`weights` has {rows} rows for {classes} `class_names`; give one row of numbers per class"
    )]
    Rows {
        /// The number of rows.
        rows: usize,
        /// The number of classes.
        classes: usize,
    },
    /// A row of another length than there are features.
    #[error(
        "`weights`, row {row} (class `{class}`) has {got} numbers for {expected} `feature_names`; give one number per feature"
    )]
    Row {
        /// The row, from 1.
        row: usize,
        /// The class of the row.
        class: String,
        /// The number of values in the row.
        got: usize,
        /// The number of features.
        expected: usize,
    },
    /// A weight that is not valid.
    #[error("`weights`, row {row} (class `{class}`), feature `{feature}`: {problem}")]
    Weight {
        /// The row, from 1.
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
        /// The number of values.
        got: usize,
        /// The number of classes.
        classes: usize,
    },
    /// A bias that is not valid.
    #[error("`bias`, number {at} (class `{class}`): {problem}")]
    Bias {
        /// The number's place, from 1.
        at: usize,
        /// The class of the number.
        class: String,
        /// The mistake and its remedy.
        problem: &'static str,
    },
    /// A sample that is no record of the model.
    #[error("`samples`, number {at}: {problem}")]
    Sample {
        /// The sample's place, from 1.
        at: usize,
        /// The mistake and its remedy.
        problem: &'static str,
    },
    /// Other names than expected.
    #[error("`{key}` does not name this party's {what}: {difference}")]
    Names {
        /// The key of the list.
        key: &'static str,
        /// Classes or features.
        what: &'static str,
        /// The names that are missing and those that are too many.
        difference: String,
    },
    /// The active party's file without a bias.
    #[error(
        "`bias` is missing: the active party holds the bias of the model, one number per class"
    )]
    NoBias,
    /// A passive party's file with a bias.
    #[error(
        "`bias` is not for a passive party: add it to the `bias` of the active party's file and leave it out here"
    )]
    BiasOfPassive,
}
