//! Why an attack cannot run.

use vfl_shared::numerics::DecompositionError;
use vfl_shared::types::ShapeError;

use super::OneFeatureError;

/// Why an attack cannot run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AttackError {
    /// The view does not hold the passive parameters.
    #[error("this attack needs the passive party's parameters, and they are hidden (black box)")]
    NeedsParameters,
    /// Parts of a view that do not fit together.
    #[error("the adversary's view is inconsistent: {0}")]
    View(#[from] ShapeError),
    /// The replacement of zero scores is out of range.
    #[error("`zero_floor` is {got}, expected above 0 and at most 0.5")]
    Floor {
        /// What came.
        got: f64,
    },
    /// The difference of weights cannot be decomposed.
    #[error("the system A x = b' cannot be solved: {0}")]
    Decomposition(#[from] DecompositionError),
    /// The attack on one feature cannot run.
    #[error(transparent)]
    OneFeature(#[from] OneFeatureError),
    /// Nothing to estimate the passive parameters from.
    #[error("there is no auxiliary record")]
    NoAuxiliary,
    /// A coalition against nobody.
    #[error("no passive party with a feature is a target")]
    NoTarget,
    /// A passive party whose part does not fit.
    #[error("passive party {party}: {error}")]
    Party {
        /// Its position, from 0.
        party: usize,
        /// What does not fit.
        #[source]
        error: ShapeError,
    },
}
