//! The posterior given noisy scores. Softmax is not linear, so the likeliest point is found by
//! Gauss-Newton steps, and the mean is that of the Gaussian that fits there, within the box.

use nalgebra::{DMatrix, DVector};
use vfl_numerics::{ActiveSet, ConfinedGaussian, NearestOutcome};

use super::Point;
use super::mixture::{Mixture, log_determinant};
use crate::adaptive::averaging::scores_at;
use crate::second_order::FittedRecord;
use crate::{NoisyScores, Termination};

/// The most Gauss-Newton steps.
const STEPS: u32 = 30;

/// The misfit of one record to its noisy release, as a function of its features.
pub(super) trait NoisyRelease {
    /// Returns the residuals at a point, in units of their deviations.
    fn residuals(&mut self, x: &DVector<f64>) -> DVector<f64>;

    /// Returns the residuals at a point, and their slopes in the features, one row for each.
    fn tangent(&mut self, x: &DVector<f64>) -> (DVector<f64>, DMatrix<f64>);
}

impl NoisyRelease for FittedRecord<'_> {
    fn residuals(&mut self, x: &DVector<f64>) -> DVector<f64> {
        FittedRecord::residuals(self, x)
    }

    fn tangent(&mut self, x: &DVector<f64>) -> (DVector<f64>, DMatrix<f64>) {
        FittedRecord::tangent(self, x)
    }
}

/// The noisy scores of one record of a linear model.
pub(super) struct LinearRelease<'a> {
    scores: &'a NoisyScores,
    record: usize,
    weights: DMatrix<f64>,
    known: Vec<f64>,
}

impl<'a> LinearRelease<'a> {
    /// Returns the release of one record.
    pub(super) fn new(scores: &'a NoisyScores, record: usize) -> Self {
        let known = scores.known.column(record).iter().map(|z| z / scores.stretch).collect();
        Self { scores, record, weights: &scores.weights / scores.stretch, known }
    }

    /// Returns the release at x without noise. If it is not the scores themselves, returns also the
    /// slopes of its entries in the k scores.
    fn released(&self, c: Vec<f64>) -> (Vec<f64>, Option<DMatrix<f64>>) {
        match &self.scores.through {
            None => (c, None),
            Some(purifier) => {
                let found = purifier.with_slopes(&c);
                (found.scores.as_slice().to_vec(), Some(found.slopes))
            }
        }
    }

    fn scaled(&self, there: &[f64]) -> DVector<f64> {
        let likely = self.scores.scores.column(self.record);
        let deviation = self.scores.deviation.column(self.record);
        let each = there.iter().zip(likely.iter()).zip(deviation.iter());
        DVector::from_iterator(there.len(), each.map(|((c, l), s)| (c - l) / s))
    }
}

impl NoisyRelease for LinearRelease<'_> {
    fn residuals(&mut self, x: &DVector<f64>) -> DVector<f64> {
        let (there, _) = self.released(scores_at(&self.weights, &self.known, x.as_slice()));
        self.scaled(&there)
    }

    fn tangent(&mut self, x: &DVector<f64>) -> (DVector<f64>, DMatrix<f64>) {
        let c = scores_at(&self.weights, &self.known, x.as_slice());
        // ∂c_j/∂x_i = c_j (w_ji − Σ w_·i c)
        let mut rows = self.weights.clone();
        for mut w in rows.column_iter_mut() {
            let mean: f64 = w.iter().zip(&c).map(|(w, c)| w * c).sum();
            w.iter_mut().zip(&c).for_each(|(w, c)| *w = c * (*w - mean));
        }
        let (there, slopes) = self.released(c);
        if let Some(slopes) = slopes {
            rows = slopes * rows;
        }
        let deviation = self.scores.deviation.column(self.record);
        for (mut row, s) in rows.row_iter_mut().zip(deviation.iter()) {
            row /= *s;
        }
        (self.scaled(&there), rows)
    }
}

/// The Gaussian of one record's features before its release.
pub(super) struct FeaturePrior<'a> {
    pub(super) mean: DVector<f64>,
    pub(super) covariance: &'a DMatrix<f64>,
    /// The inverse of the covariance.
    pub(super) metric: &'a DMatrix<f64>,
}

/// Estimates one record under a prior, from descents that begin at the mean and at `starts`.
pub(super) fn estimate(
    release: &mut dyn NoisyRelease,
    prior: &FeaturePrior<'_>,
    starts: impl IntoIterator<Item = DVector<f64>>,
    point: Point,
    work: &mut ActiveSet,
) -> (DVector<f64>, Termination) {
    let mean = prior.mean.map(|v| v.clamp(0.0, 1.0));
    let starts = std::iter::once(mean.clone()).chain(starts);
    let descents: Vec<_> = starts.map(|start| likeliest(release, prior, start, work)).collect();
    let best = descents.iter().min_by(|a, b| a.value.total_cmp(&b.value));
    let Some(best) = best else { return (mean, Termination::StepLimit) };
    let ended = best.ended;
    let x = match point {
        Point::Likeliest => best.x.clone(),
        Point::Unconfined => around(release, prior, &best.x).centre().clone(),
        Point::Mean => {
            let mut means = Mixture::default();
            for Descent { x, value, .. } in &descents {
                let (_, slopes) = release.tangent(x);
                let cost = value + log_determinant(&slopes, prior.covariance, 1.0);
                let mut posterior = around(release, prior, x);
                posterior.confine_to_unit_box();
                let found = posterior.mean();
                means.add(if found.converged { found.x } else { x.clone() }, cost);
            }
            means.mean().unwrap_or_else(|| best.x.clone())
        }
    };
    (x, ended)
}

/// The end of a descent.
struct Descent {
    x: DVector<f64>,
    /// Minus twice the logarithm of the posterior, up to a constant.
    value: f64,
    ended: Termination,
}

/// Returns the posterior with the release linearised around x.
fn around(
    release: &mut dyn NoisyRelease,
    prior: &FeaturePrior<'_>,
    x: &DVector<f64>,
) -> ConfinedGaussian {
    let (residuals, rows) = release.tangent(x);
    let mut posterior = ConfinedGaussian::new(prior.mean.clone(), prior.covariance.clone());
    for (row, residual) in rows.row_iter().zip(residuals.iter()) {
        let row: Vec<f64> = row.iter().copied().collect();
        let at: f64 = row.iter().zip(x.iter()).map(|(r, x)| r * x).sum();
        posterior.observe(&row, at - residual, 1.0);
    }
    posterior
}

/// Finds the likeliest point in the box by Gauss-Newton steps.
fn likeliest(
    release: &mut dyn NoisyRelease,
    prior: &FeaturePrior<'_>,
    start: DVector<f64>,
    work: &mut ActiveSet,
) -> Descent {
    let value = |release: &mut dyn NoisyRelease, x: &DVector<f64>| {
        let away = x - &prior.mean;
        release.residuals(x).norm_squared() + away.dot(&(prior.metric * &away))
    };
    let mut x = start;
    let mut best = value(release, &x);
    let mut ended = Termination::StepLimit;
    for _ in 0..STEPS {
        let mut posterior = around(release, prior, &x);
        posterior.confine_to_unit_box();
        let Some((next, NearestOutcome::Found)) = posterior.likeliest(work) else { break };
        let mut length = 1.0;
        let gained = loop {
            let trial = &x + length * (&next - &x);
            let there = value(release, &trial);
            if there < best {
                let by = best - there;
                (x, best) = (trial, there);
                break by > 1e-9 * (1.0 + best);
            }
            length *= 0.5;
            if length < 1e-4 {
                break false;
            }
        };
        if !gained {
            ended = Termination::Solved;
            break;
        }
    }
    Descent { x, value: best, ended }
}
