//! Transforms of the passive parameters. A passive party may show transformed parameters in place
//! of W_pas: scores stay exact, and an adversary that takes the shown parameters for the true ones
//! reconstructs something else (R section VII-A, V section V).
//!
//! There are two ways. [`rewrite`] changes parameters that are trained already: predictions still
//! come from the true ones, and W_n = W_pas R is released (R remark 6, V section V-B).
//! [`FeatureMap`] changes the features before training, x → H x + t: then the model itself is
//! another one, W_n = W_pas Hᵀ, and its parameters are released as they are (R section VII-A).
//!
//! # Example
//!
//! The release of these weights would reveal features like these completely: there are three
//! classes and two features.
//!
//! ```
//! use nalgebra::DMatrix;
//! use vfl_core::types::FeatureBlock;
//! use vfl_transform::assess::assess;
//!
//! let w_pas = DMatrix::from_row_slice(3, 2, &[1.0, 0.5, -1.0, 2.0, 0.25, -0.75]);
//! let records = FeatureBlock::new(DMatrix::from_row_slice(2, 4, &[0.1, 0.9, 0.4, 0.6, 0.5, 0.2, 0.8, 0.3]))?;
//! let found = assess(&w_pas, &records)?;
//! assert_eq!((found.rank, found.nul), (2, 0));
//! assert!(found.mse_half_star < 1e-12 && found.mse_half > 0.05);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod binary;
mod distance;
mod error;
mod fraction;
mod least_squares;
mod map;
mod orthonormal;
mod rewritten;
pub mod scoring;
mod single_feature;
mod stiefel;

use nalgebra::DMatrix;
use rand::Rng;
use vfl_core::types::FeatureBlock;

use crate::moments::Moments;

pub use config::{StiefelCase, TransformConfig};
use distance::Distance;
pub use error::TransformError;
pub use map::FeatureMap;
pub use rewritten::{RewrittenParameters, Search};
pub use stiefel::check as check_search;

/// Rewrites `w_pas` (k × d) for release. `x` holds the records (d × n) whose moments a fitted
/// transform uses; `rng` draws the secrets of the transform.
///
/// | transform | W_n | needs records |
/// |---|---|---|
/// | `none`, `negate`, `complement`, `permute`, `selective`, `random_orthonormal` | W_pas Hᵀ of the [`FeatureMap`] | no |
/// | `least_squares_optimal` | W_pas Hᵀ with H = −V Uᵀ, A⁺A K₀ = U S Vᵀ, R theorem 3 | yes |
/// | `stiefel` | W_pas R, R a minimum of V (39) or (48) over the orthogonal group, by a search over many starts | yes |
/// | `single_feature` | the maximum of V (50) within distance ε, any k | no |
/// | `binary` | the maximum of V (54) within distance ε | yes |
///
/// **Distance ε.** `single_feature` and `binary` depend on J W_n alone (a shift common to all
/// classes changes no estimate), so that the search is over J W_n, in a ball. The rest of ε goes
/// into the common shift, and g = ε exactly. They refuse an ε within which J W_n = 0 could be
/// reached: the error would have no bound there, and the release would say nothing. `stiefel` aims
/// at ε by a penalty and meets it approximately. With `randomised` the distance is drawn uniformly
/// from [0, ε]; whether ε is allowed is decided before the draw. ε = 0 gives W_pas itself.
///
/// **`stiefel`, defaults.** `case`: `i` for d ≥ k, else `ii`. `penalty`: λ = 100 (1/d) Tr K₀ / ε²,
/// the error of `zero` over ε². A relative miss of g by 1 % then costs 1 % of that error, and the
/// result has g within a few per cent of ε as a rule, in case ii within a fifth at worst, whatever
/// the scale of the weights. `starts`: 32. Half of the starts have determinant −1, since a descent
/// never leaves its component; in each half the first is near the identity, the others are uniform.
/// The chosen point is the one with the least objective, the first of equals: it depends on the
/// generator and not on the number of threads.
///
/// # Errors
/// [`TransformError`] that names the setting, or the input that is missing or misshapen.
pub fn rewrite(
    config: &TransformConfig,
    w_pas: &DMatrix<f64>,
    x: Option<&FeatureBlock>,
    rng: &mut dyn Rng,
) -> Result<RewrittenParameters, TransformError> {
    let (k, d) = w_pas.shape();
    if k < 2 || d == 0 {
        let message = format!(
            "the passive weights are {k} × {d}, expected at least 2 classes (binary is k = 2) and 1 feature"
        );
        return Err(TransformError::Input(message));
    }
    if !w_pas.iter().all(|w| w.is_finite()) {
        return Err(TransformError::Input("a passive weight is not finite".into()));
    }
    let transform = config.name();
    let epsilon = |epsilon: f64, randomised: bool| Distance::new(transform, epsilon, randomised);
    let mut rewritten = match config {
        TransformConfig::None {}
        | TransformConfig::Negate {}
        | TransformConfig::Complement {}
        | TransformConfig::Permute {}
        | TransformConfig::Selective { .. }
        | TransformConfig::RandomOrthonormal {} => {
            let map = FeatureMap::new(config, d, rng)?;
            let weights = w_pas * map.matrix().transpose();
            let bias_shift = -(&weights * map.shift());
            RewrittenParameters {
                weights,
                bias_shift,
                matrix: Some(map.matrix().transpose()),
                search: None,
            }
        }
        TransformConfig::LeastSquaresOptimal {} => {
            least_squares::rewrite(w_pas, &moments(transform, d, x)?)?
        }
        TransformConfig::Stiefel { epsilon: level, randomised, case, penalty, starts } => {
            let settings = stiefel::Settings::new(w_pas, *case, *penalty, *starts)?;
            let distance = epsilon(*level, *randomised)?;
            let moments = moments(transform, d, x)?;
            let level = distance.draw(rng);
            stiefel::rewrite(w_pas, &moments, level, &settings, rng)?
        }
        TransformConfig::SingleFeature { epsilon: level, randomised } => {
            let distance = epsilon(*level, *randomised)?;
            single_feature::rewrite(w_pas, &distance, rng)?
        }
        TransformConfig::Binary { epsilon: level, randomised } => {
            let distance = epsilon(*level, *randomised)?;
            binary::check(w_pas, &distance)?;
            let moments = moments(transform, d, x)?;
            binary::rewrite(w_pas, &moments, distance.draw(rng))?
        }
    };
    // Negated zeros would reveal which columns were negated if nothing else does.
    rewritten.weights.apply(|w| *w += 0.0);
    rewritten.bias_shift.apply(|b| *b += 0.0);
    if rewritten.weights.iter().chain(&rewritten.bias_shift).all(|v| v.is_finite()) {
        Ok(rewritten)
    } else {
        Err(TransformError::Input(
            "the passive weights are too large: what is rewritten overflows".into(),
        ))
    }
}

/// Returns the mean squared weight after the mean over the classes is subtracted: (1/(dk)) Σ (w_il
/// − w̄_l)², the unit of ε. `single_feature` and `binary` refuse this distance and all beyond.
#[must_use]
pub fn natural_distance(w_pas: &DMatrix<f64>) -> f64 {
    let squares: f64 = w_pas.column_iter().map(|w| w.add_scalar(-w.mean()).norm_squared()).sum();
    if w_pas.is_empty() { 0.0 } else { squares / w_pas.len() as f64 }
}

/// Returns the moments of the records that a transform is fitted to.
fn moments(
    transform: &'static str,
    d: usize,
    x: Option<&FeatureBlock>,
) -> Result<Moments, TransformError> {
    let x = x
        .map(FeatureBlock::matrix)
        .filter(|x| x.ncols() > 0)
        .ok_or(TransformError::NeedsRecords { transform })?;
    if x.nrows() != d {
        let message = format!(
            "the records have {} features, the passive weights have {d} columns",
            x.nrows()
        );
        return Err(TransformError::Input(message));
    }
    Moments::of(x).ok_or_else(|| {
        TransformError::Input(
            "the moments of the records overflow: features are expected in [0, 1]".into(),
        )
    })
}

pub mod assess;
pub mod config;
mod linear;
pub mod moments;
#[cfg(test)]
pub(crate) mod tests;
