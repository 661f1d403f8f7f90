//! V figures 9 to 13: the error of the attack on rewritten parameters against how far they are from the true ones,
//! g = (1/(k d)) ‖W_n − W_pas‖² (V (33)).
//!
//! The adversary takes W_n for W_pas and has exact scores. `half_star` is the attack throughout: with d < k and A of full rank
//! it is least squares. Distances are shares of (1/(k d)) ‖W_pas‖², the mean square of a weight, since the papers' own values of ε
//! belong to the weights of their models; cases iii and iv have no bound from a share of about 1 on.

mod by_features;
mod checks;
mod curves;

use std::time::Duration;

use nalgebra::DMatrix;
use vfl_active_party::attack::{AdversaryView, AttackError, KnownModel, Method, Replacement, Settings};
use vfl_passive_party::assess::release_errors;
use vfl_passive_party::transform::{Rewritten, StiefelCase, TransformConfig, TransformError, rewrite};
use vfl_shared::metrics::squared_error_by_record;
use vfl_shared::types::{FeatureBlock, ReleasedScores};

use super::statistics::{Mean, mean};
use super::subject::{Drawn, Purpose, Subject, generator};
use super::sweep::{Window, select};
use super::workers::cpu_time;
use super::{ReproduceError, undo};

pub(super) use by_features::run as by_features;
pub(super) use curves::run;

/// Records of a split that the adversary who suspects a transform looks at.
const EXAMINED: usize = 60;
/// Starting points of a search.
const STARTS: u32 = 8;

/// V's cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    /// W_pas R against `half_star`, d ≥ k.
    I,
    /// W_pas R against least squares, 1 < d < k.
    Ii,
    /// d = 1.
    Iii,
    /// k = 2.
    Iv,
}

impl Case {
    fn name(self) -> &'static str {
        match self {
            Self::I => "case_i",
            Self::Ii => "case_ii",
            Self::Iii => "case_iii",
            Self::Iv => "case_iv",
        }
    }

    /// The case that V means for k classes and d passive features.
    fn of(classes: usize, d: usize) -> Self {
        match (classes, d) {
            (2, _) => Self::Iv,
            (_, 1) => Self::Iii,
            (k, d) if d < k => Self::Ii,
            _ => Self::I,
        }
    }

    fn config(self, epsilon: f64) -> TransformConfig {
        let stiefel = |case| TransformConfig::Stiefel {
            epsilon,
            randomised: false,
            case: Some(case),
            penalty: None,
            starts: Some(STARTS),
        };
        match self {
            _ if epsilon == 0.0 => TransformConfig::None {},
            Self::I => stiefel(StiefelCase::I),
            Self::Ii => stiefel(StiefelCase::Ii),
            Self::Iii => TransformConfig::SingleFeature { epsilon, randomised: false },
            Self::Iv => TransformConfig::Binary { epsilon, randomised: false },
        }
    }
}

/// One rewritten model, attacked.
#[derive(Debug, Clone)]
struct Found {
    /// What was aimed at.
    epsilon: f64,
    /// g.
    distance: f64,
    /// g as a share of the mean square of a weight.
    relative: f64,
    /// Mean error over records.
    error: Mean,
    /// The same in closed form, from the moments of the same records: V (38), (47), (49) and (53) for their W_n.
    told: f64,
    /// Errors of ½, and of the attack on the true parameters.
    half: f64,
    true_parameters: f64,
    /// Whether the adversary who knows the means of the features sees that the parameters are not the true ones.
    seen_through: bool,
    /// The error of this adversary, who then guesses the means.
    suspicious: f64,
    cpu: Duration,
}

struct Experiment<'a> {
    subject: &'a Subject,
    drawn: &'a Drawn,
    seed: u64,
}

impl Experiment<'_> {
    /// At a distance that is this share of the mean square of a weight in the split. `None` where the case has no rewrite so far
    /// away: the error would have no bound.
    fn at(&self, case: Case, d: usize, k0: usize, share: f64) -> Result<Option<Found>, ReproduceError> {
        let window = Window::new(self.subject, k0, d)?;
        let failed = |error| ReproduceError::Attack { curve: case.name().into(), d, k0, error };
        let w_pas = window.model.passive_weights().map_err(failed)?;
        let weights = w_pas.len() as f64;
        let epsilon = share * w_pas.norm_squared() / weights;
        let n = self.drawn.records();
        let truth = select(&self.drawn.x, &window.passive, n);
        let x = FeatureBlock::new(truth.clone())?;
        let start = cpu_time();
        let config = case.config(epsilon);
        let mut rng = generator(self.seed, Purpose::Transform, window.item(case as u64));
        let Rewritten { weights: shown, bias_shift, .. } = match rewrite(&config, w_pas, Some(&x), &mut rng) {
            Ok(rewritten) => rewritten,
            Err(TransformError::Setting { .. }) => return Ok(None),
            Err(error) => return Err(ReproduceError::Transform { transform: config.name().into(), d, k0, error }),
        };
        let told = release_errors(w_pas, &shown, &bias_shift, &x).map_err(|error| ReproduceError::Failed {
            what: "the closed form",
            d,
            k0,
            reason: error.to_string(),
        })?;
        let distance = (&shown - w_pas).norm_squared() / weights;
        let bias = window.model.bias() + bias_shift;
        let told_as = KnownModel::white_box(window.model.active_weights().clone(), bias, shown).map_err(failed)?;
        let y = FeatureBlock::new(select(&self.drawn.x, &window.active, n))?;
        let released = self.drawn.released(n);
        let errors = attack(&told_as, &y, &released, &truth).map_err(failed)??;
        let exact = attack(&window.model, &y, &released, &truth).map_err(failed)??;
        let half = squared_error_by_record(&DMatrix::from_element(d, n, 0.5), &truth)?;
        let m = n.min(EXAMINED);
        let means = undo::column_means(self.subject, &window);
        let guess = DMatrix::from_fn(d, n, |i, _| means[i]);
        let guessed = mean(squared_error_by_record(&guess, &truth)?.iter().copied()).mean;
        let few = FeatureBlock::new(select(&self.drawn.x, &window.active, m))?;
        let examined = undo::examine(&told_as, &few, &self.drawn.released(m), Some(means)).map_err(failed)?;
        let error = mean(errors.iter().copied());
        Ok(Some(Found {
            seen_through: examined.seen_through,
            suspicious: if examined.seen_through { guessed } else { error.mean },
            epsilon,
            distance,
            relative: distance / (w_pas.norm_squared() / weights).max(f64::MIN_POSITIVE),
            error,
            told: told.half_star,
            half: mean(half.iter().copied()).mean,
            true_parameters: mean(exact.iter().copied()).mean,
            cpu: cpu_time().saturating_sub(start),
        }))
    }
}

/// Squared error per feature of `half_star` on each record.
fn attack(
    model: &KnownModel,
    y: &FeatureBlock,
    released: &ReleasedScores,
    truth: &DMatrix<f64>,
) -> Result<Result<Vec<f64>, ReproduceError>, AttackError> {
    let view = AdversaryView::new(model, y, released, Replacement::default())?;
    // Nothing random is in it.
    let mut rng = generator(0, Purpose::Attack, 0);
    let found = Method::HalfStar.build(&Settings::default()).reconstruct(&view, &mut rng)?;
    Ok(squared_error_by_record(&found.estimates, truth).map_err(Into::into))
}

fn common_note(windows: usize) -> String {
    format!(
        "{windows} windows of each number of passive features; distances aimed at are shares of the mean square of a weight, in \
         each window; transforms are fitted to the records attacked; searches over the orthogonal group from {STARTS} starts, of \
         both components; half_star is not clipped"
    )
}

fn average(of: &[Found], value: impl Fn(&Found) -> f64) -> f64 {
    of.iter().map(value).sum::<f64>() / of.len().max(1) as f64
}
