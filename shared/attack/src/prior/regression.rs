//! The adversary that knows whole records and fits a regression to them, with their release or, as
//! its control, without. Neither needs parameters, nor takes the features for Gaussian.

use nalgebra::DMatrix;
use rand::Rng;
use vfl_core::types::ReleasedScores;
use vfl_numerics::KernelRidge;

use crate::sizes::same;
use crate::{
    AdversaryView, Attack, AttackError, Entry, FeatureKnowledge, Group, Need, Needs,
    Reconstruction, Replacement, Settings, StatedKnowledge, Status,
};

/// Kernel ridge regression of the passive features on the active ones and on the release: linear,
/// with products, or smooth, whichever does best on records left out, feature by feature.
#[derive(Debug, Clone)]
pub struct Regression {
    /// True if it uses the release. Otherwise it is the control of the one that does.
    pub release: bool,
    /// The knowledge of the features: estimates are moved into their ranges.
    pub stated: StatedKnowledge,
}

/// The most records that are fitted: the time grows with their cube.
pub const MAX_FITTED: usize = 500;

const fn entry(name: &'static str, build: fn(&Settings) -> Box<dyn Attack>) -> Entry {
    Entry { informed: true, ..Entry::new(name, Group::Informed, build) }
}

pub(crate) static KERNEL_RIDGE: Entry = entry("kernel_ridge", |settings| {
    Box::new(Regression { release: true, stated: settings.into() })
});

pub(crate) static KERNEL_IMPUTATION: Entry = entry("kernel_imputation", |settings| {
    Box::new(Regression { release: false, stated: settings.into() })
});

impl Attack for Regression {
    fn needs(&self) -> Needs {
        let release = if self.release { Need::Yes } else { Need::No };
        Needs { release, auxiliary: Need::Yes, numbers: true, ..Needs::default() }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let records = view.side_information().auxiliary.ok_or(AttackError::NoAuxiliary)?;
        same("auxiliary passive features", "features", view.target_features(), records.features())?;
        let known = self.stated.about(view.target_features())?;
        let (own, other) = match self.release {
            false => (vec![records.y.matrix().clone()], vec![view.active().matrix().clone()]),
            true => {
                let floor = floor(&records.released, view.replacement());
                let own = AdversaryView::new(view.model(), &records.y, &records.released, floor)?;
                let other =
                    AdversaryView::new(view.model(), view.active(), view.released()?, floor)?;
                (inputs(&own)?, inputs(&other)?)
            }
        };
        let mut estimates = regressed(records.x.matrix(), &own, &other)?;
        into_ranges(&mut estimates, &known);
        Ok(Reconstruction::new(
            estimates,
            if self.release { Status::Regression } else { Status::Baseline },
        ))
    }
}

/// Regresses the features `outputs` (d × n) on each of several inputs of the same records, `own`,
/// and estimates them from the same inputs of `other` records. For each feature the input that does
/// best on records left out is taken. Fits at most [`MAX_FITTED`] records.
///
/// # Errors
/// [`AttackError`] for values that are not finite, or an iteration that does not converge.
pub(super) fn regressed(
    outputs: &DMatrix<f64>,
    own: &[DMatrix<f64>],
    other: &[DMatrix<f64>],
) -> Result<DMatrix<f64>, AttackError> {
    let n = outputs.ncols().min(MAX_FITTED);
    let outputs = outputs.columns(0, n).into_owned();
    let records = other.first().map_or(0, DMatrix::ncols);
    let mut estimates = DMatrix::zeros(outputs.nrows(), records);
    let mut left_out = vec![f64::INFINITY; outputs.nrows()];
    for (own, other) in own.iter().zip(other) {
        let fitted = KernelRidge::fit(&own.columns(0, n).into_owned(), &outputs)?;
        let predicted = fitted.predict(other);
        for (at, error) in fitted.left_out().iter().enumerate() {
            // Take the first if no error is known.
            if *error < left_out[at] || left_out[at] == f64::INFINITY {
                left_out[at] = *error;
                estimates.set_row(at, &predicted.row(at));
            }
        }
    }
    Ok(estimates)
}

/// Moves estimates, d × n, into the ranges of the features.
pub(super) fn into_ranges(estimates: &mut DMatrix<f64>, known: &FeatureKnowledge) {
    for (mut row, (lower, upper)) in estimates.row_iter_mut().zip(known.ranges()) {
        row.iter_mut().for_each(|v| *v = v.clamp(*lower, *upper));
    }
}

/// Returns the possible inputs of the regression (rows; one record per column): the own features,
/// alone or beside the scores, b′, or both; of a number alone or beside b′. The defense decides
/// which of them is best.
fn inputs(view: &AdversaryView<'_>) -> Result<Vec<DMatrix<f64>>, AttackError> {
    let (y, b) = (view.active().matrix(), view.b_prime()?);
    if view.model().link().is_numeric() {
        return Ok(vec![y.clone(), stack(&[y, b])]);
    }
    let c = view.scores()?;
    Ok(vec![y.clone(), stack(&[y, &c]), stack(&[y, b]), stack(&[y, &c, b])])
}

/// Stacks blocks with the same records, one below the other.
fn stack(blocks: &[&DMatrix<f64>]) -> DMatrix<f64> {
    let rows = blocks.iter().map(|b| b.nrows()).sum();
    let mut all = DMatrix::zeros(rows, blocks.first().map_or(0, |b| b.ncols()));
    let mut at = 0;
    for block in blocks {
        all.rows_mut(at, block.nrows()).copy_from(block);
        at += block.nrows();
    }
    all
}

/// Returns the replacement of scores of 0: half of the least score above it, so that rounding to 0
/// is not taken for certainty.
fn floor(released: &ReleasedScores, otherwise: Replacement) -> Replacement {
    let (ReleasedScores::Probabilities(c) | ReleasedScores::Numbers(c)) = released else {
        return otherwise;
    };
    let least = c.iter().copied().filter(|c| *c > 0.0).fold(f64::INFINITY, f64::min);
    if c.iter().all(|c| *c > 0.0) {
        otherwise
    } else {
        Replacement::new(0.5 * least).unwrap_or(otherwise)
    }
}
