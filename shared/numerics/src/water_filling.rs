//! The least mean squared error of a Gaussian vector that is described by a number of bits: reverse
//! water-filling.

/// The best allocation of a number of bits to independent Gaussian components, and the error that
/// remains.
///
/// For variances λ₁ … λ_m and a level θ, component i is described with the error min(λ_i, θ). That
/// takes Σ max(0, ½ log2(λ_i / θ)) bits and leaves Σ min(λ_i, θ). No estimate from a message with
/// as much mutual information has a smaller mean squared error (Cover and Thomas, *Elements of
/// Information Theory*, 2nd edition, theorem 10.3.3). For a vector with covariance T the λ_i are
/// the eigenvalues of T.
///
/// # Example
///
/// Two bits on variances 16, 1 and 1: both go to the first component, whose standard deviation they
/// divide by four. Three bits more go to all three alike.
///
/// ```
/// use vfl_numerics::WaterFilling;
///
/// let two = WaterFilling::new(&[1.0, 16.0, 1.0], 2.0).expect("variances and bits are at least 0");
/// assert_eq!((two.level, two.error), (1.0, 3.0));
/// let five = WaterFilling::new(&[1.0, 16.0, 1.0], 5.0).expect("variances and bits are at least 0");
/// assert_eq!((five.level, five.error), (0.25, 0.75));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WaterFilling {
    /// θ: the greatest error of a component. For no bits it is the greatest variance, for
    /// infinitely many it is 0.
    pub level: f64,
    /// Σ min(λ_i, θ), the sum of the errors of all components, in the unit of the variances.
    pub error: f64,
}

impl WaterFilling {
    /// Computes the allocation for `variances` in any order and `bits` in total, which may be
    /// infinite. `None` if a variance is negative or not finite, or `bits` is negative or NaN.
    ///
    /// The result is exact up to rounding. With the variances sorted, the first j components are
    /// described between the levels λ_j and λ_{j+1}. Lowering the level from one to the other takes
    /// ½ j log2(λ_j / λ_{j+1}) bits. Where the bits end in such a segment, θ = λ_j 2^(−2 rest / j)
    /// with the bits that remain at its start.
    #[must_use]
    pub fn new(variances: &[f64], bits: f64) -> Option<Self> {
        if !variances.iter().all(|v| v.is_finite() && *v >= 0.0) || bits.is_nan() || bits < 0.0 {
            return None;
        }
        let mut sorted: Vec<f64> = variances.iter().copied().filter(|v| *v > 0.0).collect();
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        let (mut rest, mut told) = (bits, 0.0);
        for (at, &variance) in sorted.iter().enumerate() {
            told += 1.0;
            // The last segment extends down to 0 and takes any number of bits.
            let segment = sorted
                .get(at + 1)
                .map_or(f64::INFINITY, |next| 0.5 * told * (variance.log2() - next.log2()));
            if rest < segment || at + 1 == sorted.len() {
                let level = variance * (-2.0 * rest / told).exp2();
                return Some(Self {
                    level,
                    error: told * level + sorted[at + 1..].iter().rev().sum::<f64>(),
                });
            }
            rest -= segment;
        }
        Some(Self { level: 0.0, error: 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn bits_at(variances: &[f64], level: f64) -> f64 {
        variances.iter().map(|v| (0.5 * (v / level).log2()).max(0.0)).sum()
    }

    /// Returns the level by bisection of its logarithm on the definition.
    fn bisected(variances: &[f64], bits: f64) -> f64 {
        let greatest = variances.iter().copied().fold(0.0, f64::max);
        let (mut low, mut high) = (-300.0, greatest.log2());
        for _ in 0..200 {
            let middle: f64 = 0.5 * (low + high);
            if bits_at(variances, middle.exp2()) > bits { low = middle } else { high = middle }
        }
        high.exp2()
    }

    /// Some equal, some 0, some far below the others.
    fn drawn(count: usize, seed: u64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut all: Vec<f64> = Vec::with_capacity(count);
        for at in 0..count {
            all.push(match rng.random_range(0..5) {
                0 if at > 0 => all[at - 1],
                1 => 0.0,
                2 => 1e-9 * rng.random::<f64>(),
                _ => rng.random(),
            });
        }
        all
    }

    fn fill(variances: &[f64], bits: f64) -> WaterFilling {
        WaterFilling::new(variances, bits).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

        #[test]
        fn as_bisection_of_the_definition(count in 1usize..20, bits in 0.0f64..60.0, seed in any::<u64>()) {
            let variances = drawn(count, seed);
            let found = fill(&variances, bits);
            if variances.iter().any(|v| *v > 0.0) {
                let level = bisected(&variances, bits);
                prop_assert!((found.level / level - 1.0).abs() < 1e-9, "{found:?} {level}");
                let error: f64 = variances.iter().map(|v| v.min(level)).sum();
                prop_assert!((found.error / error - 1.0).abs() < 1e-9, "{found:?} {error}");
                prop_assert!((bits_at(&variances, found.level) - bits).abs() < 1e-9);
            } else {
                prop_assert_eq!(found, WaterFilling { level: 0.0, error: 0.0 });
            }
        }

        /// Any other way to spend the bits, Σ λ_i 2^(−2 b_i), leaves at least as much.
        #[test]
        fn no_other_way_to_spend_the_bits_leaves_less(count in 1usize..10, bits in 0.0f64..30.0, seed in any::<u64>()) {
            let variances = drawn(count, seed);
            let (least, mut rng) = (fill(&variances, bits).error, ChaCha8Rng::seed_from_u64(!seed));
            for _ in 0..20 {
                let shares: Vec<f64> = variances.iter().map(|_| rng.random::<f64>().powi(3)).collect();
                let all: f64 = shares.iter().sum();
                let left: f64 = variances.iter().zip(&shares).map(|(v, s)| v * (-2.0 * bits * s / all).exp2()).sum();
                prop_assert!(least <= left * (1.0 + 1e-12), "{least} {left}");
            }
        }

        #[test]
        fn the_error_falls_and_is_convex_in_the_bits(count in 1usize..12, bits in 0.0f64..40.0, by in 0.01f64..4.0, seed in any::<u64>()) {
            let variances = drawn(count, seed);
            let [low, middle, high] = [bits, bits + by, bits + 2.0 * by].map(|b| fill(&variances, b).error);
            prop_assert!(high <= middle && middle <= low, "{low} {middle} {high}");
            prop_assert!(2.0 * middle <= (low + high) * (1.0 + 1e-12), "{low} {middle} {high}");
        }

        #[test]
        fn no_bits_leave_all_and_infinitely_many_leave_nothing(count in 0usize..12, seed in any::<u64>()) {
            let variances = drawn(count, seed);
            let (all, greatest) = (variances.iter().sum::<f64>(), variances.iter().copied().fold(0.0, f64::max));
            let none = fill(&variances, 0.0);
            prop_assert!((none.error - all).abs() <= 1e-12 * all && none.level == greatest, "{none:?} {all}");
            prop_assert_eq!(fill(&variances, f64::INFINITY), WaterFilling { level: 0.0, error: 0.0 });
            prop_assert!(fill(&variances, 2000.0).error < 1e-30);
        }
    }

    #[test]
    fn variances_of_any_size_and_what_is_none() {
        let spread = [f64::MAX / 4.0, 1.0, f64::MIN_POSITIVE / 8.0];
        for bits in [0.0, 1.0, 600.0, 1200.0, 1e308] {
            let found = fill(&spread, bits);
            assert!(found.error.is_finite() && found.level >= 0.0, "{bits}: {found:?}");
        }
        // One component: the variance over 4 for each bit.
        assert_eq!(fill(&[8.0], 1.5).error, 1.0);
        for (variances, bits) in [
            (&[-1e-9][..], 1.0),
            (&[f64::NAN], 1.0),
            (&[f64::INFINITY], 1.0),
            (&[1.0], -1e-9),
            (&[1.0], f64::NAN),
        ] {
            assert_eq!(WaterFilling::new(variances, bits), None, "{variances:?} {bits}");
        }
    }
}
