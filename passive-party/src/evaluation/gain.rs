//! What an attack achieves over its control: 1 − error / control, with an interval.

use vfl_shared::numerics::three_significant_digits;

/// 1 − error / control, with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// The figure, where the control is above 0.
    pub value: Option<f64>,
    /// The interval's ends, where it is bounded.
    pub interval: Option<(f64, f64)>,
}

/// Of a normal distribution, 95 % lie within as many standard deviations.
const Z95: f64 = 1.959_963_984_540_054;

impl Gain {
    /// From two errors with the standard deviations of their noise: the interval that the noise leaves. It says nothing of other
    /// records.
    ///
    /// It is Fieller's: the r for which (error − r control)² ≤ z² (σ_e² + r² σ_c²), z = 1.96. At the true ratio error − r control has
    /// mean 0 and that very variance, so 95 of 100 such sets hold it, however large the noise. The set is an interval only if
    /// control > z σ_c; otherwise nothing is excluded. A ratio below 0 is impossible and is cut off.
    #[must_use]
    pub fn of((e, se): (f64, f64), (c, sc): (f64, f64)) -> Self {
        let value = (c > 0.0).then(|| 1.0 - e / c);
        let (se, sc) = ((Z95 * se).powi(2), (Z95 * sc).powi(2));
        let a = c * c - sc;
        if c <= 0.0 || a <= 0.0 {
            return Self { value, interval: None };
        }
        let root = (se * a + sc * e * e).max(0.0).sqrt();
        let (low, high) = (((e * c - root) / a).max(0.0), ((e * c + root) / a).max(0.0));
        Self { value, interval: Some((1.0 - high, 1.0 - low)) }
    }

    /// From two errors without noise, as they are told, and the errors of each record: the interval that holds the figure of all
    /// records like these in 95 of 100 samples of so many, to three significant digits of the ratio.
    ///
    /// By the delta method: the ratio r of two means over n records has the variance Σ (e_i − r c_i)² / (n (n − 1) c²).
    #[must_use]
    pub fn of_records(error: f64, control: f64, errors: &[f64], controls: &[f64]) -> Self {
        if control <= 0.0 {
            return Self { value: None, interval: None };
        }
        let n = errors.len();
        let sum: f64 = controls.iter().sum();
        if n < 2 || controls.len() != n || sum <= 0.0 {
            return Self { value: Some(1.0 - three_significant_digits(error / control)), interval: None };
        }
        let ratio = errors.iter().sum::<f64>() / sum;
        let value = Some(1.0 - three_significant_digits(ratio));
        let squares: f64 = errors.iter().zip(controls).map(|(e, c)| (e - ratio * c).powi(2)).sum();
        let mean = sum / n as f64;
        let deviation = (squares / (n as f64 * (n as f64 - 1.0))).sqrt() / mean;
        let end = |by: f64| 1.0 - three_significant_digits((ratio + by * Z95 * deviation).max(0.0));
        Self { value, interval: Some((end(1.0), end(-1.0))) }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    use super::*;

    /// Errors of attack and control that depend on each other, with heavy tails as squared errors have them.
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
        assert_eq!(Gain::of_records(0.1, 0.0, &[0.1, 0.1], &[0.0, 0.0]), Gain { value: None, interval: None });
        assert_eq!(Gain::of_records(0.1, 0.2, &[0.1], &[0.2]), Gain { value: Some(0.5), interval: None });
        let exact = Gain::of_records(0.0, 0.2, &[0.0, 0.0], &[0.1, 0.3]);
        assert_eq!(exact, Gain { value: Some(1.0), interval: Some((1.0, 1.0)) });
    }
}
