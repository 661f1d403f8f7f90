//! Why a Gaussian could not be set up.

use crate::pseudo_inverse::DecompositionError;

/// Why a Gaussian could not be set up.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GaussianError {
    /// A matrix holds values that are not finite, or cannot be decomposed.
    #[error(transparent)]
    Decomposition(#[from] DecompositionError),
    /// The covariance has a negative variance.
    #[error("the covariance is not positive semidefinite: along one direction the variance is {variance:.3e}")]
    Negative {
        /// The least eigenvalue found.
        variance: f64,
    },
}
