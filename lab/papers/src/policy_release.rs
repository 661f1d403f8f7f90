//! The releases of a policy in figures that are computed in one place.

use nalgebra::DMatrix;
use vfl_core::types::{ConfidenceScores, Logits, ReleasedScores};
use vfl_defense::{DefenseError, Grants, Noise, Pipeline, Policy};

use super::ReproduceError;

/// Releases records with these scores (k × n) under a policy. Its noise is the same in every run.
/// Defenses are fitted on `calibration`.
///
/// # Errors
/// [`ReproduceError::Defense`] if the policy needs something that is not available here, such as
/// passive weights.
pub(super) fn released_behind(
    policy: &Policy,
    scores: &DMatrix<f64>,
    calibration: Option<&ConfidenceScores>,
) -> Result<ReleasedScores, ReproduceError> {
    if policy.is_none() {
        return Ok(ReleasedScores::Probabilities(scores.clone()));
    }
    let failed =
        |error: DefenseError| ReproduceError::Defense { defense: policy.to_string(), error };
    let grants = Grants { calibration, ..Grants::default() };
    let pipeline = Pipeline::build(&policy.defenses, scores.nrows(), &grants).map_err(failed)?;
    // The softmax of the logarithms of scores is the scores.
    let logits = Logits::new(scores.map(|c| c.max(f64::MIN_POSITIVE).ln()))?;
    Ok(pipeline.release(logits, Noise::fresh([0; 32])).map_err(failed)?.released)
}
