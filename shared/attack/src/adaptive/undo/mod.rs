//! The adversary who knows that released parameters may be transformed.
//!
//! The true parameters make the scores, so the evidence contradicts a false reading of the released
//! ones: there are records whose scores no x in [0, 1] gives, column means come out wrong, or a
//! known record does not fit. Each [`Hypothesis`] is tested on these [`TransformEvidence`]. If one
//! remains, its model is attacked instead of the released one.
//!
//! W and the complement always explain the same records: x solves the one exactly if 1 − x solves
//! the other. One bit tells them apart, which the column means or a single known record give. Every
//! hypothesis has such a [partner](Hypothesis::partner). The partner of the negation takes two
//! transforms, one in training and one at the release. So it is no reason not to undo the negation,
//! but it is named if the evidence does not rule it out.
//!
//! The comparison covers a list, and there are transforms that are not on it (mixtures and
//! rotations of the parameters). A hypothesis that nothing speaks against need not be true.

mod examination;
mod hypothesis;
mod remarks;
mod search;
mod transform_evidence;

use nalgebra::DMatrix;
use rand::Rng;
use vfl_numerics::row_differences;

use super::KnownPolicy;
use crate::settings::numbers;
use crate::{
    AdversaryView, Attack, AttackError, Base, DisclosedModel, Entry, Group, KnownModel, Need,
    Needs, Reconstruction, Setting, StatedKnowledge,
};
use remarks::{AS_RELEASED, told};
use search::{MAX_SEARCHED, NEIGHBOUR_RECORDS};
use transform_evidence::{HypothesisTester, exact_columns};

pub use examination::{Examination, RemainingHypotheses};
pub use hypothesis::Hypothesis;
pub use transform_evidence::{TransformEvidence, Verdict};

static COLUMN_MEANS: Setting<Vec<f64>> = Setting {
    key: "column_means",
    takes: "the mean of each passive feature, if public, for undo_transform: one number for each, with commas (default unknown)",
    read: |value| numbers(value, ','),
};

pub(crate) static UNDO_TRANSFORM: Entry = Entry {
    settings: &[
        &COLUMN_MEANS,
        KnownPolicy::SETTINGS[0],
        KnownPolicy::SETTINGS[1],
        KnownPolicy::SETTINGS[2],
    ],
    ..Entry::upon("undo_transform", Group::Adaptive, Base::CHOSEN, |settings, base| {
        let knowledge = StatedKnowledge::from(settings);
        Box::new(UndoTransform {
            // Knowledge of the features goes to the base, and to the grounds.
            inner: knowledge.wrap(base),
            grounds: TransformEvidence {
                column_means: settings.get(&COLUMN_MEANS),
                ranges: knowledge,
                ..TransformEvidence::default()
            },
            known: settings.into(),
        })
    })
};

/// The attack that undoes a transform of the parameters.
#[derive(Debug)]
pub struct UndoTransform {
    /// The attack that runs on the identified model, or on the released one if none is identified.
    pub inner: Box<dyn Attack>,
    /// The knowledge beside the release.
    pub grounds: TransformEvidence,
    /// The known policy. The evidence counts for exact scores alone.
    pub known: KnownPolicy,
}

impl UndoTransform {
    /// Tests the hypotheses on the evidence, in the order feasibility, column means, auxiliary
    /// records.
    ///
    /// - A hypothesis is out if for one record no x in the ranges has A x = b', up to a misfit of
    ///   1e-6 ‖A‖₂.
    /// - With `column_means` μ and at least 30 records it is out if a mean of b' is more than 5 of
    ///   its standard errors from A μ. The records are taken for a sample of those that μ is the
    ///   mean of.
    /// - With auxiliary records it is out if one misses A x = b' by more than 1e-6 (‖A‖₂ + ‖b'‖₂).
    ///
    /// These tests are for exact scores. For a release of another kind, for rounded scores, or
    /// under a policy with a defense, nothing is tested and all hypotheses remain. Records with a
    /// score of exactly 0 are skipped.
    ///
    /// # Errors
    /// [`AttackError::NeedsParameters`] in the black box; [`AttackError::Knowledge`] if means,
    /// moments or ranges are about another number of features; [`AttackError::Decomposition`].
    pub fn examine(&self, view: &AdversaryView<'_>) -> Result<Examination, AttackError> {
        view.weights()?;
        let mut simple = vec![Hypothesis::Identity, Hypothesis::Negate, Hypothesis::Complement];
        if self.grounds.second_moments.is_some() {
            simple.push(Hypothesis::LeastSquaresOptimal);
        }
        let why = if self.known.policy.is_none() {
            exact_columns(view.released()?, view.model().link())
        } else {
            Err("the policy changes the scores")
        };
        let columns = match why {
            Ok(columns) => columns,
            Err(reason) => {
                let remark = format!(
                    "cannot tell: {reason}, and what tells a transform needs exact scores; {AS_RELEASED}"
                );
                // The lengths are still checked.
                HypothesisTester::new(view, &self.grounds, Vec::new(), Vec::new())?;
                let undone = RemainingHypotheses {
                    hypothesis: None,
                    left: simple,
                    not_ruled_out: Vec::new(),
                    counts: Vec::new(),
                };
                return Ok(Examination { undone, remarks: vec![remark] });
            }
        };
        let mut remarks = Vec::new();
        let known = self.grounds.auxiliary.as_ref().or(view.side_information().auxiliary);
        let auxiliary =
            known.map_or(Ok(Vec::new()), |a| exact_columns(a.released(), view.model().link()));
        let auxiliary = auxiliary.unwrap_or_else(|reason| {
            remarks.push(format!("the auxiliary records are not made use of: {reason}"));
            Vec::new()
        });
        let court = HypothesisTester::new(view, &self.grounds, columns, auxiliary)?;
        let mut counts = simple.iter().map(|h| court.judge(h)).collect::<Result<Vec<_>, _>>()?;
        let mut searched = None;
        if counts.iter().all(Verdict::rejected) {
            let partners = self.partners(&court, &simple)?;
            if partners.is_empty() && view.target_features() <= MAX_SEARCHED {
                let found = search::search(&court, view.target_features())?;
                counts.extend(found.verdicts.iter().cloned());
                searched = Some(found);
            }
            counts.extend(partners);
        }
        let left: Vec<Hypothesis> =
            counts.iter().filter(|v| !v.rejected()).map(|v| v.hypothesis.clone()).collect();
        let hypothesis = match left.as_slice() {
            [first, others @ ..] if self.alike(view, first, others)? => Some(first.clone()),
            _ => None,
        };
        let not_ruled_out = match &hypothesis {
            Some(hypothesis) => {
                self.not_ruled_out(&court, view.target_features(), hypothesis, &counts)?
            }
            None => Vec::new(),
        };
        let undone = RemainingHypotheses { hypothesis, left, not_ruled_out, counts };
        remarks.push(told(&undone, court.records(), searched.as_ref(), view.target_features()));
        Ok(Examination { undone, remarks })
    }

    /// Returns the verdicts on partners of hypotheses that are not ruled out, if something tells
    /// the partners from these.
    fn partners(
        &self,
        court: &HypothesisTester<'_>,
        of: &[Hypothesis],
    ) -> Result<Vec<Verdict>, AttackError> {
        let mut found = Vec::new();
        if court.sees_complements() {
            for partner in of.iter().map(Hypothesis::partner).filter(|p| !of.contains(p)) {
                found.extend(court.accepts(&partner, usize::MAX)?);
            }
        }
        Ok(found)
    }

    /// Returns the hypotheses of [`RemainingHypotheses::not_ruled_out`].
    fn not_ruled_out(
        &self,
        court: &HypothesisTester<'_>,
        d: usize,
        hypothesis: &Hypothesis,
        counts: &[Verdict],
    ) -> Result<Vec<Hypothesis>, AttackError> {
        let mut open = Vec::new();
        let partner = hypothesis.partner();
        // A partner that was judged already remains or is out.
        if !counts.iter().any(|v| v.hypothesis == partner)
            && (!court.sees_complements() || court.accepts(&partner, NEIGHBOUR_RECORDS)?.is_some())
        {
            open.push(partner);
        }
        if *hypothesis == Hypothesis::Identity && court.ranges_differ() && d <= MAX_SEARCHED {
            open.extend(search::other_orders(court, d)?);
        }
        Ok(open)
    }

    /// Returns true if all claims give the same equations, as R theorem 3's transform and the
    /// negation do where A has full rank.
    fn alike(
        &self,
        view: &AdversaryView<'_>,
        first: &Hypothesis,
        others: &[Hypothesis],
    ) -> Result<bool, AttackError> {
        let moments = self.grounds.second_moments.as_ref();
        let first = first.model(view.model(), moments)?;
        let bias = |model: &KnownModel| {
            row_differences(&DMatrix::from_column_slice(
                model.classes(),
                1,
                model.bias().as_slice(),
            ))
        };
        let (a, b) = (first.linear()?.matrix(), bias(&first));
        for other in others {
            let other = other.model(view.model(), moments)?;
            let off = (other.linear()?.matrix() - a).amax().max((bias(&other) - &b).amax());
            if off > ALIKE * a.amax() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Equations are the same if their entries differ by less than this share of the largest.
const ALIKE: f64 = 1e-7;

impl Attack for UndoTransform {
    fn needs(&self) -> Needs {
        let base = self.inner.needs();
        Needs { auxiliary: base.auxiliary.max(Need::IfThere), ..base }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        if let Some(DisclosedModel { model, by }) = view.side_information().told {
            let mut found = self.inner.reconstruct(&view.under(model)?, rng)?;
            found
                .remarks
                .insert(0, format!("undone as told, without an attack on the transform: {by}"));
            return Ok(found);
        }
        let Examination { undone, remarks } = self.examine(view)?;
        let mut found = match undone.hypothesis {
            Some(hypothesis) => {
                let model = hypothesis.model(view.model(), self.grounds.second_moments.as_ref())?;
                self.inner.reconstruct(&view.under(&model)?, rng)?
            }
            None => self.inner.reconstruct(view, rng)?,
        };
        found.remarks.extend(remarks);
        Ok(found)
    }
}
