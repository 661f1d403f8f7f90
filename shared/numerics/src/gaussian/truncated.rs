//! The mean and variance of a normal deviate confined to an interval.

use std::sync::LazyLock;

/// The nodes of the quadrature in tails and narrow intervals. It is exact to 1e-11 for densities
/// that fall by e⁴⁰ in the interval.
const NODES: usize = 24;

/// A tail is cut off where its density has fallen by e to this power.
const FALL: f64 = 40.0;

/// Beyond this many standard deviations an interval counts as a tail.
const TAIL: f64 = 5.0;

/// Narrower intervals, in standard deviations, use quadrature: the closed form loses digits to
/// cancellation.
const NARROW: f64 = 0.05;

/// Nodes in [0, 1] and weights of the Gauss-Legendre rule.
static RULE: LazyLock<[(f64, f64); NODES]> = LazyLock::new(gauss_legendre);

/// Returns the mean and variance of a normal deviate of this mean and deviation (above 0), given
/// that it lies between `lower` and `upper`. Either end may be infinite.
pub(super) fn moments(mean: f64, deviation: f64, lower: f64, upper: f64) -> (f64, f64) {
    let (a, b) = ((lower - mean) / deviation, (upper - mean) / deviation);
    let (shift, variance) = standard(a, b);
    ((mean + deviation * shift).clamp(lower, upper), deviation * deviation * variance)
}

/// Like [`moments`], for the standard normal distribution.
fn standard(a: f64, b: f64) -> (f64, f64) {
    if a + b < 0.0 {
        let (mean, variance) = standard_right(-b, -a);
        return (-mean, variance);
    }
    standard_right(a, b)
}

/// Like [`standard`], for an interval whose middle is at least 0.
fn standard_right(a: f64, b: f64) -> (f64, f64) {
    if a == f64::NEG_INFINITY {
        return (0.0, 1.0);
    }
    if a > TAIL || b - a < NARROW {
        return by_quadrature(a, b);
    }
    let density = |t: f64| {
        if t.is_finite() { (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt() } else { 0.0 }
    };
    let upper_tail = |t: f64| 0.5 * libm::erfc(t * std::f64::consts::FRAC_1_SQRT_2);
    let mass =
        if a > 0.0 { upper_tail(a) - upper_tail(b) } else { 1.0 - upper_tail(-a) - upper_tail(b) };
    let (at_a, at_b) = (density(a), density(b));
    let mean = (at_a - at_b) / mass;
    let edge = if b.is_finite() { b * at_b } else { 0.0 };
    (mean, (1.0 + (a * at_a - edge) / mass - mean * mean).max(0.0))
}

/// Integrates exp(−a y − y²/2) over y in [0, b − a].
fn by_quadrature(a: f64, b: f64) -> (f64, f64) {
    let length = (b - a).min((a * a + 2.0 * FALL).sqrt() - a);
    let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
    for (node, weight) in RULE.iter() {
        let y = node * length;
        let density = weight * (-a * y - 0.5 * y * y).exp();
        mass += density;
        first += density * node;
        second += density * node * node;
    }
    let mean = first / mass;
    (a + length * mean, length * length * (second / mass - mean * mean).max(0.0))
}

/// Computes the rule by Newton's method on the Legendre polynomial.
fn gauss_legendre() -> [(f64, f64); NODES] {
    let n = NODES as f64;
    std::array::from_fn(|i| {
        let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..100 {
            let (mut before, mut value) = (1.0, x);
            for k in 2..=NODES {
                let k = k as f64;
                (before, value) = (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k);
            }
            slope = n * (x * value - before) / (x * x - 1.0);
            let step = value / slope;
            x -= step;
            if step.abs() < 1e-16 {
                break;
            }
        }
        (0.5 * (1.0 - x), 1.0 / ((1.0 - x * x) * slope * slope))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simpson's rule with many points, on the part of the interval where the density counts.
    fn brute_force(a: f64, b: f64) -> (f64, f64) {
        let peak = 0.0f64.clamp(a, b);
        let reach = if peak.abs() > 1.0 { 60.0 / peak.abs() } else { 12.0 };
        let (low, high) = (a.max(peak - reach), b.min(peak + reach));
        let n = 200_000;
        let step = (high - low) / f64::from(n);
        let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
        for i in 0..=n {
            let t = low + step * f64::from(i);
            let weight = if i == 0 || i == n { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
            let density = weight * (0.5 * (peak * peak - t * t)).exp();
            mass += density;
            first += density * (t - peak);
            second += density * (t - peak).powi(2);
        }
        let mean = first / mass;
        (peak + mean, second / mass - mean * mean)
    }

    #[test]
    fn moments_agree_with_brute_force() {
        let ends: [f64; 13] =
            [-300.0, -40.0, -8.0, -5.1, -4.9, -1.0, -0.01, 0.0, 0.3, 2.0, 5.2, 12.0, 500.0];
        for (i, &a) in ends.iter().enumerate() {
            for b in ends[i + 1..].iter().copied().chain([a + 1e-6, a + 0.049, a + 0.051, a + 3.0])
            {
                let ((mean, variance), (want, spread)) = (standard(a, b), brute_force(a, b));
                let scale = spread.sqrt();
                assert!(
                    (mean - want).abs() < 1e-8 * scale + 1e-13 * want.abs(),
                    "[{a}, {b}]: {mean} for {want}"
                );
                assert!(
                    (variance - spread).abs() < 1e-7 * spread,
                    "[{a}, {b}]: variance {variance} for {spread}"
                );
            }
        }
    }

    #[test]
    fn an_open_interval_changes_nothing_and_a_half_line_is_known() {
        assert_eq!(moments(0.3, 2.0, f64::NEG_INFINITY, f64::INFINITY), (0.3, 4.0));
        let (mean, variance) = moments(0.0, 1.0, 0.0, f64::INFINITY);
        let want = (2.0 / std::f64::consts::PI).sqrt();
        assert!((mean - want).abs() < 1e-14 && (variance - (1.0 - want * want)).abs() < 1e-14);
        let (mean, variance) = moments(0.0, 1.0, 1e4, f64::INFINITY);
        assert!(
            (mean - 1e4 - 1e-4).abs() < 1e-11 && (variance * 1e8 - 1.0).abs() < 1e-6,
            "{mean} {variance}"
        );
    }
}
