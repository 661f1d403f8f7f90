//! The side information that a request names, if it is available.

use vfl_attack::{AttackError, AuxiliaryRecords, Replacement};
use vfl_core::types::{FeatureBlock, ReleasedScores};

/// Records whose passive features this party knows, with their released scores.
#[derive(Clone)]
pub(super) struct KnownRecords {
    pub(super) y: FeatureBlock,
    pub(super) x: FeatureBlock,
    pub(super) released: ReleasedScores,
}

impl KnownRecords {
    /// Returns the number of records.
    pub(super) fn len(&self) -> usize {
        self.released.records()
    }

    /// Returns the records as attacks take them.
    pub(super) fn records(&self, floor: Replacement) -> Result<AuxiliaryRecords, AttackError> {
        AuxiliaryRecords::new(self.y.clone(), self.x.clone(), self.released.clone(), floor)
    }
}

/// Side information, or the reason why an attack that needs it does not run; `None` if the request
/// names none.
pub(super) type Available<T> = Option<Result<T, AttackError>>;
