//! The smallest ball around points, by the method of P. Wolfe for the nearest point of a polytope,
//! on the dual of the ball.
//!
//! The centre is Σ λ_i p_i with λ ≥ 0 and Σ λ_i = 1 over a support, a few points that are affinely
//! independent and all at the radius. Each round adds the point farthest from the centre, then
//! walks towards the centre of the sphere through the support, dropping points whose λ reaches 0,
//! until that centre lies within their hull. The radius grows in every round, so no support comes
//! twice.

/// A point farther than the radius by at most this share is still on the sphere. Growth of the
/// radius by less counts as none.
const ON_SPHERE: f64 = 1e-14;

/// A point is in the flat of the support if its distance from the flat is below this share of its
/// distance from the support.
const IN_FLAT: f64 = 1e-9;

/// The most rounds. Sets of corners take about n.
const ROUNDS: usize = 10_000;

/// Memory of a search, reused for the next, with its result.
#[derive(Default)]
pub(super) struct Ball {
    /// The centre, d.
    pub(super) centre: Vec<f64>,
    /// The squared distance of the farthest point from it.
    pub(super) radius_squared: f64,
    support: Vec<usize>,
    lambda: Vec<f64>,
    goal: Vec<f64>,
    /// An orthonormal basis of the support's flat (m × d by rows), and the support's differences
    /// from its first point in it (m × m by columns, upper triangle).
    basis: Vec<f64>,
    triangle: Vec<f64>,
    rest: Vec<f64>,
    coefficients: Vec<f64>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn distance_squared(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

impl Ball {
    /// Finds the smallest ball around `points`. Each `d` numbers are one point, and there is at
    /// least one.
    pub(super) fn enclose(&mut self, points: &[f64], d: usize) {
        self.support.clear();
        self.lambda.clear();
        self.centre.clear();
        self.centre.extend_from_slice(&points[..d]);
        self.support.push(0);
        self.lambda.push(1.0);
        let mut radius_squared = 0.0;
        for round in 0..=ROUNDS {
            let (farthest, distance) = self.farthest(points, d);
            self.radius_squared = distance;
            if distance <= radius_squared * (1.0 + 2.0 * ON_SPHERE) + f64::MIN_POSITIVE
                || round == ROUNDS
            {
                return;
            }
            self.take_in(farthest, points, d);
            self.walk(points, d);
            self.centre.fill(0.0);
            for (&s, &l) in self.support.iter().zip(&self.lambda) {
                for (c, p) in self.centre.iter_mut().zip(&points[s * d..]) {
                    *c += l * p;
                }
            }
            let on_sphere =
                self.support.iter().map(|&s| distance_squared(&points[s * d..][..d], &self.centre));
            let grown = on_sphere.fold(0.0, f64::max);
            if grown <= radius_squared * (1.0 + ON_SPHERE) {
                // Only round-off is left to gain.
                self.radius_squared = self.farthest(points, d).1;
                return;
            }
            radius_squared = grown;
        }
    }

    /// Returns the farthest point from the centre, with its squared distance.
    fn farthest(&self, points: &[f64], d: usize) -> (usize, f64) {
        let mut farthest = (0, -1.0);
        for (i, p) in points.chunks_exact(d).enumerate() {
            let distance = distance_squared(p, &self.centre);
            if distance > farthest.1 {
                farthest = (i, distance);
            }
        }
        farthest
    }

    /// Adds a point outside the ball to the support. If it lies in the flat of the support, it
    /// replaces another point: there is one way of moving weight to it that keeps the centre, and
    /// along it the dual grows until a λ is 0.
    fn take_in(&mut self, new: usize, points: &[f64], d: usize) {
        self.decompose(points, d);
        let m = self.support.len() - 1;
        let p = &points[new * d..][..d];
        self.rest.clear();
        self.rest.extend(p.iter().zip(&points[self.support[0] * d..]).map(|(p, s)| p - s));
        let length = dot(&self.rest, &self.rest);
        self.coefficients.clear();
        self.coefficients.resize(m, 0.0);
        for _ in 0..2 {
            for (axis, c) in self.basis.chunks_exact(d).zip(&mut self.coefficients) {
                let along = dot(axis, &self.rest);
                *c += along;
                self.rest.iter_mut().zip(axis).for_each(|(r, a)| *r -= along * a);
            }
        }
        let mut weight = 0.0;
        if dot(&self.rest, &self.rest) <= IN_FLAT * IN_FLAT * length {
            solve_upper(&self.triangle, m, &mut self.coefficients);
            let first = 1.0 - self.coefficients.iter().sum::<f64>();
            let shares = || std::iter::once(first).chain(self.coefficients.iter().copied());
            let ratios =
                shares().zip(&self.lambda).enumerate().filter(|(_, (share, _))| *share > 0.0);
            let most =
                ratios.map(|(i, (share, l))| (i, l / share)).min_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((out, t)) = most {
                weight = t;
                for (l, share) in self.lambda.iter_mut().zip(shares()) {
                    *l = (*l - t * share).max(0.0);
                }
                self.support.remove(out);
                self.lambda.remove(out);
            }
        }
        self.support.push(new);
        self.lambda.push(weight);
    }

    /// Moves λ to the centre of the sphere through the support, and drops points whose λ reaches 0
    /// on the way.
    fn walk(&mut self, points: &[f64], d: usize) {
        loop {
            self.decompose(points, d);
            let m = self.support.len() - 1;
            // With D the differences from the first point, the centre is that point plus D y with 2
            // DᵀD y = diag DᵀD.
            self.goal.clear();
            self.goal.extend(
                (0..m)
                    .map(|j| 0.5 * (0..=j).map(|i| self.triangle[j * m + i].powi(2)).sum::<f64>()),
            );
            solve_upper_transposed(&self.triangle, m, &mut self.goal);
            solve_upper(&self.triangle, m, &mut self.goal);
            let first = 1.0 - self.goal.iter().sum::<f64>();
            self.goal.insert(0, first);
            let stops = self
                .lambda
                .iter()
                .zip(&self.goal)
                .enumerate()
                .filter(|(_, (_, goal))| **goal < 0.0);
            let stop =
                stops.map(|(i, (l, goal))| (i, l / (l - goal))).min_by(|a, b| a.1.total_cmp(&b.1));
            let Some((out, t)) = stop else {
                self.lambda.copy_from_slice(&self.goal);
                return;
            };
            for (l, goal) in self.lambda.iter_mut().zip(&self.goal) {
                *l = (*l + t * (goal - *l)).max(0.0);
            }
            self.support.remove(out);
            self.lambda.remove(out);
            if self.support.len() == 1 {
                self.lambda[0] = 1.0;
                return;
            }
        }
    }

    /// Orthonormalises the support's differences from its first point (Gram-Schmidt, each direction
    /// cleared twice).
    fn decompose(&mut self, points: &[f64], d: usize) {
        let m = self.support.len() - 1;
        self.basis.clear();
        self.triangle.clear();
        self.triangle.resize(m * m, 0.0);
        let first = &points[self.support[0] * d..][..d];
        for (j, &s) in self.support[1..].iter().enumerate() {
            self.basis.extend(points[s * d..][..d].iter().zip(first).map(|(p, f)| p - f));
            let (done, new) = self.basis.split_at_mut(j * d);
            for _ in 0..2 {
                for (i, axis) in done.chunks_exact(d).enumerate() {
                    let along = dot(axis, new);
                    self.triangle[j * m + i] += along;
                    new.iter_mut().zip(axis).for_each(|(n, a)| *n -= along * a);
                }
            }
            let length = dot(new, new).sqrt().max(f64::MIN_POSITIVE);
            self.triangle[j * m + j] = length;
            new.iter_mut().for_each(|n| *n /= length);
        }
    }
}

/// Computes R⁻¹ v in place, R m × m upper triangular by columns.
fn solve_upper(r: &[f64], m: usize, v: &mut [f64]) {
    for j in (0..m).rev() {
        v[j] /= r[j * m + j];
        for i in 0..j {
            v[i] -= r[j * m + i] * v[j];
        }
    }
}

/// Computes R⁻ᵀ v in place.
fn solve_upper_transposed(r: &[f64], m: usize, v: &mut [f64]) {
    for j in 0..m {
        let known: f64 = (0..j).map(|i| r[j * m + i] * v[i]).sum();
        v[j] = (v[j] - known) / r[j * m + j];
    }
}
