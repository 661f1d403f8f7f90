//! Intervals of scores: the scores that a known rounding, top_k, PRIVEE or order-preserving
//! encryption leaves possible.
//!
//! Every released number came from a score within known ends, and Σ c = 1 narrows them. So pairs of
//! scores bound the differences of logits, which are linear in the features.

use nalgebra::DMatrix;
use rand::Rng;
use vfl_core::types::ReleasedScores;
use vfl_numerics::Polytope;

use super::preimage::{Preimage, numbers};
use super::{Centre, KnownPolicy};
use crate::{
    AdversaryView, Attack, AttackError, Cells, Entry, Group, Needs, Parameters, Reconstruction,
    second_order,
};

/// The attack on the polytope of the intervals. Without a policy the release is taken for the exact
/// scores.
///
/// If σ of PRIVEE is secret, it is estimated from all records of the view. The ratios between ranks
/// of DP++ are known even then; only their common factor is not.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// The known policy.
    pub known: KnownPolicy,
}

/// Scores recovered from a release.
#[derive(Clone, PartialEq)]
pub struct RecoveredScores {
    /// The estimates, k × n; columns sum to 1.
    pub scores: DMatrix<f64>,
    /// The lower bounds of the scores, k × n.
    pub lower: DMatrix<f64>,
    /// The upper bounds of the scores, k × n.
    pub upper: DMatrix<f64>,
    /// The least, likeliest and greatest value of the largest σ, for PRIVEE with a secret scale.
    pub sigma: Option<(f64, f64, f64)>,
}

impl std::fmt::Debug for RecoveredScores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "RecoveredScores({} × {}, values withheld)",
            self.scores.nrows(),
            self.scores.ncols()
        )
    }
}

impl Interval {
    /// Recovers the scores behind a release. It needs no parameter of the model.
    ///
    /// # Errors
    /// [`AttackError::Policy`] if the policy is not one of intervals; [`AttackError::Unfit`] for
    /// labels.
    pub fn scores(&self, released: &ReleasedScores) -> Result<RecoveredScores, AttackError> {
        let preimage = Preimage::new(&self.known, released)?;
        let matrix = numbers(released)?;
        let (k, n) = matrix.shape();
        let mut recovered = RecoveredScores {
            scores: DMatrix::zeros(k, n),
            lower: DMatrix::zeros(k, n),
            upper: DMatrix::zeros(k, n),
            sigma: preimage.scale.map(|s| (s.lower, s.likely, s.upper)),
        };
        for (record, p) in matrix.column_iter().enumerate() {
            let scores = preimage.scores(p.as_slice());
            recovered.scores.column_mut(record).copy_from_slice(&scores.point());
            recovered.lower.column_mut(record).copy_from_slice(&scores.lower);
            recovered.upper.column_mut(record).copy_from_slice(&scores.upper);
        }
        Ok(recovered)
    }

    /// Returns the centre that was best on the rows of the published models, unless one is set. For
    /// top_k it is the point nearest to ½, because the polytopes reach far to one side. If the
    /// scores determine the features, it is the mean, because the prior matters little then.
    /// Otherwise it is the analytic centre.
    fn centre(&self, view: &AdversaryView<'_>, preimage: &Preimage) -> Result<Centre, AttackError> {
        Ok(match self.known.centre {
            Some(centre) => centre,
            None if preimage.lopsided() => Centre::Half,
            None if view.linear()?.nullity() == 0 => Centre::Posterior,
            None => Centre::Analytic,
        })
    }

    fn cells(&self, view: &AdversaryView<'_>, preimage: &Preimage) -> Result<Cells, AttackError> {
        let cells =
            numbers(view.released()?)?.column_iter().map(|p| preimage.cell(p.as_slice())).collect();
        Cells::new(view, cells)
    }

    /// Returns the set of features that each record's release allows; the truth lies in it.
    ///
    /// # Errors
    /// As [`Interval::scores`], and [`AttackError::NeedsParameters`] in the black box.
    pub fn polytopes(&self, view: &AdversaryView<'_>) -> Result<Vec<Polytope>, AttackError> {
        view.weights()?;
        let cells = match view.model().link().is_numeric() {
            true => number_cells(&self.known, view, 1)?,
            false => self.cells(view, &Preimage::new(&self.known, view.released()?)?)?,
        };
        Ok((0..view.records()).map(|r| cells.polytope(r)).collect())
    }
}

impl Interval {
    /// Estimates the records of a model whose scores are no softmax of linear outputs.
    pub(super) fn through_network(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let (released, floor) = (view.released()?, view.replacement().zero_floor);
        let (preimage, numbers) = (Preimage::new(&self.known, released)?, numbers(released)?);
        let fits = numbers.column_iter().map(|p| preimage.fit(p.as_slice(), floor));
        let mut found = second_order::likeliest(view, fits.collect::<Result<_, _>>()?, rng)?;
        if let Some(centre) = self.known.centre {
            let centre = centre.as_str();
            found.remarks.push(format!(
                "the centre `{centre}` is of linear models: the likeliest point was taken"
            ));
        }
        Ok(found)
    }
}

/// Estimates the records of a model of a number from the bounds that a known policy leaves on it.
/// The release is the mean of `averaged` different answers.
///
/// # Errors
/// [`AttackError::Policy`] for a policy of scores, or noise of unknown scale.
pub(super) fn number_estimate(
    known: &KnownPolicy,
    view: &AdversaryView<'_>,
    averaged: usize,
    rng: &mut dyn Rng,
) -> Result<Reconstruction, AttackError> {
    let centre = match known.centre {
        Some(centre) => centre,
        None if view.linear()?.nullity() == 0 => Centre::Posterior,
        None => Centre::Analytic,
    };
    number_cells(known, view, averaged)?.estimate(view, centre, rng)
}

/// Returns the bounds on a number that a known policy leaves, as cells.
fn number_cells(
    known: &KnownPolicy,
    view: &AdversaryView<'_>,
    averaged: usize,
) -> Result<Cells, AttackError> {
    let released = numbers(view.released()?)?;
    let link = view.model().link();
    Cells::new(view, crate::numbers::cells(known, link, released.as_slice(), averaged)?)
}

pub(crate) static INTERVAL: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    ..Entry::new("interval", Group::Adaptive, |settings| {
        Box::new(Interval { known: settings.into() })
    })
};

impl Attack for Interval {
    fn needs(&self) -> Needs {
        Needs { parameters: Parameters::Differentiable, ..Needs::EQUATIONS }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        if view.model().needs_tangents() {
            return self.through_network(view, rng);
        }
        view.weights()?;
        if view.model().link().is_numeric() {
            return number_estimate(&self.known, view, 1, rng);
        }
        let preimage = Preimage::new(&self.known, view.released()?)?;
        let centre = self.centre(view, &preimage)?;
        self.cells(view, &preimage)?.estimate(view, centre, rng)
    }
}
