//! Transforms of the features, x → H x + t, for a model that is trained on the transformed ones.

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use vfl_shared::types::FeatureBlock;

use super::{TransformConfig, TransformError};

/// x → H x + t with an orthonormal H (d × d) and t (d). A secret of the passive party: whoever has it undoes it.
#[derive(Clone, PartialEq)]
pub struct FeatureMap {
    matrix: DMatrix<f64>,
    shift: DVector<f64>,
}

/// Shows the size only.
impl std::fmt::Debug for FeatureMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FeatureMap({} features, values withheld)", self.shift.len())
    }
}

impl FeatureMap {
    /// The map of a transform that needs no trained parameters, for `d` features; `rng` makes what is secret in it.
    ///
    /// # Errors
    /// [`TransformError::NotOfFeatures`] for the others; [`TransformError::Setting`].
    pub fn new(config: &TransformConfig, d: usize, rng: &mut dyn Rng) -> Result<Self, TransformError> {
        let _ = &rng;
        let identity = DMatrix::identity(d, d);
        match config {
            TransformConfig::None {} => Ok(Self { matrix: identity, shift: DVector::zeros(d) }),
            TransformConfig::Negate {} => Ok(Self { matrix: -identity, shift: DVector::zeros(d) }),
            TransformConfig::Complement {} => Ok(Self { matrix: -identity, shift: DVector::from_element(d, 1.0) }),
            other => Err(TransformError::NotOfFeatures { transform: other.name() }),
        }
    }

    /// H, d × d.
    #[must_use]
    pub fn matrix(&self) -> &DMatrix<f64> {
        &self.matrix
    }

    /// t, d.
    #[must_use]
    pub fn shift(&self) -> &DVector<f64> {
        &self.shift
    }

    /// H x + t of every record.
    ///
    /// # Errors
    /// [`TransformError::Input`] for another number of features.
    pub fn apply(&self, x: &FeatureBlock) -> Result<FeatureBlock, TransformError> {
        if x.features() != self.shift.len() {
            let message = format!("the records have {} features, the map is for {}", x.features(), self.shift.len());
            return Err(TransformError::Input(message));
        }
        let mut mapped = &self.matrix * x.matrix();
        for mut column in mapped.column_iter_mut() {
            column += &self.shift;
        }
        FeatureBlock::new(mapped).map_err(|e| TransformError::Input(e.to_string()))
    }

    /// A map put together again from H (d × d) and t (d), as a party has them on its disk.
    ///
    /// # Errors
    /// [`TransformError::Input`] if H is not d × d or a value is not finite.
    pub fn from_parts(matrix: DMatrix<f64>, shift: DVector<f64>) -> Result<Self, TransformError> {
        let d = shift.len();
        if matrix.shape() != (d, d) || !matrix.iter().chain(shift.iter()).all(|v| v.is_finite()) {
            return Err(TransformError::Input(format!(
                "a map of {d} features is a finite {d} × {d} matrix and a shift"
            )));
        }
        Ok(Self { matrix, shift })
    }
}
