//! The nearest point of a polytope, by the dual active set method of Goldfarb and Idnani (1983) for
//! the identity as Hessian.
//!
//! Starting at the point itself, violated bounds are added one at a time. The current point stays
//! the nearest of those that meet the active bounds, so that every full step adds to the distance
//! and no set of bounds repeats. The normals N of the active bounds are stored as N = Q₁ R with Q
//! orthogonal: z = Q₂ Q₂ᵀ n is the direction to a new bound n that keeps the others met, and r =
//! R⁻¹ Q₁ᵀ n the decrease of their multipliers.

use super::Polytope;
use crate::dense::{axpy, dot};

/// Bounds closer than this, relative to their size, are one value.
const EQUAL: f64 = 1e-11;

/// The tolerance of a bound, relative to its size.
const FEASIBLE: f64 = 1e-11;

/// The least give of a row when the nearest point of an empty polytope is sought: small, so that
/// the rows count for far more than the distance.
const ELASTIC: f64 = 1e-4;

/// A normal depends on the active bounds if its part orthogonal to them is shorter than this.
const DEPENDENT: f64 = 1e-9;

/// A bound that depends on the active ones and is missed by at most this counts as met: the miss is
/// round-off.
const ROUND_OFF: f64 = 1e-8;

/// The workspace of a search. Nothing is allocated once it has grown to size.
#[derive(Default)]
pub struct ActiveSet {
    /// Columns of Q, one after the other, n × n.
    q: Vec<f64>,
    /// Columns of R, each with room for n entries.
    r: Vec<f64>,
    x: Vec<f64>,
    normal: Vec<f64>,
    /// Qᵀ n.
    turned: Vec<f64>,
    z: Vec<f64>,
    fall: Vec<f64>,
    multipliers: Vec<f64>,
    taken: Vec<Bound>,
    /// True for a row or side with an active bound, and for one that is skipped.
    busy: Vec<bool>,
    slots: Vec<usize>,
    gives: Vec<f64>,
    lengths: Vec<f64>,
}

impl std::fmt::Debug for ActiveSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ActiveSet")
    }
}

/// A side (below d) or row (from d) at one of its ends: `sign` · value ≥ `sign` · `end`.
#[derive(Clone, Copy)]
struct Bound {
    place: usize,
    sign: f64,
    end: f64,
    equality: bool,
}

const NO_SLOT: usize = usize::MAX;

/// The result of a search for a nearest point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NearestOutcome {
    /// The nearest point was found.
    Found,
    /// The polytope is empty.
    Empty,
    /// The steps allowed were used up.
    StepLimit,
}

impl Polytope {
    /// Writes the point nearest to `target` to `x`; both have d entries. If the polytope is empty,
    /// `x` is left unchanged.
    pub fn nearest(&self, target: &[f64], work: &mut ActiveSet, x: &mut [f64]) -> NearestOutcome {
        if self.contradiction {
            return NearestOutcome::Empty;
        }
        work.solve(self, 0.0, target, x)
    }

    /// Writes to `x` the point nearest to `target` among the points of the box that miss the rows
    /// least, in the sum of squares. For an empty polytope.
    pub fn nearest_misfit(
        &self,
        target: &[f64],
        work: &mut ActiveSet,
        x: &mut [f64],
    ) -> NearestOutcome {
        work.solve(self, ELASTIC, target, x)
    }
}

impl ActiveSet {
    /// Solves with rows that have at least `least_give` of give.
    fn solve(
        &mut self,
        p: &Polytope,
        least_give: f64,
        target: &[f64],
        x: &mut [f64],
    ) -> NearestOutcome {
        let (d, m) = (p.d, p.ends.len());
        self.gives.clear();
        self.gives.extend(p.gives.iter().map(|g| g.max(least_give)));
        self.lengths.clear();
        self.lengths.extend(self.gives.iter().map(|g| (1.0 + g * g).sqrt()));
        self.slots.clear();
        let mut n = d;
        for give in &self.gives {
            if *give > 0.0 {
                self.slots.push(n);
                n += 1;
            } else {
                self.slots.push(NO_SLOT);
            }
        }
        self.q.clear();
        self.q.resize(n * n, 0.0);
        (0..n).for_each(|i| self.q[i * n + i] = 1.0);
        self.r.resize(n * n, 0.0);
        for v in [&mut self.normal, &mut self.turned, &mut self.z, &mut self.fall] {
            v.resize(n, 0.0);
        }
        self.x.clear();
        self.x.extend_from_slice(target);
        self.x.resize(n, 0.0);
        self.multipliers.clear();
        self.taken.clear();
        self.busy.clear();
        self.busy.resize(d + m, false);

        if self.gives.iter().zip(&p.ends).any(|(give, ends)| *give == 0.0 && crossed(*ends))
            || p.sides.iter().any(|side| crossed(*side))
        {
            return NearestOutcome::Empty;
        }
        let mut budget = 40 * (n + m) + 200;
        while let Some((bound, _)) = self.most_violated(p) {
            match self.take(p, n, bound, &mut budget) {
                NearestOutcome::Found => {}
                other => return other,
            }
        }
        self.refine(p, n);
        for ((to, from), side) in x.iter_mut().zip(&self.x).zip(&p.sides) {
            *to = from.clamp(side.0, side.1);
        }
        NearestOutcome::Found
    }

    fn value(&self, p: &Polytope, place: usize) -> f64 {
        if place < p.d {
            return self.x[place];
        }
        let row = place - p.d;
        let plain = dot(&p.rows[row * p.d..][..p.d], &self.x[..p.d]);
        match self.slots[row] {
            NO_SLOT => plain,
            slot => (plain + self.gives[row] * self.x[slot]) / self.lengths[row],
        }
    }

    fn ends(&self, p: &Polytope, place: usize) -> (f64, f64) {
        if place < p.d {
            return p.sides[place];
        }
        let (ends, length) = (p.ends[place - p.d], self.lengths[place - p.d]);
        if ends.0 > ends.1 {
            // The ends crossed by round-off, or the row gives and its middle is the best value.
            let middle = 0.5 * (ends.0 + ends.1) / length;
            return (middle, middle);
        }
        (ends.0 / length, ends.1 / length)
    }

    /// Returns the most violated bound, equalities first.
    fn most_violated(&self, p: &Polytope) -> Option<(Bound, f64)> {
        let mut worst: Option<(Bound, f64)> = None;
        for place in 0..p.d + p.ends.len() {
            if self.busy[place] {
                continue;
            }
            let (lower, upper) = self.ends(p, place);
            let value = self.value(p, place);
            let (miss, sign, end) = if lower - value >= value - upper {
                (lower - value, 1.0, lower)
            } else {
                (value - upper, -1.0, upper)
            };
            let size = 1.0 + if end.is_finite() { end.abs() } else { 0.0 };
            let equality = upper - lower <= EQUAL * size && upper >= lower;
            if miss.is_nan() || miss <= FEASIBLE * size {
                continue;
            }
            let better = worst.is_none_or(|(w, by)| {
                (equality && !w.equality) || (equality == w.equality && miss > by)
            });
            if better {
                worst = Some((Bound { place, sign, end, equality }, miss));
            }
        }
        worst
    }

    /// Computes n and Qᵀ n of a bound.
    fn turn(&mut self, p: &Polytope, n: usize, bound: Bound) {
        let sign = bound.sign;
        if bound.place < p.d {
            for (t, column) in self.turned.iter_mut().zip(self.q.chunks_exact(n)) {
                *t = sign * column[bound.place];
            }
            return;
        }
        let row = bound.place - p.d;
        let (length, slot) = (self.lengths[row], self.slots[row]);
        let normal = &p.rows[row * p.d..][..p.d];
        for (t, column) in self.turned.iter_mut().zip(self.q.chunks_exact(n)) {
            let extra = if slot == NO_SLOT { 0.0 } else { self.gives[row] * column[slot] };
            *t = sign * (dot(normal, &column[..p.d]) + extra) / length;
        }
    }

    /// Moves until `bound` is met, dropping bounds whose multipliers reach 0 on the way.
    fn take(&mut self, p: &Polytope, n: usize, bound: Bound, budget: &mut usize) -> NearestOutcome {
        let mut multiplier = 0.0;
        loop {
            if *budget == 0 {
                return NearestOutcome::StepLimit;
            }
            *budget -= 1;
            let active = self.taken.len();
            self.turn(p, n, bound);
            let beyond = dot(&self.turned[active..], &self.turned[active..]);
            self.falls(n, active);
            let (mut longest, mut dropped) = (f64::INFINITY, None);
            for at in 0..active {
                if !self.taken[at].equality && self.fall[at] > 1e-14 {
                    let step = self.multipliers[at] / self.fall[at];
                    if step < longest {
                        (longest, dropped) = (step, Some(at));
                    }
                }
            }
            let miss = bound.sign * (bound.end - self.value(p, bound.place));
            let dependent = active >= n || beyond <= DEPENDENT * DEPENDENT;
            let full = if dependent { f64::INFINITY } else { miss.max(0.0) / beyond };
            if dependent && dropped.is_none() {
                let size = 1.0 + bound.end.abs();
                if miss <= ROUND_OFF * size {
                    self.busy[bound.place] = true;
                    return NearestOutcome::Found;
                }
                return NearestOutcome::Empty;
            }
            let step = full.min(longest);
            for (u, fall) in self.multipliers.iter_mut().zip(&self.fall) {
                *u -= step * fall;
            }
            multiplier += step;
            if !dependent {
                self.z.fill(0.0);
                for (t, column) in
                    self.turned[active..].iter().zip(self.q.chunks_exact(n).skip(active))
                {
                    axpy(&mut self.z, *t, column);
                }
                axpy(&mut self.x, step, &self.z);
            }
            match dropped {
                Some(at) if longest < full => self.drop(n, at),
                _ => {
                    self.append(n, bound, multiplier);
                    return NearestOutcome::Found;
                }
            }
        }
    }

    /// Computes r = R⁻¹ Q₁ᵀ n.
    fn falls(&mut self, n: usize, active: usize) {
        self.fall[..active].copy_from_slice(&self.turned[..active]);
        for at in (0..active).rev() {
            let column = &self.r[at * n..][..=at];
            let value = self.fall[at] / column[at];
            self.fall[at] = value;
            axpy(&mut self.fall[..at], -value, &column[..at]);
        }
    }

    /// Adds the bound whose normal has just been turned: one reflection of Q₂ moves the rest of the
    /// normal to its first column.
    fn append(&mut self, n: usize, bound: Bound, multiplier: f64) {
        let active = self.taken.len();
        let length = dot(&self.turned[active..], &self.turned[active..]).sqrt();
        let first = self.turned[active];
        let pivot = if first > 0.0 { -length } else { length };
        self.turned[active] = first - pivot;
        let squared = dot(&self.turned[active..], &self.turned[active..]);
        if squared > 0.0 {
            let scale = 2.0 / squared;
            self.z.fill(0.0);
            for (v, column) in self.turned[active..].iter().zip(self.q.chunks_exact(n).skip(active))
            {
                axpy(&mut self.z, *v, column);
            }
            for (v, column) in
                self.turned[active..].iter().zip(self.q.chunks_exact_mut(n).skip(active))
            {
                axpy(column, -scale * v, &self.z);
            }
        }
        let column = &mut self.r[active * n..][..n];
        column[..active].copy_from_slice(&self.turned[..active]);
        column[active] = pivot;
        self.taken.push(bound);
        self.multipliers.push(multiplier);
        self.busy[bound.place] = true;
    }

    /// Removes a bound; rotations make R triangular again.
    fn drop(&mut self, n: usize, at: usize) {
        let bound = self.taken.remove(at);
        self.multipliers.remove(at);
        self.busy[bound.place] = false;
        let active = self.taken.len();
        for column in at..active {
            let (to, from) = (column * n, (column + 1) * n);
            self.r.copy_within(from..from + column + 2, to);
        }
        for row in at..active {
            let (a, b) = (self.r[row * n + row], self.r[row * n + row + 1]);
            let length = a.hypot(b);
            if length == 0.0 {
                continue;
            }
            let (c, s) = (a / length, b / length);
            for column in row..active {
                let r = &mut self.r[column * n + row..][..2];
                (r[0], r[1]) = (c * r[0] + s * r[1], c * r[1] - s * r[0]);
            }
            let (left, right) = self.q.split_at_mut((row + 1) * n);
            for (l, r) in left[row * n..].iter_mut().zip(&mut right[..n]) {
                (*l, *r) = (c * *l + s * *r, c * *r - s * *l);
            }
        }
    }

    /// Corrects the round-off in the active bounds once: x += Q₁ R⁻ᵀ (ends − Nᵀx).
    fn refine(&mut self, p: &Polytope, n: usize) {
        let active = self.taken.len();
        for at in 0..active {
            let bound = self.taken[at];
            let column = &self.r[at * n..][..=at];
            let miss = bound.sign * (bound.end - self.value(p, bound.place));
            self.fall[at] = (miss - dot(&column[..at], &self.fall[..at])) / column[at];
        }
        for at in 0..active {
            let by = self.fall[at];
            axpy(&mut self.x, by, &self.q[at * n..][..n]);
        }
    }
}

/// Returns true if a lower end lies above the upper one by more than round-off.
fn crossed(ends: (f64, f64)) -> bool {
    ends.0 > ends.1 + ROUND_OFF * (1.0 + ends.0.abs().min(ends.1.abs()))
}
