//! The errors of setting up a Gaussian.

use crate::pseudo_inverse::DecompositionError;

/// Errors from setting up a Gaussian.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GaussianError {
    /// A matrix holds values that are not finite, or cannot be decomposed.
    #[error(transparent)]
    Decomposition(#[from] DecompositionError),
    /// The covariance has a negative variance.
    #[error(
        "the covariance is not positive semidefinite: along one direction the variance is {variance:.3e}"
    )]
    Negative {
        /// The least eigenvalue.
        variance: f64,
    },
}
