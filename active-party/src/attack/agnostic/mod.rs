//! Agnostic attacks: on records that the adversary has no score of (V section IV).
//!
//! The active party has labelled records of its own, those of the training among them. A model fitted to its own features and
//! those labels estimates the scores of any record, asked about or not; the estimate takes the scores' place in an attack of
//! the white box. Scores of *other* records, which it did ask for, refine the model. No defense of the scores touches the
//! attack on records that are never asked about.

mod adversary_model;
mod objective;
mod out_of_range;

use nalgebra::DMatrix;
use rand::Rng;
use vfl_shared::metrics::ScoreMismatch;
use vfl_shared::types::{FeatureBlock, ReleasedScores};

use super::known_model::same;
use super::method::{Entry, Group};
use super::settings::{BASE, Setting, weight};
use super::{
    AdversaryView, Attack, AttackError, KnownModel, Method, Need, Needs, Reconstruction, Replacement, Settings,
};

pub use adversary_model::{AdversaryFit, AdversaryModel};
pub use objective::AgnosticObjective;
pub use out_of_range::OutOfRange;

/// Labelled records of the adversary's own. `Debug` shows no value.
#[derive(Clone, PartialEq)]
pub struct LabelledRecords {
    /// Its features of them, d_act × n_t.
    pub y: FeatureBlock,
    /// The class of each, from 0 and below k.
    pub labels: Vec<u32>,
}

impl std::fmt::Debug for LabelledRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LabelledRecords({:?}, {} labels)", self.y, self.labels.len())
    }
}

/// Records already asked about: the adversary's own features, and what was released.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// d_act × n_p.
    pub y: &'a FeatureBlock,
    /// Of the same records, of any kind. Of labels and ciphertexts only the predicted class is used (V section IV-B1).
    pub released: &'a ReleasedScores,
}

/// Settings of the agnostic attack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgnosticSettings {
    /// Weight α ≥ 0 of the squared log-ratios to scores seen. Nothing where labels or ciphertexts were released.
    pub alpha: f64,
    /// Weight β ≥ 0 of the cross-entropy to the predicted classes seen.
    pub beta: f64,
    /// Weight of ‖W‖²_F, at least 0.
    pub l2: f64,
    /// The attack of the white box that the estimated scores go to.
    pub base: Method,
    /// What becomes of estimates out of range. It takes the place of the clipping of `clamped_least_squares` and
    /// `clamped_half_star`.
    pub out_of_range: OutOfRange,
    /// n_p, how many records to ask about first, for callers that ask. The attack itself does not look at it.
    pub observed: usize,
}

impl Default for AgnosticSettings {
    /// α = 1, β = 0 (V remark 1), l2 = 1e-3 (V names no weight), clamped `half_star`, nothing asked first.
    fn default() -> Self {
        Self {
            alpha: 1.0,
            beta: 0.0,
            l2: 1e-3,
            base: Method::ClampedHalfStar,
            out_of_range: OutOfRange::Clamp,
            observed: 0,
        }
    }
}

static OBSERVED: Setting<usize> = Setting {
    key: "observed",
    takes: "how many records agnostic asks about first, to refine its model: a whole number (default 0)",
    read: |value| value.trim().parse().ok(),
};
static ALPHA: Setting<f64> = Setting {
    key: "alpha",
    takes: "weight of the scores seen, in the model of agnostic: a number of at least 0 (default 1; nothing for labels)",
    read: weight,
};
static BETA: Setting<f64> = Setting {
    key: "beta",
    takes: "weight of the predicted classes seen, in the model of agnostic: a number of at least 0 (default 0)",
    read: weight,
};
static L2: Setting<f64> = Setting {
    key: "l2",
    takes: "weight of the squared weights, in the model of agnostic: a number of at least 0 (default 0.001)",
    read: weight,
};
static OUT_OF_RANGE: Setting<OutOfRange> = Setting {
    key: "out_of_range",
    takes: "what agnostic makes of estimates out of range: `keep`, `clamp`, `half` (these become 1/2) or `all_half` (all of the \
            record do) (default clamp)",
    read: |value| OutOfRange::named(value.trim()),
};

impl From<&Settings> for AgnosticSettings {
    fn from(settings: &Settings) -> Self {
        let default = Self::default();
        Self {
            alpha: settings.get(&ALPHA).unwrap_or(default.alpha),
            beta: settings.get(&BETA).unwrap_or(default.beta),
            l2: settings.get(&L2).unwrap_or(default.l2),
            base: settings.get(&BASE).unwrap_or(default.base),
            out_of_range: settings.get(&OUT_OF_RANGE).unwrap_or(default.out_of_range),
            observed: settings.get(&OBSERVED).unwrap_or(default.observed),
        }
    }
}

/// `agnostic`.
pub(super) static AGNOSTIC: Entry = Entry {
    settings: &[&BASE, &OBSERVED, &ALPHA, &BETA, &L2, &OUT_OF_RANGE],
    // What is known of the features goes to the base.
    informed: true,
    ..Entry::new("agnostic", Group::Helped, |settings| Box::new(Agnostic::from(settings)))
};

/// The attack.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Agnostic {
    /// Its own settings.
    pub settings: AgnosticSettings,
    /// Settings of the base attack. The release it sees is one of scores as they are, whatever was released of other records.
    pub inner: Settings,
    /// Whether the records seen are the first of the targets. Their released scores are then attacked instead of ĉ; of labels and
    /// ciphertexts, ĉ is.
    pub seen_are_targets: bool,
}

impl From<&Settings> for Agnostic {
    fn from(settings: &Settings) -> Self {
        Self { settings: settings.into(), inner: settings.clone(), seen_are_targets: false }
    }
}

/// What the attack found. `Debug` shows shapes only.
#[derive(Clone, PartialEq)]
pub struct AgnosticFound {
    /// The estimates of the targets.
    pub reconstruction: Reconstruction,
    /// ĉ of the targets, k × n, for those that were seen too.
    pub scores: DMatrix<f64>,
    /// The adversary model.
    pub model: AdversaryModel,
    /// How its fit ended.
    pub fit: AdversaryFit,
}

impl std::fmt::Debug for AgnosticFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AgnosticFound({:?}, {:?}, {:?})", self.reconstruction, self.model, self.fit)
    }
}

impl Agnostic {
    /// Fits an adversary model to the labelled records and what was seen, estimates the scores of the `targets` (own features,
    /// d_act × n), and attacks them with the base. Nothing that was released of the targets comes in, unless they are
    /// [the ones seen](Self::seen_are_targets).
    ///
    /// # Errors
    /// As [`AdversaryModel::fit`]; [`AttackError::Base`] for a base that does not run on one release in the white box;
    /// [`AttackError::View`] if the parts differ in features; [`AttackError::NeedsParameters`] in the black box; those of the base.
    pub fn attack(
        &self,
        known: &KnownModel,
        own: &LabelledRecords,
        seen: Option<Seen<'_>>,
        replacement: Replacement,
        targets: &FeatureBlock,
        rng: &mut dyn Rng,
    ) -> Result<AgnosticFound, AttackError> {
        let base = self.base()?;
        known.passive_weights()?;
        let features = known.active_weights().ncols();
        same("active features of labelled records", "features", features, own.y.features())?;
        let (model, fit) = AdversaryModel::fit(&self.settings, known.classes(), own, seen, replacement)?;
        let scores = model.scores(targets)?.into_matrix();
        let released = self.attacked(&scores, seen)?;
        let view = AdversaryView::new(known, targets, &released, replacement)?;
        let mut reconstruction = base.reconstruct(&view, rng)?;
        if !reconstruction.estimates.iter().all(|v| v.is_finite()) {
            return Err(AttackError::NotFinite { what: "an estimate" });
        }
        reconstruction.remarks.extend(self.remarks(&fit, seen));
        Ok(AgnosticFound { reconstruction, scores, model, fit })
    }

    /// What the base attacks: ĉ, with the scores of targets that were seen in place of their own ĉ.
    fn attacked(&self, scores: &DMatrix<f64>, seen: Option<Seen<'_>>) -> Result<ReleasedScores, AttackError> {
        let mut scores = scores.clone();
        let Some(Seen { released, .. }) = seen.filter(|_| self.seen_are_targets) else {
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
            ReleasedScores::Labels { .. } | ReleasedScores::Ciphertexts(_) => ReleasedScores::Probabilities(scores),
        })
    }

    /// The base attack with the rule in place of its clipping, in the ranges stated.
    fn base(&self) -> Result<Box<dyn Attack>, AttackError> {
        let AgnosticSettings { base, out_of_range: rule, .. } = self.settings;
        if !base.is_base() {
            return Err(AttackError::Base { got: base.as_str() });
        }
        // The rule takes the place of the base's own clipping.
        let unclipped = base.unclipped().unwrap_or(base);
        let ruled = out_of_range::Ruled { inner: unclipped.plain(&self.inner), rule };
        Ok(self.inner.knowledge().wrap(Box::new(ruled)))
    }

    fn remarks(&self, fit: &AdversaryFit, seen: Option<Seen<'_>>) -> Vec<String> {
        let mut remarks = Vec::new();
        if !fit.converged {
            remarks.push(format!(
                "the fit of the adversary model stopped after {} steps, short of a minimum",
                fit.iterations
            ));
        }
        let labels =
            seen.is_some_and(|s| matches!(s.released, ReleasedScores::Labels { .. } | ReleasedScores::Ciphertexts(_)));
        if labels && self.settings.beta == 0.0 {
            remarks.push(
                "what was released has no scores for alpha to refine the adversary model by; set beta above 0".into(),
            );
        }
        remarks
    }
}

/// What stands behind estimates that were made from scores of the adversary's own model. `Debug` shows shapes only.
#[derive(Clone, PartialEq)]
pub struct EstimatedScores {
    /// The scores as estimated, k × n.
    pub scores: DMatrix<f64>,
    /// How the fit of the model ended.
    pub fit: AdversaryFit,
    /// Its scores and those of the records seen.
    pub mismatch: Option<ScoreMismatch>,
    /// Labelled records that the model was fitted to.
    pub labelled: usize,
    /// Records seen that it was fitted to.
    pub seen: usize,
    /// Records under attack whose own score was attacked instead.
    pub own_scores: usize,
}

impl std::fmt::Debug for EstimatedScores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (k, n) = self.scores.shape();
        write!(f, "EstimatedScores({k} × {n}, {} labelled, {} seen, values withheld)", self.labelled, self.seen)
    }
}

impl Attack for Agnostic {
    fn needs(&self) -> Needs {
        Needs {
            labelled: Need::Yes,
            seen: self.settings.observed,
            release: Need::No,
            parameters: self.settings.base.plain(&self.inner).needs().parameters,
            ..Needs::RELEASE
        }
    }

    fn reconstruct(&self, view: &AdversaryView<'_>, rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let has = view.has();
        let own = has.labelled.ok_or(AttackError::NoLabelled { attack: "agnostic" })?;
        let attack = Self { seen_are_targets: self.seen_are_targets || has.seen_are_targets, ..self.clone() };
        let found = attack.attack(view.model(), own, has.seen, view.replacement(), view.active(), rng)?;
        let seen = has.seen.map_or(0, |seen| seen.released.records());
        let vectors =
            |seen: &Seen<'_>| matches!(seen.released, ReleasedScores::Probabilities(_) | ReleasedScores::Numbers(_));
        let estimated = EstimatedScores {
            mismatch: has.seen.map(|seen| found.model.mismatch(seen)).transpose()?,
            scores: found.scores,
            fit: found.fit,
            labelled: own.labels.len(),
            seen,
            own_scores: if attack.seen_are_targets && has.seen.as_ref().is_some_and(vectors) { seen } else { 0 },
        };
        Ok(Reconstruction { estimated: Some(Box::new(estimated)), ..found.reconstruction })
    }
}
