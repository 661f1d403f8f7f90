//! The nearest point to ½·1 of {x ∈ [0, 1]^d : G x = t}, by Newton's method on the dual.
//!
//! With λ ∈ R^r the dual to be minimised is φ(λ) = Σ h(½ + (Gᵀλ)_i) − tᵀλ + ½ε‖λ‖², where h' clips
//! to [0, 1]. It is convex, continuously differentiable and piecewise quadratic:
//!
//! - x(λ) = clip(½ + Gᵀλ), ∇φ = G x(λ) − t + ελ,
//! - generalised Hessian H = G_F G_Fᵀ + εI over the free coordinates F = {i : 0 < ½ + (Gᵀλ)_i < 1}.
//!
//! With an exact search along the Newton direction the pieces visited never repeat, so the
//! iteration is finite. Without ε the dual is unbounded below exactly when no point of the box
//! satisfies the equations; the search then runs along a ray, whose direction p proves it: pᵀt >
//! max {pᵀG x : x in the box}. With ε the result is the minimiser of ‖G x − t‖² + ε‖x − ½‖².

use crate::dense::{amax, axpy, cholesky, dot, solve};

/// Newton steps before the iteration is given up. Observed: at most some 30, and 0 to 5 on average.
const MAX_STEPS: u32 = 200;

/// Slopes along a ray below this share of the largest count as 0.
const LEVEL: f64 = 1e-9;

/// The result of a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProjectionOutcome {
    /// The gradient of the dual vanished.
    Done,
    /// The dual is unbounded: no point of the box satisfies the equations.
    Empty,
    /// The steps were used up.
    StepLimit,
}

/// Equations with orthogonal rows over some coordinates of the box.
pub(super) struct Rows<'a> {
    /// r × d, row-major.
    pub(super) g: &'a [f64],
    /// Number of rows.
    pub(super) r: usize,
    /// Number of coordinates.
    pub(super) d: usize,
    /// The box is [margin, 1 − margin]^d.
    pub(super) margin: f64,
    pub(super) epsilon: f64,
    /// The largest ‖G x − t + ελ‖∞ that counts as zero.
    pub(super) tolerance: f64,
}

/// The workspace, and the result: λ, and s = ½ + Gᵀλ before clipping.
#[derive(Default)]
pub(super) struct Dual {
    pub(super) lambda: Vec<f64>,
    pub(super) s: Vec<f64>,
    /// The last direction. After [`ProjectionOutcome::Empty`] it proves that there is no solution.
    pub(super) p: Vec<f64>,
    /// After [`ProjectionOutcome::Empty`]: the amount by which pᵀt exceeds pᵀG x everywhere in the
    /// box, for p scaled to max |Gᵀp| = 1.
    pub(super) gap: f64,
    gradient: Vec<f64>,
    h: Vec<f64>,
    factor: Vec<f64>,
    gp: Vec<f64>,
    x: Vec<f64>,
    bounds: Vec<(f64, f64)>,
}

impl Rows<'_> {
    fn row(&self, a: usize) -> &[f64] {
        &self.g[a * self.d..][..self.d]
    }

    fn clip(&self, s: f64) -> f64 {
        s.clamp(self.margin, 1.0 - self.margin)
    }

    /// Minimises the dual from `dual.lambda` (r entries) and writes the point to `x` (d entries).
    /// Returns how it ended and the number of Newton steps.
    pub(super) fn project(
        &self,
        t: &[f64],
        dual: &mut Dual,
        x: &mut [f64],
    ) -> (ProjectionOutcome, u32) {
        let (r, d) = (self.r, self.d);
        dual.resize(r, d);
        dual.s.fill(0.5);
        for a in 0..r {
            axpy(&mut dual.s, dual.lambda[a], self.row(a));
        }
        for (x, s) in x.iter_mut().zip(&dual.s) {
            *x = self.clip(*s);
        }
        self.gradient(t, &dual.lambda, x, &mut dual.gradient);
        let mut size = amax(&dual.gradient);
        let mut steps = 0;
        while size > self.tolerance {
            if steps == MAX_STEPS {
                return (ProjectionOutcome::StepLimit, steps);
            }
            steps += 1;
            self.direction(dual);
            dual.gp.fill(0.0);
            for a in 0..r {
                axpy(&mut dual.gp, dual.p[a], self.row(a));
            }
            // The full step is exact when it stays in one piece, and mostly good otherwise.
            let mut step = 1.0;
            for ((x, s), gp) in dual.x.iter_mut().zip(&dual.s).zip(&dual.gp) {
                *x = self.clip(s + gp);
            }
            dual.lambda.iter_mut().zip(&dual.p).for_each(|(l, p)| *l += p);
            self.gradient(t, &dual.lambda, &dual.x, &mut dual.gradient);
            let mut reached = amax(&dual.gradient);
            if reached.is_nan() || reached > 0.5 * size {
                dual.lambda.iter_mut().zip(&dual.p).for_each(|(l, p)| *l -= p);
                let Some(exact) = self.line_minimum(t, dual) else {
                    let level = LEVEL * amax(&dual.gp);
                    for ((x, s), gp) in x.iter_mut().zip(&dual.s).zip(&dual.gp) {
                        *x = self.end_of_ray(*s, *gp, level);
                    }
                    return (ProjectionOutcome::Empty, steps);
                };
                step = exact;
                for ((x, s), gp) in dual.x.iter_mut().zip(&dual.s).zip(&dual.gp) {
                    *x = self.clip(s + step * gp);
                }
                dual.lambda.iter_mut().zip(&dual.p).for_each(|(l, p)| *l += step * p);
                self.gradient(t, &dual.lambda, &dual.x, &mut dual.gradient);
                reached = amax(&dual.gradient);
            }
            axpy(&mut dual.s, step, &dual.gp);
            x.copy_from_slice(&dual.x);
            size = reached;
        }
        (ProjectionOutcome::Done, steps)
    }

    /// Returns the value of a coordinate at the end of the ray s + τ gp, τ → ∞.
    fn end_of_ray(&self, s: f64, gp: f64, level: f64) -> f64 {
        if gp > level {
            1.0 - self.margin
        } else if gp < -level {
            self.margin
        } else {
            self.clip(s)
        }
    }

    fn gradient(&self, t: &[f64], lambda: &[f64], x: &[f64], out: &mut [f64]) {
        for (a, out) in out.iter_mut().enumerate() {
            *out = dot(self.row(a), x) - t[a] + self.epsilon * lambda[a];
        }
    }

    /// Computes p = −(H + δI)⁻¹ ∇φ. δ keeps the matrix positive definite when too few coordinates
    /// are free; the next step makes up for the lost accuracy.
    fn direction(&self, dual: &mut Dual) {
        let (r, d) = (self.r, self.d);
        let h = &mut dual.h;
        h.fill(0.0);
        for i in 0..d {
            let s = dual.s[i];
            if s > self.margin && s < 1.0 - self.margin {
                for a in 0..r {
                    let ga = self.g[a * d + i];
                    for b in 0..=a {
                        h[a * r + b] += ga * self.g[b * d + i];
                    }
                }
            }
        }
        let mut delta = 1e-13;
        loop {
            dual.p.iter_mut().zip(&dual.gradient).for_each(|(p, g)| *p = -g);
            dual.factor.copy_from_slice(&dual.h);
            for a in 0..r {
                dual.factor[a * r + a] += self.epsilon + delta;
            }
            if cholesky(&mut dual.factor, r) {
                solve(&dual.factor, r, &mut dual.p);
                return;
            }
            delta *= 1e3;
        }
    }

    /// Returns the exact minimum τ > 0 of φ(λ + τp); `None` if φ falls without bound.
    fn line_minimum(&self, t: &[f64], dual: &mut Dual) -> Option<f64> {
        // φ' is (Gp)ᵀ x(τ) − pᵀt + ε pᵀ(λ + τp): it grows by gp_i² for each unit of τ while
        // coordinate i is free.
        let (low, high) = (self.margin, 1.0 - self.margin);
        let pp = dot(&dual.p, &dual.p);
        let mut slope = self.epsilon * dot(&dual.p, &dual.lambda) - dot(&dual.p, t);
        let mut growth = self.epsilon * pp;
        dual.bounds.clear();
        for (&s, &gp) in dual.s.iter().zip(&dual.gp) {
            slope += gp * s.clamp(low, high);
            if gp == 0.0 {
                continue;
            }
            let (enters, leaves) = if gp > 0.0 {
                ((low - s) / gp, (high - s) / gp)
            } else {
                ((high - s) / gp, (low - s) / gp)
            };
            if leaves <= 0.0 {
                continue;
            }
            if enters > 0.0 {
                dual.bounds.push((enters, gp * gp));
            } else {
                growth += gp * gp;
            }
            dual.bounds.push((leaves, -gp * gp));
        }
        dual.bounds.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut at = 0.0;
        for &(bound, change) in &dual.bounds {
            if growth > 0.0 && slope + growth * (bound - at) >= 0.0 {
                return Some(at - slope / growth);
            }
            slope += growth.max(0.0) * (bound - at);
            at = bound;
            growth += change;
        }
        if self.epsilon > 0.0 {
            return Some(at - slope / (self.epsilon * pp));
        }
        // The slope that remains for all larger τ. A slope that is 0 but for round-off does not
        // prove that the set is empty.
        let scale = self.tolerance * dual.p.iter().map(|p| p.abs()).sum::<f64>();
        if slope < -scale {
            dual.gap = -slope / amax(&dual.gp);
            return None;
        }
        Some(at)
    }
}

/// Computes the nearest point to ½·1 of {x ∈ [0, 1]^d : G x = t} where the set is so thin that
/// round-off may hide it, for example if the only solution has coordinates at 0 and 1. A ray along
/// which the dual falls shows which coordinates are at their bounds in every solution; with those
/// fixed, the others are projected again. The caller checks the result. Returns the number of
/// Newton steps.
pub(super) fn project_by_faces(
    g: &[f64],
    r: usize,
    t: &[f64],
    tolerance: f64,
    dual: &mut Dual,
    x: &mut [f64],
) -> u32 {
    let d = x.len();
    let mut open: Vec<usize> = (0..d).collect();
    let (mut steps, mut rest, mut inner) = (0, t.to_vec(), Vec::new());
    while !open.is_empty() {
        let sub: Vec<f64> = (0..r).flat_map(|a| open.iter().map(move |&i| g[a * d + i])).collect();
        let rows = Rows { g: &sub, r, d: open.len(), margin: 0.0, epsilon: 0.0, tolerance };
        dual.lambda.clear();
        dual.lambda.resize(r, 0.0);
        inner.clear();
        inner.resize(open.len(), 0.0);
        let (ended, more) = rows.project(&rest, dual, &mut inner);
        steps += more;
        let level = LEVEL * amax(&dual.gp);
        let forced =
            |place: usize| ended == ProjectionOutcome::Empty && dual.gp[place].abs() > level;
        for (place, &i) in open.iter().enumerate() {
            x[i] = inner[place];
            if forced(place) {
                (0..r).for_each(|a| rest[a] -= g[a * d + i] * x[i]);
            }
        }
        let before = open.len();
        let mut place = 0;
        open.retain(|_| {
            place += 1;
            !forced(place - 1)
        });
        if open.len() == before {
            break;
        }
    }
    steps
}

impl Dual {
    fn resize(&mut self, r: usize, d: usize) {
        self.lambda.resize(r, 0.0);
        self.p.resize(r, 0.0);
        self.gradient.resize(r, 0.0);
        self.h.resize(r * r, 0.0);
        self.factor.resize(r * r, 0.0);
        for v in [&mut self.s, &mut self.gp, &mut self.x] {
            v.resize(d, 0.0);
        }
    }
}
