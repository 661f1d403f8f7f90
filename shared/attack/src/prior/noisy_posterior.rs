//! The posterior given noisy scores. Softmax is not linear, so the likeliest point is found by
//! Gauss-Newton steps, and the mean is that of the Gaussian that fits there, within the box.

use nalgebra::{DMatrix, DVector};
use vfl_numerics::{ActiveSet, ConfinedGaussian, NearestOutcome};

use super::Point;
use crate::adaptive::averaging::scores_at;
use crate::{NoisyScores, Termination};

/// The most Gauss-Newton steps.
const STEPS: u32 = 30;

/// Estimates one record under a Gaussian of this mean and covariance; `metric` is the inverse of
/// the covariance.
pub(super) fn estimate(
    scores: &NoisyScores,
    record: usize,
    mean: DVector<f64>,
    (covariance, metric): (&DMatrix<f64>, &DMatrix<f64>),
    point: Point,
    work: &mut ActiveSet,
) -> (DVector<f64>, Termination) {
    let weights = &scores.weights / scores.stretch;
    let known: Vec<f64> = scores.known.column(record).iter().map(|z| z / scores.stretch).collect();
    let (likely, deviation) = (scores.scores.column(record), scores.deviation.column(record));
    let prior = ConfinedGaussian::new(mean.clone(), covariance.clone());
    // The release at x without noise. If it is not the scores themselves, also the slopes of its
    // entries in the k scores.
    let released = |c: Vec<f64>| match &scores.through {
        None => (c, None),
        Some(purifier) => {
            let found = purifier.with_slopes(&c);
            (found.scores.as_slice().to_vec(), Some(found.slopes))
        }
    };
    // The posterior with the scores linearised around x.
    let around = |x: &DVector<f64>| {
        let c = scores_at(&weights, &known, x.as_slice());
        let mut posterior = prior.clone();
        // ∂c_j/∂x_i = c_j (w_ji − Σ w_·i c)
        let mut rows = weights.clone();
        for mut w in rows.column_iter_mut() {
            let mean: f64 = w.iter().zip(&c).map(|(w, c)| w * c).sum();
            w.iter_mut().zip(&c).for_each(|(w, c)| *w = c * (*w - mean));
        }
        let (there, slopes) = released(c);
        if let Some(slopes) = slopes {
            rows = slopes * rows;
        }
        for (j, there) in there.iter().enumerate() {
            let row: Vec<f64> = rows.row(j).iter().copied().collect();
            let at: f64 = row.iter().zip(x.iter()).map(|(r, x)| r * x).sum();
            posterior.observe(&row, likely[j] - there + at, deviation[j]);
        }
        posterior
    };
    let misfit = |x: &DVector<f64>| {
        let (there, _) = released(scores_at(&weights, &known, x.as_slice()));
        there
            .iter()
            .zip(likely.iter())
            .zip(deviation.iter())
            .map(|((c, l), s)| ((c - l) / s).powi(2))
            .sum::<f64>()
    };
    let value = |x: &DVector<f64>| misfit(x) + (x - &mean).dot(&(metric * (x - &mean)));
    let mut x = mean.map(|v| v.clamp(0.0, 1.0));
    let mut best = value(&x);
    let mut ended = Termination::StepLimit;
    for _ in 0..STEPS {
        let mut posterior = around(&x);
        posterior.confine_to_unit_box();
        let Some((next, NearestOutcome::Found)) = posterior.likeliest(work) else { break };
        let mut length = 1.0;
        let gained = loop {
            let trial = &x + length * (&next - &x);
            let there = value(&trial);
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
    let mut posterior = around(&x);
    match point {
        Point::Likeliest => {}
        Point::Unconfined => x = posterior.centre().clone(),
        Point::Mean => {
            posterior.confine_to_unit_box();
            let found = posterior.mean();
            if found.converged {
                x = found.x;
            }
        }
    }
    (x, ended)
}
