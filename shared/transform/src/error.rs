//! The errors of rewriting parameters.

use vfl_numerics::DecompositionError;

/// Errors from rewriting parameters for release.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TransformError {
    /// A setting out of its range, or one that does not go with these parameters.
    #[error("transform `{transform}`: {reason}")]
    Setting {
        /// The name of the transform.
        transform: &'static str,
        /// The fault, and the expected value.
        reason: String,
    },
    /// An ε at or beyond the one from which the error has no bound.
    #[error(
        "transform `{transform}`: `epsilon` is {epsilon}, expected less than {bound:.6e}: {reached}"
    )]
    TooFar {
        /// The name of the transform.
        transform: &'static str,
        /// The configured ε.
        epsilon: f64,
        /// The least ε that is refused: a statistic of the true parameters.
        bound: f64,
        /// The effect at the bound.
        reached: &'static str,
    },
    /// A transform that is fitted to records, without any records.
    #[error(
        "transform `{transform}` is fitted to the moments of the features: give records (`x_pas` in a case)"
    )]
    NeedsRecords {
        /// The name of the transform.
        transform: &'static str,
    },
    /// A transform that needs trained parameters, so that no model can be trained on it.
    #[error(
        "transform `{transform}` is fitted to trained parameters, so that no model can be trained on it; release transformed \
         parameters instead, or train on negate, complement, permute, selective or random_orthonormal"
    )]
    NotOfFeatures {
        /// The name of the transform.
        transform: &'static str,
    },
    /// Shapes that do not fit together, or numbers that are not finite.
    #[error("{0}")]
    Input(String),
}

impl TransformError {
    /// Returns the message for a log, which contains no statistic of the parameters. The error
    /// itself is for their owner.
    #[must_use]
    pub fn without_statistics(&self) -> String {
        match self {
            Self::TooFar { transform, epsilon, reached, .. } => {
                format!(
                    "transform `{transform}`: `epsilon` is {epsilon}, too large for these parameters: {reached}"
                )
            }
            other => other.to_string(),
        }
    }
}

impl From<DecompositionError> for TransformError {
    fn from(error: DecompositionError) -> Self {
        Self::Input(match error {
            DecompositionError::NotFinite => {
                "the passive weights are too large: their products overflow".into()
            }
            DecompositionError::NoConvergence => {
                "a decomposition of the passive weights did not converge".into()
            }
        })
    }
}
