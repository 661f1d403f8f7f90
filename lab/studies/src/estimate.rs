//! A mean over runs, with its 95 % interval.

use serde::Serialize;

/// The half-width of a 95 % interval, in standard errors.
pub(crate) const NORMAL_95: f64 = 1.96;

/// A mean over runs, targets or records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean value.
    pub mean: f64,
    /// Its standard error.
    pub standard_error: f64,
}

impl Estimate {
    /// Estimates the mean from independent values.
    pub(crate) fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let n = values.clone().count().max(1) as f64;
        let mean = values.clone().sum::<f64>() / n;
        let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Self { mean, standard_error: (variance / n).sqrt() }
    }

    /// Returns the upper end of the 95 % interval.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.mean + NORMAL_95 * self.standard_error
    }

    /// Returns the lower end of the 95 % interval.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.mean - NORMAL_95 * self.standard_error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_its_standard_error() {
        let found = Estimate::of([1.0, 2.0, 3.0, 6.0].into_iter());
        assert_eq!(found.mean, 3.0);
        // Variance 14/3, of a mean of four 14/12.
        assert!((found.standard_error - (14.0f64 / 12.0).sqrt()).abs() < 1e-15);
        assert!((found.low() - (3.0 - 1.96 * (14.0f64 / 12.0).sqrt())).abs() < 1e-12);
        assert!((found.high() + found.low() - 6.0).abs() < 1e-12);
    }
}
