//! The adversary's regression of the property on its view, fitted to its shadow models.

use nalgebra::DMatrix;
use vfl_numerics::{DecompositionError, KernelRidge};

use super::views::View;

/// An input of a regression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegressionInput {
    /// The active party's statistics of the training set.
    Data,
    /// The active party's own parameters.
    Own,
    /// The mean scores.
    Scores,
    /// The released weights.
    Weights,
    /// The columns of the released weights, sorted by length.
    Sorted,
    /// The inner products of the rows of the released weights.
    Products,
}

impl RegressionInput {
    /// Returns the name in words.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Own => "own parameters",
            Self::Scores => "mean scores",
            Self::Weights => "weights",
            Self::Sorted => "weights by length",
            Self::Products => "products of rows",
        }
    }

    fn of(self, view: &View, transform: usize) -> &[f64] {
        let shown = view.shown.get(transform);
        match self {
            Self::Data => &view.data,
            Self::Own => &view.own,
            Self::Scores => &view.scores,
            Self::Weights => shown.map_or(&[], |shown| &shown.weights),
            Self::Sorted => shown.map_or(&[], |shown| &shown.sorted),
            Self::Products => shown.map_or(&[], |shown| &shown.products),
        }
    }
}

/// The inputs that the control may choose from: statistics of the data, or nothing, which leaves
/// the mean. An adversary takes the choice with the least error between the two halves of its
/// shadow models.
pub(super) const CONTROL: &[&[RegressionInput]] = &[&[], &[RegressionInput::Data]];
/// The choices of an adversary with its own parameters.
pub(super) const OWN: &[&[RegressionInput]] =
    &[&[], &[RegressionInput::Data], &[RegressionInput::Data, RegressionInput::Own]];
/// The choices of an adversary with mean scores.
pub(super) const SCORES: &[&[RegressionInput]] = &[
    &[RegressionInput::Data],
    &[RegressionInput::Data, RegressionInput::Own],
    &[RegressionInput::Data, RegressionInput::Scores],
    &[RegressionInput::Data, RegressionInput::Own, RegressionInput::Scores],
];
/// The choices of an adversary with released weights.
pub(super) const RELEASED: &[&[RegressionInput]] = &[
    &[],
    &[RegressionInput::Data],
    &[RegressionInput::Data, RegressionInput::Own],
    &[RegressionInput::Data, RegressionInput::Weights],
    &[RegressionInput::Data, RegressionInput::Own, RegressionInput::Weights],
    &[RegressionInput::Data, RegressionInput::Sorted],
    &[RegressionInput::Data, RegressionInput::Own, RegressionInput::Sorted],
    &[RegressionInput::Data, RegressionInput::Products],
    &[RegressionInput::Data, RegressionInput::Own, RegressionInput::Products],
];

/// The estimates of an adversary for the targets.
pub(super) struct RegressionEstimates {
    /// The chosen inputs.
    pub(super) parts: &'static [RegressionInput],
    /// The squared error for each target.
    pub(super) squared_errors: Vec<f64>,
}

fn inputs(views: &[View], parts: &[RegressionInput], transform: usize) -> DMatrix<f64> {
    let columns: Vec<Vec<f64>> = views
        .iter()
        .map(|view| parts.iter().flat_map(|part| part.of(view, transform)).copied().collect())
        .collect();
    let p = columns.first().map_or(0, Vec::len);
    DMatrix::from_fn(p, columns.len(), |i, j| columns[j][i])
}

fn properties(views: &[View]) -> DMatrix<f64> {
    DMatrix::from_fn(1, views.len(), |_, j| views[j].property)
}

/// Fits a regression on `shadows`, and returns its squared errors on `targets`.
fn squared_errors(
    parts: &[RegressionInput],
    transform: usize,
    shadows: &[View],
    targets: &[View],
) -> Result<Vec<f64>, DecompositionError> {
    let fitted = KernelRidge::fit(&inputs(shadows, parts, transform), &properties(shadows))?;
    let estimates = fitted.predict(&inputs(targets, parts, transform));
    Ok(targets
        .iter()
        .zip(estimates.iter())
        .map(|(view, found)| (found - view.property).powi(2))
        .collect())
}

/// Fits the property of the shadows on each choice of inputs, takes the best, and applies it to the
/// targets.
///
/// The two halves of the shadows have different records, as shadows and targets have. The best
/// choice is the one with the least error on either half when it is fitted on the other: leaving
/// out single shadows would favour patterns of the adversary's records alone.
///
/// # Errors
/// [`DecompositionError`] for numbers that are not finite.
pub(super) fn infer(
    choices: &'static [&'static [RegressionInput]],
    transform: usize,
    shadows: &[View],
    targets: &[View],
) -> Result<RegressionEstimates, DecompositionError> {
    let (one, other) = shadows.split_at(shadows.len() / 2);
    let mut best: (f64, &'static [RegressionInput]) = (f64::INFINITY, &[]);
    for &parts in choices {
        let error: f64 = [(one, other), (other, one)]
            .into_iter()
            .map(|(fitted, tried)| {
                Ok(squared_errors(parts, transform, fitted, tried)?.iter().sum::<f64>())
            })
            .sum::<Result<f64, DecompositionError>>()?;
        if error < best.0 {
            best = (error, parts);
        }
    }
    Ok(RegressionEstimates {
        parts: best.1,
        squared_errors: squared_errors(best.1, transform, shadows, targets)?,
    })
}
