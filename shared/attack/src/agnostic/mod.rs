//! Agnostic attacks: on records that the adversary has no score of (V section IV).
//!
//! The active party has labelled records of its own, the training records among them. A model
//! fitted to its own features and those labels estimates the scores of any record, asked about or
//! not. A white-box attack then takes the estimates for scores. Scores of *other* records, which
//! the adversary did ask for, refine the model. No defense of the scores touches the attack on
//! records that are never asked about.

mod adversary_model;
mod objective;
mod out_of_range;
mod recipe;
mod settings;

use std::sync::Arc;

use nalgebra::DMatrix;
use rand::Rng;
use vfl_core::model::TrainingConfig;
use vfl_core::types::{FeatureBlock, ReleasedScores};

use super::entry::{Base, Entry, Group};
use super::sizes::same;
use super::{
    AdversaryFit, AdversaryView, Attack, AttackError, EstimatedScores, HalfStar, KnownModel,
    LabelledRecords, Need, Needs, ObservedRecords, Reconstruction, Replacement, StatedKnowledge,
};

pub use adversary_model::AdversaryModel;
pub use objective::AgnosticObjective;
pub use out_of_range::OutOfRange;
pub use settings::AgnosticSettings;

pub(super) static AGNOSTIC: Entry = Entry {
    settings: AgnosticSettings::SETTINGS,
    // The rule for estimates out of range replaces the base's own clipping.
    ..Entry::upon(
        "agnostic",
        Group::Helped,
        Base { unclipped: true, ..Base::CHOSEN },
        |settings, base| {
            Box::new(Agnostic {
                settings: settings.into(),
                base: base.into(),
                knowledge: settings.into(),
                recipe: None,
                seen_are_targets: false,
            })
        },
    )
};

/// The agnostic attack.
#[derive(Debug, Clone)]
pub struct Agnostic {
    /// The settings of the attack.
    pub settings: AgnosticSettings,
    /// The white-box attack on the estimated scores. The rule for estimates out of range replaces
    /// its clipping. It sees the release as one of undefended scores, whatever was released of
    /// other records.
    pub base: Arc<dyn Attack>,
    /// The knowledge of the features.
    pub knowledge: StatedKnowledge,
    /// The training configuration of the joint model, if it is known; otherwise the defaults of
    /// [`TrainingConfig`] are used. [`SideInformation::recipe`](super::SideInformation::recipe)
    /// takes precedence.
    pub recipe: Option<TrainingConfig>,
    /// True if the records seen are the first of the targets. Then their released scores are
    /// attacked instead of ĉ, unless they are labels or ciphertexts.
    pub seen_are_targets: bool,
}

impl Default for Agnostic {
    /// Returns the attack on the base `half_star`.
    fn default() -> Self {
        Self {
            settings: AgnosticSettings::default(),
            base: Arc::new(HalfStar { clamped: false }),
            knowledge: StatedKnowledge::default(),
            recipe: None,
            seen_are_targets: false,
        }
    }
}

/// The result of the attack. `Debug` shows shapes only.
#[derive(Clone, PartialEq)]
pub struct AgnosticResult {
    /// The estimates of the targets.
    pub reconstruction: Reconstruction,
    /// ĉ of the targets, k × n, including those that were seen.
    pub scores: DMatrix<f64>,
    /// The adversary model.
    pub model: AdversaryModel,
    /// The result of its fit.
    pub fit: AdversaryFit,
}

impl std::fmt::Debug for AgnosticResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AgnosticFound({:?}, {:?}, {:?})", self.reconstruction, self.model, self.fit)
    }
}

impl Agnostic {
    /// Fits an adversary model to the labelled records and the records seen, estimates the scores
    /// of the `targets` (own features, d_act × n), and attacks them with the base. It uses no
    /// release of the targets, unless they are [the records seen](Self::seen_are_targets).
    ///
    /// # Errors
    /// As [`AdversaryModel::fit`]; [`AttackError::View`] if the parts differ in features;
    /// [`AttackError::NeedsParameters`] in the black box; those of the base.
    pub fn attack(
        &self,
        known: &KnownModel,
        own: &LabelledRecords,
        seen: Option<ObservedRecords<'_>>,
        replacement: Replacement,
        targets: &FeatureBlock,
        rng: &mut dyn Rng,
    ) -> Result<AgnosticResult, AttackError> {
        let base = self.ruled();
        known.passive_weights()?;
        let features = known.active_weights().ncols();
        same("active features of labelled records", "features", features, own.y.features())?;
        let recipe = self.recipe.clone().unwrap_or_default();
        let (model, fit) =
            AdversaryModel::fit(&self.settings, &recipe, known.classes(), own, seen, replacement)?;
        let scores = model.scores(targets)?.into_matrix();
        let released = self.attacked(&scores, seen)?;
        let view = AdversaryView::new(known, targets, &released, replacement)?;
        let mut reconstruction = base.reconstruct(&view, rng)?;
        if !reconstruction.estimates.iter().all(|v| v.is_finite()) {
            return Err(AttackError::NotFinite { what: "an estimate" });
        }
        reconstruction.remarks.extend(self.remarks(&fit, seen));
        Ok(AgnosticResult { reconstruction, scores, model, fit })
    }

    /// Returns the scores that the base attacks: ĉ, and for targets that were seen their released
    /// scores.
    fn attacked(
        &self,
        scores: &DMatrix<f64>,
        seen: Option<ObservedRecords<'_>>,
    ) -> Result<ReleasedScores, AttackError> {
        let mut scores = scores.clone();
        let Some(ObservedRecords { released, .. }) = seen.filter(|_| self.seen_are_targets) else {
            return Ok(ReleasedScores::Probabilities(scores));
        };
        let n = released.records();
        same("scores of records seen", "classes", scores.nrows(), released.classes())?;
        same("targets that were seen", "records", n.min(scores.ncols()), n)?;
        Ok(match released {
            ReleasedScores::Probabilities(c) => {
                scores.columns_mut(0, n).copy_from(c);
                ReleasedScores::Probabilities(scores)
            }
            ReleasedScores::Numbers(c) => {
                scores.columns_mut(0, n).copy_from(c);
                ReleasedScores::Numbers(scores)
            }
            ReleasedScores::Labels { .. } | ReleasedScores::Ciphertexts(_) => {
                ReleasedScores::Probabilities(scores)
            }
        })
    }

    /// Returns the base attack in the stated ranges, with the rule in place of its clipping.
    fn ruled(&self) -> Box<dyn Attack> {
        let ruled = out_of_range::OutOfRangeCorrection {
            inner: self.base.clone(),
            rule: self.settings.out_of_range,
        };
        self.knowledge.wrap(Box::new(ruled))
    }

    fn remarks(&self, fit: &AdversaryFit, seen: Option<ObservedRecords<'_>>) -> Vec<String> {
        let mut remarks = Vec::new();
        let trained = self.settings.l2.is_none();
        if trained && self.recipe.is_none() {
            remarks.push(
                "how the joint model was trained is not known: the adversary's model was trained with default settings, which may \
                 make it weaker; l2 states another fit"
                    .into(),
            );
        }
        if !fit.converged {
            remarks.push(match trained {
                true => {
                    format!(
                        "the adversary's model used all {} epochs before its loss stopped falling",
                        fit.iterations
                    )
                }
                false => {
                    format!(
                        "the fit of the adversary model stopped after {} steps, short of a minimum",
                        fit.iterations
                    )
                }
            });
        }
        let labels = seen.is_some_and(|s| {
            matches!(s.released, ReleasedScores::Labels { .. } | ReleasedScores::Ciphertexts(_))
        });
        if labels && self.settings.beta == 0.0 {
            remarks.push(
                "what was released has no scores for alpha to refine the adversary model by; set beta above 0".into(),
            );
        }
        remarks
    }
}

impl Attack for Agnostic {
    fn needs(&self) -> Needs {
        Needs {
            labelled: Need::Yes,
            seen: self.settings.observed,
            release: Need::No,
            parameters: self.base.needs().parameters,
            ..Needs::RELEASE
        }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let has = view.side_information();
        let own = has.labelled.ok_or(AttackError::NoLabelled { attack: "agnostic" })?;
        let attack = Self {
            seen_are_targets: self.seen_are_targets || has.seen_are_targets,
            recipe: has.recipe.or(self.recipe.as_ref()).cloned(),
            ..self.clone()
        };
        let found =
            attack.attack(view.model(), own, has.seen, view.replacement(), view.active(), rng)?;
        let seen = has.seen.map_or(0, |seen| seen.released.records());
        let vectors = |seen: &ObservedRecords<'_>| {
            matches!(seen.released, ReleasedScores::Probabilities(_) | ReleasedScores::Numbers(_))
        };
        let estimated = EstimatedScores {
            mismatch: has.seen.map(|seen| found.model.mismatch(seen)).transpose()?,
            scores: found.scores,
            fit: found.fit,
            labelled: own.labels.len(),
            seen,
            own_scores: if attack.seen_are_targets && has.seen.as_ref().is_some_and(vectors) {
                seen
            } else {
                0
            },
        };
        Ok(Reconstruction { estimated: Some(Box::new(estimated)), ..found.reconstruction })
    }
}
