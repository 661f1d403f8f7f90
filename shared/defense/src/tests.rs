//! What holds of all defenses. What holds of one is tested beside it.

mod configs;
mod contracts;
mod noise;

use nalgebra::DMatrix;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use vfl_core::types::{ConfidenceScores, ReleasedScores};

use super::*;
use crate::DefenseConfig;

pub(super) fn golden(name: &str) -> serde_json::Value {
    vfl_testing::golden(name)
}

pub(super) fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap()
}

pub(super) fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

pub(super) fn matrix(rows: &serde_json::Value) -> DMatrix<f64> {
    let rows: Vec<Vec<f64>> = rows.as_array().unwrap().iter().map(numbers).collect();
    DMatrix::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
}

#[track_caller]
pub(super) fn close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "{got} {want}");
    }
}

/// A probability vector: flat or steep, with ties, zeros, tiny scores, neighbours by one unit in the last place, or one-hot.
pub(super) fn random_vector(k: usize, rng: &mut impl Rng) -> Vec<f64> {
    let kind = rng.random_range(0..8);
    let steep = [0.1, 1.0, 8.0, 60.0][rng.random_range(0..4)];
    let mut c: Vec<f64> = (0..k)
        .map(|_| match kind {
            0 => f64::from(rng.random_range(0u8..4)),
            1 if rng.random_bool(0.5) => 0.0,
            2 if rng.random_bool(0.5) => 1e-300 * rng.random::<f64>(),
            3 => 1.0 + f64::from(rng.random_range(0u8..3)) * f64::EPSILON,
            4 => 0.0,
            _ => (steep * rng.random::<f64>()).exp(),
        })
        .collect();
    let sum: f64 = c.iter().sum();
    if sum > 0.1 {
        c.iter_mut().for_each(|c| *c /= sum);
    } else {
        c.fill(0.0);
        c[rng.random_range(0..k)] = 1.0;
    }
    c
}

/// Columns of [`random_vector`].
pub(super) fn random_scores(k: usize, n: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    DMatrix::from_vec(k, n, (0..n).flat_map(|_| random_vector(k, &mut rng)).collect())
}

/// The examples of every defense, and more where they differ inside or at the ends of their ranges.
pub(super) fn configs(k: usize) -> Vec<DefenseConfig> {
    let more = [
        "logit_noise (scheme = 1, alpha = 4.0)",
        "logit_noise (scheme = 2, alpha = 50.0)",
        "logit_noise (scheme = 3, alpha = 0.9)",
        "temperature (temperature = 0.01)",
        "rounding (decimals = 15)",
        "class_label (softening = 1e-6)",
        "privee_dp",
        "privee_dp (template = \"fisip\", sigma = 1.0)",
        "privee_dp (as_published = true)",
        "privee_dp_plus_plus",
        "privee_dp_plus_plus (template = \"householder\", sigma = [0.0, 3.0])",
        "privee_dp_plus_plus (as_published = true)",
    ];
    // It takes no more classes, and seconds to train for many.
    let purifiers: &[&str] =
        if k <= 12 { &["purifier (training = \"normal\", label_weight = 0.1)"] } else { &[] };
    let mut configs: Vec<DefenseConfig> =
        DefenseConfig::ALL.iter().flat_map(|facts| (facts.examples)(k)).collect();
    configs.retain(|config| k <= 60 || !matches!(config, DefenseConfig::Purifier { .. }));
    configs.extend(more.iter().chain(purifiers).map(|text| text.parse::<DefenseConfig>().unwrap()));
    let size = 4 * k as u32;
    for another in [
        DefenseConfig::TopK { k: 1 },
        DefenseConfig::TopK { k: k as u32 - 1 },
        DefenseConfig::Codebook { size },
    ] {
        if !configs.contains(&another) {
            configs.push(another);
        }
    }
    configs
}

/// What all configs are made from, for k classes.
pub(super) struct Ground {
    weights: DMatrix<f64>,
    calibration: ConfidenceScores,
}

impl Ground {
    pub(super) fn new(k: usize) -> Self {
        let mut rng = ChaCha12Rng::seed_from_u64(k as u64);
        let weights = DMatrix::from_fn(k, 3, |_, _| rng.random_range(-2.0..2.0));
        Self { weights, calibration: ConfidenceScores::new(random_scores(k, 1000, 7)).unwrap() }
    }

    pub(super) fn grants(&self) -> Grants<'_> {
        Grants {
            passive_weights: Some(&self.weights),
            calibration: Some(&self.calibration),
            seed: [1; 32],
        }
    }

    pub(super) fn build(&self, config: &DefenseConfig) -> Pipeline {
        Pipeline::build(std::slice::from_ref(config), self.weights.nrows(), &self.grants()).unwrap()
    }
}

/// Releases scores; where a defense works on logits, their logarithms stand for them (0: far below all others).
pub(super) fn release(
    pipeline: &Pipeline,
    scores: &DMatrix<f64>,
    noise: Noise<'_>,
) -> PipelineOutput {
    if pipeline.changes_logits() {
        let logits = scores.map(|c| if c > 0.0 { c.ln() } else { -2000.0 });
        pipeline.release(vfl_core::types::Logits::new(logits).unwrap(), noise).unwrap()
    } else {
        pipeline.release_scores(ConfidenceScores::new(scores.clone()).unwrap(), noise).unwrap()
    }
}

/// The columns of a release as something that can be compared and counted.
pub(super) fn columns(released: &ReleasedScores) -> Vec<Vec<u64>> {
    match released {
        ReleasedScores::Probabilities(m) | ReleasedScores::Numbers(m) => {
            m.column_iter().map(|c| c.iter().map(|v| v.to_bits()).collect()).collect()
        }
        ReleasedScores::Labels { labels, .. } => {
            labels.iter().map(|label| vec![u64::from(*label)]).collect()
        }
        ReleasedScores::Ciphertexts(m) => {
            m.column_iter().map(|c| c.iter().copied().collect()).collect()
        }
    }
}
