//! Which data a document is of: the set by name, its variant, and how wide it is.

use std::fmt;

use serde::Serialize;
use vfl_shared::data::Dataset;

/// A data set as documents name it. Papers take different columns of one set: figures are comparable where the variants agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SetFacts {
    /// The data set, as in `--dataset`.
    pub dataset: String,
    /// Which of its columns were taken, as in `--variant`.
    pub variant: String,
    /// How many columns that is.
    pub columns: usize,
    /// Features after encoding, of all parties together.
    pub features: usize,
}

impl SetFacts {
    /// Of a data set that is loaded.
    #[must_use]
    pub fn of(dataset: &Dataset) -> Self {
        Self {
            dataset: dataset.name().to_owned(),
            variant: dataset.variant().to_string(),
            columns: dataset.columns(),
            features: dataset.features().len(),
        }
    }
}

impl fmt::Display for SetFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dataset, variant, columns, features } = self;
        write!(f, "{dataset}, variant {variant}: {columns} columns, {features} features")
    }
}
