//! The evidence that tells true parameters from transformed ones.

use nalgebra::{DMatrix, DVector};
use vfl_core::model::Link;
use vfl_core::types::ReleasedScores;
use vfl_numerics::{BoxOutcome, BoxSystem, row_differences};

use super::Hypothesis;
use crate::{
    AdversaryView, AttackError, AuxiliaryRecords, FeatureKnowledge, KnowledgeError, StatedKnowledge,
};

/// The adversary's knowledge beside the release.
#[derive(Debug, Clone, Default)]
pub struct TransformEvidence {
    /// The mean of each passive feature over the records that those attacked are drawn from: public
    /// by agreement.
    pub column_means: Option<Vec<f64>>,
    /// Records whose passive features are known, with their scores.
    pub auxiliary: Option<AuxiliaryRecords>,
    /// Ranges of the features; [0, 1] if nothing is stated.
    pub ranges: StatedKnowledge,
    /// E x xᵀ, d × d, to the precision of the passive party's own. It allows undoing the transform
    /// of R theorem 3.
    pub second_moments: Option<DMatrix<f64>>,
}

/// The evidence for and against one hypothesis.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The hypothesis that was tested.
    pub hypothesis: Hypothesis,
    /// The number of records whose scores no x in the ranges gives.
    pub infeasible: usize,
    /// The number of records that were tested.
    pub tested: usize,
    /// The largest distance of a mean of b' from A μ, in standard errors.
    pub mean_off: Option<f64>,
    /// The number of auxiliary records that the hypothesis does not explain.
    pub auxiliary_off: usize,
    /// The number of auxiliary records tested.
    pub auxiliary: usize,
}

impl Verdict {
    /// Returns true if the evidence rules the hypothesis out.
    #[must_use]
    pub fn rejected(&self) -> bool {
        self.infeasible > 0
            || self.auxiliary_off > 0
            || self.mean_off.is_some_and(|off| off > STANDARD_ERRORS)
    }
}

/// The number of standard errors beyond which a mean rules a hypothesis out.
const STANDARD_ERRORS: f64 = 5.0;

/// The least number of records that gives a usable standard error.
const ENOUGH_FOR_MEANS: usize = 30;

/// The ‖A x − b'‖, in ‖A‖₂, up to which x counts as a solution. Moving every feature by a millionth
/// or so makes up for it. It is far above the round-off of scores in double precision.
const FEASIBLE: f64 = 1e-6;

/// The same for auxiliary records.
const EXPLAINED: f64 = 1e-6;

/// The number of records tested together, before the next check whether one speaks against the
/// hypothesis.
const AT_ONCE: usize = 32;

/// The largest distance of the sum of exact scores from 1.
const SIMPLEX: f64 = 1e-9;

/// Returns the columns whose scores are exact, as far as can be seen: probability vectors without
/// an entry of 0, or numbers within the range of the link.
///
/// # Errors
/// The reason, in words, why the release does not hold exact scores.
pub(super) fn exact_columns(
    released: &ReleasedScores,
    link: Link,
) -> Result<Vec<usize>, &'static str> {
    let c = match released {
        ReleasedScores::Numbers(c) if link.is_numeric() => {
            let size = c.iter().fold(1.0, |size: f64, v| size.max(v.abs()));
            if c.iter().all(|v| (v * 1e6 - (v * 1e6).round()).abs() < 1e-8 * size) {
                return Err("the numbers are rounded");
            }
            let finite = |at: &usize| link.predictor(c[*at]).is_finite();
            return Ok((0..c.ncols()).filter(finite).collect());
        }
        ReleasedScores::Probabilities(c) | ReleasedScores::Numbers(c) => c,
        ReleasedScores::Labels { .. } => return Err("labels were released"),
        ReleasedScores::Ciphertexts(_) => return Err("ciphertexts were released"),
    };
    if c.column_iter().any(|c| {
        (c.sum() - 1.0).abs() > SIMPLEX || c.iter().any(|c| !(0.0..=1.0 + SIMPLEX).contains(c))
    }) {
        return Err("what was released is not probability vectors");
    }
    // Two classes still sum to 1 when rounded.
    if c.iter().all(|c| (c * 1e6 - (c * 1e6).round()).abs() < 1e-8) {
        return Err("the scores are rounded");
    }
    Ok((0..c.ncols()).filter(|&at| c.column(at).iter().all(|c| *c > 0.0)).collect())
}

/// The tests of hypotheses on the evidence and a release.
pub(super) struct HypothesisTester<'a> {
    view: &'a AdversaryView<'a>,
    grounds: &'a TransformEvidence,
    /// Records whose passive features are known.
    records: Option<&'a AuxiliaryRecords>,
    ranges: FeatureKnowledge,
    /// The columns of the view that are exact.
    columns: Vec<usize>,
    /// The columns of the auxiliary records that are exact.
    auxiliary: Vec<usize>,
    /// b' of the parameters as released, at these columns. A hypothesis changes only the bias in
    /// it.
    shown: DMatrix<f64>,
    /// b' of the auxiliary records.
    shown_auxiliary: Option<DMatrix<f64>>,
}

/// A hypothesis, prepared for tests on records.
struct PreparedHypothesis {
    a: DMatrix<f64>,
    /// The norm ‖A‖₂.
    norm: f64,
    /// The difference of b' under the release and under the hypothesis, J (b − b_n).
    shift: DVector<f64>,
    /// A on the unit box that the ranges are scaled to, and A times their lower ends; `None` for A
    /// = 0.
    in_box: Option<(BoxSystem, DVector<f64>)>,
}

impl PreparedHypothesis {
    fn right(&self, shown: &DMatrix<f64>) -> Result<DMatrix<f64>, AttackError> {
        let mut b = shown.clone();
        for mut column in b.column_iter_mut() {
            column -= &self.shift;
        }
        let finite = b.iter().all(|b| b.is_finite());
        if finite {
            Ok(b)
        } else {
            Err(AttackError::NotFinite { what: "b', the right side of A x = b'," })
        }
    }

    /// Returns ‖A x − b'‖ / ‖A‖ of the best x in the ranges for each record of b'.
    fn misfits(&self, b: &DMatrix<f64>) -> Vec<f64> {
        let Some((system, at_lower)) = self.in_box.as_ref().filter(|_| b.ncols() > 0) else {
            return Vec::new();
        };
        let mut right = b.clone();
        for mut column in right.column_iter_mut() {
            column -= at_lower;
        }
        // A fit that did not converge may be worse than the best one, so it is no evidence.
        let misfit = |o: &BoxOutcome| {
            if o.converged { o.objective.max(0.0).sqrt() / self.norm } else { 0.0 }
        };
        system.least_squares(&right).outcomes.iter().map(misfit).collect()
    }
}

impl<'a> HypothesisTester<'a> {
    pub(super) fn new(
        view: &'a AdversaryView<'a>,
        grounds: &'a TransformEvidence,
        columns: Vec<usize>,
        auxiliary: Vec<usize>,
    ) -> Result<Self, AttackError> {
        let (expected, ranges) =
            (view.target_features(), grounds.ranges.about(view.target_features())?);
        let length = |what, got| {
            if expected == got {
                Ok(())
            } else {
                Err(KnowledgeError::Length { what, expected, got })
            }
        };
        if let Some(means) = &grounds.column_means {
            length("column means", means.len())?;
        }
        if let Some(moments) = &grounds.second_moments {
            length("second moments", moments.nrows())?;
            length("second moments", moments.ncols())?;
        }
        let shown = view.b_prime()?.select_columns(&columns);
        let records = grounds.auxiliary.as_ref().or(view.side_information().auxiliary);
        let shown_auxiliary = match records.filter(|_| !auxiliary.is_empty()) {
            Some(records) => {
                Some(AdversaryView::of_auxiliary(view.model(), records)?.b_prime()?.clone())
            }
            None => None,
        };
        Ok(Self { view, grounds, records, ranges, columns, auxiliary, shown, shown_auxiliary })
    }

    /// Returns the number of records that can be tested.
    pub(super) fn records(&self) -> usize {
        self.columns.len()
    }

    /// Returns true if something tells a feature from its complement.
    pub(super) fn sees_complements(&self) -> bool {
        self.means().is_some()
            || !self.auxiliary.is_empty()
            || self.ranges.ranges().iter().any(|r| *r != (0.0, 1.0))
    }

    /// Returns true if something tells the features apart.
    pub(super) fn sees_order(&self) -> bool {
        self.means().is_some() || !self.auxiliary.is_empty() || self.ranges_differ()
    }

    /// Returns true if the features are known to have different ranges.
    pub(super) fn ranges_differ(&self) -> bool {
        self.ranges.ranges().windows(2).any(|w| w[0] != w[1])
    }

    fn means(&self) -> Option<&[f64]> {
        self.grounds.column_means.as_deref().filter(|_| self.columns.len() >= ENOUGH_FOR_MEANS)
    }

    /// Tests a hypothesis on all the evidence.
    pub(super) fn judge(&self, hypothesis: &Hypothesis) -> Result<Verdict, AttackError> {
        let trial = self.trial(hypothesis)?;
        let b = trial.right(&self.shown)?;
        Ok(self.verdict(
            hypothesis,
            &self.means_off(&trial, &b),
            &self.auxiliary_off(&trial)?,
            &trial.misfits(&b),
        ))
    }

    /// Returns the verdict if the evidence does not rule the hypothesis out. It tests the first
    /// `records` records, up to one that speaks against it.
    pub(super) fn accepts(
        &self,
        hypothesis: &Hypothesis,
        records: usize,
    ) -> Result<Option<Verdict>, AttackError> {
        let trial = self.trial(hypothesis)?;
        let b = trial.right(&self.shown)?;
        let mut verdict = self.verdict(
            hypothesis,
            &self.means_off(&trial, &b),
            &self.auxiliary_off(&trial)?,
            &[],
        );
        let records = b.ncols().min(records);
        for from in (0..records).step_by(AT_ONCE) {
            if verdict.rejected() {
                return Ok(None);
            }
            let misfits = trial.misfits(&b.columns(from, AT_ONCE.min(records - from)).into_owned());
            verdict.tested += misfits.len();
            verdict.infeasible += infeasible(&misfits);
        }
        Ok(Some(verdict).filter(|v| !v.rejected()))
    }

    fn verdict(
        &self,
        hypothesis: &Hypothesis,
        means: &Option<DVector<f64>>,
        auxiliary: &[f64],
        misfits: &[f64],
    ) -> Verdict {
        Verdict {
            hypothesis: hypothesis.clone(),
            infeasible: infeasible(misfits),
            tested: misfits.len(),
            mean_off: means.as_ref().map(DVector::amax),
            auxiliary_off: auxiliary.iter().filter(|m| **m > EXPLAINED).count(),
            auxiliary: auxiliary.len(),
        }
    }

    /// Returns a number for a search to minimise. It is 0 if the hypothesis explains the first
    /// records, the auxiliary ones and the means.
    pub(super) fn cost(&self, hypothesis: &Hypothesis, records: usize) -> Result<f64, AttackError> {
        let trial = self.trial(hypothesis)?;
        let b = trial.right(&self.shown.columns(0, self.records().min(records)).into_owned())?;
        let squares = |v: &[f64]| v.iter().map(|m| m * m).sum::<f64>() / v.len().max(1) as f64;
        let mean = self
            .means_off(&trial, &b)
            .map_or(0.0, |off| off.norm_squared() / STANDARD_ERRORS.powi(2));
        Ok(1e4 * squares(&trial.misfits(&b)) + 1e4 * squares(&self.auxiliary_off(&trial)?) + mean)
    }

    fn trial(&self, hypothesis: &Hypothesis) -> Result<PreparedHypothesis, AttackError> {
        let released = self.view.model();
        let model = hypothesis.model(released, self.grounds.second_moments.as_ref())?;
        let a = model.linear()?.matrix().clone();
        let norm = model.linear()?.singular_values().first().copied().unwrap_or(0.0);
        let moved = model.bias() - released.bias();
        let shift = row_differences(&DMatrix::from_column_slice(moved.len(), 1, moved.as_slice()))
            .column(0)
            .into_owned();
        let in_box = if norm > 0.0 {
            let ranges = self.ranges.ranges();
            let lower = DVector::from_iterator(ranges.len(), ranges.iter().map(|r| r.0));
            let scaled = DMatrix::from_fn(a.nrows(), a.ncols(), |m, i| {
                a[(m, i)] * (ranges[i].1 - ranges[i].0)
            });
            Some((BoxSystem::new(&scaled)?, &a * lower))
        } else {
            None
        };
        Ok(PreparedHypothesis { a, norm, shift, in_box })
    }

    /// Returns the distance of the means of b' from A μ, in standard errors.
    fn means_off(&self, trial: &PreparedHypothesis, b: &DMatrix<f64>) -> Option<DVector<f64>> {
        let means = &trial.a * DVector::from_column_slice(self.means()?);
        let n = b.ncols() as f64;
        let off = b.row_iter().zip(means.iter()).map(|(row, expected)| {
            let deviation = (row.variance() * n / (n - 1.0) / n).sqrt();
            let slack = 1e-9 * (trial.norm + row.amax());
            (row.mean() - expected) / (deviation + slack)
        });
        Some(DVector::from_iterator(b.nrows(), off))
    }

    /// Returns ‖A x − b'‖ of the auxiliary records, relative to ‖A‖ and ‖b'‖.
    fn auxiliary_off(&self, trial: &PreparedHypothesis) -> Result<Vec<f64>, AttackError> {
        let (Some(records), Some(shown)) = (self.records, &self.shown_auxiliary) else {
            return Ok(Vec::new());
        };
        let b = trial.right(shown)?;
        let residual = &trial.a * records.passive().matrix() - &b;
        let off = self.auxiliary.iter().map(|&at| {
            let size = trial.norm + b.column(at).norm();
            if size > 0.0 { residual.column(at).norm() / size } else { 0.0 }
        });
        Ok(off.collect())
    }
}

/// Counts the misfits that are no solutions.
fn infeasible(misfits: &[f64]) -> usize {
    misfits.iter().filter(|m| **m > FEASIBLE).count()
}
