//! The adversary who knows that released parameters may be transformed, beside the figures of those who do not.

use nalgebra::DMatrix;
use vfl_active_party::attack::adaptive::{Grounds, Hypothesis, KnownPolicy, UndoTransform};
use vfl_active_party::attack::{AdversaryView, Attack, AttackError, HalfStar, KnownModel, Replacement};
use vfl_shared::metrics::mse;
use vfl_shared::types::{FeatureBlock, ReleasedScores};

use super::subject::{Purpose, Subject, generator};
use super::sweep::Window;

/// What came of one examination.
#[derive(Debug, Clone)]
pub(super) struct Examined {
    /// Whether the evidence rules out that the parameters are the true ones.
    pub(super) seen_through: bool,
    /// What is left, if it is one transform alone.
    pub(super) hypothesis: Option<Hypothesis>,
}

/// Public means of the passive features of a split: those of the test records, which the attacked ones are drawn from.
pub(super) fn column_means(subject: &Subject, window: &Window) -> Vec<f64> {
    window.passive.iter().map(|&row| subject.test_records().row(row).mean()).collect()
}

/// Mean error of `half_star` under a model.
///
/// # Errors
/// Those of the attack.
pub(super) fn half_star(
    model: &KnownModel,
    y: &FeatureBlock,
    released: &ReleasedScores,
    truth: &DMatrix<f64>,
) -> Result<f64, AttackError> {
    let view = AdversaryView::new(model, y, released, Replacement::default())?;
    // Nothing random is in it.
    let found = HalfStar { clamped: false }.reconstruct(&view, &mut generator(0, Purpose::Attack, 0))?;
    Ok(of(&found.estimates, truth))
}

/// Mean squared error per feature.
fn of(estimates: &DMatrix<f64>, truth: &DMatrix<f64>) -> f64 {
    mse(estimates, truth).map_or(f64::NAN, |error| error.overall)
}

/// Examines a release, given as the model that it claims.
///
/// # Errors
/// As [`UndoTransform::examine`].
pub(super) fn examine(
    shown: &KnownModel,
    y: &FeatureBlock,
    released: &ReleasedScores,
    means: Option<Vec<f64>>,
) -> Result<Examined, AttackError> {
    let view = AdversaryView::new(shown, y, released, Replacement::default())?;
    let undone = undo(means).examine(&view)?.undone;
    let is_identity = |hypothesis: &Hypothesis| *hypothesis == Hypothesis::Identity;
    let seen_through =
        undone.counts.iter().any(|verdict| is_identity(&verdict.hypothesis)) && !undone.left.iter().any(is_identity);
    Ok(Examined { seen_through, hypothesis: undone.hypothesis })
}

/// Mean error of `half_star` on what the examination leaves: the model undone, or the release as it stands.
///
/// # Errors
/// As [`UndoTransform::examine`], and of the attack.
pub(super) fn error(
    shown: &KnownModel,
    y: &FeatureBlock,
    released: &ReleasedScores,
    means: Option<Vec<f64>>,
    truth: &DMatrix<f64>,
) -> Result<f64, AttackError> {
    let view = AdversaryView::new(shown, y, released, Replacement::default())?;
    // Nothing random is in it.
    let found = undo(means).reconstruct(&view, &mut generator(0, Purpose::Attack, 0))?;
    Ok(of(&found.estimates, truth))
}

fn undo(means: Option<Vec<f64>>) -> UndoTransform {
    UndoTransform {
        inner: Box::new(HalfStar { clamped: false }),
        grounds: Grounds { column_means: means, ..Grounds::default() },
        known: KnownPolicy::default(),
    }
}
