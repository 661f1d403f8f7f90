//! Gaussian noise on a point of the simplex.

use super::LogSum;

/// Steps of an integral, in the unit in which its integrand falls at least as exp(−t²).
const STEP: f64 = 0.05;
/// The reach of an integral: exp(−t²) is 5e-22 there.
const REACH: f64 = 7.0;

/// Returns the maximal leakage, in bits, of a vector of `classes` scores with independent noise
/// N(0, σ²) on each of them.
///
/// L = log2 ∫ max_{c ∈ Δ} φ_σ(y − c) dy = log2 Σ_{j<k} V_j(Δ) (σ √(2π))^(−j): the integral of
/// exp(−dist(y, Δ)²/2σ²) is Wills' functional, and Steiner's formula gives it (Hadwiger, *Das
/// Wills'sche Funktional*, Monatshefte 79, 1975). The part of the noise across the plane Σ c = 1
/// carries no information. V_j is the j-th intrinsic volume of the simplex with unit vectors for
/// vertices: the sum over its C(k, j + 1) faces of dimension j of their volume √(j + 1)/j! times
/// their external angle γ(j) = √((j + 1)/π) ∫ exp(−(j + 1) x²) Φ(√2 x)^(k − 1 − j) dx (Betke and
/// Henk, *Intrinsic volumes and lattice points of crosspolytopes*, Monatshefte 115, 1993).
///
/// The result is exact to 1e-9 bits. The computation uses logarithms, so that a σ of 1e-12 and 65
/// 536 classes are in range. The terms are log-concave in j (Alexandrov-Fenchel), so that the sum
/// may end where they are small and falling. `sigma` is above 0, in units of a score. 0 bits for
/// less than two classes.
#[must_use]
pub fn gaussian_simplex_bits(classes: usize, sigma: f64) -> f64 {
    /// Terms whose logarithm is this far below the sum are left out.
    const NEGLIGIBLE: f64 = -40.0;
    let n = classes.saturating_sub(1);
    let per_dimension = -(sigma * (2.0 * std::f64::consts::PI).sqrt()).ln();
    let (mut sum, mut last, mut ln_faces) = (LogSum::EMPTY, f64::NEG_INFINITY, 0.0);
    for j in 0..=n {
        // The logarithm of C(n + 1, j + 1) / j!.
        ln_faces +=
            ((n + 1 - j) as f64 / (j + 1) as f64).ln() - if j > 0 { (j as f64).ln() } else { 0.0 };
        let volume = ln_faces + 0.5 * ((j + 1) as f64).ln() + ln_external_angle(j, n);
        let term = volume + j as f64 * per_dimension;
        sum.add(term);
        if term < last - 1.0 && term < sum.top + NEGLIGIBLE {
            break;
        }
        last = term;
    }
    // V_0 is 1, so that L is not below 0.
    sum.log2().max(0.0)
}

/// Returns the logarithm of the external angle of a regular simplex of dimension n at a face of
/// dimension j.
///
/// With t = √(j + 1) x it is π^(−½) ∫ exp(−t²) Φ(√2 t/√(j + 1))^(n − j) dt. The logarithm of the
/// integrand is concave, with a second derivative of at most −2: from its mode on it falls at
/// least as exp(−t²), and the trapezoidal rule is as exact as doubles.
fn ln_external_angle(j: usize, n: usize) -> f64 {
    if j == n {
        return 0.0;
    }
    let (power, scale) = ((n - j) as f64, 1.0 / ((j + 1) as f64).sqrt());
    let ln = |t: f64| power * (0.5 * libm::erfc(-t * scale)).ln() - t * t;
    // The slope decreases from a positive value at 0.
    let slope = |t: f64| {
        let x = t * scale;
        power * scale * 2.0 * (-x * x).exp() / (std::f64::consts::PI.sqrt() * libm::erfc(-x))
            - 2.0 * t
    };
    let (mut low, mut high) = (0.0, 1.0);
    while slope(high) > 0.0 {
        high *= 2.0;
    }
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if slope(middle) > 0.0 { low = middle } else { high = middle }
    }
    let mut sum = LogSum::EMPTY;
    let steps = (REACH / STEP) as i32;
    for step in -steps..=steps {
        sum.add(ln(low + f64::from(step) * STEP));
    }
    sum.top + sum.sum.ln() + (STEP / std::f64::consts::PI.sqrt()).ln()
}
