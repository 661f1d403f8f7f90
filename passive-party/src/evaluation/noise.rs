//! Exact sampling of the noise. It uses integers only, so that no rounding of floating-point
//! numbers reveals the value under the noise.
//!
//! Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020):
//! Bernoulli(exp(−γ)) is section 5.1, the discrete Gaussian algorithm 3. The time of a draw depends
//! on the draw; nothing here hides it from somebody who times the process itself.

use rand::rngs::SysRng;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_protocol::Refusal;

/// The standard deviation of the noise in grid steps: a reported number is a multiple of its σ / 65
/// 536.
///
/// Large enough that moving a figure to the grid costs next to nothing (see
/// [`Grid`](super::sensitivity::Grid)), small enough that a step stays some 10⁶ times above the
/// round-off of a sum of squares.
pub const STEPS: u64 = 1 << 16;

/// Creates a generator seeded by the operating system, one for each answer. A requester has no part
/// in it.
///
/// # Errors
/// INTERNAL if the operating system gives no random bytes.
pub fn generator() -> Result<ChaCha20Rng, Refusal> {
    ChaCha20Rng::try_from_rng(&mut SysRng).map_err(|_| {
        Refusal::internal("the operating system gives no random numbers, so nothing is scored")
    })
}

/// Draws a uniform integer in [0, bound); `bound` is at least 1.
fn below(bound: u128, rng: &mut impl Rng) -> u128 {
    let bits = 128 - (bound.max(1) - 1).leading_zeros();
    if bits == 0 {
        return 0;
    }
    loop {
        let high = if bits > 64 { u128::from(rng.next_u64()) << 64 } else { 0 };
        let drawn = (high | u128::from(rng.next_u64())) & (u128::MAX >> (128 - bits));
        if drawn < bound {
            return drawn;
        }
    }
}

/// Returns true with probability exp(−numerator / denominator). The ratio must be at most 1.
fn exp_of_at_most_1(numerator: u128, denominator: u128, rng: &mut impl Rng) -> bool {
    let mut k: u128 = 1;
    while below(denominator.saturating_mul(k), rng) < numerator {
        k += 1;
    }
    k % 2 == 1
}

/// Returns true with probability exp(−numerator / denominator).
fn exp_of(numerator: u128, denominator: u128, rng: &mut impl Rng) -> bool {
    for _ in 0..numerator / denominator {
        if !exp_of_at_most_1(1, 1, rng) {
            return false;
        }
    }
    exp_of_at_most_1(numerator % denominator, denominator, rng)
}

/// Draws an integer y with P(y) ∝ exp(−|y| / t).
fn discrete_laplace(t: u128, rng: &mut impl Rng) -> i64 {
    loop {
        let low = below(t, rng);
        if !exp_of_at_most_1(low, t, rng) {
            continue;
        }
        let mut high: u128 = 0;
        while exp_of_at_most_1(1, 1, rng) {
            high += 1;
        }
        let size = i64::try_from(low + t * high).unwrap_or(i64::MAX);
        let negative = below(2, rng) == 1;
        if !(negative && size == 0) {
            return if negative { -size } else { size };
        }
    }
}

/// Draws an integer y with P(y) ∝ exp(−y² / 2 S²), S = [`STEPS`].
pub fn discrete_gaussian(rng: &mut impl Rng) -> i64 {
    let s = u128::from(STEPS);
    let t = s + 1;
    loop {
        let y = discrete_laplace(t, rng);
        let off = (u128::from(y.unsigned_abs()) * t).abs_diff(s * s);
        if exp_of(off.saturating_mul(off), 2 * s * s * t * t, rng) {
            return y;
        }
    }
}

/// Draws an index c with P(c) ∝ exp(−steps\[c\] / S), S = [`STEPS`], by rejection. One of the steps
/// must be 0: then a draw takes on average at most as many tries as there are candidates. Returns 0
/// if there is no candidate.
pub fn exponential_choice(steps: &[u64], rng: &mut impl Rng) -> usize {
    if steps.is_empty() {
        return 0;
    }
    loop {
        let at = below(steps.len() as u128, rng) as usize;
        if steps.get(at).is_some_and(|&excess| exp_of(excess.into(), STEPS.into(), rng)) {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded(seed: u64) -> ChaCha20Rng {
        ChaCha20Rng::seed_from_u64(seed)
    }

    /// Mean, variance and tails against the normal distribution, which the discrete one equals to
    /// 1e-9 at this width. False failures: below 1e-5 (five standard errors of each figure; the
    /// seed is fixed).
    #[test]
    fn the_discrete_gaussian_has_its_moments_and_tails() {
        let (mut rng, n) = (seeded(1), 40_000);
        let draws: Vec<f64> =
            (0..n).map(|_| discrete_gaussian(&mut rng) as f64 / STEPS as f64).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let variance = draws.iter().map(|x| x * x).sum::<f64>() / f64::from(n);
        let fourth = draws.iter().map(|x| x.powi(4)).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 5.0 / f64::from(n).sqrt(), "{mean}");
        assert!((variance - 1.0).abs() < 5.0 * (2.0 / f64::from(n)).sqrt(), "{variance}");
        assert!((fourth - 3.0).abs() < 5.0 * (96.0 / f64::from(n)).sqrt(), "{fourth}");
        for (z, tail) in [(1.0, 0.317_310_5), (1.959_964, 0.05), (3.0, 0.002_699_8)] {
            let beyond = draws.iter().filter(|x| x.abs() > z).count() as f64 / f64::from(n);
            let error = (tail * (1.0 - tail) / f64::from(n)).sqrt();
            assert!((beyond - tail).abs() < 5.0 * error, "beyond {z}: {beyond}, not {tail}");
        }
    }

    #[test]
    fn the_choice_has_the_odds_of_the_exponential_mechanism() {
        let steps = [STEPS, 0, 2 * STEPS, STEPS / 2];
        let odds: Vec<f64> = steps.iter().map(|&s| (-(s as f64) / STEPS as f64).exp()).collect();
        let (mut rng, n) = (seeded(2), 40_000);
        let mut counts = [0u32; 4];
        (0..n).for_each(|_| counts[exponential_choice(&steps, &mut rng)] += 1);
        for (count, odds_of) in counts.iter().zip(&odds) {
            let p = odds_of / odds.iter().sum::<f64>();
            let error = (p * (1.0 - p) / f64::from(n)).sqrt();
            assert!(
                (f64::from(*count) / f64::from(n) - p).abs() < 5.0 * error,
                "{counts:?} against {odds:?}"
            );
        }
    }

    /// A candidate far behind is never chosen, and the draw ends.
    #[test]
    fn a_candidate_far_behind_is_not_chosen() {
        let mut rng = seeded(3);
        assert!((0..1000).all(|_| exponential_choice(&[u64::MAX, 0, 1 << 40], &mut rng) == 1));
        assert_eq!(exponential_choice(&[], &mut rng), 0);
    }

    #[test]
    fn integers_below_a_bound_are_uniform() {
        let mut rng = seeded(4);
        assert_eq!(below(1, &mut rng), 0);
        let mut counts = [0u32; 5];
        (0..20_000).for_each(|_| counts[below(5, &mut rng) as usize] += 1);
        assert!(counts.iter().all(|c| c.abs_diff(4000) < 300), "{counts:?}");
        assert!((0..100).any(|_| below(1 << 100, &mut rng) > 1 << 90), "the high word counts");
    }

    #[test]
    fn the_operating_system_seeds_each_answer_anew() {
        let draw = || generator().unwrap().next_u64();
        assert_ne!(draw(), draw());
    }
}
