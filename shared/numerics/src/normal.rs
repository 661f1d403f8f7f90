//! Quantiles of the normal distribution.

/// Returns the z for which a standard normal variable lies outside [−z, z] with probability
/// `alpha`, in (0, 1): 1.96 at 0.05. It is found by bisection of erfc(z/√2) = alpha to the last
/// digits of a double. For `alpha` outside (0, 1) it is the nearer end of [0, 38], where erfc
/// underflows.
///
/// # Example
///
/// ```
/// assert!((vfl_numerics::two_sided_normal(0.05) - 1.959_963_984_540_054).abs() < 1e-12);
/// ```
#[must_use]
pub fn two_sided_normal(alpha: f64) -> f64 {
    let (mut low, mut high) = (0.0, 38.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if libm::erfc(middle * std::f64::consts::FRAC_1_SQRT_2) > alpha {
            low = middle
        } else {
            high = middle
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::two_sided_normal;

    /// Tables of the normal distribution: 68.27 % within 1, and the quantiles 0.995 and 0.9995.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (alpha, z) in [
            (0.317_310_507_862_914, 1.0),
            (0.01, 2.575_829_303_548_901),
            (0.001, 3.290_526_731_491_926),
        ] {
            assert!((two_sided_normal(alpha) - z).abs() < 1e-12, "{alpha}");
        }
        assert!(two_sided_normal(1.0) < 1e-12 && two_sided_normal(0.0) > 37.0);
    }
}
