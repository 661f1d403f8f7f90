//! Against counting, against the definition for small channels, against Monte Carlo, and against
//! published figures.

use std::collections::HashSet;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::*;

/// The definition: rows of the channel are secrets, columns releases.
fn by_definition(channel: &[Vec<f64>]) -> f64 {
    let most = |r: usize| channel.iter().map(|row| row[r]).fold(0.0, f64::max);
    (0..channel[0].len()).map(most).sum::<f64>().log2()
}

fn whole(classes: usize, decimals: u32) -> f64 {
    rounded_simplex_bits(classes, decimals, RoundedSimplex::Whole)
}

#[test]
fn rounding_has_the_figures_of_an_independent_count() {
    for (classes, decimals, bits) in
        [(2, 1, 3.459), (2, 2, 6.658), (2, 3, 9.967), (3, 2, 13.887), (10, 2, 45.115)]
    {
        assert!(
            (whole(classes, decimals) - bits).abs() < 1e-3,
            "{classes} {decimals}: {}",
            whole(classes, decimals)
        );
    }
    assert!(whole(6, 1) <= 14.1 && whole(6, 1) > 13.6, "{}", whole(6, 1));
}

/// All vectors that rounding, ties to even, makes of the score vectors on a grid of `fine` parts
/// of a unit: a multiple of 2 k, so that it has a point in each cell and on each end.
fn rounded_by_hand(classes: usize, unit: u64, fine: u64) -> usize {
    fn visit(left: u64, at: usize, c: &mut [u64], fine: u64, seen: &mut HashSet<Vec<u64>>) {
        if at + 1 == c.len() {
            c[at] = left;
            let round = |c: &u64| {
                let (units, rest) = (c / fine, c % fine);
                units + u64::from(2 * rest > fine || (2 * rest == fine && units % 2 == 1))
            };
            seen.insert(c.iter().map(round).collect());
            return;
        }
        for value in 0..=left {
            c[at] = value;
            visit(left - value, at + 1, c, fine, seen);
        }
    }
    let mut seen = HashSet::new();
    visit(unit * fine, 0, &mut vec![0; classes], fine, &mut seen);
    seen.len()
}

#[test]
fn rounding_counts_what_a_fine_grid_gives() {
    for (classes, decimals, fine) in
        [(2, 0, 8), (2, 1, 8), (2, 2, 8), (3, 0, 24), (3, 1, 12), (4, 0, 24), (4, 1, 8)]
    {
        let counted = rounded_by_hand(classes, 10u64.pow(decimals), fine);
        assert!(
            (whole(classes, decimals) - (counted as f64).log2()).abs() < 1e-12,
            "{classes} {decimals} {counted}"
        );
    }
}

#[test]
fn rounding_stays_finite_and_right_at_the_ends_of_its_range() {
    // One of two scores is any of 10^15 + 1 numbers, the other follows up to round-off.
    let two = whole(2, 15);
    assert!(two > 1e15f64.log2() && two < 1e15f64.log2() + 3.0, "{two}");
    for (classes, decimals) in [(1000, 15), (2048, 3), (2049, 3), (65_536, 15)] {
        let bits = whole(classes, decimals);
        // No more than each score by itself has, and no fewer than distinct whole vectors of the
        // exact sum.
        let each = classes as f64 * (10f64.powi(decimals as i32) + 1.0).log2();
        assert!(bits.is_finite() && bits > 0.0 && bits <= each, "{classes} {decimals}: {bits}");
    }
    // From above where they are too many, by less than log2 k.
    let (counted, above) = (whole(2048, 2), whole(2049, 2));
    assert!(above > counted && above < counted + 12.0, "{counted} {above}");
    assert_eq!(whole(1, 3), 0.0);
}

#[test]
fn the_largest_scores_are_fewer_vectors_and_no_fewer_than_there_are() {
    for decimals in [0, 1] {
        let unit = 10u64.pow(decimals);
        let fine = 12;
        let mut seen = HashSet::new();
        for a in 0..=unit * fine {
            for b in 0..=unit * fine - a {
                let c = [a, b, unit * fine - a - b];
                let least = (0..3).rev().min_by_key(|&i| c[i]).unwrap();
                let round = |c: u64| (c as f64 / fine as f64).round_ties_even() as u64;
                seen.insert(
                    (0..3).map(|i| if i == least { 0 } else { round(c[i]) }).collect::<Vec<_>>(),
                );
            }
        }
        let bits = rounded_simplex_bits(3, decimals, RoundedSimplex::Largest(2));
        let counted = (seen.len() as f64).log2();
        assert!(bits >= counted && bits < counted + 2.5, "{decimals}: {bits} {counted}");
    }
    let (cut, all) = (rounded_simplex_bits(10, 2, RoundedSimplex::Largest(2)), whole(10, 2));
    assert!(cut < 0.5 * all, "{cut} {all}");
    assert_eq!(rounded_simplex_bits(4, 2, RoundedSimplex::Largest(4)), whole(4, 2));
}

#[test]
fn permutations_and_labels() {
    assert!((permutation_bits(6) - 720f64.log2()).abs() < 1e-12);
    assert_eq!((permutation_bits(0), permutation_bits(1)), (0.0, 0.0));
}

#[test]
fn gaussian_noise_has_the_figures_of_an_independent_computation() {
    // By mpmath to 15 digits, from the same formula with the integral in x.
    let by_mpmath = [(6, 0.1, 7.940_916_915_136_63), (6, 0.3, 3.923_686_086_334_94)];
    for (classes, sigma, bits) in [(2, 0.1, 2.73), (3, 0.1, 4.54), (6, 0.1, 7.94), (6, 0.3, 3.92)] {
        let got = gaussian_simplex_bits(classes, sigma);
        assert!((got - bits).abs() < 5e-3, "{classes} {sigma}: {got}");
    }
    for (classes, sigma, bits) in by_mpmath {
        let got = gaussian_simplex_bits(classes, sigma);
        assert!((got - bits).abs() < 1e-12, "{classes} {sigma}: {got}");
    }
}

/// A segment of length √2: its ends give half a normal each, the middle the rest.
#[test]
fn two_classes_are_a_segment() {
    for sigma in [1e-12f64, 1e-3, 0.1, 1.0, 1e6] {
        let exact = (2f64.sqrt() / (sigma * (2.0 * std::f64::consts::PI).sqrt())).ln_1p()
            / std::f64::consts::LN_2;
        assert!((gaussian_simplex_bits(2, sigma) - exact).abs() < 1e-9, "{sigma}");
    }
    assert_eq!((gaussian_simplex_bits(0, 0.1), gaussian_simplex_bits(1, 0.1)), (0.0, 0.0));
}

/// The point of the simplex that is nearest to y, as a squared distance.
fn squared_distance(y: &[f64]) -> f64 {
    let mut sorted = y.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut shift) = (0.0, 0.0);
    for (i, value) in sorted.iter().enumerate() {
        sum += value;
        let candidate = (sum - 1.0) / (i + 1) as f64;
        if value - candidate > 0.0 {
            shift = candidate;
        }
    }
    y.iter().map(|v| (v - (v - shift).max(0.0)).powi(2)).sum()
}

/// The integral by Monte Carlo, within the plane: importance sampling from a normal around the
/// centre.
fn monte_carlo(classes: usize, sigma: f64, samples: usize) -> f64 {
    let (k, n) = (classes as f64, classes as f64 - 1.0);
    let spread = sigma.hypot(0.35f64.sqrt());
    let ln_tau = (2.0 * std::f64::consts::PI).ln();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut total = 0.0;
    for _ in 0..samples {
        let mut z: Vec<f64> = (0..classes).map(|_| StandardNormal.sample(&mut rng)).collect();
        let mean = z.iter().sum::<f64>() / k;
        z.iter_mut().for_each(|z| *z = spread * (*z - mean));
        let y: Vec<f64> = z.iter().map(|z| 1.0 / k + z).collect();
        let density =
            -squared_distance(&y) / (2.0 * sigma * sigma) - 0.5 * n * (ln_tau + 2.0 * sigma.ln());
        let proposal = -z.iter().map(|z| z * z).sum::<f64>() / (2.0 * spread * spread);
        total += (density - proposal + 0.5 * n * (ln_tau + 2.0 * spread.ln())).exp();
    }
    total / samples as f64
}

#[test]
fn gaussian_noise_agrees_with_monte_carlo_to_a_percent() {
    for (classes, sigma) in [(2, 0.1), (3, 0.1), (3, 0.3), (6, 0.3)] {
        let (sampled, formula) =
            (monte_carlo(classes, sigma, 200_000), gaussian_simplex_bits(classes, sigma).exp2());
        assert!((sampled / formula - 1.0).abs() < 0.01, "{classes} {sigma}: {sampled} {formula}");
    }
}

#[test]
fn many_classes_are_in_range() {
    for (classes, sigma) in [(1000, 0.1), (1000, 1e-6), (65_536, 0.5)] {
        let bits = gaussian_simplex_bits(classes, sigma);
        // A finer noise tells at most log2 of how often the simplex holds its scale, a coarser one
        // next to nothing.
        assert!(bits.is_finite() && bits > 0.0, "{classes} {sigma}: {bits}");
        assert!(bits < gaussian_simplex_bits(classes, sigma / 2.0));
        assert!(bits < gaussian_simplex_bits(classes + 1, sigma));
    }
    // V_1 decides where the noise is wide: k = 2 has √2.
    assert!(gaussian_simplex_bits(1000, 1e6) < 1e-4);
}

proptest! {
    #[test]
    fn randomised_response_is_what_the_definition_says(classes in 2usize..30, epsilon in 0.0f64..20.0) {
        let kept = epsilon.exp() / (epsilon.exp() + classes as f64 - 1.0);
        let other = (1.0 - kept) / (classes as f64 - 1.0);
        let channel: Vec<Vec<f64>> =
            (0..classes).map(|x| (0..classes).map(|r| if x == r { kept } else { other }).collect()).collect();
        prop_assert!((randomized_response_bits(classes, epsilon) - by_definition(&channel)).abs() < 1e-9);
        prop_assert!(randomized_response_bits(classes, epsilon) <= (classes as f64).log2() + 1e-12);
        prop_assert!((randomized_response_bits(classes, 1e4) - (classes as f64).log2()).abs() < 1e-12);
    }

    /// Whatever the prior and the gain, on channels drawn at random.
    #[test]
    fn no_gain_grows_by_more_than_the_multiplier(
        secrets in 2usize..6,
        releases in 2usize..6,
        guesses in 1usize..6,
        seed in any::<u64>(),
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut distribution = |n: usize| {
            let all: Vec<f64> = (0..n).map(|_| rng.random::<f64>().powi(6)).collect();
            let sum: f64 = all.iter().sum();
            all.into_iter().map(|p| p / sum).collect::<Vec<f64>>()
        };
        let prior = distribution(secrets);
        let channel: Vec<Vec<f64>> = (0..secrets).map(|_| distribution(releases)).collect();
        let gain: Vec<Vec<f64>> = (0..guesses).map(|_| distribution(secrets)).collect();
        let best = |weight: &dyn Fn(usize) -> f64| {
            gain.iter().map(|g| (0..secrets).map(|x| weight(x) * g[x]).sum()).fold(0.0, f64::max)
        };
        let without = best(&|x| prior[x]);
        let with: f64 = (0..releases).map(|r| best(&|x| prior[x] * channel[x][r])).sum();
        prop_assert!(with <= without * by_definition(&channel).exp2() * (1.0 + 1e-12));
    }
}
