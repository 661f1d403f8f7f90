//! The residuals of one record: 0 where its features give what was released.

use vfl_core::model::{LANES, Lanes};

/// The residuals of one record's logits z (k), one for each class.
#[derive(Clone, PartialEq)]
pub(crate) enum Fit {
    /// The scores are exact: z less its mean equals these values, ln c less their mean.
    Exact(Vec<f64>),
    /// The logarithm of each score of z / `stretch` is normal, with these means and deviations.
    Logarithms {
        /// Means and standard deviations, in nats.
        normal: Vec<(f64, f64)>,
        /// The divisor of the logits before the softmax.
        stretch: f64,
    },
    /// Each score of z / `stretch` was released with normal noise: values and deviations.
    Scores {
        /// Released values and standard deviations of their noise.
        normal: Vec<(f64, f64)>,
        /// The divisor of the logits before the softmax.
        stretch: f64,
    },
}

/// Shows no value.
impl std::fmt::Debug for Fit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, k) = match self {
            Self::Exact(logs) => ("exact", logs.len()),
            Self::Logarithms { normal, .. } => ("logarithms", normal.len()),
            Self::Scores { normal, .. } => ("scores", normal.len()),
        };
        write!(f, "Fit({kind}, {k} classes, values withheld)")
    }
}

impl Fit {
    /// The least deviation of a residual: less would be round-off.
    pub(crate) const LEAST_DEVIATION: f64 = 1e-10;

    /// Returns the fit to exact scores (k, each above 0) of logits divided by `stretch`.
    pub(crate) fn exact(scores: impl ExactSizeIterator<Item = f64>, stretch: f64) -> Self {
        let mut logs: Vec<f64> = scores.map(|c| stretch * c.ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        logs.iter_mut().for_each(|log| *log -= mean);
        Self::Exact(logs)
    }

    /// Returns the same fit with deviations of at least `least`; exact scores get this one.
    pub(super) fn eased(&self, least: f64) -> Self {
        let wider = |normal: &[(f64, f64)]| {
            normal.iter().map(|(mean, deviation)| (*mean, deviation.max(least))).collect()
        };
        match self {
            Self::Exact(logs) => {
                let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = logs.iter().map(|log| (log - top).exp()).sum();
                let normal = logs.iter().map(|log| (log - top - sum.ln(), least)).collect();
                Self::Logarithms { normal, stretch: 1.0 }
            }
            Self::Logarithms { normal, stretch } => {
                Self::Logarithms { normal: wider(normal), stretch: *stretch }
            }
            Self::Scores { normal, stretch } => {
                Self::Scores { normal: wider(normal), stretch: *stretch }
            }
        }
    }

    /// Returns the least deviation of a residual; 0 for exact scores.
    pub(super) fn least_deviation(&self) -> f64 {
        match self {
            Self::Exact(_) => 0.0,
            Self::Logarithms { normal, .. } | Self::Scores { normal, .. } => {
                normal.iter().fold(f64::INFINITY, |least, (_, deviation)| least.min(*deviation))
            }
        }
    }

    /// Returns the differences of neighbouring logits that exact scores are, k − 1; `None` for
    /// others.
    pub(crate) fn differences(&self) -> Option<Vec<f64>> {
        let Self::Exact(logs) = self else { return None };
        Some(logs.windows(2).map(|pair| pair[1] - pair[0]).collect())
    }

    /// Returns the number of classes, k.
    pub(super) fn classes(&self) -> usize {
        match self {
            Self::Exact(logs) => logs.len(),
            Self::Logarithms { normal, .. } | Self::Scores { normal, .. } => normal.len(),
        }
    }

    /// Returns true if a residual above 0 is noise, so that the features' prior counts beside it.
    pub(super) fn is_noisy(&self) -> bool {
        !matches!(self, Self::Exact(_))
    }

    /// Returns the squared misfit up to which a record with exact scores is solved.
    pub(super) fn solved_at(&self) -> f64 {
        match self {
            Self::Exact(logs) => 1e-14 * (1.0 + logs.iter().map(|log| log * log).sum::<f64>()),
            Self::Logarithms { .. } | Self::Scores { .. } => 0.0,
        }
    }

    /// Replaces the logits by the scores that the slopes need, and writes the residuals.
    pub(super) fn residuals(&self, logits: &mut [Lanes], residuals: &mut [Lanes]) {
        match self {
            Self::Exact(logs) => {
                let mut mean = Lanes::all(0.0);
                for z in logits.iter() {
                    (0..LANES).for_each(|l| mean.0[l] += z.0[l]);
                }
                let k = logits.len() as f64;
                for ((r, z), log) in residuals.iter_mut().zip(logits).zip(logs) {
                    *r = Lanes(std::array::from_fn(|l| z.0[l] - mean.0[l] / k - log));
                }
            }
            Self::Logarithms { normal, stretch } => {
                log_softmax(logits, *stretch);
                for ((r, log), (mean, deviation)) in residuals.iter_mut().zip(&*logits).zip(normal)
                {
                    *r = Lanes(log.0.map(|log| (log - mean) / deviation));
                }
                logits.iter_mut().for_each(|log| *log = Lanes(log.0.map(f64::exp)));
            }
            Self::Scores { normal, stretch } => {
                log_softmax(logits, *stretch);
                logits.iter_mut().for_each(|log| *log = Lanes(log.0.map(f64::exp)));
                for ((r, c), (value, deviation)) in residuals.iter_mut().zip(&*logits).zip(normal) {
                    *r = Lanes(c.0.map(|c| (c - value) / deviation));
                }
            }
        }
    }

    /// Writes the slopes of the residual of one class in the k logits. `scores` are what
    /// [`Fit::residuals`] left.
    pub(super) fn slopes(&self, class: usize, scores: &[Lanes], slopes: &mut [Lanes]) {
        match self {
            Self::Exact(logs) => {
                slopes.fill(Lanes::all(-1.0 / logs.len() as f64));
                slopes[class].0.iter_mut().for_each(|slope| *slope += 1.0);
            }
            Self::Logarithms { normal, stretch } => {
                let by = 1.0 / (normal[class].1 * stretch);
                for (slope, c) in slopes.iter_mut().zip(scores) {
                    *slope = Lanes(c.0.map(|c| -by * c));
                }
                slopes[class].0.iter_mut().for_each(|slope| *slope += by);
            }
            Self::Scores { normal, stretch } => {
                let by = 1.0 / (normal[class].1 * stretch);
                let own = scores[class];
                for (slope, c) in slopes.iter_mut().zip(scores) {
                    *slope = Lanes(std::array::from_fn(|l| -by * own.0[l] * c.0[l]));
                }
                (0..LANES).for_each(|l| slopes[class].0[l] += by * own.0[l]);
            }
        }
    }
}

/// Replaces logits by the logarithms of their scores at this stretch.
fn log_softmax(logits: &mut [Lanes], stretch: f64) {
    for l in 0..LANES {
        let top = logits.iter().fold(f64::NEG_INFINITY, |top, z| top.max(z.0[l]));
        let sum: f64 = logits.iter().map(|z| ((z.0[l] - top) / stretch).exp()).sum();
        logits.iter_mut().for_each(|z| z.0[l] = (z.0[l] - top) / stretch - sum.ln());
    }
}
