//! The share of the control's error that an attack removes: 1 − Σ e / Σ c, with an interval.

use serde::{Deserialize, Serialize};
use vfl_numerics::{three_significant_digits, two_sided_normal};

/// The share of the control's error that an attack removes. At most 1; below 0 the attack does
/// worse than the control.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorReduction {
    /// The share; absent if noise makes the control's error 0 or less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Lower end of its interval; absent if noise leaves it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of its interval; absent if noise leaves it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The shares of the records in even places, from 0, and of the others. Present without noise
    /// if each half has 50 records. Someone who picks the worst of several figures by one half can
    /// read from the other half a figure that the choice has not biased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halves: Option<[HalfErrorReduction; 2]>,
}

/// The share removed on half of the records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HalfErrorReduction {
    /// The share removed.
    pub value: f64,
    /// Its standard error over records.
    pub deviation: f64,
}

/// The ratio of two means over the same records, by the delta method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorRatio {
    /// r = Σ e / Σ c.
    pub ratio: f64,
    /// Its standard error: √(Σ (e_i − r c_i)² / (n (n − 1))) / mean of c.
    pub deviation: f64,
}

/// The smallest number of records in a half.
const LEAST_HALF: usize = 50;

impl ErrorRatio {
    /// Computes the ratio of errors of an attack and of its control on the same records. `None` for
    /// fewer than two records, different numbers of errors, or controls whose sum is not above 0.
    pub fn of(
        errors: impl ExactSizeIterator<Item = f64> + Clone,
        controls: impl ExactSizeIterator<Item = f64> + Clone,
    ) -> Option<Self> {
        let n = errors.len();
        let sum: f64 = controls.clone().sum();
        if n < 2 || controls.len() != n || sum <= 0.0 {
            return None;
        }
        let ratio = errors.clone().sum::<f64>() / sum;
        let squares: f64 = errors.zip(controls).map(|(e, c)| (e - ratio * c).powi(2)).sum();
        let deviation = (squares / (n as f64 * (n as f64 - 1.0))).sqrt() / (sum / n as f64);
        Some(Self { ratio, deviation })
    }
}

impl ErrorReduction {
    /// Computes the share from the errors of each record, without noise. The interval covers the
    /// share of all records like these in 95 of 100 samples.
    #[must_use]
    pub fn of_records(errors: &[f64], controls: &[f64]) -> Option<Self> {
        let all = ErrorRatio::of(errors.iter().copied(), controls.iter().copied())?;
        let half = |from: usize| {
            let each = |of: &[f64]| of.iter().skip(from).step_by(2).copied().collect::<Vec<_>>();
            let found = ErrorRatio::of(each(errors).into_iter(), each(controls).into_iter())?;
            Some(HalfErrorReduction { value: 1.0 - found.ratio, deviation: found.deviation })
        };
        let halves = if errors.len() < 2 * LEAST_HALF {
            None
        } else {
            half(0).zip(half(1)).map(|(a, b)| [a, b])
        };
        let away = two_sided_normal(0.05) * all.deviation;
        let ends = ((all.ratio + away).max(0.0), (all.ratio - away).max(0.0));
        Some(Self {
            value: Some(1.0 - all.ratio),
            low: Some(1.0 - ends.0),
            high: Some(1.0 - ends.1),
            halves,
        })
    }

    /// Computes the share from two errors with the standard deviations of their noise. The interval
    /// is the one that [`fieller`] leaves at `z` deviations.
    #[must_use]
    pub fn of_noised(error: (f64, f64), control: (f64, f64), z: f64) -> Self {
        // Noise may take the error below 0; the figure is at most 1, as its interval is.
        let value = (control.0 > 0.0).then(|| (1.0 - error.0 / control.0).min(1.0));
        let interval = fieller(error, control, z);
        Self {
            value,
            low: interval.map(|i| 1.0 - i.1),
            high: interval.map(|i| 1.0 - i.0),
            halves: None,
        }
    }

    /// Rounds the share to three significant digits of the ratio, as a scorer reports it.
    #[must_use]
    pub fn rounded(self) -> Self {
        let share = |x: f64| 1.0 - three_significant_digits(1.0 - x);
        let half = |h: HalfErrorReduction| HalfErrorReduction {
            value: share(h.value),
            deviation: three_significant_digits(h.deviation),
        };
        Self {
            value: self.value.map(share),
            low: self.low.map(share),
            high: self.high.map(share),
            halves: self.halves.map(|halves| halves.map(half)),
        }
    }
}

/// Returns Fieller's interval of a ratio e / c of two figures with independent noise of known
/// standard deviations: the r, at least 0, for which (e − r c)² ≤ z² (σ_e² + r² σ_c²).
///
/// At the true ratio, e − r c has mean 0 and exactly that variance, so 95 of 100 such sets contain
/// it at z = 1.96, however large the noise. The set is an interval only if c > z σ_c; otherwise no
/// ratio is excluded and the result is `None`.
#[must_use]
pub fn fieller((e, se): (f64, f64), (c, sc): (f64, f64), z: f64) -> Option<(f64, f64)> {
    let (se, sc) = ((z * se).powi(2), (z * sc).powi(2));
    let a = c * c - sc;
    if c <= 0.0 || a <= 0.0 {
        return None;
    }
    let root = (se * a + sc * e * e).max(0.0).sqrt();
    Some((((e * c - root) / a).max(0.0), ((e * c + root) / a).max(0.0)))
}
