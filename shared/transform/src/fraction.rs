//! The greatest value of a fraction of two quadratics over a ball, found globally: V (50) and (54)
//! reduce to it.

use nalgebra::DVector;

/// The quadratic c + 2 lᵀy + Σ q_i y_i².
pub(super) struct Quadratic {
    pub(super) constant: f64,
    pub(super) linear: DVector<f64>,
    pub(super) squares: DVector<f64>,
}

impl Quadratic {
    fn at(&self, y: &DVector<f64>) -> f64 {
        let pairs = self.linear.iter().zip(&self.squares).zip(y);
        self.constant + pairs.map(|((l, q), y)| y * (2.0 * l + q * y)).sum::<f64>()
    }
}

/// The result of a search over the ball.
pub(super) struct Maximum {
    /// The maximiser.
    pub(super) y: DVector<f64>,
    /// The value of the fraction there.
    pub(super) value: f64,
    /// The number of problems with a fixed value that were solved on the way.
    pub(super) steps: u64,
}

/// Finds the maximum of `above` / `below` over ‖y‖ ≤ `radius`. `below` must be positive in the
/// whole ball.
///
/// Dinkelbach's method: with t the value so far, the maximiser of `above` − t `below` gives the
/// next. At the maximum that difference is 0 and nowhere positive, which proves it. Each step
/// maximises a quadratic over a ball, which need not be concave and whose global maximum is known
/// all the same (Moré and Sorensen). t rises at every step, and the rate is better than linear.
pub(super) fn maximise(above: &Quadratic, below: &Quadratic, radius: f64) -> Maximum {
    let mut best = Maximum {
        y: DVector::zeros(above.linear.len()),
        value: above.constant / below.constant,
        steps: 0,
    };
    while best.steps < 200 {
        best.steps += 1;
        let t = best.value;
        let y = ball_maximum(
            &(&above.squares - &below.squares * t),
            &(&above.linear - &below.linear * t),
            radius,
        );
        let value = above.at(&y) / below.at(&y);
        // NaN ends the search too.
        if value.partial_cmp(&t) != Some(std::cmp::Ordering::Greater) {
            break;
        }
        let done = value - t <= 1e-15 * value.abs();
        (best.y, best.value) = (y, value);
        if done {
            break;
        }
    }
    best
}

/// Returns the maximiser of 2 lᵀy + Σ q_i y_i² over ‖y‖ ≤ `radius`: y_i = l_i / (μ − q_i) with the
/// μ ≥ max(0, max q) for which ‖y‖ = radius, or μ = 0 if that is inside. If l has no part along the
/// greatest q, μ may stop at it, and the rest of the radius goes in that direction (either sign is
/// a maximum).
fn ball_maximum(squares: &DVector<f64>, linear: &DVector<f64>, radius: f64) -> DVector<f64> {
    let n = linear.len();
    if n == 0 || radius <= 0.0 {
        return DVector::zeros(n);
    }
    let top = squares.imax();
    let floor = squares[top].max(0.0);
    // μ = floor + s: the differences are exact where μ and q nearly meet.
    let gaps = squares.map(|q| floor - q);
    let at = |s: f64| {
        DVector::from_fn(n, |i, _| if linear[i] == 0.0 { 0.0 } else { linear[i] / (s + gaps[i]) })
    };
    let mut y = at(0.0);
    if y.norm() <= radius {
        // The interior maximum of a concave function, or the hard case.
        if gaps[top] == 0.0 {
            let missing = (radius * radius - y.norm_squared()).max(0.0).sqrt();
            y[top] += if y[top] < 0.0 { -missing } else { missing };
        }
        return y;
    }
    // ‖y(s)‖ falls from above the radius to below it.
    let (mut low, mut high) = (0.0, linear.norm() / radius);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if at(middle).norm() <= radius {
            high = middle;
        } else {
            low = middle;
        }
    }
    at(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{Rng, RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    fn random(n: usize, rng: &mut dyn Rng) -> DVector<f64> {
        DVector::from_fn(n, |_, _| rng.random::<f64>() - 0.5)
    }

    proptest! {
        /// Compares with points drawn in the ball and on its sphere, and with steps uphill from the
        /// best of them.
        #[test]
        fn no_point_of_the_ball_is_better(n in 1usize..5, radius in 0.01f64..2.0, zeros in 0u8..3, seed in any::<u64>()) {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let mut above = Quadratic { constant: rng.random::<f64>() - 0.5, linear: random(n, &mut rng), squares: random(n, &mut rng) };
            // Hard cases: no linear part along one direction, or along all.
            if zeros > 0 { above.linear[0] = 0.0; }
            if zeros > 1 { above.linear.fill(0.0); }
            let squares = random(n, &mut rng).map(f64::abs);
            let linear = if zeros > 1 { DVector::zeros(n) } else { random(n, &mut rng) };
            let constant = 2.0 * radius * linear.norm() + 0.1;
            let below = Quadratic { constant, linear, squares };
            let found = maximise(&above, &below, radius);
            prop_assert!(found.y.norm() <= radius * (1.0 + 1e-12));
            let value = |y: &DVector<f64>| above.at(y) / below.at(y);
            prop_assert!((value(&found.y) - found.value).abs() <= 1e-12 * found.value.abs().max(1e-3));
            let mut best = (f64::NEG_INFINITY, DVector::zeros(n));
            for i in 0..400 {
                let mut y = random(n, &mut rng);
                let length = if i % 2 == 0 { radius } else { radius * rng.random::<f64>() };
                y *= length / y.norm();
                if value(&y) > best.0 { best = (value(&y), y); }
            }
            for i in 0..400 {
                let mut y = &best.1 + random(n, &mut rng) * (radius * 0.98f64.powi(i));
                if y.norm() > radius { y *= radius / y.norm(); }
                if value(&y) > best.0 { best = (value(&y), y); }
            }
            prop_assert!(best.0 <= found.value + 1e-12 * found.value.abs().max(1.0), "{} beats {}", best.0, found.value);
        }
    }
}
