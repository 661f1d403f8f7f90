//! The figures of a run.

use serde::Serialize;
use vfl_core::model::TrainingValues;

use crate::estimate::NORMAL_95;
use crate::subject::SubjectFacts;

/// A figure with its 95 % interval over targets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The estimated value.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Interval {
    /// Computes 1 − Σ errors / Σ without: the share of an error that is removed. The interval is by
    /// the delta method on the pairs.
    pub(super) fn explained(errors: &[f64], without: &[f64]) -> Self {
        let n = errors.len().max(1) as f64;
        let below = without.iter().sum::<f64>() / n;
        let ratio = errors.iter().sum::<f64>() / n / below;
        let deviations =
            errors.iter().zip(without).map(|(error, without)| (error - ratio * without).powi(2));
        let standard_error = (deviations.sum::<f64>() / (n - 1.0).max(1.0) / n).sqrt() / below;
        let value = 1.0 - ratio;
        Self {
            value,
            low: value - NORMAL_95 * standard_error,
            high: value + NORMAL_95 * standard_error,
        }
    }
}

/// The verdict on an adversary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The lower ends of the intervals of what it adds, to the control and to its own parameters,
    /// are above 0.
    Leaks,
    /// They are not. A better regression may infer more.
    NothingAdded,
}

impl Verdict {
    /// Returns the verdict in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leaks => "leaks",
            Self::NothingAdded => "nothing added",
        }
    }
}

/// The results of one adversary.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdversaryRow {
    /// The view of the adversary besides its own data.
    pub sees: String,
    /// The inputs that its regression uses of that view.
    pub takes: String,
    /// The root mean squared error of the property.
    pub error: f64,
    /// The share of the property's variance over targets that it explains, R².
    pub explained: Interval,
    /// The share of the control's mean squared error that it removes; `None` for the control.
    pub added: Option<Interval>,
    /// The share that it removes of the mean squared error of an active party that sees only its
    /// own parameters, which it has in any case; `None` for that party and for the control.
    pub added_to_own: Option<Interval>,
    /// The verdict on the adversary.
    pub verdict: Option<Verdict>,
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PropertiesReport {
    /// The data set and its split.
    #[serde(flatten)]
    pub subject: SubjectFacts,
    /// The passive feature whose mean is inferred, from 0.
    pub feature: usize,
    /// The group that the mean is over.
    pub group: String,
    /// The number of records of a training set.
    pub records: usize,
    /// The number of shadow models.
    pub shadows: usize,
    /// The number of attacked models.
    pub targets: usize,
    /// The largest tilt of a training set.
    pub tilt: f64,
    /// The settings of each training, without its seed.
    pub training: TrainingValues,
    /// Seed of everything random.
    pub seed: u64,
    /// The mean of the property over targets.
    pub mean: f64,
    /// The standard deviation of the property over targets.
    pub deviation: f64,
    /// The control, the adversary with its own parameters, mean scores, and each release.
    pub adversaries: Vec<AdversaryRow>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    use super::*;

    #[test]
    fn what_is_explained_is_a_ratio_of_means() {
        let found = Interval::explained(&[1.0, 3.0], &[4.0, 12.0]);
        assert_eq!((found.value, found.low, found.high), (0.75, 0.75, 0.75));
        let worse = Interval::explained(&[2.0, 2.0], &[1.0, 1.0]);
        assert_eq!(worse.value, -1.0);
    }

    /// The interval contains the truth in about 95 of 100 draws.
    #[test]
    fn the_interval_covers() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let draws = 2000;
        let mut within = 0;
        for _ in 0..draws {
            // Means 1/3 and 1, not independent.
            let pairs: (Vec<f64>, Vec<f64>) = (0..150)
                .map(|_| {
                    let (a, b) = (rng.random::<f64>(), rng.random::<f64>());
                    (a * a, a * a + 4.0 / 3.0 * b)
                })
                .unzip();
            let found = Interval::explained(&pairs.0, &pairs.1);
            within += usize::from(found.low <= 2.0 / 3.0 && 2.0 / 3.0 <= found.high);
        }
        assert!((1850..=1960).contains(&within), "{within}");
    }
}
