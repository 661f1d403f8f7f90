//! What of the help that a request names could be had.

use vfl_shared::types::{FeatureBlock, ReleasedScores};

use crate::attack::{AttackError, AuxiliaryRecords, Replacement};

/// Records whose passive features this party knows, with what was released of them.
#[derive(Clone)]
pub(super) struct KnownRecords {
    pub(super) y: FeatureBlock,
    pub(super) x: FeatureBlock,
    pub(super) released: ReleasedScores,
}

impl KnownRecords {
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.released.records()
    }

    /// The records as attacks take them.
    pub(super) fn records(&self, floor: Replacement) -> Result<AuxiliaryRecords, AttackError> {
        AuxiliaryRecords::new(self.y.clone(), self.x.clone(), self.released.clone(), floor)
    }
}

/// What could be had, or why an attack that needs it does not run; `None` if nothing was asked for.
pub(super) type Had<T> = Option<Result<T, AttackError>>;
