//! Levenberg-Marquardt steps on a block of points of one record, within the box [0, 1]^d.

use vfl_core::model::{LANES, Lanes};
use vfl_numerics::dense::{cholesky, solve};

use super::Fit;
use crate::LogitBlock;

/// The damping of a first step.
const FIRST_DAMPING: f64 = 1e-2;
/// The damping of a first step near a point that has the scores.
const NEARBY_DAMPING: f64 = 1e-8;
/// The least damping.
const LEAST_DAMPING: f64 = 1e-14;
/// The damping at which a point counts as stuck.
const STUCK: f64 = 1e8;
/// The share of the objective that a step has to gain where a prior counts.
const GAIN: f64 = 1e-10;

/// The limits of a run of steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The most steps.
    pub(super) steps: u32,
    /// The damping of the first step.
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
pub(super) struct Preference<'a> {
    /// The preferred point, d.
    pub(super) centre: &'a [f64],
    /// The inverse of the variance; 0 for none.
    pub(super) precision: f64,
}

/// [`LANES`] points of one record, each with the residuals and their slopes there.
pub(super) struct Descent<'a> {
    block: Box<dyn LogitBlock + 'a>,
    fit: &'a Fit,
    preference: Preference<'a>,
    /// The points, d.
    pub(super) x: Vec<Lanes>,
    /// The objectives: the squared misfit, and that of the prior.
    pub(super) value: [f64; LANES],
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
}

impl<'a> Descent<'a> {
    /// Places all points at 0.
    pub(super) fn new(
        block: Box<dyn LogitBlock + 'a>,
        fit: &'a Fit,
        preference: Preference<'a>,
        classes: usize,
    ) -> Self {
        let (d, zeros) = (preference.centre.len(), |n| vec![Lanes::all(0.0); n]);
        Self {
            block,
            fit,
            preference,
            x: zeros(d),
            value: [f64::INFINITY; LANES],
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

    /// Takes steps from the points, which are open, within limits.
    pub(super) fn run(&mut self, limits: Limits) {
        let Limits { steps, damping, least } = limits;
        let mut damping = [damping; LANES];
        let mut moving: [bool; LANES] =
            std::array::from_fn(|l| self.value[l] > least && self.value[l].is_finite());
        for _ in 0..steps {
            if !moving.contains(&true) {
                break;
            }
            self.steps += 1;
            self.trial.copy_from_slice(&self.x);
            for l in 0..LANES {
                moving[l] = moving[l] && self.step(l, damping[l]);
            }
            let found = self.evaluate(true);
            let mut any = false;
            for l in 0..LANES {
                if !moving[l] {
                    continue;
                }
                if found[l] < self.value[l] {
                    let gained = self.value[l] - found[l];
                    self.x.iter_mut().zip(&self.trial).for_each(|(x, to)| x.0[l] = to.0[l]);
                    damping[l] = (damping[l] / 5.0).max(LEAST_DAMPING);
                    moving[l] = found[l] > least
                        && !(self.fit.is_noisy() && gained <= GAIN * (1.0 + found[l]));
                    any = true;
                } else {
                    damping[l] *= 4.0;
                    moving[l] = damping[l] <= STUCK;
                }
            }
            if any {
                self.open();
            }
        }
    }

    /// Writes the step of one point to the trial points: the least-squares solution of the
    /// residuals' tangents with this damping, over the features that are not held at a bound.
    /// Returns false if none can move.
    fn step(&mut self, l: usize, damping: f64) -> bool {
        let (d, k) = (self.x.len(), self.residuals.len());
        let Preference { centre, precision } = self.preference;
        let away = |i: usize| self.x[i].0[l] - centre[i];
        let Lane { free, rows, matrix, right } = &mut self.lane;
        free.clear();
        for i in 0..d {
            let slope: f64 =
                (0..k).map(|c| self.jacobian[c * d + i].0[l] * self.residuals[c].0[l]).sum();
            let slope = slope + precision * away(i);
            let x = self.x[i].0[l];
            if !(x <= 0.0 && slope > 0.0 || x >= 1.0 && slope < 0.0) {
                free.push(i);
            }
        }
        let n = free.len();
        if n == 0 {
            return false;
        }
        rows.clear();
        for c in 0..k {
            rows.extend(free.iter().map(|&i| self.jacobian[c * d + i].0[l]));
        }
        let total = precision + damping;
        let drift = precision / total;
        // r less the part of it that the pull to the centre takes.
        right.clear();
        right.extend((0..k).map(|c| {
            let row = &rows[c * n..][..n];
            let pulled: f64 = row.iter().zip(&*free).map(|(j, &i)| j * away(i)).sum();
            self.residuals[c].0[l] - drift * pulled
        }));
        let solved = if n < k {
            // Jᵀ r by features, then (Jᵀ J + λ I) of them.
            let gradient: Vec<f64> =
                (0..n).map(|i| (0..k).map(|c| rows[c * n + i] * right[c]).sum()).collect();
            *right = gradient;
            gram(matrix, n, |i, j| (0..k).map(|c| rows[c * n + i] * rows[c * n + j]).sum());
            factor(matrix, n, total) && {
                solve(matrix, n, right);
                true
            }
        } else {
            gram(matrix, k, |i, j| {
                rows[i * n..][..n].iter().zip(&rows[j * n..][..n]).map(|(a, b)| a * b).sum()
            });
            factor(matrix, k, total) && {
                solve(matrix, k, right);
                let back: Vec<f64> =
                    (0..n).map(|i| (0..k).map(|c| rows[c * n + i] * right[c]).sum()).collect();
                *right = back;
                true
            }
        };
        if solved {
            for (&i, by) in free.iter().zip(&*right) {
                let to = self.x[i].0[l] - by - drift * (self.x[i].0[l] - centre[i]);
                self.trial[i].0[l] = to.clamp(0.0, 1.0);
            }
        }
        // A matrix without a factor costs a step: the damping grows, as the value does not fall.
        true
    }

    /// Returns the direction from a point, which is open, to the preferred one along which the
    /// residuals do not change to first order, within the box; `None` if it cannot be computed.
    pub(super) fn along(&mut self, l: usize) -> Option<Vec<f64>> {
        let (d, k) = (self.x.len(), self.residuals.len());
        let centre = self.preference.centre;
        let Lane { free, rows, matrix, right } = &mut self.lane;
        free.clear();
        free.extend(0..d);
        let mut direction = vec![0.0; d];
        // Features that would leave the box are held, at most a few times.
        for _ in 0..4 {
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
            if free.len() == before {
                break;
            }
            for (i, v) in direction.iter_mut().enumerate() {
                if !free.contains(&i) {
                    *v = 0.0;
                }
            }
        }
        Some(direction)
    }
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

/// Adds to the diagonal, with the round-off of the entries, and factors. Returns false if there is
/// no factor.
fn factor(matrix: &mut [f64], n: usize, diagonal: f64) -> bool {
    let trace: f64 = (0..n).map(|i| matrix[i * n + i]).sum();
    (0..n).for_each(|i| matrix[i * n + i] += diagonal + 1e-14 * trace + f64::MIN_POSITIVE);
    cholesky(matrix, n)
}
