//! Why a metric is not defined.

/// Why a metric is not defined.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MetricError {
    /// Two things that are compared differ in size.
    #[error("{what} has {got} {unit}, expected {expected}: only things of one shape can be compared")]
    Size {
        /// What does not fit.
        what: &'static str,
        /// Which dimension.
        unit: &'static str,
        /// What was needed.
        expected: usize,
        /// What came.
        got: usize,
    },
    /// Nothing to take a mean of.
    #[error("{what} has no {unit}, so that no mean is defined")]
    Empty {
        /// What is empty.
        what: &'static str,
        /// Which dimension.
        unit: &'static str,
    },
    /// A tolerance that no distance can be compared with.
    #[error("the tolerance is {got}, expected a number of at least 0")]
    Tolerance {
        /// What came.
        got: f64,
    },
}

pub(super) fn same(what: &'static str, unit: &'static str, expected: usize, got: usize) -> Result<(), MetricError> {
    if expected == got { Ok(()) } else { Err(MetricError::Size { what, unit, expected, got }) }
}
