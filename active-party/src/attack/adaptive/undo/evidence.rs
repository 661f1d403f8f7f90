//! What tells true parameters from transformed ones.

use nalgebra::{DMatrix, DVector};
use vfl_shared::numerics::BoxSystem;
use vfl_shared::types::ReleasedScores;

use super::Hypothesis;
use crate::attack::{AdversaryView, AttackError, AuxiliaryRecords, FeatureKnowledge, KnowledgeError, StatedKnowledge};

/// What the adversary knows beside the release.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The mean of each passive feature over the records that those attacked are drawn from: public by agreement.
    pub column_means: Option<Vec<f64>>,
    /// Records whose passive features are known, with their scores.
    pub auxiliary: Option<AuxiliaryRecords>,
    /// Ranges of the features, [0, 1] where nothing is stated.
    pub ranges: StatedKnowledge,
    /// E x xᵀ, d × d, to the precision of the passive party's own: lets R theorem 3's transform be undone.
    pub second_moments: Option<DMatrix<f64>>,
}

/// What speaks for and against one hypothesis.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The claim.
    pub hypothesis: Hypothesis,
    /// Records whose scores no x in the ranges gives.
    pub infeasible: usize,
    /// Records that this was tried on.
    pub tested: usize,
    /// The farthest that a mean of b' is from A μ, in standard errors.
    pub mean_off: Option<f64>,
    /// Auxiliary records that it does not explain.
    pub auxiliary_off: usize,
    /// Auxiliary records.
    pub auxiliary: usize,
}

impl Verdict {
    /// Whether the evidence rules the hypothesis out.
    #[must_use]
    pub fn rejected(&self) -> bool {
        self.infeasible > 0 || self.auxiliary_off > 0 || self.mean_off.is_some_and(|off| off > STANDARD_ERRORS)
    }
}

/// A mean beyond this many standard errors is another mean.
const STANDARD_ERRORS: f64 = 5.0;

/// Fewer records make no standard error to go by.
const ENOUGH_FOR_MEANS: usize = 30;

/// The ‖A x − b'‖, in ‖A‖₂, up to which x counts as a solution: what moving every feature by a millionth or so makes up for, far
/// above the round-off of scores in double precision.
const FEASIBLE: f64 = 1e-6;

/// The same for auxiliary records.
const EXPLAINED: f64 = 1e-6;

/// How far from 1 the sum of exact scores may be.
const SIMPLEX: f64 = 1e-9;

/// The columns of scores that are exact, as far as can be seen: probability vectors, none of whose entries is 0.
///
/// # Errors
/// In words, why the release is not one of exact scores.
pub(super) fn exact_columns(released: &ReleasedScores) -> Result<Vec<usize>, &'static str> {
    let c = match released {
        ReleasedScores::Probabilities(c) | ReleasedScores::Numbers(c) => c,
        ReleasedScores::Labels { .. } => return Err("labels were released"),
        ReleasedScores::Ciphertexts(_) => return Err("ciphertexts were released"),
    };
    if c.column_iter().any(|c| (c.sum() - 1.0).abs() > SIMPLEX || c.iter().any(|c| !(0.0..=1.0 + SIMPLEX).contains(c)))
    {
        return Err("what was released is not probability vectors");
    }
    // Two classes still sum to 1 when rounded.
    if c.iter().all(|c| (c * 1e6 - (c * 1e6).round()).abs() < 1e-8) {
        return Err("the scores are rounded");
    }
    Ok((0..c.ncols()).filter(|&at| c.column(at).iter().all(|c| *c > 0.0)).collect())
}

/// The evidence with the release at hand.
pub(super) struct Court<'a> {
    view: &'a AdversaryView<'a>,
    evidence: &'a Evidence,
    ranges: FeatureKnowledge,
    /// Columns of the view that are exact.
    columns: Vec<usize>,
    /// The same of the auxiliary records.
    auxiliary: Vec<usize>,
}

impl<'a> Court<'a> {
    pub(super) fn new(
        view: &'a AdversaryView<'a>,
        evidence: &'a Evidence,
        columns: Vec<usize>,
        auxiliary: Vec<usize>,
    ) -> Result<Self, AttackError> {
        let (expected, ranges) = (view.target_features(), evidence.ranges.about(view.target_features())?);
        let length = |what, got| {
            if expected == got { Ok(()) } else { Err(KnowledgeError::Length { what, expected, got }) }
        };
        if let Some(means) = &evidence.column_means {
            length("column means", means.len())?;
        }
        if let Some(moments) = &evidence.second_moments {
            length("second moments", moments.nrows())?;
            length("second moments", moments.ncols())?;
        }
        Ok(Self { view, evidence, ranges, columns, auxiliary })
    }

    /// How many records can be tried.
    pub(super) fn records(&self) -> usize {
        self.columns.len()
    }

    /// Whether something tells a feature from its complement.
    pub(super) fn sees_complements(&self) -> bool {
        self.means().is_some() || !self.auxiliary.is_empty() || self.ranges.ranges().iter().any(|r| *r != (0.0, 1.0))
    }

    /// Whether something tells the features apart.
    pub(super) fn sees_order(&self) -> bool {
        let ranges = self.ranges.ranges();
        self.means().is_some() || !self.auxiliary.is_empty() || ranges.windows(2).any(|w| w[0] != w[1])
    }

    fn means(&self) -> Option<&[f64]> {
        self.evidence.column_means.as_deref().filter(|_| self.columns.len() >= ENOUGH_FOR_MEANS)
    }

    /// What all the evidence says.
    pub(super) fn judge(&self, hypothesis: &Hypothesis) -> Result<Verdict, AttackError> {
        let (misfits, off, auxiliary) = self.weigh(hypothesis, usize::MAX)?;
        Ok(Verdict {
            hypothesis: hypothesis.clone(),
            infeasible: misfits.iter().filter(|m| **m > FEASIBLE).count(),
            tested: misfits.len(),
            mean_off: off.map(|off| off.amax()),
            auxiliary_off: auxiliary.iter().filter(|m| **m > EXPLAINED).count(),
            auxiliary: auxiliary.len(),
        })
    }

    /// One number for a search to lessen: 0 where the first records, the auxiliary ones and the means are explained.
    pub(super) fn cost(&self, hypothesis: &Hypothesis, records: usize) -> Result<f64, AttackError> {
        let (misfits, off, auxiliary) = self.weigh(hypothesis, records)?;
        let squares = |v: &[f64]| v.iter().map(|m| m * m).sum::<f64>() / v.len().max(1) as f64;
        let mean = off.map_or(0.0, |off| off.norm_squared() / STANDARD_ERRORS.powi(2));
        Ok(1e4 * squares(&misfits) + 1e4 * squares(&auxiliary) + mean)
    }

    /// ‖A x − b'‖ / ‖A‖ of the best x in the ranges for each of the first records, the distances of the means in standard errors,
    /// and ‖A x − b'‖ of the auxiliary records relative to ‖A‖ and ‖b'‖.
    #[allow(clippy::type_complexity, reason = "three measures of one private step")]
    fn weigh(
        &self,
        hypothesis: &Hypothesis,
        records: usize,
    ) -> Result<(Vec<f64>, Option<DVector<f64>>, Vec<f64>), AttackError> {
        let model = hypothesis.model(self.view.model(), self.evidence.second_moments.as_ref())?;
        let view = self.view.under(&model)?;
        let a = model.system()?.matrix();
        let norm = model.system()?.singular_values().first().copied().unwrap_or(0.0);
        let b = view.b_prime().select_columns(&self.columns[..self.columns.len().min(records)]);
        let mut misfits = Vec::new();
        if norm > 0.0 && b.ncols() > 0 {
            let ranges = self.ranges.ranges();
            let lower = DVector::from_iterator(ranges.len(), ranges.iter().map(|r| r.0));
            let scaled = DMatrix::from_fn(a.nrows(), a.ncols(), |m, i| a[(m, i)] * (ranges[i].1 - ranges[i].0));
            let at_lower = a * lower;
            let mut right = b.clone();
            for mut column in right.column_iter_mut() {
                column -= &at_lower;
            }
            let found = BoxSystem::new(&scaled)?.least_squares(&right);
            // What did not converge may fit better than was found: no evidence.
            let misfit = |o: &vfl_shared::numerics::BoxOutcome| {
                if o.converged { o.objective.max(0.0).sqrt() / norm } else { 0.0 }
            };
            misfits.extend(found.outcomes.iter().map(misfit));
        }
        let off = self.means().map(|means| {
            let means = a * DVector::from_column_slice(means);
            let n = b.ncols() as f64;
            DVector::from_iterator(
                b.nrows(),
                b.row_iter().zip(means.iter()).map(|(row, expected)| {
                    let deviation = (row.variance() * n / (n - 1.0) / n).sqrt();
                    let slack = 1e-9 * (norm + row.amax());
                    (row.mean() - expected) / (deviation + slack)
                }),
            )
        });
        let mut auxiliary = Vec::new();
        if let Some(records) = self.evidence.auxiliary.as_ref().filter(|_| !self.auxiliary.is_empty()) {
            let view = records.view_under(&model)?;
            let residual = a * records.passive().matrix() - view.b_prime();
            auxiliary.extend(self.auxiliary.iter().map(|&at| {
                let size = norm + view.b_prime().column(at).norm();
                if size > 0.0 { residual.column(at).norm() / size } else { 0.0 }
            }));
        }
        Ok((misfits, off, auxiliary))
    }
}
