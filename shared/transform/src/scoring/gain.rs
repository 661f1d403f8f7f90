//! The gain of an attack over its control: 1 − error / control, with an interval.

use serde::{Deserialize, Serialize};
use vfl_core::metrics::{ErrorRatio, ErrorReduction};
use vfl_numerics::three_significant_digits;

/// The gain 1 − error / control, with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// The gain, if the control is above 0.
    pub value: Option<f64>,
    /// The ends of the interval, if it is bounded.
    pub interval: Option<(f64, f64)>,
    /// The gains on two halves of the records, if there is no noise.
    pub halves: Option<Halves>,
}

/// The gains on two halves of the records. If the best of several attacks is chosen by one half,
/// the other half has a gain that the choice has not flattered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halves {
    /// The gain on the records in even places, from 0.
    pub first: f64,
    /// The gain on the other records.
    pub second: f64,
}

/// The fewest records of a half.
const LEAST_HALF: usize = 50;

/// The number of standard deviations within which 95 % of a normal distribution lie.
const Z95: f64 = 1.959_963_984_540_054;

impl Gain {
    /// Computes the gain from two errors with the standard deviations of their noise, and the
    /// interval that the noise leaves, by [`fieller`](vfl_core::metrics::fieller) at 95 %. The
    /// interval says nothing about other records. A ratio below 0 is impossible and is cut off.
    #[must_use]
    pub fn of(error: (f64, f64), control: (f64, f64)) -> Self {
        let removed = ErrorReduction::of_noised(error, control, Z95);
        Self { value: removed.value, interval: removed.low.zip(removed.high), halves: None }
    }

    /// Computes the gain from two errors without noise, as they are reported, and the errors of
    /// each record. The interval holds the figure of all records like these in 95 of 100 samples of
    /// so many, to three significant digits of the ratio.
    ///
    /// By the delta method: the ratio r of two means over n records has the variance Σ (e_i − r
    /// c_i)² / (n (n − 1) c²). From 100 records on, there are the gains on both halves as well.
    #[must_use]
    pub fn of_records(error: f64, control: f64, errors: &[f64], controls: &[f64]) -> Self {
        if control <= 0.0 {
            return Self { value: None, interval: None, halves: None };
        }
        let Some((value, interval)) = delta(errors.iter().copied(), controls.iter().copied())
        else {
            let value = Some(1.0 - three_significant_digits(error / control));
            return Self { value, interval: None, halves: None };
        };
        let half = |from: usize| {
            let each = |of: &[f64]| of.iter().skip(from).step_by(2).copied().collect::<Vec<_>>();
            delta(each(errors).into_iter(), each(controls).into_iter())
        };
        let halves = match errors.len() {
            n if n < 2 * LEAST_HALF => None,
            _ => half(0).zip(half(1)).map(|((first, _), (second, _))| Halves { first, second }),
        };
        Self { value: Some(value), interval: Some(interval), halves }
    }
}

/// Returns 1 − the ratio of two means over the same records, with its interval; `None` for fewer
/// than two records, for different numbers of records, or for a mean of 0.
fn delta(
    errors: impl ExactSizeIterator<Item = f64> + Clone,
    controls: impl ExactSizeIterator<Item = f64> + Clone,
) -> Option<(f64, (f64, f64))> {
    let ErrorRatio { ratio, deviation } = ErrorRatio::of(errors, controls)?;
    let end = |by: f64| 1.0 - three_significant_digits((ratio + by * Z95 * deviation).max(0.0));
    Some((1.0 - three_significant_digits(ratio), (end(1.0), end(-1.0))))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    use super::*;

    /// Errors of attack and control that depend on each other, with heavy tails as squared errors
    /// have them.
    #[test]
    fn the_interval_over_records_covers_as_often_as_it_says() {
        let mut rng = ChaCha20Rng::seed_from_u64(6);
        let mut draw = |n: usize| -> (Vec<f64>, Vec<f64>) {
            (0..n)
                .map(|_| {
                    let (u, v): (f64, f64) = (rng.random(), rng.random());
                    let control = (u - 0.3).powi(2);
                    (0.4 * control + 0.05 * v.powi(4), control)
                })
                .unzip()
        };
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        // E (u − 0.3)² = (0.7³ + 0.3³) / 3, E v⁴ = 1/5.
        let control = (0.343 + 0.027) / 3.0;
        let truth = 1.0 - (0.4 * control + 0.01) / control;
        let runs = 2000;
        let holds = (0..runs).filter(|_| {
            let (e, c) = draw(300);
            let gain = Gain::of_records(mean(&e), mean(&c), &e, &c);
            let (low, high) = gain.interval.unwrap();
            assert!(low <= gain.value.unwrap() + 1e-3 && gain.value.unwrap() <= high + 1e-3);
            low <= truth && truth <= high
        });
        let share = holds.count() as f64 / f64::from(runs);
        assert!((0.93..=0.97).contains(&share), "{share}");
    }

    #[test]
    fn a_control_without_error_and_a_single_record_have_no_interval() {
        let bare = |value, interval| Gain { value, interval, halves: None };
        assert_eq!(Gain::of_records(0.1, 0.0, &[0.1, 0.1], &[0.0, 0.0]), bare(None, None));
        assert_eq!(Gain::of_records(0.1, 0.2, &[0.1], &[0.2]), bare(Some(0.5), None));
        let exact = Gain::of_records(0.0, 0.2, &[0.0, 0.0], &[0.1, 0.3]);
        assert_eq!(exact, bare(Some(1.0), Some((1.0, 1.0))));
    }

    /// If the best of many worthless attacks is chosen by one half, it seems to gain on that half,
    /// and does not on the other. (`cloison` puts both ways together: `added_risk.rs` of the
    /// report.)
    #[test]
    fn the_second_half_is_not_flattered_by_the_choice() {
        let mut rng = ChaCha20Rng::seed_from_u64(8);
        let (mut chosen, mut told) = (0.0, 0.0);
        let runs = 200;
        for _ in 0..runs {
            let controls: Vec<f64> = (0..200).map(|_| rng.random::<f64>()).collect();
            let attack = || -> Halves {
                let errors: Vec<f64> = (0..200).map(|_| rng.random::<f64>()).collect();
                Gain::of_records(0.5, 0.5, &errors, &controls).halves.unwrap()
            };
            let best = std::iter::repeat_with(attack)
                .take(20)
                .max_by(|a, b| a.first.total_cmp(&b.first))
                .unwrap();
            chosen += best.first / f64::from(runs);
            told += best.second / f64::from(runs);
        }
        assert!(chosen > 0.08, "{chosen}");
        assert!(told.abs() < 0.02, "{told}");
    }

    #[test]
    fn halves_are_those_of_the_places() {
        let of = |n: usize| {
            let (errors, controls): (Vec<f64>, Vec<f64>) =
                (0..n).map(|i| (if i % 2 == 0 { 0.1 } else { 0.3 }, 0.4)).unzip();
            Gain::of_records(0.2, 0.4, &errors, &controls)
        };
        assert_eq!(of(99).halves, None);
        let Gain { value, halves, .. } = of(100);
        assert_eq!(value, Some(0.5));
        assert_eq!(halves, Some(Halves { first: 0.75, second: 0.25 }));
    }
}
