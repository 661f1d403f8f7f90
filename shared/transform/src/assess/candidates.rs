//! The releases that a passive party may choose from, with the error of an adversary that takes
//! each for the true parameters.

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::Serialize;
use vfl_core::metrics::Interpretability;
use vfl_core::types::FeatureBlock;

use super::{AssessError, AttackErrors, moments_of, of_moments};
use crate::moments::Moments;
use crate::{TransformConfig, natural_distance, rewrite};

/// A release that the passive party may choose.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Candidate {
    /// The name of the transform, as in a config.
    pub transform: &'static str,
    /// The ε of the transform, if it has one.
    pub epsilon: Option<f64>,
    /// The distance from the true parameters, V (33).
    pub g: f64,
    /// The share of log odds ratios whose sign changes.
    pub sign_flips: f64,
    /// The mean squared errors per feature if the adversary takes this release for the true
    /// parameters.
    #[serde(flatten)]
    pub errors: AttackErrors,
    /// The errors if the true parameters are released.
    pub before: AttackErrors,
}

/// The distances of the candidates, in units of [`natural_distance`].
const SHARES: [f64; 3] = [0.05, 0.2, 0.5];

/// Returns candidates for `w_pas` (k × d) and features with the moments of `x` (d × n), nearest to
/// the true parameters first: `none`, `negate`, `complement`, `least_squares_optimal`,
/// `random_orthonormal`, and at three distances ε `stiefel` (d > 1), `single_feature` (d = 1) and
/// `binary` (k = 2). `seed` is for the transforms that draw random numbers. The second value says
/// why a candidate is missing, if one is.
///
/// The errors are those of an adversary that does not know of the transforms.
///
/// # Errors
/// [`AssessError`] as [`assess`](super::assess).
pub fn candidates(
    w_pas: &DMatrix<f64>,
    x: &FeatureBlock,
    seed: u64,
) -> Result<(Vec<Candidate>, Vec<String>), AssessError> {
    let moments = moments_of(w_pas, x)?;
    let (k, d) = w_pas.shape();
    let mut configs = vec![
        TransformConfig::None {},
        TransformConfig::Negate {},
        TransformConfig::Complement {},
        TransformConfig::LeastSquaresOptimal {},
        TransformConfig::RandomOrthonormal {},
    ];
    let randomised = false;
    for epsilon in SHARES.map(|share| share * natural_distance(w_pas)) {
        if d > 1 {
            let (case, penalty, starts) = (None, None, None);
            configs.push(TransformConfig::Stiefel { epsilon, randomised, case, penalty, starts });
        } else {
            configs.push(TransformConfig::SingleFeature { epsilon, randomised });
        }
        if k == 2 {
            configs.push(TransformConfig::Binary { epsilon, randomised });
        }
    }
    let (mut found, mut notes) = (Vec::with_capacity(configs.len()), Vec::new());
    for config in &configs {
        match candidate(config, w_pas, x, &moments, seed) {
            Ok(candidate) => found.push(candidate),
            Err(reason) => notes.push(format!("no candidate `{}`: {reason}", config.name())),
        }
    }
    found.sort_by(|a, b| a.g.total_cmp(&b.g));
    Ok((found, notes))
}

fn candidate(
    config: &TransformConfig,
    w_pas: &DMatrix<f64>,
    x: &FeatureBlock,
    moments: &Moments,
    seed: u64,
) -> Result<Candidate, String> {
    let rewritten = rewrite(config, w_pas, Some(x), &mut ChaCha20Rng::seed_from_u64(seed))
        .map_err(|e| e.to_string())?;
    let distance = Interpretability::of(w_pas, &rewritten.weights).map_err(|e| e.to_string())?;
    let errors =
        |weights, shift| of_moments(w_pas, weights, shift, moments).map_err(|e| e.to_string());
    Ok(Candidate {
        transform: config.name(),
        epsilon: config.epsilon(),
        g: distance.g,
        sign_flips: distance.sign_flips,
        errors: errors(&rewritten.weights, &rewritten.bias_shift)?,
        before: errors(w_pas, &(&rewritten.bias_shift * 0.0))?,
    })
}
