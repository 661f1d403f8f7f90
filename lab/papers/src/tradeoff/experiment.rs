//! The attack on one rewritten model, from which all figures of trade-offs are made.

use std::time::Duration;

use nalgebra::DMatrix;
use vfl_attack::{AdversaryView, AttackError, KnownModel, Method, Replacement, Settings};
use vfl_core::metrics::squared_error_by_record;
use vfl_core::types::{FeatureBlock, ReleasedScores};
use vfl_transform::assess::release_errors;
use vfl_transform::{RewrittenParameters, StiefelCase, TransformConfig, TransformError, rewrite};

use crate::experiment_model::{DrawnRecords, Purpose, generator};
use crate::statistics::{Mean, mean};
use crate::sweep::{Window, beyond, select};
use crate::workers::cpu_time;
use crate::{ExperimentModel, ReproduceError, undo};

/// The distances as shares of the mean square of a weight: squares of equal steps, since ‖W_n −
/// W_pas‖ is their root.
pub(super) const SHARES: [f64; 9] = [0.0, 0.01, 0.04, 0.09, 0.16, 0.25, 0.36, 0.49, 0.64];

/// A target distance g.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Distance {
    /// A share of the mean square of a weight in the split.
    Share(f64),
    /// The value ε itself, the same in every split.
    Epsilon(f64),
}

/// The three levels of figure 12.
pub(super) const LEVELS: [(Distance, &str); 3] = [
    (Distance::Share(0.02), "epsilon_2_percent"),
    (Distance::Share(0.1), "epsilon_10_percent"),
    (Distance::Share(0.4), "epsilon_40_percent"),
];

/// V's own levels on satellite, the only ones that its text prints.
pub(super) const PRINTED: [(Distance, &str); 3] = [
    (Distance::Epsilon(0.001), "epsilon_0.001"),
    (Distance::Epsilon(0.01), "epsilon_0.01"),
    (Distance::Epsilon(0.022), "epsilon_0.022"),
];

/// One curve of a figure of trade-offs.
pub(super) struct Line {
    pub(super) case: Case,
    pub(super) d: usize,
}

impl Line {
    pub(super) fn name(&self) -> String {
        format!("{}_d{}", self.case.name(), self.d)
    }
}

/// The number of records of a split that the adversary that suspects a transform examines.
pub(super) const EXAMINED: usize = 60;
/// The number of starting points of a search.
const STARTS: u32 = 8;

/// The cases of V.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    /// Rotation W_pas R against `half_star`, d ≥ k.
    I,
    /// Rotation W_pas R against least squares, 1 < d < k.
    Ii,
    /// One passive feature, d = 1.
    Iii,
    /// Two classes, k = 2.
    Iv,
}

impl Case {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::I => "case_i",
            Self::Ii => "case_ii",
            Self::Iii => "case_iii",
            Self::Iv => "case_iv",
        }
    }

    /// Returns V's case for k classes and d passive features.
    pub(super) fn of(classes: usize, d: usize) -> Self {
        match (classes, d) {
            (2, _) => Self::Iv,
            (_, 1) => Self::Iii,
            (k, d) if d < k => Self::Ii,
            _ => Self::I,
        }
    }

    pub(super) fn config(self, epsilon: f64) -> TransformConfig {
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

/// The results of attacking one rewritten model.
#[derive(Debug, Clone)]
pub(super) struct RewriteResult {
    /// The target distance.
    pub(super) epsilon: f64,
    /// The actual distance g.
    pub(super) distance: f64,
    /// The distance g as a share of the mean square of a weight.
    pub(super) relative: f64,
    /// The mean error over records.
    pub(super) error: Mean,
    /// The same error in closed form, from the moments of the same records: V (38), (47), (49) and
    /// (53) for their W_n.
    pub(super) told: f64,
    /// The errors of ½, and of the attack on the true parameters.
    pub(super) half: f64,
    pub(super) true_parameters: f64,
    /// True if the adversary that knows the means of the features detects that the parameters are
    /// not the true ones.
    pub(super) seen_through: bool,
    /// The error of this adversary, which then guesses the means.
    pub(super) suspicious: f64,
    /// The errors of the adversary that knows means and covariances of all features: without a
    /// score, and with scores and the released parameters.
    pub(super) control: f64,
    pub(super) informed: f64,
    pub(super) cpu: Duration,
}

pub(super) struct Experiment<'a> {
    pub(super) subject: &'a ExperimentModel,
    pub(super) drawn: &'a DrawnRecords,
    pub(super) seed: u64,
}

impl Experiment<'_> {
    /// Attacks the model rewritten to a distance. `None` if the case has no rewrite so far away:
    /// the error would have no bound.
    pub(super) fn at(
        &self,
        case: Case,
        d: usize,
        k0: usize,
        aim: Distance,
    ) -> Result<Option<RewriteResult>, ReproduceError> {
        let window = Window::new(self.subject, k0, d)?;
        let failed = |error| ReproduceError::Attack { curve: case.name().into(), d, k0, error };
        let w_pas = window.model.passive_weights().map_err(failed)?;
        let weights = w_pas.len() as f64;
        let epsilon = match aim {
            Distance::Share(share) => share * w_pas.norm_squared() / weights,
            Distance::Epsilon(epsilon) => epsilon,
        };
        let n = self.drawn.records();
        let truth = select(&self.drawn.x, &window.passive, n);
        let x = FeatureBlock::new(truth.clone())?;
        let start = cpu_time();
        let config = case.config(epsilon);
        let mut rng = generator(self.seed, Purpose::Transform, window.item(case as u64));
        let RewrittenParameters { weights: shown, bias_shift, .. } =
            match rewrite(&config, w_pas, Some(&x), &mut rng) {
                Ok(rewritten) => rewritten,
                Err(TransformError::Setting { .. }) => return Ok(None),
                Err(error) => {
                    return Err(ReproduceError::Transform {
                        transform: config.name().into(),
                        d,
                        k0,
                        error,
                    });
                }
            };
        let told = release_errors(w_pas, &shown, &bias_shift, &x).map_err(|error| {
            ReproduceError::Failed { what: "the closed form", d, k0, reason: error.to_string() }
        })?;
        let distance = (&shown - w_pas).norm_squared() / weights;
        let bias = window.model.bias() + bias_shift;
        let told_as = KnownModel::white_box(window.model.active_weights().clone(), bias, shown)
            .map_err(failed)?;
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
        let examined =
            undo::examine(&told_as, &few, &self.drawn.released(m), Some(means)).map_err(failed)?;
        let error = mean(errors.iter().copied());
        let [control, informed] = beyond(self.subject, &window, &told_as, &y, &released)?;
        let of = |estimates| {
            Ok::<_, ReproduceError>(
                mean(squared_error_by_record(&estimates, &truth)?.into_iter()).mean,
            )
        };
        Ok(Some(RewriteResult {
            control: of(control)?,
            informed: of(informed)?,
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

/// Returns the squared error per feature of `half_star` on each record.
fn attack(
    model: &KnownModel,
    y: &FeatureBlock,
    released: &ReleasedScores,
    truth: &DMatrix<f64>,
) -> Result<Result<Vec<f64>, ReproduceError>, AttackError> {
    let view = AdversaryView::new(model, y, released, Replacement::default())?;
    // The method draws nothing at random.
    let mut rng = generator(0, Purpose::Attack, 0);
    let found = Method::HalfStar.build(&Settings::default()).reconstruct(&view, &mut rng)?;
    Ok(squared_error_by_record(&found.estimates, truth).map_err(Into::into))
}

pub(super) fn common_note(windows: usize) -> String {
    format!(
        "{windows} windows of each number of passive features; distances aimed at are shares of the mean square of a weight, in \
         each window; transforms are fitted to the records attacked; searches over the orthogonal group from {STARTS} starts, of \
         both components; half_star is not clipped. control and the curves that end in informed are in no paper: both know means and \
         covariances of all features from records outside the test set; informed takes the released parameters for the true ones and has \
         the scores, control has none"
    )
}

pub(super) fn average(of: &[RewriteResult], value: impl Fn(&RewriteResult) -> f64) -> f64 {
    of.iter().map(value).sum::<f64>() / of.len().max(1) as f64
}
