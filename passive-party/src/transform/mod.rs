//! Transforms of the passive parameters: what a passive party may show in place of W_pas, so that scores stay exact and
//! whoever takes the shown parameters for the true ones reconstructs something else (R section VII-A, V section V).
//!
//! Two routes lead there. [`rewrite`] changes parameters that are trained already: predictions still come from the true ones,
//! and W_n = W_pas R is released (R remark 6, V section V-B). [`FeatureMap`] changes the features before training, x → H x + t:
//! then the model itself is another one, W_n = W_pas Hᵀ, and its parameters are released as they are (R section VII-A).

mod config;
mod map;

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use vfl_shared::types::FeatureBlock;

pub use config::{StiefelCase, TransformConfig};
pub use map::FeatureMap;

/// Why parameters were not rewritten.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TransformError {
    /// A setting out of its range, or one that does not go with these parameters.
    #[error("transform `{transform}`: {reason}")]
    Setting {
        /// The transform.
        transform: &'static str,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// The transform is fitted to records, and there are none.
    #[error("transform `{transform}` is fitted to the moments of the features: give records (`x_pas` in a case)")]
    NeedsRecords {
        /// The transform.
        transform: &'static str,
    },
    /// It needs trained parameters, so that there is nothing to train on.
    #[error(
        "transform `{transform}` is fitted to trained parameters, so that no model can be trained on it; release transformed \
         parameters instead, or train on negate, complement, permute, selective or random_orthonormal"
    )]
    NotOfFeatures {
        /// The transform.
        transform: &'static str,
    },
    /// Shapes that do not fit together, or numbers that are not finite.
    #[error("{0}")]
    Input(String),
}

/// Parameters as released, and how they came about.
#[derive(Clone, PartialEq)]
pub struct Rewritten {
    /// W_n, k × d.
    pub weights: DMatrix<f64>,
    /// What the active party adds to its bias to read the released parameters as a model of features in [0, 1]: W_pas 1 for
    /// `complement`, else 0. k entries.
    pub bias_shift: DVector<f64>,
    /// R with W_n = W_pas R, where the transform is such a matrix; d × d, orthonormal. Secret: whoever has it undoes the
    /// transform.
    pub matrix: Option<DMatrix<f64>>,
    /// What the search for it found, if there was one.
    pub search: Option<Search>,
}

/// Facts of a search over many starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The objective at the point taken (for `stiefel` that of V (39) or (48), which is minimised).
    pub objective: f64,
    /// Starting points.
    pub starts: u32,
    /// Steps over all starts.
    pub steps: u64,
    /// Norm of the Riemannian gradient at the point taken; 0 for a closed form.
    pub gradient_norm: f64,
}

/// Shows the shape only.
impl std::fmt::Debug for Rewritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (k, d) = self.weights.shape();
        write!(f, "Rewritten({k} × {d}, {:?}, values withheld)", self.search)
    }
}

/// Rewrites `w_pas` (k × d) for release. `x` holds the records (d × n) whose moments a fitted transform uses; `rng` makes what
/// is secret in it.
///
/// # Errors
/// [`TransformError`] naming the setting, or the input that is missing or misshapen.
pub fn rewrite(
    config: &TransformConfig,
    w_pas: &DMatrix<f64>,
    x: Option<&FeatureBlock>,
    rng: &mut dyn Rng,
) -> Result<Rewritten, TransformError> {
    let _ = (x, &rng);
    let (k, _) = w_pas.shape();
    let zero = DVector::zeros(k);
    let rewritten = |weights, bias_shift| Rewritten { weights, bias_shift, matrix: None, search: None };
    match config {
        TransformConfig::None {} => Ok(rewritten(w_pas.clone(), zero)),
        TransformConfig::Negate {} => Ok(rewritten(-w_pas, zero)),
        TransformConfig::Complement {} => Ok(rewritten(-w_pas, w_pas.column_sum())),
        other => Err(TransformError::Setting { transform: other.name(), reason: "is not built yet".into() }),
    }
}
