//! Errors from the computation of metrics.

use nalgebra::DMatrix;

/// Errors from the computation of metrics.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MetricError {
    /// Two things that are compared differ in size.
    #[error(
        "{what} has {got} {unit}, expected {expected}: only things of one shape can be compared"
    )]
    Size {
        /// The object that does not fit.
        what: &'static str,
        /// The dimension that differs.
        unit: &'static str,
        /// The expected size.
        expected: usize,
        /// The actual size.
        got: usize,
    },
    /// There is nothing to take a mean of.
    #[error("{what} has no {unit}, so that no mean is defined")]
    Empty {
        /// The object that is empty.
        what: &'static str,
        /// The dimension that is empty.
        unit: &'static str,
    },
    /// A tolerance that no distance can be compared with.
    #[error("the tolerance is {got}, expected a number of at least 0")]
    Tolerance {
        /// The tolerance that was given.
        got: f64,
    },
    /// No classifier to classify records with.
    #[error("the records cannot be classified: {reason}")]
    NoClasses {
        /// The reason, and what to do.
        reason: String,
    },
    /// NaN or infinity where values are compared with each other.
    #[error("{what} is not finite in every entry, so that values cannot be compared")]
    NotFinite {
        /// The object that contains such a value.
        what: &'static str,
    },
}

pub(super) fn same(
    what: &'static str,
    unit: &'static str,
    expected: usize,
    got: usize,
) -> Result<(), MetricError> {
    if expected == got { Ok(()) } else { Err(MetricError::Size { what, unit, expected, got }) }
}

/// Returns the shape (d, n) that estimates and truth have in common, if neither is 0.
pub(super) fn comparable(
    estimates: &DMatrix<f64>,
    truth: &DMatrix<f64>,
) -> Result<(usize, usize), MetricError> {
    same("estimates", "features", truth.nrows(), estimates.nrows())?;
    same("estimates", "records", truth.ncols(), estimates.ncols())?;
    not_empty(truth)
}

/// Returns the shape (d, n) of the truth, if neither is 0.
pub(super) fn not_empty(truth: &DMatrix<f64>) -> Result<(usize, usize), MetricError> {
    match truth.shape() {
        (0, _) => Err(MetricError::Empty { what: "the truth", unit: "features" }),
        (_, 0) => Err(MetricError::Empty { what: "the truth", unit: "records" }),
        shape => Ok(shape),
    }
}

pub(super) fn finite(what: &'static str, values: &DMatrix<f64>) -> Result<(), MetricError> {
    if values.iter().all(|v| v.is_finite()) { Ok(()) } else { Err(MetricError::NotFinite { what }) }
}
