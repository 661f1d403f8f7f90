//! The adversary that knows that a purifier changes the scores before the release (J 6.1.3.3), and
//! trains one of its own.
//!
//! It does not know the coordinator's purifier, which was drawn from a secret. It trains its shadow
//! as the coordinator did, on scores that it can draw itself. Or it fits the shadow to records
//! whose passive features it knows, and whose scores it therefore has before and after the
//! purifier. Then it descends on the features through model and shadow. The error of the shadow is
//! measured on a second shadow, or on known records that the first was not fitted to. The larger it
//! is, the more a record is pulled towards ½ (or its prior).

use std::sync::Arc;

use nalgebra::DMatrix;
use rand::{Rng, RngExt};
use vfl_defense::DefenseConfig;
use vfl_defense::policy::PurifierTraining;
use vfl_defense::purifier::{MAX_CLASSES, Purifier, random_scores, random_vectors};

use super::KnownPolicy;
use super::preimage::vectors;
use super::purified_model::{PurifiedModel, scores_of};
use crate::gradient_inversion::{Loss, Start};
use crate::{
    AdversaryView, Attack, AttackError, AuxiliaryRecords, Differentiable, Entry, Evidence,
    GradientInversion, Group, Need, Needs, NoisyScores, Parameters, Reconstruction, Status,
};

const NAME: &str = "shadow_purifier";

/// The least number of simulated scores.
const SIMULATED: usize = 2000;

/// The least number of known records that a shadow is fitted to. A quarter of them is held back.
const LEAST_KNOWN: usize = 8;

/// The least squared error that is assumed of a shadow.
const LEAST_ERROR: f64 = 1e-10;

/// The factor on the measured squared error. Errors of a shadow are neither normal nor independent:
/// similar records err alike, a few records err far more than others, and all k scores of a record
/// err together. Without the factor the scores count for too much: on satellite with 5 features,
/// the posterior of known moments then errs more (0.0038) than without any score (0.0030), and with
/// a factor of 16 less (0.0024).
const CAUTION: f64 = 16.0;

/// Steps of the descent, and its learning rate.
const STEPS: u32 = 2000;
const LEARNING_RATE: f64 = 0.02;

/// The attack by a descent through a shadow purifier.
#[derive(Debug, Clone)]
pub struct ShadowPurifier {
    /// The known policy.
    pub known: KnownPolicy,
}

pub(crate) static SHADOW_PURIFIER: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    ..Entry::new(NAME, Group::Adaptive, |settings| {
        Box::new(ShadowPurifier { known: settings.into() })
    })
};

/// A shadow purifier with its measured error.
struct Shadow {
    purifier: Purifier,
    /// The mean squared error of an entry of its output.
    error: f64,
    /// Its origin, in words.
    made: String,
}

impl ShadowPurifier {
    /// Returns the training of the policy's purifier, and its λ.
    fn recipe(&self) -> Result<(PurifierTraining, f64), AttackError> {
        let purifiers = self.known.policy.defenses.iter().filter_map(|defense| match defense {
            DefenseConfig::Purifier { training, label_weight } => Some((*training, *label_weight)),
            _ => None,
        });
        let found: Vec<_> = purifiers.collect();
        match found[..] {
            [one] if one.1 >= 0.0 && one.1.is_finite() => Ok(one),
            _ => Err(AttackError::Policy {
                attack: NAME,
                expected: "one purifier",
                got: self.known.policy.to_string(),
            }),
        }
    }

    /// Simulates scores of the records under attack. Their features are drawn from the adversary's
    /// knowledge, `spread` times as far apart.
    fn simulated(
        &self,
        view: &AdversaryView<'_>,
        model: &dyn Differentiable,
        stretch: f64,
        spread: f64,
        rng: &mut dyn Rng,
    ) -> Result<DMatrix<f64>, AttackError> {
        let (d, n) = (view.target_features(), view.records().max(1));
        let draws = n * SIMULATED.div_ceil(n);
        let mut x = DMatrix::from_fn(d, draws, |_, _| 0.5 + spread * (rng.random::<f64>() - 0.5));
        if let Some(prior) = view.side_information().prior {
            let (means, covariance) = prior.given(view.active().matrix())?;
            // Uniform numbers with the variance of the moments: the spread counts here, the shape
            // hardly.
            let reach: Vec<f64> =
                covariance.diagonal().iter().map(|v| (12.0 * v.max(0.0)).sqrt()).collect();
            for (j, mut column) in x.column_iter_mut().enumerate() {
                for (i, u) in column.iter_mut().enumerate() {
                    *u = (means[(i, j % n)] + reach[i] * (*u - 0.5)).clamp(0.0, 1.0);
                }
            }
        }
        Ok(scores_of(model, (view.model().classes(), n), stretch, &x))
    }

    /// Returns the shadow with the least error, as far as the adversary can measure it.
    fn shadow(
        &self,
        view: &AdversaryView<'_>,
        model: &dyn Differentiable,
        stretch: f64,
        rng: &mut dyn Rng,
    ) -> Result<Shadow, AttackError> {
        let (training, label_weight) = self.recipe()?;
        let classes = view.model().classes();
        let simulated = self.simulated(view, model, stretch, 1.0, rng)?;
        let untrained =
            |_| AttackError::NotFinite { what: "a training vector of the shadow purifier" };
        // The adversary does not know how far the features spread: the second set spreads them
        // less.
        let mut train = |spread: f64| {
            let set = match training {
                PurifierTraining::Scores if spread == 1.0 => simulated.clone(),
                PurifierTraining::Scores => self.simulated(view, model, stretch, spread, rng)?,
                PurifierTraining::Random => random_scores(classes, rng),
                PurifierTraining::Normal => random_vectors(classes, rng),
            };
            Purifier::train(&set, label_weight, rng).map_err(untrained)
        };
        let shadows = [train(1.0)?, train(0.4)?];
        let error = mean_square(&(shadows[0].apply(&simulated) - shadows[1].apply(&simulated)));
        if let Some(known) =
            view.side_information().auxiliary.filter(|known| known.records() >= LEAST_KNOWN)
        {
            return fitted(view, known, shadows, stretch, rng);
        }
        let on = match training {
            PurifierTraining::Scores => "simulated scores",
            PurifierTraining::Random => "random score vectors",
            PurifierTraining::Normal => "normal numbers",
        };
        let [purifier, _] = shadows;
        Ok(Shadow { purifier, error, made: format!("trained on {on}") })
    }
}

/// Returns the best of two shadows and of their fits to known records, by its error on a quarter of
/// these that no fit has seen.
fn fitted(
    view: &AdversaryView<'_>,
    known: &AuxiliaryRecords,
    shadows: [Purifier; 2],
    stretch: f64,
    rng: &mut dyn Rng,
) -> Result<Shadow, AttackError> {
    let beside = AdversaryView::of_auxiliary(view.model(), known)?;
    let n = known.records();
    let size = (view.model().classes(), n);
    let before = scores_of(&*beside.differentiable()?, size, stretch, known.passive().matrix());
    let after = vectors(known.released())
        .map_err(|_| AttackError::unfit(NAME, "score vectors", known.released()))?;
    let held = n / 4;
    let part =
        |m: &DMatrix<f64>, from: usize, columns: usize| m.columns(from, columns).into_owned();
    let (learnt, targets) = (part(&before, held, n - held), part(after, held, n - held));
    let mut candidates = Vec::with_capacity(4);
    for shadow in shadows {
        candidates.push((
            shadow.clone(),
            format!("trained by its recipe, chosen with {held} known records"),
        ));
        let mut fitted = shadow;
        fitted
            .learn(&learnt, &targets, 0.0, rng)
            .map_err(|_| AttackError::NotFinite { what: "a known record's scores" })?;
        candidates
            .push((fitted, format!("fitted to {} known records, {held} held back", n - held)));
    }
    let (tried, released) = (part(&before, 0, held), part(after, 0, held));
    let judged = candidates.into_iter().map(|(purifier, made)| {
        let error = mean_square(&(purifier.apply(&tried) - &released));
        Shadow { purifier, error, made }
    });
    judged.min_by(|a, b| a.error.total_cmp(&b.error)).ok_or(AttackError::NoAuxiliary)
}

fn mean_square(away: &DMatrix<f64>) -> f64 {
    away.norm_squared() / away.len().max(1) as f64
}

impl Attack for ShadowPurifier {
    fn needs(&self) -> Needs {
        Needs { parameters: Parameters::Differentiable, auxiliary: Need::IfThere, ..Needs::RELEASE }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let released = view.released()?;
        let released =
            vectors(released).map_err(|_| AttackError::unfit(NAME, "score vectors", released))?;
        let k = view.model().classes();
        if k > MAX_CLASSES {
            return Err(AttackError::Steps {
                what: "classes",
                got: k as u32,
                limit: MAX_CLASSES as u64,
            });
        }
        let model = view.differentiable()?;
        let stretch = self.known.stretch().unwrap_or(1.0);
        let Shadow { purifier, error, made } = self.shadow(view, &*model, stretch, rng)?;
        let off = error.sqrt();
        let error = CAUTION * error.max(LEAST_ERROR);
        let through = PurifiedModel { model: &*model, purifier: &purifier, stretch };
        // −ln p = Σ (ĉ − c)² / (2 s²) + 6 Σ (x − ½)² for features of a uniform one's variance,
        // times 2 s² / k.
        let descent = GradientInversion::default()
            .with_loss(Loss::Mse)
            .with_start(Start::Half)
            .with_steps(STEPS)
            .and_then(|descent| descent.with_learning_rate(LEARNING_RATE))
            .and_then(|descent| descent.with_stop_loss(0.0))
            .unwrap_or_default();
        let (estimates, outcomes) =
            descent.descend(view, &through, 12.0 * error / k as f64, rng)?;
        let evidence = match view.weights() {
            Ok(weights) => Evidence::NoisyScores(NoisyScores {
                weights: weights.clone(),
                known: view.known_logits(),
                stretch,
                deviation: released.map(|_| error.sqrt()),
                scores: released.clone(),
                through: Some(Arc::new(purifier)),
            }),
            Err(_) => Evidence::Nothing,
        };
        let remarks = vec![format!(
            "the shadow purifier was {made}; it is taken to be {off:.1e} off in each score"
        )];
        Ok(Reconstruction {
            outcomes,
            evidence,
            remarks,
            ..Reconstruction::new(estimates, Status::Descent)
        })
    }
}
