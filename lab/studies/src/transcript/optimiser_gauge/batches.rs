//! Factors of a training in small batches: every step shows other records.

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use vfl_numerics::ThinSvd;

use super::super::factor::{Factors, NOISE_FLOOR};
use super::super::record::{Step, Transcript};
use super::span::{Span, stride};

/// The iterations between two looks at the noise.
const PATIENCE: usize = 20;
/// The noise after `PATIENCE` iterations, in units of that before, from which on it has settled.
const SETTLED: f64 = 0.98;
/// The starts of the factors, at most.
const STARTS: u64 = 4;
/// The root mean square that factors leave of a logit, in units of that of the logits, at which
/// they are exact but for rounding. Those above it have not converged.
const EXACT: f64 = 1e-6;
/// The root mean square of a feature, about.
const FEATURE_SIZE: f64 = 0.5;

impl Span {
    /// Factors the logits of a training in batches, in at most `iterations` of expectation
    /// maximisation from each start. The factors that leave the least of the logits are kept, and
    /// starts end with the first exact ones. Returns `None` if the steps have fewer records than
    /// features, or there is nothing to factor.
    pub(super) fn of_batches(
        transcript: &Transcript,
        steps: &[Step],
        features: usize,
        iterations: usize,
        seed: u64,
    ) -> Option<Self> {
        let squares: f64 = steps.iter().map(|step| step.logits.norm_squared()).sum();
        let entries: usize = steps.iter().map(|step| step.logits.len()).sum();
        let exact = EXACT.powi(2) * squares / entries.max(1) as f64;
        let exact = exact.max(4.0 * NOISE_FLOOR);
        let leading = leading(transcript, steps, features, seed)?;
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut best: Option<Factors<'_>> = None;
        for attempt in 0..STARTS {
            // The same space in other coordinates: the priors of features and weights differ.
            let start = match attempt {
                0 => leading.clone(),
                _ => {
                    let entry = |_, _| -> f64 { StandardNormal.sample(&mut rng) };
                    DMatrix::from_fn(features, features, entry) * &leading
                        / (features as f64).sqrt()
                }
            };
            let factors = settle(transcript, steps, &start, iterations, exact);
            if best.as_ref().is_none_or(|best| factors.noise < best.noise) {
                best = Some(factors);
            }
            if best.as_ref().is_some_and(|best| best.noise <= exact) {
                break;
            }
        }
        let factors = best?;
        let mut order: Vec<usize> = (0..factors.records.len()).collect();
        order.sort_unstable_by_key(|&slot| factors.records[slot]);
        let records = order.iter().map(|&slot| factors.records[slot] as u32).collect();
        let decomposed = factors.x.select_columns(&order).transpose().qr();
        let (basis, triangle) = (decomposed.q(), decomposed.r());
        let k = transcript.classes;
        let stride = stride(steps);
        let seen: Vec<_> = factors.weights.iter().skip(stride).step_by(stride).collect();
        let mut weights = DMatrix::zeros(k * seen.len(), triangle.nrows());
        for (t, w) in seen.into_iter().enumerate() {
            weights.rows_mut(k * t, k).copy_from(&(w * triangle.transpose()));
        }
        Self::white(weights, basis, records, features, factors.noise.sqrt())
    }
}

/// Runs expectation maximisation from a start (features × n) until the noise has settled at no more
/// than `exact`, or for all iterations.
fn settle<'a>(
    transcript: &'a Transcript,
    steps: &'a [Step],
    start: &DMatrix<f64>,
    iterations: usize,
    exact: f64,
) -> Factors<'a> {
    let mut factors = Factors::new(transcript, steps, start);
    let mut noise = f64::INFINITY;
    for done in 1..=iterations {
        factors.iterate();
        if done % PATIENCE == 0 {
            if factors.noise > SETTLED * noise && factors.noise <= exact {
                break;
            }
            noise = factors.noise;
        }
    }
    factors
}

/// Returns rough features of all records of the training's list (features × n), up to one
/// invertible matrix: the leading directions of the records' logits, one column block per epoch, as
/// if the weights did not change inside an epoch.
fn leading(
    transcript: &Transcript,
    steps: &[Step],
    features: usize,
    seed: u64,
) -> Option<DMatrix<f64>> {
    let (n, k) = (transcript.labels.len(), transcript.classes);
    let epochs = transcript.epoch_ends.iter().filter(|end| **end <= steps.len()).count();
    let mut logits = DMatrix::zeros(n, k * epochs);
    let mut first = 0;
    for (epoch, &end) in transcript.epoch_ends.iter().take(epochs).enumerate() {
        for step in steps.get(first..end)? {
            for (column, &position) in step.logits.column_iter().zip(&step.positions) {
                logits.view_mut((position as usize, k * epoch), (1, k)).tr_copy_from(&column);
            }
        }
        first = end;
    }
    let width = (2 * features).min(n).min(logits.ncols());
    if width < features {
        return None;
    }
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let probe = DMatrix::from_fn(logits.ncols(), width, |_, _| StandardNormal.sample(&mut rng));
    let once = (&logits * probe).qr().q();
    let basis = (&logits * logits.tr_mul(&once)).qr().q();
    let svd = ThinSvd::new(&logits.tr_mul(&basis)).ok()?;
    let leading = svd.right.columns(0, features).transpose() * basis.transpose();
    Some(leading * (FEATURE_SIZE * (n as f64).sqrt()))
}
