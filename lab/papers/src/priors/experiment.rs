//! The adversaries of the figure: their knowledge, their attacks, and the results.

use std::time::Duration;

use nalgebra::DMatrix;
use vfl_attack as attack;
use vfl_attack::{
    AdversaryView, AuxiliaryRecords, KnownPolicy, Method, Prior, Replacement, SideInformation,
};
use vfl_core::metrics::squared_error_by_record;
use vfl_core::types::FeatureBlock;
use vfl_defense::{DefenseConfig, Policy};
use vfl_numerics::{SampleMoments, softmax_columns};

use crate::experiment_model::{DrawnRecords, Purpose, generator};
use crate::policy_release::released_behind;
use crate::statistics::{mean, ratio};
use crate::sweep::{Window, select};
use crate::workers::cpu_time;
use crate::{AddedRisk, ExperimentModel, ReproduceError};

/// The number of records that the adversary with few records knows with all features.
pub(super) const FEW: usize = 200;
/// The number of draws of these records, over which the errors of every record are averaged.
pub(super) const DRAWS: usize = 5;
/// The half-width of a 95 % interval, in standard errors.
const Z95: f64 = 1.959_963_984_540_054;
/// An adversary's knowledge of the passive features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PriorKnowledge {
    Range,
    Moments,
    Few,
    All,
}

impl PriorKnowledge {
    pub(super) const EACH: [Self; 4] = [Self::Range, Self::Moments, Self::Few, Self::All];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Moments => "mean and covariance",
            Self::Few => "200 whole records",
            Self::All => "all other records",
        }
    }

    pub(super) fn draws(self) -> usize {
        if self == Self::Few { DRAWS } else { 1 }
    }

    /// Returns the curve of the control for attacks that use moments: an adversary that knows these
    /// and has no score.
    pub(super) fn control(self) -> &'static str {
        match self {
            Self::Range => "half",
            Self::Moments => "column_mean",
            Self::Few => "records_200_control",
            Self::All => "all_records_control",
        }
    }

    /// Returns the curves of the attacks whose estimates lie in [0, 1].
    pub(super) fn attacks(self) -> impl Iterator<Item = &'static str> {
        LINES
            .iter()
            .filter(move |line| line.known == self && line.scores && line.curve != "half_star")
            .map(|l| l.curve)
    }
}

/// A curve of the figure.
pub(super) struct PriorCurve {
    pub(super) curve: &'static str,
    pub(super) known: PriorKnowledge,
    pub(super) method: Method,
    /// True if it has the scores; a control has none.
    pub(super) scores: bool,
    /// The defense of the scores that it has.
    pub(super) defense: fn() -> DefenseConfig,
}

const fn line(
    curve: &'static str,
    known: PriorKnowledge,
    method: Method,
    scores: bool,
) -> PriorCurve {
    PriorCurve { curve, known, method, scores, defense: || DefenseConfig::None {} }
}

/// Returns a line of the adversary that knows 200 records with all features, and has scores under a
/// defense.
const fn behind(curve: &'static str, method: Method, defense: fn() -> DefenseConfig) -> PriorCurve {
    PriorCurve { defense, ..line(curve, PriorKnowledge::Few, method, true) }
}

/// Three defenses: one rounds, one adds noise, one keeps only the class.
const ROUNDING: fn() -> DefenseConfig = || DefenseConfig::Rounding { decimals: 2 };
const NOISE: fn() -> DefenseConfig = || DefenseConfig::GaussianNoise { sigma: 0.1 };
const LABEL: fn() -> DefenseConfig = || DefenseConfig::ClassLabel { softening: 0.0 };

pub(super) static LINES: [PriorCurve; 26] = [
    line("half", PriorKnowledge::Range, Method::Half, false),
    line("half_star", PriorKnowledge::Range, Method::HalfStar, true),
    line("clamped_half_star", PriorKnowledge::Range, Method::ClampedHalfStar, true),
    line("column_mean", PriorKnowledge::Moments, Method::Imputation, false),
    line("moments_conditional_mean", PriorKnowledge::Moments, Method::ConditionalMean, true),
    line("moments_gaussian", PriorKnowledge::Moments, Method::Gaussian, true),
    line("moments_posterior_mean", PriorKnowledge::Moments, Method::PosteriorMean, true),
    line("records_200_control", PriorKnowledge::Few, Method::Imputation, false),
    line("records_200_conditional_mean", PriorKnowledge::Few, Method::ConditionalMean, true),
    line("records_200_gaussian", PriorKnowledge::Few, Method::Gaussian, true),
    line("records_200_posterior_mean", PriorKnowledge::Few, Method::PosteriorMean, true),
    line("all_records_control", PriorKnowledge::All, Method::Imputation, false),
    line("all_records_conditional_mean", PriorKnowledge::All, Method::ConditionalMean, true),
    line("all_records_gaussian", PriorKnowledge::All, Method::Gaussian, true),
    line("all_records_posterior_mean", PriorKnowledge::All, Method::PosteriorMean, true),
    line("records_200_kernel_control", PriorKnowledge::Few, Method::KernelImputation, false),
    line("records_200_kernel_ridge", PriorKnowledge::Few, Method::KernelRidge, true),
    behind("rounding_2_gaussian", Method::Gaussian, ROUNDING),
    behind("rounding_2_posterior_mean", Method::PosteriorMean, ROUNDING),
    behind("rounding_2_kernel_ridge", Method::KernelRidge, ROUNDING),
    behind("gaussian_noise_gaussian", Method::Gaussian, NOISE),
    behind("gaussian_noise_posterior_mean", Method::PosteriorMean, NOISE),
    behind("gaussian_noise_kernel_ridge", Method::KernelRidge, NOISE),
    behind("class_label_gaussian", Method::Gaussian, LABEL),
    behind("class_label_posterior_mean", Method::PosteriorMean, LABEL),
    behind("class_label_kernel_ridge", Method::KernelRidge, LABEL),
];

/// The controls of the adversary that knows records with all features. An attack is compared with
/// the better one.
const CONTROLS: [&str; 2] = ["records_200_control", "records_200_kernel_control"];

/// The points of a posterior that attacks take, as suffixes of their curves' names.
pub(super) const POINTS: [&str; 3] = ["conditional_mean", "gaussian", "posterior_mean"];

/// The results at one number of passive features.
pub(super) struct Point {
    pub(super) d: usize,
    /// The squared error per feature by line and record, averaged over draws.
    pub(super) errors: Vec<Vec<f64>>,
    /// The added risk of posterior_mean in each draw of few records.
    pub(super) draws: Vec<f64>,
}

impl Point {
    /// Returns the errors of a curve; empty if there is no such curve.
    pub(super) fn errors(&self, curve: &str) -> &[f64] {
        let place = LINES.iter().position(|line| line.curve == curve);
        place.map_or(&[], |place| self.errors[place].as_slice())
    }

    /// Returns the added risk of the scores for this knowledge and attack, relative to the best
    /// control with the same knowledge.
    pub(super) fn added(&self, known: PriorKnowledge, attack: &str) -> Option<AddedRisk> {
        let of = |curve: &&str| mean(self.errors(curve).iter().copied()).mean;
        let better = CONTROLS.into_iter().min_by(|a, b| of(a).total_cmp(&of(b)));
        let control = better.filter(|_| known == PriorKnowledge::Few).unwrap_or(known.control());
        let r = ratio(self.errors(attack), self.errors(control))?;
        let (share, away) = (1.0 - r.mean, Z95 * r.standard_error);
        Some(AddedRisk {
            point: self.d,
            known: known.words().into(),
            attack: attack.into(),
            control: control.into(),
            share,
            interval: [share - away, share + away],
        })
    }
}

/// The results of one draw of the knowledge at one number of passive features: errors and time per
/// line of that knowledge.
pub(super) type FinishedDraw = Vec<(Vec<f64>, Duration)>;

/// The model and the records under attack.
pub(super) struct Experiment<'a> {
    pub(super) subject: &'a ExperimentModel,
    pub(super) drawn: &'a DrawnRecords,
    pub(super) seed: u64,
}

impl Experiment<'_> {
    /// Returns the adversary's prior: moments of records that are not test records.
    fn prior(
        &self,
        window: &Window,
        known: PriorKnowledge,
        draw: usize,
    ) -> Result<Option<Prior>, ReproduceError> {
        let all = &self.subject.others;
        let of = |rows: &[usize]| select(all, rows, all.ncols());
        Ok(Some(match known {
            PriorKnowledge::Range => return Ok(None),
            PriorKnowledge::Moments => {
                let moments = SampleMoments::shrunk(&of(&window.passive));
                Prior::new(moments.mean, moments.covariance)?
            }
            PriorKnowledge::All => Prior::of_records(&of(&window.passive), &of(&window.active))?,
            PriorKnowledge::Few => {
                let records = self.few(draw);
                Prior::of_records(
                    &select(&records, &window.passive, FEW),
                    &select(&records, &window.active, FEW),
                )?
            }
        }))
    }

    /// Draws records with all features, the same for every d: features of both parties, d_t ×
    /// [`FEW`].
    fn few(&self, draw: usize) -> DMatrix<f64> {
        let all = &self.subject.others;
        let mut rng = generator(self.seed, Purpose::Auxiliary, draw as u64);
        all.select_columns(&rand::seq::index::sample(&mut rng, all.ncols(), FEW).into_vec())
    }

    /// Returns the model's scores of records (d_t × n).
    fn scores(&self, x: &DMatrix<f64>) -> DMatrix<f64> {
        let mut scores = &self.subject.weights * x;
        scores.column_iter_mut().for_each(|mut z| z += &self.subject.bias);
        softmax_columns(&mut scores);
        scores
    }

    /// Runs every line of one knowledge.
    pub(super) fn lines(
        &self,
        d: usize,
        known: PriorKnowledge,
        draw: usize,
    ) -> Result<FinishedDraw, ReproduceError> {
        let total = self.subject.features();
        let window = Window::new(self.subject, total - d, d)?;
        let n = self.drawn.records();
        let y = FeatureBlock::new(select(&self.drawn.x, &window.active, n))?;
        let truth = select(&self.drawn.x, &window.passive, n);
        let prior = self.prior(&window, known, draw)?;
        let few = (known == PriorKnowledge::Few).then(|| self.few(draw));
        let mut done = Vec::new();
        for line in LINES.iter().filter(|line| line.known == known) {
            let failed = |error| ReproduceError::Attack {
                curve: line.curve.into(),
                d,
                k0: window.k0,
                error,
            };
            let policy = Policy::of((line.defense)());
            let settings = KnownPolicy::from(policy.clone()).settings();
            let released = released_behind(&policy, self.drawn.scores(), None)?;
            let floor = Replacement::default();
            let auxiliary = match &few {
                Some(records) => {
                    let part = |rows: &[usize]| FeatureBlock::new(select(records, rows, FEW));
                    let told = released_behind(&policy, &self.scores(records), None)?;
                    let whole = AuxiliaryRecords::new(
                        part(&window.active)?,
                        part(&window.passive)?,
                        told,
                        floor,
                    );
                    Some(whole.map_err(failed)?)
                }
                None => None,
            };
            let side = SideInformation {
                prior: prior.as_ref(),
                auxiliary: auxiliary.as_ref(),
                ..SideInformation::default()
            };
            let start = cpu_time();
            let view = match line.scores {
                true => AdversaryView::new(&window.model, &y, &released, floor),
                false => AdversaryView::without_scores(&window.model, &y, floor),
            };
            let view = view.map_err(failed)?.with_side_information(side);
            let mut found = attack::run(&*line.method.build(&settings), &view, self.seed)
                .map_err(failed)?
                .estimates;
            if line.method == Method::ConditionalMean {
                // Only this attack does not know the range.
                found.apply(|x| *x = x.clamp(0.0, 1.0));
            }
            let cpu = cpu_time().saturating_sub(start);
            done.push((squared_error_by_record(&found, &truth)?, cpu));
        }
        Ok(done)
    }
}
