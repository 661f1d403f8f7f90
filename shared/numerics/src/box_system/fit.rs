//! The minimum of ‖A x − b‖ over the box when no point satisfies the equations.
//!
//! A first guess comes from the projection's Newton iteration on the regularised problem ‖G x −
//! t‖² + ε‖x − ½‖² with G = ΣVᵀ/σ₁; its pattern of bounds is nearly always that of the answer. An
//! active-set method (bounded-variable least squares) then makes it exact: each step solves for the
//! free coordinates alone. A column that depends on the free ones has no gradient, so the free
//! columns stay independent. All minimisers share A x and hence the gradient. The coordinates where
//! it is not 0 are determined, and the others are moved as near to ½ as A x allows.

use super::equations::Equations;
use super::projection::{Dual, Rows, project_by_faces};
use crate::dense::{amax, axpy, dot};

/// ε of the first guess, against a largest singular value of 1.
const EPSILON: f64 = 1e-7;

/// A gradient below this share of ‖residual‖ ‖column‖ counts as zero.
const FLAT: f64 = 1e-9;

/// The workspace for one fit.
#[derive(Default)]
pub(super) struct Fit {
    dual: Dual,
    target: Vec<f64>,
    residual: Vec<f64>,
    gradient: Vec<f64>,
    free: Vec<usize>,
    trial: Vec<f64>,
    q: Vec<f64>,
    triangle: Vec<f64>,
    rows: Vec<f64>,
    inner: Vec<f64>,
    column: Vec<f64>,
    coefficients: Vec<f64>,
}

impl Equations {
    /// Writes to `x` the minimiser of ‖Σ(Vᵀx − t)‖ over the box nearest to ½·1. Returns whether the
    /// active-set method ended, and the number of steps.
    pub(super) fn fit(&self, t: &[f64], x: &mut [f64], work: &mut Fit) -> (bool, u32) {
        let (r, d) = (self.r, self.d);
        work.target.clear();
        work.target.extend(self.scaled_right_side(t));
        let size = 1.0 + amax(&work.target);
        let rows =
            Rows { g: &self.scaled, r, d, margin: 0.0, epsilon: EPSILON, tolerance: 1e-10 * size };
        work.dual.lambda.clear();
        work.dual.lambda.resize(r, 0.0);
        let (_, first) = rows.project(&work.target, &mut work.dual, x);
        let (ended, steps) = self.active_set(x, work);
        let last = self.toward_half(x, work);
        (ended, first + steps + last)
    }

    fn column(&self, i: usize) -> impl Iterator<Item = f64> {
        self.scaled[i..].iter().step_by(self.d).copied().take(self.r)
    }

    /// Computes the residual t − G x and the gradient Gᵀ(t − G x), the direction in which x should
    /// move.
    fn residual(&self, x: &[f64], work: &mut Fit) {
        let (r, d) = (self.r, self.d);
        work.residual.clear();
        work.residual.extend((0..r).map(|a| work.target[a] - dot(&self.scaled[a * d..][..d], x)));
        work.gradient.clear();
        work.gradient.resize(d, 0.0);
        for a in 0..r {
            axpy(&mut work.gradient, work.residual[a], &self.scaled[a * d..][..d]);
        }
    }

    /// Returns true if the gradient at coordinate i is within round-off of 0.
    fn flat(&self, i: usize, work: &Fit) -> bool {
        let column = self.column(i).map(|g| g * g).sum::<f64>().sqrt();
        work.gradient[i].abs()
            <= FLAT * column * dot(&work.residual, &work.residual).sqrt() + 1e-15 * column
    }

    fn active_set(&self, x: &mut [f64], work: &mut Fit) -> (bool, u32) {
        let (r, d) = (self.r, self.d);
        let most = 20 * d as u32 + 100;
        work.free.clear();
        // The guess's free coordinates, as far as their columns are independent; the rest go to the
        // nearer bound.
        work.q.clear();
        work.triangle.clear();
        for (i, x) in x.iter_mut().enumerate() {
            if self.column(i).all(|g| g == 0.0) {
                // The equations do not use this coordinate: ½ is its best value.
                *x = 0.5;
            } else if *x > 0.0 && *x < 1.0 && work.free.len() < r && self.append(i, work) {
                work.free.push(i);
            } else {
                *x = x.round();
            }
        }
        let mut steps = 0;
        loop {
            // Inner loop: the best values of the free coordinates. Where they leave the box, the
            // step is cut short.
            loop {
                steps += 1;
                if steps > most {
                    return (false, steps);
                }
                self.solve_free(x, work);
                let mut step = 1.0;
                let mut blocking = None;
                for (place, &i) in work.free.iter().enumerate() {
                    let (from, to) = (x[i], work.trial[place]);
                    let room = if to < 0.0 {
                        from / (from - to)
                    } else if to > 1.0 {
                        (1.0 - from) / (to - from)
                    } else {
                        1.0
                    };
                    if room < step {
                        step = room;
                        blocking = Some(place);
                    }
                }
                for (place, &i) in work.free.iter().enumerate() {
                    x[i] = (x[i] + step * (work.trial[place] - x[i])).clamp(0.0, 1.0);
                }
                let Some(place) = blocking else { break };
                let i = work.free.remove(place);
                x[i] = if work.trial[place] < 0.0 { 0.0 } else { 1.0 };
                self.refactor(work);
            }
            // Outer loop: free the coordinate whose gradient pulls it from its bound the most.
            self.residual(x, work);
            let mut best = None;
            for (i, x) in x.iter().enumerate() {
                let pull = if *x == 0.0 {
                    work.gradient[i]
                } else if *x == 1.0 {
                    -work.gradient[i]
                } else {
                    continue;
                };
                if pull > best.map_or(0.0, |(_, p)| p)
                    && !work.free.contains(&i)
                    && !self.flat(i, work)
                {
                    best = Some((i, pull));
                }
            }
            let Some((i, _)) = best else { return (true, steps) };
            if work.free.len() >= r || !self.append(i, work) {
                return (true, steps);
            }
            work.free.push(i);
        }
    }

    /// Appends column i to the orthonormal factor of the free columns, with two passes of
    /// Gram–Schmidt. Returns false if it depends on them.
    fn append(&self, i: usize, work: &mut Fit) -> bool {
        let r = self.r;
        let at = work.free.len();
        let Fit { column: w, coefficients, q, triangle, .. } = work;
        w.clear();
        w.extend(self.column(i));
        let whole = dot(w, w).sqrt();
        coefficients.clear();
        coefficients.resize(r, 0.0);
        for _ in 0..2 {
            for (c, q) in coefficients.iter_mut().zip(q.chunks_exact(r)) {
                let along = dot(q, w);
                *c += along;
                axpy(w, -along, q);
            }
        }
        let left = dot(w, w).sqrt();
        if left <= 1e-9 * whole {
            return false;
        }
        coefficients[at] = left;
        w.iter_mut().for_each(|w| *w /= left);
        q.extend_from_slice(w);
        triangle.extend_from_slice(coefficients);
        true
    }

    fn refactor(&self, work: &mut Fit) {
        let free = std::mem::take(&mut work.free);
        work.q.clear();
        work.triangle.clear();
        for i in free {
            // A subset of independent columns is independent.
            if self.append(i, work) {
                work.free.push(i);
            }
        }
    }

    /// Writes to `trial` the free coordinates that minimise ‖t − G x‖ with the others fixed.
    fn solve_free(&self, x: &[f64], work: &mut Fit) {
        let (r, d) = (self.r, self.d);
        let f = work.free.len();
        work.residual.clear();
        work.residual.extend((0..r).map(|a| work.target[a] - dot(&self.scaled[a * d..][..d], x)));
        work.trial.clear();
        work.trial.extend(work.q.chunks_exact(r).map(|q| dot(q, &work.residual)));
        for i in (0..f).rev() {
            // Column i of the triangle starts at i·r; entries above the diagonal belong to the
            // earlier coordinates.
            let column = &work.triangle[i * r..][..=i];
            let value = work.trial[i] / column[i];
            work.trial[i] = value;
            axpy(&mut work.trial[..i], -value, &column[..i]);
        }
        for (trial, &i) in work.trial.iter_mut().zip(&work.free) {
            *trial += x[i];
        }
    }

    /// Moves the coordinates that the fit leaves open as near to ½ as A x allows.
    fn toward_half(&self, x: &mut [f64], work: &mut Fit) -> u32 {
        let (r, d) = (self.r, self.d);
        self.residual(x, work);
        let open: Vec<usize> = (0..d).filter(|&i| self.flat(i, work)).collect();
        let f = open.len();
        if f == work.free.len() {
            // The open columns are independent: nothing can move.
            return 0;
        }
        work.rows.clear();
        for a in 0..r {
            work.rows.extend(open.iter().map(|&i| self.scaled[a * d + i]));
        }
        work.inner.clear();
        work.inner.extend(open.iter().map(|&i| x[i]));
        let target: Vec<f64> = (0..r).map(|a| dot(&work.rows[a * f..][..f], &work.inner)).collect();
        let tolerance = 1e-12 * (1.0 + amax(&target));
        let steps =
            project_by_faces(&work.rows, r, &target, tolerance, &mut work.dual, &mut work.inner);
        // Within round-off of its edge the set may look empty. The fit's point is then as near to ½
        // as can be computed.
        if (0..r).all(|a| {
            (dot(&work.rows[a * f..][..f], &work.inner) - target[a]).abs() <= 100.0 * tolerance
        }) {
            open.iter().zip(&work.inner).for_each(|(&i, v)| x[i] = *v);
        }
        steps
    }
}
