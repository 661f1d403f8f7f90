//! Levenberg-Marquardt steps on a block of points of one record, within the box [0, 1]^d.

use vfl_core::model::{LANES, Lanes};
use vfl_numerics::dense::{cholesky, solve};

use super::Fit;
use crate::LogitBlock;

/// The damping of a first step, as a share of the largest squared length of a residual's slopes. A
/// large one stays near the start, which is worth more than the steps that it costs.
const FIRST_DAMPING: f64 = 0.1;
/// The damping of a first step near a point that has the scores.
const NEARBY_DAMPING: f64 = 1e-10;
/// The least damping.
const LEAST_DAMPING: f64 = 1e-14;
/// The damping at which a point counts as stuck.
const STUCK: f64 = 1e10;
/// The most times that a step is computed anew without the features that it moves out of the box.
const PASSES: usize = 3;
/// The share of the objective that a step has to gain where a prior counts.
const GAIN: f64 = 1e-10;

/// The variance of a feature that is uniform in [0, 1].
const UNIFORM_VARIANCE: f64 = 1.0 / 12.0;

/// Returns the precision of the features' prior beside a fit.
fn precision_of(fit: &Fit) -> f64 {
    if fit.is_noisy() { 1.0 / UNIFORM_VARIANCE } else { 0.0 }
}

/// The limits of a run of steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The most steps.
    pub(super) steps: u32,
    /// The damping of the first step, as a share of [`Descent::scale`].
    pub(super) damping: f64,
    /// The objective at which a point rests.
    pub(super) least: f64,
}

impl Limits {
    /// Returns the limits from a start.
    pub(super) fn from_start(steps: u32, least: f64) -> Self {
        Self { steps, damping: FIRST_DAMPING, least }
    }

    /// Returns the limits near a point that has the scores.
    pub(super) fn nearby(steps: u32, least: f64) -> Self {
        Self { steps, damping: NEARBY_DAMPING, least }
    }
}

/// The features of one record that a prior prefers: normal around `centre` with one precision for
/// all. With exact scores it only chooses among the points that have them.
#[derive(Debug, Clone, Copy)]
struct Preference<'a> {
    /// The preferred point, d.
    centre: &'a [f64],
    /// The inverse of the variance; 0 for none.
    precision: f64,
}

/// [`LANES`] points of one record, each with the residuals and their slopes there.
pub(super) struct Descent<'a> {
    block: Box<dyn LogitBlock + 'a>,
    fit: Fit,
    preference: Preference<'a>,
    /// The points, d.
    pub(super) x: Vec<Lanes>,
    /// The objectives: the squared misfit, and that of the prior.
    pub(super) value: [f64; LANES],
    /// True for the points at which no step gains more, false where the steps ran out.
    pub(super) rests: [bool; LANES],
    /// The number of steps taken.
    pub(super) steps: u32,
    trial: Vec<Lanes>,
    logits: Vec<Lanes>,
    slopes: Vec<Lanes>,
    gradient: Vec<Lanes>,
    residuals: Vec<Lanes>,
    trial_residuals: Vec<Lanes>,
    /// The slopes of the residuals, k × d, row after row.
    jacobian: Vec<Lanes>,
    lane: Lane,
}

/// Memory for the step of one point.
#[derive(Default)]
struct Lane {
    free: Vec<usize>,
    /// The slopes in the free features, k × free, row after row.
    rows: Vec<f64>,
    matrix: Vec<f64>,
    right: Vec<f64>,
    linear: Vec<f64>,
}

impl<'a> Descent<'a> {
    /// Places all points at 0.
    pub(super) fn new(
        block: Box<dyn LogitBlock + 'a>,
        fit: Fit,
        centre: &'a [f64],
        classes: usize,
    ) -> Self {
        let (d, zeros) = (centre.len(), |n| vec![Lanes::all(0.0); n]);
        let preference = Preference { centre, precision: precision_of(&fit) };
        Self {
            block,
            fit,
            preference,
            x: zeros(d),
            value: [f64::INFINITY; LANES],
            rests: [false; LANES],
            steps: 0,
            trial: zeros(d),
            logits: zeros(classes),
            slopes: zeros(classes),
            gradient: zeros(d),
            residuals: zeros(classes),
            trial_residuals: zeros(classes),
            jacobian: zeros(classes * d),
            lane: Lane::default(),
        }
    }

    /// Takes another fit. The points have to be opened again.
    pub(super) fn refit(&mut self, fit: Fit) {
        self.preference.precision = precision_of(&fit);
        self.fit = fit;
    }

    /// Returns the squared distance of a point to the preferred one.
    pub(super) fn distance(&self, lane: usize) -> f64 {
        self.x.iter().zip(self.preference.centre).map(|(x, m)| (x.0[lane] - m).powi(2)).sum()
    }

    /// Computes the residuals at the points, or at the trial points. Returns the objectives.
    fn evaluate(&mut self, at_trial: bool) -> [f64; LANES] {
        let (x, residuals) = match at_trial {
            true => (&self.trial, &mut self.trial_residuals),
            false => (&self.x, &mut self.residuals),
        };
        self.block.logits(x, &mut self.logits);
        self.fit.residuals(&mut self.logits, residuals);
        let Preference { centre, precision } = self.preference;
        std::array::from_fn(|l| {
            let misfit: f64 = residuals.iter().map(|r| r.0[l] * r.0[l]).sum();
            let away: f64 = x.iter().zip(centre).map(|(x, m)| (x.0[l] - m).powi(2)).sum();
            let value = misfit + precision * away;
            if value.is_nan() { f64::INFINITY } else { value }
        })
    }

    /// Computes the objectives and the slopes at the points.
    pub(super) fn open(&mut self) {
        self.value = self.evaluate(false);
        let d = self.x.len();
        for class in 0..self.residuals.len() {
            self.fit.slopes(class, &self.logits, &mut self.slopes);
            self.block.pull_back(&self.slopes, &mut self.gradient);
            self.jacobian[class * d..][..d].copy_from_slice(&self.gradient);
        }
    }

    /// Takes steps from the points, which are open, within limits. The damping follows the ratio of
    /// the gain to that of the linearised residuals (H. B. Nielsen, *Damping parameter in
    /// Marquardt's method*, Technical University of Denmark, 1999).
    pub(super) fn run(&mut self, limits: Limits) {
        let Limits { steps, damping, least } = limits;
        let scale: [f64; LANES] = std::array::from_fn(|l| self.scale(l));
        let (mut damping, mut growth) = (scale.map(|scale| damping * scale), [2.0; LANES]);
        let mut moving: [bool; LANES] =
            std::array::from_fn(|l| self.value[l] > least && self.value[l].is_finite());
        self.rests = [true; LANES];
        for _ in 0..steps {
            if !moving.contains(&true) {
                break;
            }
            self.steps += 1;
            self.trial.copy_from_slice(&self.x);
            let mut predicted = [0.0; LANES];
            for l in 0..LANES {
                if moving[l] {
                    predicted[l] = self.step(l, damping[l]);
                }
            }
            let found = self.evaluate(true);
            let mut any = false;
            for l in 0..LANES {
                if !moving[l] {
                    continue;
                }
                let gained = self.value[l] - found[l];
                if gained > 0.0 {
                    self.x.iter_mut().zip(&self.trial).for_each(|(x, to)| x.0[l] = to.0[l]);
                    let ratio = gained / (self.value[l] - predicted[l]).max(f64::MIN_POSITIVE);
                    let factor = 1.0 - (2.0 * ratio.min(2.0) - 1.0).powi(3);
                    damping[l] = (damping[l] * factor.max(0.2)).max(LEAST_DAMPING * scale[l]);
                    growth[l] = 2.0;
                    moving[l] = found[l] > least
                        && !(self.fit.is_noisy() && gained <= GAIN * (1.0 + found[l]));
                    any = true;
                } else {
                    damping[l] *= growth[l];
                    growth[l] *= 2.0;
                    moving[l] = damping[l] <= STUCK * scale[l];
                }
            }
            if any {
                self.open();
            }
        }
        (0..LANES).for_each(|l| self.rests[l] = !moving[l]);
    }

    /// Returns the largest squared length of the slopes of a residual at a point.
    fn scale(&self, l: usize) -> f64 {
        let rows = self.jacobian.chunks_exact(self.x.len().max(1));
        let lengths = rows.map(|row| row.iter().map(|slope| slope.0[l] * slope.0[l]).sum());
        lengths.fold(f64::MIN_POSITIVE, f64::max)
    }

    /// Writes the step of one point to the trial points, which are at the points: the least-squares
    /// solution of the residuals' tangents with this damping, over the features that are not held
    /// at a bound. Features that would leave the box stop at its side, and the others are solved
    /// for again. Returns the objective that the tangents give there.
    fn step(&mut self, l: usize, damping: f64) -> f64 {
        let (d, k) = (self.x.len(), self.residuals.len());
        let Preference { centre, precision } = self.preference;
        let away = |i: usize| self.x[i].0[l] - centre[i];
        let slope = |c: usize, i: usize| self.jacobian[c * d + i].0[l];
        let Lane { free, rows, matrix, right, linear } = &mut self.lane;
        free.clear();
        for i in 0..d {
            let misfit: f64 = (0..k).map(|c| slope(c, i) * self.residuals[c].0[l]).sum();
            let down = misfit + precision * away(i);
            let x = self.x[i].0[l];
            if !(x <= 0.0 && down > 0.0 || x >= 1.0 && down < 0.0) {
                free.push(i);
            }
        }
        let total = precision + damping;
        let drift = precision / total;
        // The residuals once the features that stopped at a side have moved.
        linear.clear();
        linear.extend(self.residuals.iter().map(|r| r.0[l]));
        for pass in 1..=PASSES {
            let n = free.len();
            rows.clear();
            for c in 0..k {
                rows.extend(free.iter().map(|&i| slope(c, i)));
            }
            // Less the part that the pull to the centre takes.
            right.clear();
            right.extend((0..k).map(|c| {
                let row = rows[c * n..][..n].iter().zip(&*free);
                linear[c] - drift * row.map(|(j, &i)| j * away(i)).sum::<f64>()
            }));
            if n == 0 || !least_squares(rows, (k, n), total, matrix, right) {
                break;
            }
            let mut leaves = false;
            for (&i, by) in free.iter().zip(&*right) {
                let to = self.x[i].0[l] - by - drift * away(i);
                self.trial[i].0[l] = to.clamp(0.0, 1.0);
                leaves |= !(0.0..=1.0).contains(&to);
            }
            if !leaves || pass == PASSES {
                break;
            }
            for (&i, by) in free.iter().zip(&*right) {
                let x = self.x[i].0[l];
                if !(0.0..=1.0).contains(&(x - by - drift * away(i))) {
                    let moved = self.trial[i].0[l] - x;
                    (0..k).for_each(|c| linear[c] += slope(c, i) * moved);
                }
            }
            let inside = |place: usize, i: usize| {
                (0.0..=1.0).contains(&(self.x[i].0[l] - right[place] - drift * away(i)))
            };
            let mut place = 0..;
            free.retain(|&i| place.next().is_some_and(|place| inside(place, i)));
        }
        let moved = |i: usize| self.trial[i].0[l] - self.x[i].0[l];
        let misfit: f64 = (0..k)
            .map(|c| {
                let by: f64 = (0..d).map(|i| slope(c, i) * moved(i)).sum();
                (self.residuals[c].0[l] + by).powi(2)
            })
            .sum();
        let pull: f64 = (0..d).map(|i| (self.trial[i].0[l] - centre[i]).powi(2)).sum();
        misfit + precision * pull
    }

    /// Returns the direction from a point, which is open, to the preferred one along which the
    /// residuals do not change to first order, within the box; `None` if it cannot be computed.
    pub(super) fn along(&mut self, l: usize) -> Option<Vec<f64>> {
        let (d, k) = (self.x.len(), self.residuals.len());
        let centre = self.preference.centre;
        let Lane { free, rows, matrix, right, .. } = &mut self.lane;
        free.clear();
        free.extend(0..d);
        let mut direction = vec![0.0; d];
        // Features that would leave the box are held, until none would.
        loop {
            let n = free.len();
            rows.clear();
            for c in 0..k {
                rows.extend(free.iter().map(|&i| self.jacobian[c * d + i].0[l]));
            }
            let wanted: Vec<f64> = free.iter().map(|&i| centre[i] - self.x[i].0[l]).collect();
            right.clear();
            right.extend(
                (0..k).map(|c| {
                    rows[c * n..][..n].iter().zip(&wanted).map(|(j, v)| j * v).sum::<f64>()
                }),
            );
            gram(matrix, k, |i, j| {
                rows[i * n..][..n].iter().zip(&rows[j * n..][..n]).map(|(a, b)| a * b).sum()
            });
            let trace: f64 = (0..k).map(|c| matrix[c * k + c]).sum();
            if !factor(matrix, k, 1e-9 * trace + f64::MIN_POSITIVE) {
                return None;
            }
            solve(matrix, k, right);
            direction.fill(0.0);
            for (place, (&i, wanted)) in free.iter().zip(&wanted).enumerate() {
                let back: f64 = (0..k).map(|c| rows[c * n + place] * right[c]).sum();
                direction[i] = wanted - back;
            }
            let leaves = |i: usize| {
                let (x, v) = (self.x[i].0[l], direction[i]);
                x <= 0.0 && v < 0.0 || x >= 1.0 && v > 0.0
            };
            let before = free.len();
            free.retain(|&i| !leaves(i));
            if free.len() == before || free.is_empty() {
                break;
            }
        }
        if free.is_empty() {
            direction.fill(0.0);
        }
        Some(direction)
    }
}

/// Replaces `right` (k) by the least-squares solution (n) of J y = right with λ ‖y‖² added. `rows`
/// holds J (k × n), row after row. Returns false if there is none.
fn least_squares(
    rows: &[f64],
    (k, n): (usize, usize),
    damping: f64,
    matrix: &mut Vec<f64>,
    right: &mut Vec<f64>,
) -> bool {
    let across = |right: &[f64]| -> Vec<f64> {
        (0..n).map(|i| (0..k).map(|c| rows[c * n + i] * right[c]).sum()).collect()
    };
    // (Jᵀ J + λ I)⁻¹ Jᵀ r, or Jᵀ (J Jᵀ + λ I)⁻¹ r: the smaller of the two.
    if n < k {
        *right = across(right);
        gram(matrix, n, |i, j| (0..k).map(|c| rows[c * n + i] * rows[c * n + j]).sum());
        let solved = factor(matrix, n, damping);
        if solved {
            solve(matrix, n, right);
        }
        return solved;
    }
    let row = |i: usize| &rows[i * n..][..n];
    gram(matrix, k, |i, j| row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum());
    let solved = factor(matrix, k, damping);
    if solved {
        solve(matrix, k, right);
        *right = across(right);
    }
    solved
}

/// Writes the lower triangle of a symmetric n × n matrix.
fn gram(matrix: &mut Vec<f64>, n: usize, entry: impl Fn(usize, usize) -> f64) {
    matrix.clear();
    matrix.resize(n * n, 0.0);
    for i in 0..n {
        for j in 0..=i {
            matrix[i * n + j] = entry(i, j);
        }
    }
}

/// Adds to the diagonal, and factors. Returns false if there is no factor.
fn factor(matrix: &mut [f64], n: usize, diagonal: f64) -> bool {
    (0..n).for_each(|i| matrix[i * n + i] += diagonal + f64::MIN_POSITIVE);
    cholesky(matrix, n)
}
