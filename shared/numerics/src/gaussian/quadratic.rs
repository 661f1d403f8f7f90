//! The likeliest point of a Gaussian in a box, by a dual active set method (Goldfarb and
//! Idnani, 1983) that works on the covariance: no inverse is formed, and a covariance without full
//! rank needs no special case.

use crate::dense::{axpy, cholesky, dot, solve};

/// A coordinate outside the box by at most this counts as inside.
const FEASIBLE: f64 = 1e-11;

/// A coordinate cannot move on its own if its variance, given the coordinates at their bounds, is
/// at most this share of its prior variance.
const DEPENDENT: f64 = 1e-10;

/// The workspace of a fit.
#[derive(Default)]
pub(super) struct BoxFitWorkspace {
    /// Coordinates at a bound, with the sign of the bound's normal (1 at the lower end) and the
    /// multiplier.
    taken: Vec<(usize, f64, f64)>,
    /// Cholesky factor of the covariance of these coordinates, row-major.
    factor: Vec<f64>,
    fall: Vec<f64>,
    direction: Vec<f64>,
}

/// The result of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FitOutcome {
    /// The likeliest point of the box.
    Found,
    /// The Gaussian's support has no point in the box.
    Empty,
    /// The steps allowed were used up.
    StepLimit,
}

impl BoxFitWorkspace {
    /// Moves `x` from the Gaussian's mean to the likeliest point of [0, 1]^d; `c` is the
    /// covariance, d × d. Returns the number of steps. Unless the point is found, `x` is
    /// meaningless.
    pub(super) fn run(&mut self, c: &[f64], x: &mut [f64]) -> (FitOutcome, u32) {
        let d = x.len();
        self.taken.clear();
        let mut steps = 0;
        loop {
            // The coordinate farthest outside the box, in units of its deviation.
            let mut worst = None;
            let mut most = 0.0;
            for (i, v) in x.iter().enumerate() {
                let out = if *v < 0.5 { -v } else { v - 1.0 };
                if out > FEASIBLE && !self.taken.iter().any(|t| t.0 == i) {
                    let variance = c[i * d + i].max(1e-300);
                    if out * out > most * variance {
                        most = out * out / variance;
                        worst = Some(i);
                    }
                }
            }
            let Some(i) = worst else { return (FitOutcome::Found, steps) };
            let sign = if x[i] < 0.5 { 1.0 } else { -1.0 };
            let end = if sign > 0.0 { 0.0 } else { 1.0 };
            let mut multiplier = 0.0;
            loop {
                steps += 1;
                if steps > 20 * (d as u32 + 5) {
                    return (FitOutcome::StepLimit, steps);
                }
                if !self.towards(c, d, i, sign) {
                    return (FitOutcome::StepLimit, steps);
                }
                let gain = sign * self.direction[i];
                // The step at which the first multiplier of a coordinate at its bound reaches 0.
                let mut first: Option<(usize, f64)> = None;
                for (place, ((_, _, held), fall)) in self.taken.iter().zip(&self.fall).enumerate() {
                    if *fall > 0.0 && first.is_none_or(|(_, t)| held / fall < t) {
                        first = Some((place, held / fall));
                    }
                }
                let full = (gain > DEPENDENT * c[i * d + i]).then(|| sign * (end - x[i]) / gain);
                let step = match (full, first) {
                    (None, None) => return (FitOutcome::Empty, steps),
                    (Some(full), None) => full,
                    (None, Some((_, t))) => t,
                    (Some(full), Some((_, t))) => full.min(t),
                };
                if full.is_some() {
                    axpy(x, step, &self.direction);
                }
                for ((_, _, held), fall) in self.taken.iter_mut().zip(&self.fall) {
                    *held -= step * fall;
                }
                multiplier += step;
                if full == Some(step) {
                    x[i] = end;
                    self.taken.push((i, sign, multiplier));
                    break;
                }
                if let Some((place, _)) = first {
                    self.taken.remove(place);
                }
            }
            for (at, sign, _) in &self.taken {
                x[*at] = if *sign > 0.0 { 0.0 } else { 1.0 };
            }
        }
    }

    /// Computes the direction of the point as coordinate i is pushed along `sign`, with the taken
    /// coordinates fixed, and in `fall` the decrease of their multipliers. Returns false if the
    /// covariance of the taken coordinates cannot be factored.
    fn towards(&mut self, c: &[f64], d: usize, i: usize, sign: f64) -> bool {
        let n = self.taken.len();
        self.factor.clear();
        self.factor.resize(n * n, 0.0);
        self.fall.clear();
        for (row, (a, _, _)) in self.taken.iter().enumerate() {
            for (column, (b, _, _)) in self.taken[..=row].iter().enumerate() {
                self.factor[row * n + column] = c[a * d + b];
            }
            self.fall.push(c[a * d + i]);
        }
        if !cholesky(&mut self.factor, n) {
            return false;
        }
        solve(&self.factor, n, &mut self.fall);
        self.direction.clear();
        self.direction.extend_from_slice(&c[i * d..][..d]);
        for ((a, _, _), share) in self.taken.iter().zip(&self.fall) {
            axpy(&mut self.direction, -share, &c[a * d..][..d]);
        }
        self.direction.iter_mut().for_each(|v| *v *= sign);
        for ((_, own, _), fall) in self.taken.iter().zip(&mut self.fall) {
            *fall *= own * sign;
        }
        true
    }
}

/// Returns (x − m)ᵀ M (x − m) with M d × d.
pub(super) fn distance(metric: &[f64], x: &[f64], m: &[f64]) -> f64 {
    let d = x.len();
    let difference: Vec<f64> = x.iter().zip(m).map(|(x, m)| x - m).collect();
    metric.chunks_exact(d.max(1)).zip(&difference).map(|(row, v)| v * dot(row, &difference)).sum()
}
