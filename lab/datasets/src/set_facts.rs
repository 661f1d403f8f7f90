//! The facts that identify a document's data set: its name, its variant, and its size.

use std::fmt;

use serde::Serialize;

use crate::Dataset;

/// A data set as documents identify it. Papers use different columns of one set, so figures are
/// comparable only if the variants agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SetFacts {
    /// The name of the data set, as in `--dataset`.
    pub dataset: String,
    /// The variant: the selection of columns, as in `--variant`.
    pub variant: String,
    /// The number of those columns.
    pub columns: usize,
    /// The number of features after encoding, of all parties together.
    pub features: usize,
}

impl SetFacts {
    /// Returns the facts about a loaded data set.
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
