//! Feature importance, and the suitability of a data set for a study of attacks (V section III).
//!
//! V selects a data set for its experiments if the model is accurate enough, if every feature
//! contributes to it (weights near 0 make equations that no attack can solve well), and if features
//! depend on each other (otherwise nothing can be learned about a record that was not scored). V
//! says that it used "feature importance calculation methods" and not which. This module uses
//! permutation importance (L. Breiman, *Random Forests*, Machine Learning 45, 2001, section 10):
//! the average increase of the loss of a test record if the feature takes the value of another test
//! record. All other records are tried, so that nothing is drawn.

mod text;

use anyhow::{anyhow, ensure};
use nalgebra::DMatrix;
use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha20Rng;
use serde::Serialize;
use vfl_core::metrics::accuracy;
use vfl_core::model::{CentralFit, TrainingConfig, TrainingValues, train_central};
use vfl_datasets::Dataset;
use vfl_datasets::set_facts::SetFacts;
use vfl_numerics::arg_max;

use crate::DataSpec;
use crate::estimate::Estimate;
use crate::study::{Listener, Study};

/// V's least accuracy on test records (section III).
pub const LEAST_ACCURACY: f64 = 0.85;
/// The least mean share of a feature's variance that the others explain, for features to count as
/// dependent. Our own value: V has no number.
pub const LEAST_EXPLAINED: f64 = 0.05;
/// The most test records, each of which is tried with the values of all others: the loss of k
/// classes is computed for each pair.
const MOST_RECORDS: usize = 500;
/// The fewest test records: with fewer an importance cannot be distinguished from chance.
const LEAST_RECORDS: usize = 30;
/// A ridge that keeps the correlations of features that determine each other invertible.
const RIDGE: f64 = 1e-9;

/// The results of one feature.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeatureRow {
    /// The position, from 0, as in `--first-column`.
    pub column: usize,
    /// The name of the feature.
    pub name: String,
    /// The permutation importance, in nats.
    pub importance: f64,
    /// The standard error of the importance over test records, in nats.
    pub standard_error: f64,
    /// The length of the feature's weights less their mean over classes, times its standard
    /// deviation: its effect on logits.
    pub reach: f64,
    /// The share of its variance that the other features explain linearly, on training records, 0
    /// to 1.
    pub explained: f64,
    /// True if the lower end of the 95 % interval of its importance is above 0.
    pub contributes: bool,
}

/// The results of a screening.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScreenReport {
    /// The data set.
    #[serde(flatten)]
    pub set: SetFacts,
    /// SHA-256 of the loaded data.
    pub data_hash: String,
    /// Number of classes.
    pub classes: usize,
    /// Number of training records.
    pub training_records: usize,
    /// Number of test records.
    pub test_records: usize,
    /// Test records that the importance is measured on.
    pub records: usize,
    /// The settings of the softmax regression's training.
    pub training: TrainingValues,
    /// Share of the test records that it classifies correctly.
    pub accuracy: f64,
    /// The least accuracy that V requires.
    pub least_accuracy: f64,
    /// The features, the most important first.
    pub features: Vec<FeatureRow>,
    /// The mean of `explained` over features.
    pub mean_explained: f64,
    /// The least mean for which features count as dependent.
    pub least_explained: f64,
}

impl ScreenReport {
    /// Returns true if the model has the accuracy that V requires.
    #[must_use]
    pub fn accurate(&self) -> bool {
        self.accuracy >= self.least_accuracy
    }

    /// Returns true if features depend on each other.
    #[must_use]
    pub fn dependent(&self) -> bool {
        self.mean_explained >= self.least_explained
    }

    /// Returns the features whose importance cannot be distinguished from 0.
    pub fn idle(&self) -> impl Iterator<Item = &FeatureRow> {
        self.features.iter().filter(|row| !row.contributes)
    }
}

/// A data set to screen, and the training of a softmax regression on it.
pub struct Experiment {
    dataset: Dataset,
    config: TrainingConfig,
}

impl Experiment {
    /// Loads the data.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub fn prepare(data: &DataSpec, config: TrainingConfig) -> anyhow::Result<Self> {
        Ok(Self { dataset: data.load()?, config })
    }
}

impl Study for Experiment {
    type Report = ScreenReport;

    fn parts(&self) -> usize {
        0
    }

    /// Trains on the training records of the data set, and measures its features.
    ///
    /// # Errors
    /// If there are fewer than 30 test records, or the training diverges.
    fn run(&self, _: &Listener<'_>) -> anyhow::Result<ScreenReport> {
        let Self { dataset, config } = self;
        let split = dataset.split();
        // The validation part is not needed for a choice here: the training sets its own records
        // aside.
        let training: Vec<usize> = split.train.iter().chain(&split.validation).copied().collect();
        let test = &split.test;
        ensure!(
            test.len() >= LEAST_RECORDS,
            "{} has {} test records, at least {LEAST_RECORDS} are needed to tell an importance from chance: take another data set",
            dataset.name(),
            test.len()
        );
        let of = |records: &[usize]| -> (DMatrix<f64>, Vec<u32>) {
            (
                dataset.x().select_columns(records),
                records.iter().map(|&at| dataset.labels()[at]).collect(),
            )
        };
        let (x, labels) = of(&training);
        let fit = train_central(config, dataset.class_names().len(), &x, &labels);
        ensure!(
            fit.weights.iter().chain(fit.bias.iter()).all(|w| w.is_finite()),
            "the training diverged: lower --learning-rate"
        );
        let (all, all_labels) = of(test);
        let predicted: Vec<u32> =
            logits(&fit, &all).column_iter().map(|z| arg_max(z.as_slice()) as u32).collect();
        let mut chosen = sample(
            &mut ChaCha20Rng::seed_from_u64(config.values().seed),
            test.len(),
            MOST_RECORDS.min(test.len()),
        );
        if let rand::seq::index::IndexVec::U32(places) = &mut chosen {
            places.sort_unstable();
        }
        let chosen: Vec<usize> = chosen.into_iter().map(|place| test[place]).collect();
        let (tried, tried_labels) = of(&chosen);
        let explained = explained(&x)
            .ok_or_else(|| anyhow!("features of the training records are not finite"))?;
        let mut features: Vec<FeatureRow> = (0..x.nrows())
            .map(|column| {
                let importance = importance(&fit, &tried, &tried_labels, column);
                FeatureRow {
                    column,
                    name: dataset.features()[column].name.clone(),
                    importance: importance.mean,
                    standard_error: importance.standard_error,
                    reach: reach(&fit, &x, column),
                    explained: explained[column],
                    contributes: importance.low() > 0.0,
                }
            })
            .collect();
        features.sort_by(|a, b| b.importance.total_cmp(&a.importance));
        let mean_explained = explained.iter().sum::<f64>() / explained.len().max(1) as f64;
        Ok(ScreenReport {
            set: SetFacts::of(dataset),
            data_hash: dataset.data_hash(),
            classes: dataset.class_names().len(),
            training_records: training.len(),
            test_records: test.len(),
            records: chosen.len(),
            training: config.values().clone(),
            accuracy: accuracy(&predicted, &all_labels)?,
            least_accuracy: LEAST_ACCURACY,
            features,
            mean_explained,
            least_explained: LEAST_EXPLAINED,
        })
    }
}

fn logits(fit: &CentralFit, x: &DMatrix<f64>) -> DMatrix<f64> {
    let mut logits = &fit.weights * x;
    for mut column in logits.column_iter_mut() {
        column += &fit.bias;
    }
    logits
}

/// Returns −ln of the score of class y.
fn loss(z: impl Iterator<Item = f64> + Clone, y: usize) -> f64 {
    let most = z.clone().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = z.clone().map(|z| (z - most).exp()).sum();
    most + sum.ln() - z.into_iter().nth(y).unwrap_or(most)
}

/// Returns the mean increase of the loss of a record of `x` (d × n) over the other records' values
/// of a feature, in nats, over records.
fn importance(fit: &CentralFit, x: &DMatrix<f64>, labels: &[u32], feature: usize) -> Estimate {
    let n = x.ncols();
    let (z, w) = (logits(fit, x), fit.weights.column(feature));
    let rise = |record: usize| {
        let (own, y) = (x[(feature, record)], labels[record] as usize);
        let column = z.column(record);
        let as_it_is = loss(column.iter().copied(), y);
        let others = (0..n).filter(|&other| other != record).map(|other| {
            let moved = x[(feature, other)] - own;
            loss(column.iter().zip(w.iter()).map(|(z, w)| z + w * moved), y) - as_it_is
        });
        others.sum::<f64>() / (n - 1).max(1) as f64
    };
    let rises: Vec<f64> = (0..n).map(rise).collect();
    Estimate::of(rises.iter().copied())
}

/// Returns ‖w − mean w‖ s, with w the weights of the feature and s its standard deviation.
fn reach(fit: &CentralFit, x: &DMatrix<f64>, feature: usize) -> f64 {
    let w = fit.weights.column(feature);
    let mean = w.mean();
    w.iter().map(|w| (w - mean).powi(2)).sum::<f64>().sqrt() * x.row(feature).variance().sqrt()
}

/// Returns for each feature the share of its variance that the others explain, 1 − 1 / (C⁻¹)_jj
/// with the correlations C; 0 for a constant feature. `None` if a value is not finite.
fn explained(x: &DMatrix<f64>) -> Option<Vec<f64>> {
    let (d, n) = x.shape();
    let mut standard = x.clone();
    let mut constant = vec![false; d];
    for (mut row, constant) in standard.row_iter_mut().zip(&mut constant) {
        let (mean, variance) = (row.mean(), row.variance());
        *constant = variance <= f64::EPSILON;
        let scale = if *constant { 0.0 } else { 1.0 / (variance * n as f64).sqrt() };
        row.apply(|value| *value = (*value - mean) * scale);
    }
    let mut correlations = &standard * standard.transpose();
    for (j, constant) in constant.iter().enumerate() {
        correlations[(j, j)] = if *constant { 1.0 } else { correlations[(j, j)] + RIDGE };
    }
    let inverse = correlations.cholesky()?.inverse();
    Some(
        (0..d)
            .map(|j| if constant[j] { 0.0 } else { (1.0 - 1.0 / inverse[(j, j)]).clamp(0.0, 1.0) })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use nalgebra::DVector;
    use rand::RngExt;
    use vfl_numerics::softmax_columns;

    use super::*;

    fn fit(weights: DMatrix<f64>) -> CentralFit {
        let bias = DVector::from_fn(weights.nrows(), |i, _| 0.1 * i as f64);
        CentralFit { weights, bias, best_epoch: 1, epochs: 1 }
    }

    /// By definition: a copy of the records for each other record whose value is used.
    #[test]
    fn importance_is_that_of_the_definition() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (k, d, n) = (3, 4, 25);
        let mut weights = DMatrix::from_fn(k, d, |_, _| 4.0 * rng.random::<f64>() - 2.0);
        weights.column_mut(2).fill(0.7);
        let fit = fit(weights);
        let x = DMatrix::from_fn(d, n, |_, _| rng.random::<f64>());
        let labels: Vec<u32> = (0..n).map(|_| rng.random_range(0..k as u32)).collect();
        let losses = |x: &DMatrix<f64>| -> Vec<f64> {
            let mut scores = logits(&fit, x);
            softmax_columns(&mut scores);
            labels.iter().enumerate().map(|(j, y)| -scores[(*y as usize, j)].ln()).collect()
        };
        let as_they_are = losses(&x);
        for feature in 0..d {
            let mut rises = vec![0.0; n];
            for shift in 1..n {
                let mut moved = x.clone();
                (0..n).for_each(|j| moved[(feature, j)] = x[(feature, (j + shift) % n)]);
                let found = losses(&moved);
                (0..n).for_each(|j| rises[j] += (found[j] - as_they_are[j]) / (n - 1) as f64);
            }
            let mean = rises.iter().sum::<f64>() / n as f64;
            let spread = rises.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            let found = importance(&fit, &x, &labels, feature);
            assert!((found.mean - mean).abs() < 1e-12, "{feature}: {found:?} {mean}");
            assert!((found.standard_error - (spread / n as f64).sqrt()).abs() < 1e-12);
        }
        // A feature that changes all logits equally has no effect.
        let idle = importance(&fit, &x, &labels, 2);
        assert!(idle.mean.abs() < 1e-14 && idle.standard_error < 1e-14);
        assert!(reach(&fit, &x, 2) < 1e-14);
    }

    /// x₂ = 0.6 x₀ + 0.8 noise has R² 0.36 by x₀, and so has x₀ by x₂. x₃ is the sum of the first
    /// two; the last one is constant.
    #[test]
    fn explained_variance_has_the_closed_form() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let normal =
            |rng: &mut ChaCha20Rng| (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let mut x = DMatrix::zeros(4, 40_000);
        for mut column in x.column_iter_mut() {
            let (a, b) = (normal(&mut rng), normal(&mut rng));
            column.copy_from_slice(&[a, b, 0.6 * a + 0.8 * normal(&mut rng), 3.0]);
        }
        let found = explained(&x).unwrap();
        for (found, want) in found.iter().zip([0.36, 0.0, 0.36, 0.0]) {
            assert!((found - want).abs() < 0.01, "{found} {want}");
        }
        let sum =
            DMatrix::from_fn(3, 500, |i, j| if i < 2 { x[(i, j)] } else { x[(0, j)] + x[(1, j)] });
        assert!(explained(&sum).unwrap().iter().all(|found| *found > 0.999_999));
        assert_eq!(explained(&DMatrix::from_element(1, 3, f64::NAN)), None);
    }
}
