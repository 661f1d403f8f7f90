//! The adversary's regression of the property on what it sees, fitted to its shadow models.

use nalgebra::DMatrix;
use vfl_shared::numerics::{DecompositionError, KernelRidge};

use super::views::View;

/// What goes into a regression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The active party's statistics of the training set.
    Data,
    /// Its own parameters.
    Own,
    /// Mean scores.
    Scores,
    /// The weights shown.
    Weights,
    /// Their columns by length.
    Sorted,
    /// Inner products of their rows.
    Products,
}

impl Part {
    /// In words.
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

/// What an adversary may put into its regression. It takes what gives the least error between the two halves of its shadow models:
/// statistics of the data, or nothing, which leaves the mean.
pub(super) const CONTROL: &[&[Part]] = &[&[], &[Part::Data]];
/// With its own parameters.
pub(super) const OWN: &[&[Part]] = &[&[], &[Part::Data], &[Part::Data, Part::Own]];
/// With mean scores.
pub(super) const SCORES: &[&[Part]] =
    &[&[Part::Data], &[Part::Data, Part::Own], &[Part::Data, Part::Scores], &[Part::Data, Part::Own, Part::Scores]];
/// With released weights.
pub(super) const RELEASED: &[&[Part]] = &[
    &[],
    &[Part::Data],
    &[Part::Data, Part::Own],
    &[Part::Data, Part::Weights],
    &[Part::Data, Part::Own, Part::Weights],
    &[Part::Data, Part::Sorted],
    &[Part::Data, Part::Own, Part::Sorted],
    &[Part::Data, Part::Products],
    &[Part::Data, Part::Own, Part::Products],
];

/// What an adversary says of the targets.
pub(super) struct Said {
    /// What it looked at.
    pub(super) parts: &'static [Part],
    /// Its squared error for each target.
    pub(super) squared_errors: Vec<f64>,
}

fn inputs(views: &[View], parts: &[Part], transform: usize) -> DMatrix<f64> {
    let columns: Vec<Vec<f64>> =
        views.iter().map(|view| parts.iter().flat_map(|part| part.of(view, transform)).copied().collect()).collect();
    let p = columns.first().map_or(0, Vec::len);
    DMatrix::from_fn(p, columns.len(), |i, j| columns[j][i])
}

fn properties(views: &[View]) -> DMatrix<f64> {
    DMatrix::from_fn(1, views.len(), |_, j| views[j].property)
}

/// Squared errors on `targets` of a regression fitted on `shadows`.
fn squared_errors(
    parts: &[Part],
    transform: usize,
    shadows: &[View],
    targets: &[View],
) -> Result<Vec<f64>, DecompositionError> {
    let fitted = KernelRidge::fit(&inputs(shadows, parts, transform), &properties(shadows))?;
    let estimates = fitted.predict(&inputs(targets, parts, transform));
    Ok(targets.iter().zip(estimates.iter()).map(|(view, found)| (found - view.property).powi(2)).collect())
}

/// Fits the property of the shadows on each choice of parts, takes the best, and applies it to the targets.
///
/// The two halves of the shadows are of different records, as shadows and targets are. The best choice is the one that does best on
/// either half when it is fitted on the other: leaving single shadows out would favour what holds of the adversary's records alone.
///
/// # Errors
/// [`DecompositionError`] for numbers that are not finite.
pub(super) fn infer(
    choices: &'static [&'static [Part]],
    transform: usize,
    shadows: &[View],
    targets: &[View],
) -> Result<Said, DecompositionError> {
    let (one, other) = shadows.split_at(shadows.len() / 2);
    let mut best: (f64, &'static [Part]) = (f64::INFINITY, &[]);
    for &parts in choices {
        let error: f64 = [(one, other), (other, one)]
            .into_iter()
            .map(|(fitted, tried)| Ok(squared_errors(parts, transform, fitted, tried)?.iter().sum::<f64>()))
            .sum::<Result<f64, DecompositionError>>()?;
        if error < best.0 {
            best = (error, parts);
        }
    }
    Ok(Said { parts: best.1, squared_errors: squared_errors(best.1, transform, shadows, targets)? })
}
