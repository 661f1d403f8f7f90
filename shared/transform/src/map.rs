//! Transforms of the features, x → H x + t, for a model that is trained on the transformed ones.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt};
use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_core::types::FeatureBlock;

use super::orthonormal::orthonormal;
use super::{TransformConfig, TransformError};

/// The map x → H x + t with an orthonormal H (d × d) and t (d). It is a secret of the passive
/// party: anyone who has it can undo it.
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
    /// Creates the map of a transform that needs no trained parameters, for `d` features; `rng`
    /// draws its secrets.
    ///
    /// | transform | H | t |
    /// |---|---|---|
    /// | `none` | I | 0 |
    /// | `negate` | −I | 0 |
    /// | `complement` | −I | 1 |
    /// | `selective` | −1 on the diagonal at the features named, 1 elsewhere | 1 at the features named, 0 elsewhere |
    /// | `permute` | a permutation, each of the d! equally likely | 0 |
    /// | `random_orthonormal` | uniform on the orthogonal group, either determinant | 0 |
    ///
    /// All but `negate` and `random_orthonormal` keep features in [0, 1].
    ///
    /// # Errors
    /// [`TransformError::NotOfFeatures`] for the other transforms; [`TransformError::Setting`] for
    /// a position in `selective` that is not below `d` or stands there twice;
    /// [`TransformError::Input`] for d = 0.
    pub fn new(
        config: &TransformConfig,
        d: usize,
        rng: &mut dyn Rng,
    ) -> Result<Self, TransformError> {
        if d == 0 {
            return Err(TransformError::Input("there is no feature to transform".into()));
        }
        let identity = DMatrix::identity(d, d);
        let still = DVector::zeros(d);
        let (matrix, shift) = match config {
            TransformConfig::None {} => (identity, still),
            TransformConfig::Negate {} => (-identity, still),
            TransformConfig::Complement {} => (-identity, DVector::from_element(d, 1.0)),
            TransformConfig::Selective { features } => {
                let (mut matrix, mut shift) = (identity, still);
                for &at in features {
                    let refuse =
                        |reason| Err(TransformError::Setting { transform: config.name(), reason });
                    if at >= d {
                        return refuse(format!(
                            "`features` names position {at}, expected 0 to {}",
                            d - 1
                        ));
                    }
                    if shift[at] != 0.0 {
                        return refuse(format!(
                            "`features` names position {at} twice; name each once"
                        ));
                    }
                    matrix[(at, at)] = -1.0;
                    shift[at] = 1.0;
                }
                (matrix, shift)
            }
            TransformConfig::Permute {} => {
                let mut order: Vec<usize> = (0..d).collect();
                for last in (1..d).rev() {
                    order.swap(last, rng.random_range(0..=last));
                }
                (DMatrix::from_fn(d, d, |i, j| f64::from(order[i] == j)), still)
            }
            TransformConfig::RandomOrthonormal {} => (orthonormal(d, rng), still),
            TransformConfig::LeastSquaresOptimal {}
            | TransformConfig::Stiefel { .. }
            | TransformConfig::SingleFeature { .. }
            | TransformConfig::Binary { .. } => {
                return Err(TransformError::NotOfFeatures { transform: config.name() });
            }
        };
        Ok(Self { matrix, shift })
    }

    /// Returns the matrix H, d × d.
    #[must_use]
    pub fn matrix(&self) -> &DMatrix<f64> {
        &self.matrix
    }

    /// Returns the shift t, d values.
    #[must_use]
    pub fn shift(&self) -> &DVector<f64> {
        &self.shift
    }

    /// Returns H x + t of every record.
    ///
    /// # Errors
    /// [`TransformError::Input`] for another number of features.
    pub fn apply(&self, x: &FeatureBlock) -> Result<FeatureBlock, TransformError> {
        if x.features() != self.shift.len() {
            let message = format!(
                "the records have {} features, the map is for {}",
                x.features(),
                self.shift.len()
            );
            return Err(TransformError::Input(message));
        }
        let mut mapped = &self.matrix * x.matrix();
        for mut column in mapped.column_iter_mut() {
            column += &self.shift;
        }
        FeatureBlock::new(mapped).map_err(|e| TransformError::Input(e.to_string()))
    }

    /// Returns a hash that differs from that of every other map. It is as secret as the map if
    /// there are few of its kind.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        // Adding 0 makes a negative zero a positive one.
        hash.update((self.shift.len() as u64).to_le_bytes());
        self.matrix
            .iter()
            .chain(self.shift.iter())
            .for_each(|v| hash.update((v + 0.0).to_le_bytes()));
        hex(hash.finalize())
    }

    /// Restores a map from H (d × d) and t (d), as a party has them on its disk.
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
