//! Records that the adversary holds besides those under attack, and data that others give it.

use nalgebra::DMatrix;
use vfl_core::types::{FeatureBlock, ReleasedScores};

use super::sizes::same;
use super::{AttackError, Prior, Replacement};

/// Labelled records of the adversary's own. `Debug` shows no value.
#[derive(Clone, PartialEq)]
pub struct LabelledRecords {
    /// The adversary's features of them, d_act × n_t.
    pub y: FeatureBlock,
    /// The class of each, from 0 and below k.
    pub labels: Vec<u32>,
}

impl std::fmt::Debug for LabelledRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LabelledRecords({:?}, {} labels)", self.y, self.labels.len())
    }
}

/// Records already asked about: the adversary's own features, and what was released.
#[derive(Debug, Clone, Copy)]
pub struct ObservedRecords<'a> {
    /// The adversary's features, d_act × n_p.
    pub y: &'a FeatureBlock,
    /// The release of the same records, of any kind. Of labels and ciphertexts only the predicted
    /// class is used (V section IV-B1).
    pub released: &'a ReleasedScores,
}

/// Records whose passive features the adversary knows, with what was released of them.
#[derive(Debug, Clone)]
pub struct AuxiliaryRecords {
    pub(super) y: FeatureBlock,
    pub(super) x: FeatureBlock,
    pub(super) released: ReleasedScores,
    pub(super) replacement: Replacement,
}

impl AuxiliaryRecords {
    /// Combines n records: the adversary's own features `y` (d_act × n), the passive features `x`
    /// (d × n) and the release (k × n), in which `replacement` stands for scores of 0. The records
    /// may be few, repeated or made up.
    ///
    /// # Errors
    /// [`AttackError::View`] if the parts differ in records; [`AttackError::NoAuxiliary`] if there
    /// is no record.
    pub fn new(
        y: FeatureBlock,
        x: FeatureBlock,
        released: ReleasedScores,
        replacement: Replacement,
    ) -> Result<Self, AttackError> {
        same("auxiliary active features", "records", released.records(), y.records())?;
        same("auxiliary passive features", "records", released.records(), x.records())?;
        if released.records() == 0 {
            return Err(AttackError::NoAuxiliary);
        }
        Ok(Self { y, x, released, replacement })
    }

    /// Returns the number of records, n.
    #[must_use]
    pub fn records(&self) -> usize {
        self.released.records()
    }

    /// Returns the number of passive features, d.
    #[must_use]
    pub fn features(&self) -> usize {
        self.x.features()
    }

    /// Returns the passive features, d × n.
    pub(super) fn passive(&self) -> &FeatureBlock {
        &self.x
    }

    /// Returns their joint moments, as an adversary's knowledge of other records.
    ///
    /// # Errors
    /// [`AttackError::Prior`] if they cannot be used.
    pub fn prior(&self) -> Result<Prior, AttackError> {
        Ok(Prior::of_records(self.x.matrix(), self.y.matrix())?)
    }

    /// Returns the same records with u = (x − lower) / width of the features `open` in place of all
    /// x; `None` if the records are of other features.
    pub(super) fn in_ranges(&self, open: &[usize], ranges: &[(f64, f64)]) -> Option<Self> {
        if self.x.features() != ranges.len() {
            return None;
        }
        let x = self.x.matrix();
        let u = DMatrix::from_fn(open.len(), x.ncols(), |i, j| {
            let (lower, upper) = ranges[open[i]];
            (x[(open[i], j)] - lower) / (upper - lower)
        });
        Some(Self { x: FeatureBlock::new(u).ok()?, ..self.clone() })
    }

    /// Returns the release of the records.
    pub(super) fn released(&self) -> &ReleasedScores {
        &self.released
    }
}

/// The data that colluding passive parties give. `Debug` shows shapes only.
#[derive(Clone, PartialEq)]
pub struct Colluders {
    /// For each of the d passive features, true if it belongs to a colluder.
    pub features: Vec<bool>,
    /// The sum of their logit shares, k × n.
    pub shares: DMatrix<f64>,
}

impl std::fmt::Debug for Colluders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (features, n) = (self.features.iter().filter(|f| **f).count(), self.shares.ncols());
        write!(
            f,
            "Colluders({features} of {} features, {n} records, values withheld)",
            self.features.len()
        )
    }
}
