//! Exact Hamiltonian moves on a confined Gaussian (Pakman and Paninski, 2014): between the bounds
//! the path is an ellipse, at a bound it is reflected, and no move is rejected.

use nalgebra::DVector;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::confined::ConfinedGaussian;
use super::factor::factor;
use crate::dense::{axpy, dot};
use crate::polytope::{Polytope, Walk};

/// The duration of each move: a quarter of the ellipse.
const DURATION: f64 = std::f64::consts::FRAC_PI_2;

/// One burn-in move is made for this many counted moves.
const SKIPPED: u32 = 10;

/// The number of reflections after which a move ends.
const REFLECTIONS: usize = 10_000;

/// The half-space gᵀu + `offset` ≥ 0.
struct Wall {
    normal: Vec<f64>,
    offset: f64,
    square: f64,
}

impl ConfinedGaussian {
    /// Returns the mean of `samples` draws from the confined Gaussian, after a burn-in of a tenth
    /// as many. `None` if the bounds leave no interior.
    #[must_use]
    pub fn sampled_mean(&self, samples: u32, rng: &mut dyn Rng) -> Option<DVector<f64>> {
        let d = self.mean.len();
        // x = mean + F u
        let spread = factor(&self.covariance).ok()?;
        let p = spread.ncols();
        let mut set = Polytope::unit_box(0);
        (0..p).for_each(|_| set.add_unknown(f64::NEG_INFINITY, f64::INFINITY));
        let mut walls = Vec::new();
        for bound in &self.bounds {
            let offset = bound.row.value(self.mean.as_slice());
            let normal: Vec<f64> =
                spread.column_iter().map(|f| bound.row.value(f.as_slice())).collect();
            let square = dot(&normal, &normal);
            set.add(&normal, bound.lower - offset, bound.upper - offset);
            if square <= 1e-28 {
                continue;
            }
            if bound.lower.is_finite() {
                walls.push(Wall { normal: normal.clone(), offset: offset - bound.lower, square });
            }
            if bound.upper.is_finite() {
                let normal = normal.iter().map(|v| -v).collect();
                walls.push(Wall { normal, offset: bound.upper - offset, square });
            }
        }
        let mut u = vec![0.0; p];
        if p > 0 && !walls.is_empty() && !set.analytic_centre(&mut Walk::default(), &mut u) {
            return None;
        }
        let (mut sum, mut v) = (vec![0.0; p], vec![0.0; p]);
        let skipped = samples / SKIPPED;
        for sample in 0..samples + skipped {
            v.iter_mut().for_each(|v| *v = StandardNormal.sample(rng));
            travel(&walls, &mut u, &mut v);
            if sample >= skipped {
                axpy(&mut sum, 1.0, &u);
            }
        }
        sum.iter_mut().for_each(|s| *s /= f64::from(samples.max(1)));
        let mut x = self.mean.clone();
        for (column, s) in spread.column_iter().zip(&sum) {
            (0..d).for_each(|i| x[i] += s * column[i]);
        }
        Some(x)
    }
}

/// Moves along the ellipse u cos t + v sin t, from wall to wall.
fn travel(walls: &[Wall], u: &mut [f64], v: &mut [f64]) {
    let mut left = DURATION;
    for _ in 0..REFLECTIONS {
        let mut hit: Option<(usize, f64)> = None;
        for (at, wall) in walls.iter().enumerate() {
            let (a, b) = (dot(&wall.normal, u), dot(&wall.normal, v));
            let radius = a.hypot(b);
            if radius <= wall.offset {
                continue;
            }
            // a cos t + b sin t + offset falls through 0 where t + phase is this angle.
            let phase = (-b).atan2(a);
            let mut t = (-wall.offset / radius).clamp(-1.0, 1.0).acos() - phase;
            t = t.rem_euclid(2.0 * std::f64::consts::PI);
            // On the wall and moving outwards, up to round-off.
            if a + wall.offset <= 1e-12 * (1.0 + wall.offset.abs()) && b < 0.0 {
                t = 0.0;
            }
            if hit.is_none_or(|(_, first)| t < first) {
                hit = Some((at, t));
            }
        }
        let t = hit.map_or(left, |(_, t)| t.min(left));
        let (sine, cosine) = t.sin_cos();
        for (u, v) in u.iter_mut().zip(v.iter_mut()) {
            (*u, *v) = (*u * cosine + *v * sine, *v * cosine - *u * sine);
        }
        left -= t;
        match hit {
            Some((at, _)) if left > 0.0 => {
                let wall = &walls[at];
                let by = 2.0 * dot(&wall.normal, v) / wall.square;
                axpy(v, -by, &wall.normal);
            }
            _ => return,
        }
    }
}
