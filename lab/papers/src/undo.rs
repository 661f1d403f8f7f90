//! The adversary that knows that released parameters may be transformed, for comparison with those
//! that do not.

use nalgebra::DMatrix;
use vfl_attack::adaptive::{Hypothesis, TransformEvidence, UndoTransform};
use vfl_attack::{
    AdversaryView, Attack, AttackError, HalfStar, KnownModel, KnownPolicy, Replacement,
};
use vfl_core::metrics::mse;
use vfl_core::types::{FeatureBlock, ReleasedScores};

use super::experiment_model::{ExperimentModel, Purpose, generator};
use super::sweep::Window;

/// The result of one examination.
#[derive(Debug, Clone)]
pub(super) struct UndoMeasurement {
    /// True if the evidence rules out that the parameters are the true ones.
    pub(super) seen_through: bool,
    /// The transform that was identified, if exactly one is left.
    pub(super) hypothesis: Option<Hypothesis>,
}

/// Returns the public means of the passive features of a split: those of the test records, from
/// which the attacked ones are drawn.
pub(super) fn column_means(subject: &ExperimentModel, window: &Window) -> Vec<f64> {
    window.passive.iter().map(|&row| subject.test_records().row(row).mean()).collect()
}

/// Returns the mean error of `half_star` under a model.
///
/// # Errors
/// The errors of the attack.
pub(super) fn half_star(
    model: &KnownModel,
    y: &FeatureBlock,
    released: &ReleasedScores,
    truth: &DMatrix<f64>,
) -> Result<f64, AttackError> {
    let view = AdversaryView::new(model, y, released, Replacement::default())?;
    // The method draws nothing at random.
    let found =
        HalfStar { clamped: false }.reconstruct(&view, &mut generator(0, Purpose::Attack, 0))?;
    Ok(of(&found.estimates, truth))
}

/// Returns the mean squared error per feature.
fn of(estimates: &DMatrix<f64>, truth: &DMatrix<f64>) -> f64 {
    mse(estimates, truth).map_or(f64::NAN, |error| error.overall)
}

/// Examines a release, given as the model that it claims to be.
///
/// # Errors
/// As [`UndoTransform::examine`].
pub(super) fn examine(
    shown: &KnownModel,
    y: &FeatureBlock,
    released: &ReleasedScores,
    means: Option<Vec<f64>>,
) -> Result<UndoMeasurement, AttackError> {
    let view = AdversaryView::new(shown, y, released, Replacement::default())?;
    let undone = undo(means).examine(&view)?.undone;
    let is_identity = |hypothesis: &Hypothesis| *hypothesis == Hypothesis::Identity;
    let seen_through = undone.counts.iter().any(|verdict| is_identity(&verdict.hypothesis))
        && !undone.left.iter().any(is_identity);
    Ok(UndoMeasurement { seen_through, hypothesis: undone.hypothesis })
}

/// Returns the mean error of `half_star` after the examination: on the model with the transform
/// undone, or on the release itself.
///
/// # Errors
/// As [`UndoTransform::examine`], and the errors of the attack.
pub(super) fn error(
    shown: &KnownModel,
    y: &FeatureBlock,
    released: &ReleasedScores,
    means: Option<Vec<f64>>,
    truth: &DMatrix<f64>,
) -> Result<f64, AttackError> {
    let view = AdversaryView::new(shown, y, released, Replacement::default())?;
    // The method draws nothing at random.
    let found = undo(means).reconstruct(&view, &mut generator(0, Purpose::Attack, 0))?;
    Ok(of(&found.estimates, truth))
}

fn undo(means: Option<Vec<f64>>) -> UndoTransform {
    UndoTransform {
        inner: Box::new(HalfStar { clamped: false }),
        grounds: TransformEvidence { column_means: means, ..TransformEvidence::default() },
        known: KnownPolicy::default(),
    }
}
