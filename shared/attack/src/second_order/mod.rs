//! The features of networks from scores, by second order: Levenberg-Marquardt steps from several
//! starts within the box, then a slide towards a preferred point along the points that have the
//! scores.
//!
//! Exact scores are log-ratios, r(x) = z(x) − ln c, both less their means over the classes. With
//! more features than classes a whole surface has r = 0, and the estimate is the point of it
//! nearest to the preferred one, as Half* takes it on linear models. What is known of a defense
//! gives residuals in units of their deviations, beside the prior of the features.
//!
//! J attacks networks by first order (algorithm 1); these steps are not from a paper.

mod descent;
mod fit;
mod record;

use nalgebra::{DMatrix, DVector};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use vfl_core::model::{LANES, Lanes};

use self::descent::{Descent, Limits};
pub(crate) use self::fit::Fit;
pub(crate) use self::record::FittedRecord;
use crate::{
    AdversaryView, AttackError, Differentiable, Evidence, Fits, Reconstruction, RecordOutcome,
    Status, Termination,
};

/// The most multiplications of all descents of an attack, forwards: an hour or less on one core
/// of 2020.
pub(crate) const MOST_WORK: u64 = 4_000_000_000_000;

/// The most steps from a start.
const STEPS: u32 = 150;
/// The most rounds of starts, until one has the scores.
const ROUNDS: u32 = 4;
/// The squared misfit of exact scores at which a start or a slide goes no farther.
const NEARLY: f64 = 1e-18;
/// The most steps to the round-off of exact scores.
const POLISH: u32 = 10;
/// The most steps of a slide.
const SLIDES: u32 = 15;
/// The most steps back to the scores, after each step of a slide.
const CORRECTIONS: u32 = 5;
/// The most steps with deviations that are eased, for each decade of these.
const EASED_STEPS: u32 = 20;
/// The largest deviation to begin with.
const EASIEST: f64 = 0.1;

/// A point of one record.
#[derive(Debug, Clone)]
pub(crate) struct FittedPoint {
    /// The features, d.
    pub(crate) x: DVector<f64>,
    /// The squared misfit. With noise, or where no start solves the record: in units of the
    /// deviation, with the prior's part.
    pub(crate) value: f64,
    /// True if it has the exact scores, or is a minimum beside noise.
    pub(crate) solved: bool,
    steps: u32,
}

impl From<&FittedPoint> for RecordOutcome {
    fn from(point: &FittedPoint) -> Self {
        let ended = if point.solved { Termination::Solved } else { Termination::StepLimit };
        Self { ended, iterations: point.steps, objective: point.value }
    }
}

/// Checks that an attack on a view by second order stays within its limits.
///
/// # Errors
/// [`AttackError::Steps`] with the steps of a record that would.
pub(crate) fn check_work(view: &AdversaryView<'_>) -> Result<(), AttackError> {
    let (d, k) = (view.target_features() as u64, view.model().classes() as u64);
    // All passes of a block, and the products of its slopes, for each step.
    let steps = ROUNDS * STEPS + SLIDES * (CORRECTIONS + 1) + 10 * EASED_STEPS + POLISH;
    let work = ((k + 2) * LANES as u64).saturating_mul(view.model().work() + k * d);
    let limit = MOST_WORK / work.saturating_mul(view.records() as u64).max(1);
    match u64::from(steps) <= limit {
        true => Ok(()),
        false => Err(AttackError::Steps { what: "steps of second order", got: steps, limit }),
    }
}

/// Returns the fits to a release of exact scores; `None` if those of a record do not sum to 1, as
/// behind some defenses. `floor` stands for a score of 0.
pub(crate) fn exact_fits(scores: &DMatrix<f64>, floor: f64) -> Option<Vec<Fit>> {
    if !scores.column_iter().all(|c| (c.sum() - 1.0).abs() < 1e-9 && c.iter().all(|c| *c >= 0.0)) {
        return None;
    }
    Some(as_exact(&scores.map(|c| if c > 0.0 { c } else { floor })))
}

/// Returns the fits to scores (k × n, each above 0) of which only the ratios count.
pub(crate) fn as_exact(scores: &DMatrix<f64>) -> Vec<Fit> {
    scores.column_iter().map(|column| Fit::exact(column.iter().copied(), 1.0)).collect()
}

/// The places to begin at.
pub(crate) struct Starts<'a> {
    /// The preferred point of each record, d × n: the first start, and the end of slides.
    pub(crate) centre: &'a DMatrix<f64>,
    /// A factor L of the covariance L Lᵀ of the features around it, d × d, to draw the others from;
    /// `None`: these are 0 and uniform in the box.
    pub(crate) factor: Option<&'a DMatrix<f64>>,
}

impl Starts<'_> {
    /// Returns the starts of one record in the first round, d.
    fn first(&self, record: usize, rng: &mut ChaCha8Rng) -> Vec<Lanes> {
        let mut starts = self.further(record, rng);
        for (start, centre) in starts.iter_mut().zip(&self.centre.column(record)) {
            start.0[0] = centre.clamp(0.0, 1.0);
            if self.factor.is_none() {
                start.0[1] = 0.0;
            }
        }
        starts
    }

    /// Returns further starts of one record, d.
    fn further(&self, record: usize, rng: &mut ChaCha8Rng) -> Vec<Lanes> {
        let centre = self.centre.column(record);
        let Some(factor) = self.factor else {
            return centre.iter().map(|_| Lanes(std::array::from_fn(|_| rng.random()))).collect();
        };
        let drawn = DMatrix::from_fn(factor.ncols(), LANES, |_, _| StandardNormal.sample(rng));
        let away: DMatrix<f64> = factor * drawn;
        let around = |(i, centre): (usize, &f64)| {
            Lanes(std::array::from_fn(|l| (centre + away[(i, l)]).clamp(0.0, 1.0)))
        };
        centre.iter().enumerate().map(around).collect()
    }
}

/// Estimates all records of a view (d × n), each from its fit. Features are preferred near `centre`
/// (d × n).
///
/// # Errors
/// As [`AdversaryView::differentiable`].
pub(crate) fn estimates(
    view: &AdversaryView<'_>,
    fits: &[Fit],
    centre: &DMatrix<f64>,
    rng: &mut dyn Rng,
) -> Result<(DMatrix<f64>, Vec<RecordOutcome>), AttackError> {
    let points = points(view, fits, &Starts { centre, factor: None }, rng)?;
    let best = points.iter().filter_map(|of_record| of_record.first());
    let (columns, outcomes): (Vec<_>, Vec<_>) =
        best.map(|point| (point.x.clone(), RecordOutcome::from(point))).unzip();
    let d = view.target_features();
    let estimates =
        if columns.is_empty() { DMatrix::zeros(d, 0) } else { DMatrix::from_columns(&columns) };
    Ok((estimates, outcomes))
}

/// Estimates all records of a view from their fits, with the fits as evidence. Features are taken
/// for normal around ½, with the variance of uniform ones.
///
/// # Errors
/// As [`check_work`] and [`AdversaryView::differentiable`].
pub(crate) fn likeliest(
    view: &AdversaryView<'_>,
    fits: Vec<Fit>,
    rng: &mut dyn Rng,
) -> Result<Reconstruction, AttackError> {
    check_work(view)?;
    let d = view.target_features();
    let half = DMatrix::from_element(d, view.records(), 0.5);
    let (estimates, outcomes) = estimates(view, &fits, &half, rng)?;
    let status = Status::Centre { rank: d.min(view.model().classes() - 1) };
    let evidence = Evidence::Fits(Fits(fits));
    Ok(Reconstruction { outcomes, evidence, ..Reconstruction::new(estimates, status) })
}

/// Returns the points that the starts of each record of a view lead to, the best one first: of
/// those with exact scores the nearest to the centre, else that of the least objective.
///
/// # Errors
/// As [`AdversaryView::differentiable`].
pub(crate) fn points(
    view: &AdversaryView<'_>,
    fits: &[Fit],
    starts: &Starts<'_>,
    rng: &mut dyn Rng,
) -> Result<Vec<Vec<FittedPoint>>, AttackError> {
    let (model, k, seed) = (view.differentiable()?, view.model().classes(), rng.next_u64());
    let one = |(record, fit): (usize, &Fit)| {
        // One random stream for each record, whatever thread it runs on.
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(record as u64);
        of_record(&*model, (record, fit), starts, k, &mut rng)
    };
    Ok(fits.par_iter().enumerate().map(one).collect())
}

/// Returns the points of one record, the best one first.
fn of_record(
    model: &dyn Differentiable,
    (record, fit): (usize, &Fit),
    starts: &Starts<'_>,
    classes: usize,
    rng: &mut ChaCha8Rng,
) -> Vec<FittedPoint> {
    let column = starts.centre.column(record);
    let (d, centre) = (column.len(), column.as_slice());
    let block = model.block([record; LANES]);
    let mut descent = Descent::new(block, fit.clone(), centre, classes);
    let solved_at = fit.solved_at();
    descent.x = starts.first(record, rng);
    if fit.is_noisy() {
        settle(&mut descent, fit, || starts.further(record, rng));
    } else if !search(&mut descent, solved_at, || starts.further(record, rng)) {
        // No point has these scores, or none was found: the likeliest beside their misfit.
        let misfit = descent.value.iter().copied().fold(f64::INFINITY, f64::min);
        let deviation = (misfit / classes.max(1) as f64).sqrt().max(Fit::LEAST_DEVIATION);
        if deviation.is_finite() {
            let eased = fit.eased(deviation);
            ease(&mut descent, &eased);
            descent.run(Limits::from_start(STEPS, 0.0));
        }
    } else {
        // Also where there are more equations than features: those of relu may leave some open.
        slide(&mut descent, solved_at);
        // To the round-off of the scores: networks may tell features by their last digits.
        descent.run(Limits::nearby(POLISH, 0.0));
    }
    let has_scores = |l: usize| !fit.is_noisy() && descent.value[l] <= solved_at;
    let mut lanes: Vec<usize> = (0..LANES).filter(|&l| descent.value[l].is_finite()).collect();
    let key = |l: usize| match has_scores(l) {
        true => (0, descent.distance(l)),
        false => (1, descent.value[l]),
    };
    lanes.sort_by(|&a, &b| {
        let ((a, x), (b, y)) = (key(a), key(b));
        a.cmp(&b).then(x.total_cmp(&y))
    });
    let point = |l: usize| FittedPoint {
        x: DVector::from_iterator(d, descent.x.iter().map(|x| x.0[l])),
        value: descent.value[l],
        solved: has_scores(l) || (fit.is_noisy() && descent.rests[l]),
        steps: descent.steps,
    };
    if lanes.is_empty() {
        // Logits that are not finite anywhere tell nothing.
        let x = DVector::from_column_slice(centre).map(|v| v.clamp(0.0, 1.0));
        return vec![FittedPoint { x, value: f64::MAX, solved: false, steps: descent.steps }];
    }
    lanes.into_iter().map(point).collect()
}

/// Runs rounds of starts until one meets a noisy release as well as its noise allows.
fn settle(descent: &mut Descent<'_>, fit: &Fit, mut further: impl FnMut() -> Vec<Lanes>) {
    // As many terms as residuals and features, each about 1, and three deviations of their sum.
    let terms = (fit.classes() + descent.x.len()) as f64;
    let expected = terms + 3.0 * (2.0 * terms).sqrt();
    ease(descent, fit);
    for round in 1..=ROUNDS {
        descent.run(Limits::from_start(STEPS, 0.0));
        if round == ROUNDS || descent.value.iter().any(|value| *value <= expected) {
            break;
        }
        // Wide deviations lead all starts into one valley: others go without them.
        renew(descent, further());
        descent.open();
    }
}

/// Replaces the points by others, but the best one.
fn renew(descent: &mut Descent<'_>, mut next: Vec<Lanes>) {
    let value = |l: &usize| descent.value[*l];
    let best = (0..LANES).min_by(|a, b| value(a).total_cmp(&value(b))).unwrap_or(0);
    next.iter_mut().zip(&descent.x).for_each(|(to, x)| to.0[0] = x.0[best]);
    descent.x = next;
}

/// Runs rounds of starts until one has the exact scores. Returns false if none has.
fn search(
    descent: &mut Descent<'_>,
    solved_at: f64,
    mut further: impl FnMut() -> Vec<Lanes>,
) -> bool {
    for round in 1..=ROUNDS {
        descent.open();
        descent.run(Limits::from_start(STEPS, NEARLY));
        if descent.value.iter().any(|value| *value <= solved_at) {
            return true;
        }
        if round < ROUNDS {
            renew(descent, further());
        }
    }
    false
}

/// Brings the points near a fit with small deviations, by fits with larger ones: a narrow valley is
/// followed from where it is wide. Leaves them open under the fit.
fn ease(descent: &mut Descent<'_>, fit: &Fit) {
    let mut deviation = EASIEST;
    while deviation > fit.least_deviation() {
        descent.refit(fit.eased(deviation));
        descent.open();
        descent.run(Limits::from_start(EASED_STEPS, 0.0));
        deviation *= 0.1;
    }
    descent.refit(fit.clone());
    descent.open();
}

/// Moves the points that have the scores towards the preferred one, along such points.
fn slide(descent: &mut Descent<'_>, solved_at: f64) {
    let mut length = [1.0; LANES];
    let mut moving: [bool; LANES] = std::array::from_fn(|l| descent.value[l] <= solved_at);
    for _ in 0..SLIDES {
        if !moving.contains(&true) {
            break;
        }
        let before = descent.x.clone();
        let distances: [f64; LANES] = std::array::from_fn(|l| descent.distance(l));
        for l in 0..LANES {
            if !moving[l] {
                continue;
            }
            let Some(direction) = descent.along(l) else {
                moving[l] = false;
                continue;
            };
            for (x, by) in descent.x.iter_mut().zip(direction) {
                x.0[l] = (x.0[l] + length[l] * by).clamp(0.0, 1.0);
            }
        }
        descent.open();
        descent.run(Limits::nearby(CORRECTIONS, NEARLY));
        for l in 0..LANES {
            let distance = descent.distance(l);
            let gained = distances[l] - distance;
            let is_better = descent.value[l] <= solved_at && gained > 1e-12;
            if moving[l] && is_better {
                moving[l] = gained > 1e-6 * distances[l];
                length[l] = (1.5 * length[l]).min(1.0);
                continue;
            }
            descent.x.iter_mut().zip(&before).for_each(|(x, was)| x.0[l] = was.0[l]);
            length[l] *= 0.4;
            moving[l] = moving[l] && length[l] > 1e-3;
        }
        descent.open();
    }
}
