//! Minimisation of a smooth function of many variables by the limited-memory BFGS method (Nocedal
//! and Wright, *Numerical Optimization*, algorithms 7.4 and 7.5), with a line search for the strong
//! Wolfe conditions.

use std::collections::VecDeque;

use crate::dense::{axpy, dot};

/// The constants of sufficient decrease and of curvature: the usual ones for quasi-Newton
/// directions.
const DECREASE: f64 = 1e-4;
const CURVATURE: f64 = 0.9;

/// The maximum number of evaluations in one line search.
const TRIALS: u32 = 50;

/// After this many steps without a lower value or a smaller gradient, only round-off is left.
const IDLE: u32 = 30;

/// Increases of the value up to this share of it are round-off.
const ROUND_OFF: f64 = 1e-15;

/// The limited-memory BFGS method with its stopping rules.
///
/// # Example
///
/// (x − 1)² + 2 (y + 3)² has its minimum at (1, −3):
///
/// ```
/// use vfl_numerics::Lbfgs;
///
/// let found = Lbfgs::default().minimise(&[0.0, 0.0], &mut |at, gradient| {
///     let (x, y) = (at[0] - 1.0, at[1] + 3.0);
///     gradient.copy_from_slice(&[2.0 * x, 4.0 * y]);
///     x * x + 2.0 * y * y
/// });
/// assert!(found.converged);
/// assert!((found.x[0] - 1.0).abs() < 1e-8 && (found.x[1] + 3.0).abs() < 1e-8);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lbfgs {
    /// The number of pairs of steps and gradient changes that are kept, at least 1.
    pub memory: usize,
    /// The maximum number of steps.
    pub max_iterations: u32,
    /// The method stops when no entry of the gradient is larger than this.
    pub gradient_tolerance: f64,
}

impl Default for Lbfgs {
    /// Uses 20 pairs, 5000 steps and a tolerance of 1e-9.
    fn default() -> Self {
        Self { memory: 20, max_iterations: 5000, gradient_tolerance: 1e-9 }
    }
}

/// The result of a minimisation.
#[derive(Clone, PartialEq)]
pub struct Minimum {
    /// The point found.
    pub x: Vec<f64>,
    /// The function's value there.
    pub value: f64,
    /// The largest magnitude of an entry of the gradient there.
    pub gradient_norm: f64,
    /// The number of steps taken.
    pub iterations: u32,
    /// True if the gradient is within the tolerance. If not, the steps were used up, or round-off
    /// allows no descent.
    pub converged: bool,
}

/// Shows the outcome without the point.
impl std::fmt::Debug for Minimum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { value, gradient_norm, iterations, converged, .. } = self;
        write!(
            f,
            "Minimum({value:e}, gradient {gradient_norm:e}, {iterations} steps, converged: {converged})"
        )
    }
}

/// A point on the line search, `t` steps along the direction.
#[derive(Clone, Copy)]
struct Trial {
    t: f64,
    value: f64,
    slope: f64,
}

struct Pair {
    step: Vec<f64>,
    change: Vec<f64>,
    /// 1 / (step · change).
    inverse: f64,
}

impl Lbfgs {
    /// Minimises from `start`. `f` returns the value at a point and writes the gradient to its
    /// second argument, which has as many entries; where it is not finite, the line search turns
    /// back.
    pub fn minimise(&self, start: &[f64], f: &mut dyn FnMut(&[f64], &mut [f64]) -> f64) -> Minimum {
        let n = start.len();
        let mut x = start.to_vec();
        let mut gradient = vec![0.0; n];
        let mut value = f(&x, &mut gradient);
        let mut pairs: VecDeque<Pair> = VecDeque::with_capacity(self.memory.max(1));
        let (mut next, mut next_gradient) = (x.clone(), gradient.clone());
        let mut iterations = 0;
        let (mut least, mut idle) = (largest(&gradient), 0);
        while idle < IDLE
            && iterations < self.max_iterations
            && largest(&gradient) > self.gradient_tolerance
        {
            let mut direction = towards(&pairs, &gradient);
            let mut slope = dot(&direction, &gradient);
            if slope.is_nan() || slope >= 0.0 {
                pairs.clear();
                direction = gradient.iter().map(|g| -g).collect();
                slope = -dot(&gradient, &gradient);
            }
            let first = if pairs.is_empty() {
                1f64.min(1.0 / dot(&gradient, &gradient).sqrt())
            } else {
                1.0
            };
            let mut at = |t: f64| {
                next.copy_from_slice(&x);
                axpy(&mut next, t, &direction);
                let value = f(&next, &mut next_gradient);
                Trial { t, value, slope: dot(&next_gradient, &direction) }
            };
            let Some(reached) = search(Trial { t: 0.0, value, slope }, first, &mut at) else {
                if pairs.is_empty() {
                    break;
                }
                // Curvature pairs from far away may give a useless direction: try again with
                // steepest descent.
                pairs.clear();
                continue;
            };
            iterations += 1;
            let step: Vec<f64> = next.iter().zip(&x).map(|(a, b)| a - b).collect();
            let change: Vec<f64> =
                next_gradient.iter().zip(&gradient).map(|(a, b)| a - b).collect();
            let along = dot(&step, &change);
            if along > f64::EPSILON * dot(&change, &change) {
                if pairs.len() >= self.memory.max(1) {
                    pairs.pop_front();
                }
                pairs.push_back(Pair { step, change, inverse: 1.0 / along });
            }
            std::mem::swap(&mut x, &mut next);
            std::mem::swap(&mut gradient, &mut next_gradient);
            let at = largest(&gradient);
            idle = if reached.value < value - ROUND_OFF * value.abs() || at < least {
                0
            } else {
                idle + 1
            };
            least = least.min(at);
            value = reached.value;
        }
        let gradient_norm = largest(&gradient);
        let converged = gradient_norm <= self.gradient_tolerance;
        Minimum { x, value, gradient_norm, iterations, converged }
    }
}

/// Returns the largest magnitude, or NaN if there is one, which `f64::max` would ignore.
fn largest(v: &[f64]) -> f64 {
    v.iter().fold(0.0, |m: f64, g| if m.is_nan() || g.abs() <= m { m } else { g.abs() })
}

/// Returns −H g by the two-loop recursion.
fn towards(pairs: &VecDeque<Pair>, gradient: &[f64]) -> Vec<f64> {
    let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut weights = Vec::with_capacity(pairs.len());
    for pair in pairs.iter().rev() {
        let weight = pair.inverse * dot(&pair.step, &q);
        axpy(&mut q, -weight, &pair.change);
        weights.push(weight);
    }
    if let Some(last) = pairs.back() {
        let scale = 1.0 / (last.inverse * dot(&last.change, &last.change));
        q.iter_mut().for_each(|v| *v *= scale);
    }
    for (pair, weight) in pairs.iter().zip(weights.iter().rev()) {
        let back = pair.inverse * dot(&pair.change, &q);
        axpy(&mut q, weight - back, &pair.step);
    }
    q
}

/// Returns a step that meets the strong Wolfe conditions, or the best step with a lower value if
/// the trials are used up. The last point that `at` evaluated is the one returned.
fn search(from: Trial, first: f64, at: &mut dyn FnMut(f64) -> Trial) -> Option<Trial> {
    let slack = ROUND_OFF * from.value.abs();
    // `low` decreases the value enough and still falls steeply; `high` has gone too far.
    let (mut low, mut high): (Trial, Option<Trial>) = (from, None);
    let mut t = first;
    for _ in 0..TRIALS {
        let trial = at(t);
        let falls = trial.value <= from.value + DECREASE * t * from.slope + slack
            && trial.slope.is_finite();
        if falls && trial.slope.abs() <= -CURVATURE * from.slope {
            return Some(trial);
        }
        if falls && trial.slope < 0.0 {
            low = trial;
        } else {
            high = Some(trial);
        }
        t = match high {
            None => 2.0 * t,
            Some(high) => {
                let width = high.t - low.t;
                if width <= f64::EPSILON * high.t {
                    break;
                }
                cubic(low, high).filter(|c| c.is_finite()).map_or(low.t + 0.5 * width, |c| {
                    c.clamp(low.t + 0.1 * width, high.t - 0.1 * width)
                })
            }
        };
        if !t.is_finite() {
            break;
        }
    }
    (low.t > 0.0).then(|| at(low.t))
}

/// Returns the minimum of the cubic through two points with their slopes.
fn cubic(a: Trial, b: Trial) -> Option<f64> {
    if !(b.value.is_finite() && b.slope.is_finite()) {
        return None;
    }
    let d1 = a.slope + b.slope - 3.0 * (a.value - b.value) / (a.t - b.t);
    let square = d1 * d1 - a.slope * b.slope;
    let d2 = (square >= 0.0).then(|| square.sqrt())?;
    Some(b.t - (b.t - a.t) * (b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quadratic_is_solved_to_its_closed_form() {
        // ½ Σ i² (x_i − 1/i)²: condition number 10⁴.
        let n = 100;
        let found = Lbfgs::default().minimise(&vec![0.0; n], &mut |x, g| {
            let mut value = 0.0;
            for (i, (x, g)) in x.iter().zip(g).enumerate() {
                let w = (i + 1) as f64;
                let off = x - 1.0 / w;
                *g = w * w * off;
                value += 0.5 * w * w * off * off;
            }
            value
        });
        assert!(found.converged, "{found:?}");
        let off = found
            .x
            .iter()
            .enumerate()
            .map(|(i, x)| (x - 1.0 / (i + 1) as f64).abs())
            .fold(0.0, f64::max);
        assert!(off < 1e-9, "{off:e}");
    }

    /// Rosenbrock's function in 10 variables: one minimum at (1, …, 1) from this start, at the end
    /// of a bent valley.
    #[test]
    fn a_bent_valley_is_followed_to_its_end() {
        let start: Vec<f64> = (0..10).map(|i| if i % 2 == 0 { -1.2 } else { 1.0 }).collect();
        let found = Lbfgs::default().minimise(&start, &mut |x, g| {
            g.fill(0.0);
            let mut value = 0.0;
            for i in (0..10).step_by(2) {
                let (a, b) = (1.0 - x[i], x[i + 1] - x[i] * x[i]);
                value += a * a + 100.0 * b * b;
                g[i] = -2.0 * a - 400.0 * b * x[i];
                g[i + 1] = 200.0 * b;
            }
            value
        });
        assert!(found.converged, "{found:?}");
        assert!(found.x.iter().all(|x| (x - 1.0).abs() < 1e-7), "{:?}", found.x);
    }

    /// x − ln x has its minimum at 1 and is infinite at 0; from 1e-3 the first step goes far
    /// beyond.
    #[test]
    fn a_wall_turns_the_line_search_back() {
        let found = Lbfgs::default().minimise(&[1e-3], &mut |x, g| {
            if x[0] <= 0.0 {
                g[0] = f64::NAN;
                return f64::INFINITY;
            }
            g[0] = 1.0 - 1.0 / x[0];
            x[0] - x[0].ln()
        });
        assert!(found.converged && (found.x[0] - 1.0).abs() < 1e-8, "{found:?}");
    }

    #[test]
    fn what_has_no_minimum_ends_without_claiming_one() {
        let limited = Lbfgs { max_iterations: 50, ..Lbfgs::default() };
        let found = limited.minimise(&[0.0], &mut |x, g| {
            g[0] = -(-x[0]).exp();
            (-x[0]).exp()
        });
        assert!(found.gradient_norm > 0.0 || found.converged);
        let falling = limited.minimise(&[0.0], &mut |x, g| {
            g[0] = -1.0;
            -x[0]
        });
        assert!(!falling.converged);
        let broken = limited.minimise(&[0.0], &mut |_, g| {
            g[0] = f64::NAN;
            f64::NAN
        });
        assert!(!broken.converged && broken.x == [0.0]);
    }
}
