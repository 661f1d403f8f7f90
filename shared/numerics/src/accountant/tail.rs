//! Logarithm of the complementary error function, right in both tails.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, PI};

/// Up to here erf comes from its power series. There erfc is at least 0.03, so 1 − erf keeps its
/// digits.
const SERIES: f64 = 1.5;

/// Returns ln erfc(x) for any x. The error is below 1e-14, relative or absolute, whichever is
/// larger.
pub(super) fn log_erfc(x: f64) -> f64 {
    if x.abs() < SERIES {
        (-erf(x)).ln_1p()
    } else if x > 0.0 {
        log_scaled_erfc(x) - x * x
    } else {
        LN_2 + (-0.5 * log_erfc(-x).exp()).ln_1p()
    }
}

/// Returns ln(exp(x²) erfc(x)) for x ≥ 0. It does not underflow: it falls like −ln x. The error is
/// below 1e-14, relative or absolute.
///
/// Above [`SERIES`] it is Laplace's continued fraction 1 / (x + ½ / (x + 1 / (x + 3/2 / (x + …))))
/// / √π, DLMF 7.9.1.
pub(super) fn log_scaled_erfc(x: f64) -> f64 {
    if x < SERIES {
        return x * x + (-erf(x)).ln_1p();
    }
    // The error is of the order of exp(−2 x √(2 terms)). At large x few terms suffice.
    let terms = 10 + (250.0 / (x * x)) as u32;
    let fraction = (1..=terms).rev().fold(x, |rest, k| x + 0.5 * f64::from(k) / rest);
    -fraction.ln() - 0.5 * PI.ln()
}

/// Returns erf(x) for |x| < [`SERIES`] by erf(x) = 2 / √π exp(−x²) Σ 2ⁿ x^(2n+1) / (1 · 3 · … ·
/// (2n+1)), DLMF 7.6.2. All terms have one sign, so that nothing cancels.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}
