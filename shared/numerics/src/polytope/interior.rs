//! Interior points of a polytope: the analytic centre by Newton's method, and the mean of the
//! points by hit and run.
//!
//! Rows whose ends are one value confine the set to a plane; both methods move in the plane, by an
//! orthonormal basis of its directions. Rows that give are ignored.

use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use super::Polytope;
use super::active_set::{ActiveSet, NearestOutcome};
use crate::dense::{axpy, cholesky, dot, solve};

/// The distances of a first interior point from its bounds, as shares of the room between them, in
/// the order tried.
const MARGINS: [f64; 7] = [0.2, 0.05, 0.01, 1e-3, 1e-5, 1e-7, 1e-8];

/// The least distance of a start from every bound: smaller distances are within round-off.
const OFF: f64 = 1e-9;

/// The maximum number of Newton steps to the analytic centre. Observed: 5 to 15.
const NEWTON_STEPS: u32 = 60;

/// Rows whose ends are closer together than this, relative to their size, define a plane.
const PLANE: f64 = 1e-9;

/// The logarithm of a density, up to a constant, at a point.
pub type LogDensity<'a> = &'a dyn Fn(&[f64]) -> f64;

/// The workspace of the walk, and the last centre found.
#[derive(Default)]
pub struct Walk {
    active: ActiveSet,
    /// Directions of the plane, f × d.
    basis: Vec<f64>,
    free: usize,
    /// Bounds of the points of the plane, d entries each, and the same in the basis, f entries
    /// each.
    sources: Vec<f64>,
    normals: Vec<f64>,
    ends: Vec<(f64, f64)>,
    hessian: Vec<f64>,
    gradient: Vec<f64>,
    step: Vec<f64>,
    values: Vec<f64>,
    moves: Vec<f64>,
    direction: Vec<f64>,
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Walk")
    }
}

impl Polytope {
    /// Writes the analytic centre, the maximum of Σ ln (distances to the bounds), to `x` (d
    /// entries). If the set has no interior, returns false and leaves `x` unchanged.
    pub fn analytic_centre(&self, walk: &mut Walk, x: &mut [f64]) -> bool {
        if self.contradiction || !self.point_within(walk, x) {
            return false;
        }
        walk.plane(self);
        walk.centre(x);
        true
    }

    /// Writes to `x` (d entries) the mean of the points of the set under the density
    /// exp(`log_density`), or of uniform points without one: hit and run of `steps` steps from the
    /// analytic centre, along directions scaled to the width of the set. If the set has no
    /// interior, returns false and leaves `x` unchanged.
    pub fn mean(
        &self,
        steps: u32,
        log_density: Option<LogDensity>,
        rng: &mut dyn Rng,
        walk: &mut Walk,
        x: &mut [f64],
    ) -> bool {
        if !self.analytic_centre(walk, x) {
            return false;
        }
        if walk.free > 0 {
            walk.run(steps, log_density, rng, x);
        }
        true
    }

    fn point_within(&self, walk: &mut Walk, x: &mut [f64]) -> bool {
        let middle: Vec<f64> = self
            .sides
            .iter()
            .map(|s| 0.5 * (s.0 + s.1))
            .map(|v| if v.is_finite() { v } else { 0.0 })
            .collect();
        for margin in MARGINS {
            let mut inner = self.clone();
            let shrink = |ends: &mut (f64, f64)| {
                let width = ends.1 - ends.0;
                if width > plane_width(*ends) {
                    let by = margin * width.min(1.0);
                    *ends = (ends.0 + by, ends.1 - by);
                }
            };
            inner.sides.iter_mut().for_each(shrink);
            inner.ends.iter_mut().for_each(shrink);
            let mut point = x.to_vec();
            // With a margin wider than the set, the nearest point violates the bounds by round-off,
            // which is acceptable for a nearest point. A start must lie strictly inside.
            if inner.nearest(&middle, &mut walk.active, &mut point) == NearestOutcome::Found
                && self.is_within(&point)
            {
                x.copy_from_slice(&point);
                return true;
            }
        }
        false
    }

    /// Returns true if `x` lies strictly between all bounds that differ, and on the others.
    fn is_within(&self, x: &[f64]) -> bool {
        let within = |ends: &(f64, f64), value: f64| {
            if ends.1 - ends.0 <= plane_width(*ends) {
                return value - ends.0 >= -plane_width(*ends)
                    && ends.1 - value >= -plane_width(*ends);
            }
            value - ends.0 > OFF && ends.1 - value > OFF
        };
        let rows = self.rows.chunks_exact(self.d.max(1)).zip(&self.ends).zip(&self.gives);
        self.sides.iter().zip(x).all(|(ends, v)| within(ends, *v))
            && rows
                .filter(|(_, give)| **give == 0.0)
                .all(|((row, ends), _)| within(ends, dot(row, x)))
    }
}

fn plane_width(ends: (f64, f64)) -> f64 {
    let size = [ends.0, ends.1]
        .into_iter()
        .filter(|e| e.is_finite())
        .fold(1.0, |m: f64, e| m.max(e.abs()));
    PLANE * size
}

impl Walk {
    /// Computes the plane's directions, and the bounds in terms of them.
    fn plane(&mut self, p: &Polytope) {
        let d = p.d;
        let mut fixed: Vec<Vec<f64>> = Vec::new();
        let beyond = |vector: &mut Vec<f64>, fixed: &[Vec<f64>]| {
            for _ in 0..2 {
                for f in fixed {
                    let along = dot(f, vector);
                    axpy(vector, -along, f);
                }
            }
            dot(vector, vector).sqrt()
        };
        let unit = |i: usize| (0..d).map(|j| f64::from(i == j)).collect::<Vec<_>>();
        let flat = |ends: &(f64, f64)| ends.1 - ends.0 <= plane_width(*ends);
        let rows = p
            .rows
            .chunks_exact(d.max(1))
            .zip(&p.ends)
            .zip(&p.gives)
            .filter(|((_, e), g)| **g == 0.0 && flat(e));
        let planes = rows
            .map(|((row, _), _)| row.to_vec())
            .chain((0..d).filter(|&i| flat(&p.sides[i])).map(unit));
        for mut row in planes {
            let length = beyond(&mut row, &fixed);
            if length > 1e-8 {
                row.iter_mut().for_each(|v| *v /= length);
                fixed.push(row);
            }
        }
        let confined = fixed.len();
        while fixed.len() < d {
            // The axis with the longest component orthogonal to the vectors so far.
            let rests = (0..d).map(|i| 1.0 - fixed.iter().map(|f| f[i] * f[i]).sum::<f64>());
            let Some((axis, _)) = rests.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)) else {
                break;
            };
            let mut vector = unit(axis);
            let length = beyond(&mut vector, &fixed);
            vector.iter_mut().for_each(|v| *v /= length);
            fixed.push(vector);
        }
        self.free = d - confined;
        self.basis.clear();
        self.basis.extend(fixed[confined..].iter().flatten());
        self.sources.clear();
        self.ends.clear();
        for i in (0..d).filter(|&i| !flat(&p.sides[i])) {
            self.sources.extend(unit(i));
            self.ends.push(p.sides[i]);
        }
        for ((row, ends), give) in p.rows.chunks_exact(d.max(1)).zip(&p.ends).zip(&p.gives) {
            if *give == 0.0 && !flat(ends) {
                self.sources.extend_from_slice(row);
                self.ends.push(*ends);
            }
        }
        self.normals.clear();
        for row in self.sources.chunks_exact(d.max(1)) {
            self.normals.extend(self.basis.chunks_exact(d).map(|b| dot(b, row)));
        }
        self.values.clear();
        self.values.resize(self.ends.len(), 0.0);
        self.moves.clear();
        self.moves.resize(self.ends.len(), 0.0);
    }

    fn evaluate(&mut self, x: &[f64]) {
        for (value, row) in self.values.iter_mut().zip(self.sources.chunks_exact(x.len().max(1))) {
            *value = dot(row, x);
        }
    }

    /// Computes gradient and Hessian of −Σ ln (distances) in the basis, and factors the Hessian.
    /// Returns false if that fails.
    fn derivatives(&mut self) -> bool {
        let f = self.free;
        self.hessian.clear();
        self.hessian.resize(f * f, 0.0);
        self.gradient.clear();
        self.gradient.resize(f, 0.0);
        for ((normal, ends), value) in
            self.normals.chunks_exact(f.max(1)).zip(&self.ends).zip(&self.values)
        {
            let (below, above) = (1.0 / (value - ends.0), 1.0 / (ends.1 - value));
            axpy(&mut self.gradient, above - below, normal);
            let weight = above * above + below * below;
            for (row, v) in self.hessian.chunks_exact_mut(f.max(1)).zip(normal) {
                axpy(row, weight * v, normal);
            }
        }
        cholesky(&mut self.hessian, f)
    }

    /// Returns the longest steps t, backwards and forwards, for which all values stay between their
    /// ends along `moves`.
    fn chord(&self) -> (f64, f64) {
        let (mut back, mut forth) = (f64::NEG_INFINITY, f64::INFINITY);
        for ((value, by), ends) in self.values.iter().zip(&self.moves).zip(&self.ends) {
            let (low, high) = ((ends.0 - value).min(0.0), (ends.1 - value).max(0.0));
            if *by > 1e-300 {
                forth = forth.min(high / by);
                back = back.max(low / by);
            } else if *by < -1e-300 {
                forth = forth.min(low / by);
                back = back.max(high / by);
            }
        }
        (back, forth)
    }

    /// Computes the change of the values and of the point along `step` (in the basis).
    fn along(&mut self, d: usize) {
        let f = self.free;
        for (by, normal) in self.moves.iter_mut().zip(self.normals.chunks_exact(f.max(1))) {
            *by = dot(normal, &self.step);
        }
        self.direction.clear();
        self.direction.resize(d, 0.0);
        for (s, b) in self.step.iter().zip(self.basis.chunks_exact(d.max(1))) {
            axpy(&mut self.direction, *s, b);
        }
    }

    /// Runs Newton's method with the damped steps of a self-concordant function.
    fn centre(&mut self, x: &mut [f64]) {
        for _ in 0..NEWTON_STEPS {
            self.evaluate(x);
            if self.free == 0 || !self.derivatives() {
                return;
            }
            self.step.clone_from(&self.gradient);
            self.step.iter_mut().for_each(|g| *g = -*g);
            solve(&self.hessian, self.free, &mut self.step);
            let decrement = -dot(&self.step, &self.gradient);
            if decrement.is_nan() || decrement <= 1e-16 {
                break;
            }
            self.along(x.len());
            let (_, forth) = self.chord();
            let length = if decrement > 0.0625 { 1.0 / (1.0 + decrement.sqrt()) } else { 1.0 };
            axpy(x, length.min(0.95 * forth), &self.direction);
        }
        self.evaluate(x);
        self.derivatives();
    }

    fn run(
        &mut self,
        steps: u32,
        log_density: Option<LogDensity>,
        rng: &mut dyn Rng,
        x: &mut [f64],
    ) {
        let d = x.len();
        let mut point = x.to_vec();
        let mut trial = point.clone();
        let mut sum = vec![0.0; d];
        let skipped = steps / 5;
        let mut density = log_density.map_or(0.0, |f| f(&point));
        for step in 0..steps + skipped {
            if step % 50 == 0 {
                self.evaluate(&point);
            }
            self.step.clear();
            self.step.extend((0..self.free).map(|_| -> f64 { StandardNormal.sample(rng) }));
            back_substitute(&self.hessian, self.free, &mut self.step);
            self.along(d);
            let (back, forth) = self.chord();
            if !(forth > back && (forth - back).is_finite()) {
                continue;
            }
            let t = back + (forth - back) * rng.random::<f64>();
            let kept = step >= skipped;
            match log_density {
                None => {
                    if kept {
                        // The mean over the chord from which the next point is drawn.
                        axpy(&mut sum, 1.0, &point);
                        axpy(&mut sum, 0.5 * (back + forth), &self.direction);
                    }
                    axpy(&mut point, t, &self.direction);
                    axpy(&mut self.values, t, &self.moves);
                }
                Some(f) => {
                    trial.copy_from_slice(&point);
                    axpy(&mut trial, t, &self.direction);
                    let there = f(&trial);
                    if there >= density || rng.random::<f64>() < (there - density).exp() {
                        point.copy_from_slice(&trial);
                        axpy(&mut self.values, t, &self.moves);
                        density = there;
                    }
                    if kept {
                        axpy(&mut sum, 1.0, &point);
                    }
                }
            }
        }
        for (to, sum) in x.iter_mut().zip(&sum) {
            *to = sum / f64::from(steps.max(1));
        }
    }
}

/// Computes x ← L⁻ᵀ x.
fn back_substitute(l: &[f64], n: usize, x: &mut [f64]) {
    for i in (0..n).rev() {
        let row = &l[i * n..][..=i];
        let value = x[i] / row[i];
        x[i] = value;
        axpy(&mut x[..i], -value, &row[..i]);
    }
}
