#![allow(clippy::unwrap_used)]

use nalgebra::DVector;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_core::types::FeatureBlock;

use super::study::{matched, reassigned};
use super::*;
use crate::transcript::record;

/// A training in batches of this size, with 200 records, 3 active and 4 passive features, 4
/// classes, and the truth.
fn training_in(batch_size: u32, epochs: u32) -> (Transcript, DMatrix<f64>) {
    let (n, d_act, d, k) = (200, 3, 4, 4);
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    let mut uniform = |r: usize, c: usize| DMatrix::from_fn(r, c, |_, _| rng.random::<f64>());
    let (own, x) = (uniform(d_act, n), uniform(d, n));
    let (from_own, from_x) = (uniform(k, d_act), uniform(k, d));
    let logits = &from_own * &own + &from_x * &x + uniform(k, n);
    let labels = logits.column_iter().map(|z| z.argmax().0 as u32).collect();
    let values = TrainingValues {
        epochs,
        patience: epochs,
        batch_size,
        learning_rate: 0.05,
        l2: 1e-4,
        seed: 3,
        ..Default::default()
    };
    let config = TrainingConfig::try_from(values).unwrap();
    let block = |m: &DMatrix<f64>| FeatureBlock::new(m.clone()).unwrap();
    let transcript = record(&config, k, block(&own), vec![block(&x)], labels).unwrap();
    (transcript, x)
}

/// A training of ten steps of one batch.
fn training() -> (Transcript, DMatrix<f64>) {
    training_in(1000, 10)
}

fn equations(transcript: &Transcript) -> (Span, Paths) {
    let span = Span::of_full_batches(&transcript.steps, 4, 1).unwrap();
    let (rate, l2) = (transcript.learning_rate, transcript.l2);
    let paths = Paths { gradients: span.gradients(&transcript.steps), stride: 1, rate, l2 };
    (span, paths)
}

/// A true feature in white coordinates.
fn coordinates(span: &Span, x: &DMatrix<f64>, feature: usize) -> DVector<f64> {
    let records: Vec<usize> = span.records.iter().map(|&p| p as usize).collect();
    let row = x.select_columns(&records).row(feature).transpose();
    &span.columns * row / records.len() as f64
}

/// Every feature comes out of ten steps, and none if the gradients are of other records.
#[test]
fn all_features_are_recovered_without_a_known_record() {
    let (transcript, x) = training();
    let found = recover(&transcript, &transcript.steps, 4, 100, 1).unwrap();
    let (matching, estimates) = matched(&found, &x);
    assert_eq!((matching.features_found, matching.features_recovered), (4, 4));
    assert!(matching.root_mean_square_error.unwrap() < 1e-6, "{matching:?}");
    let seen = |m: &DMatrix<f64>| m.select_columns(&found.records);
    assert!((seen(&estimates) - seen(&x)).amax() < 1e-6);

    let others = reassigned(&transcript, &transcript.steps, 1);
    let found = recover(&transcript, &others, 4, 100, 1).unwrap();
    assert_eq!((found.rank, found.features.nrows()), (4, 0));
}

/// Small batches give features without a false one among them, and the control none.
#[test]
fn small_batches_give_features() {
    let (transcript, x) = training_in(40, 20);
    let found = recover(&transcript, &transcript.steps, 4, 100, 1).unwrap();
    let (matching, _) = matched(&found, &x);
    assert!(matching.features_recovered >= 2, "{matching:?}");
    assert_eq!(matching.features_found, matching.features_recovered);
    assert!(matching.root_mean_square_error.unwrap() < 1e-6, "{matching:?}");

    let others = reassigned(&transcript, &transcript.steps, 1);
    let found = recover(&transcript, &others, 4, 100, 1).unwrap();
    assert_eq!(found.features.nrows(), 0);
}

/// One epoch of few steps does not determine the factors.
#[test]
fn too_few_steps_give_nothing() {
    let (transcript, _) = training();
    assert!(recover(&transcript, transcript.first(1), 4, 100, 1).is_none());
    let (transcript, _) = training_in(20, 1);
    assert!(recover(&transcript, &transcript.steps, 5, 100, 1).is_none());
}

/// True features have weights in the span, at their scale; a mixture of two does not.
#[test]
fn true_features_have_no_misfit() {
    let (transcript, x) = training();
    let (span, paths) = equations(&transcript);
    let search = Search { paths: &paths, span: &span, iterations: 1 };
    for feature in 0..4 {
        let a = coordinates(&span, &x, feature);
        let candidate = search.candidate(a.clone());
        assert!(candidate.misfit < 1e-12, "{}", candidate.misfit);
        assert!((a.dot(&candidate.dual) - 1.0).abs() < 1e-9);
        let mixture = a + coordinates(&span, &x, (feature + 1) % 4) * 0.3;
        assert!(search.candidate(mixture).misfit > 1e-4);
    }
}

/// The path is that of the program's own optimiser: Adam run on the true feature alone.
#[test]
fn paths_are_the_weights_of_the_training() {
    let (transcript, x) = training();
    let (span, paths) = equations(&transcript);
    let total: DMatrix<f64> = (0..4)
        .map(|feature| {
            let path = paths.path(&coordinates(&span, &x, feature), None);
            let records: Vec<usize> = span.records.iter().map(|&p| p as usize).collect();
            path.weights * x.select_columns(&records).row(feature)
        })
        .sum();
    for (t, step) in transcript.steps.iter().skip(1).enumerate() {
        for (column, position) in step.logits.column_iter().zip(&step.positions) {
            let at = span.records.binary_search(position).unwrap();
            assert!((total.view((4 * t, at), (4, 1)) - column).amax() < 1e-10);
        }
    }
}

/// Slopes against differences of the path, with the first step's signs held and without.
#[test]
fn slopes_are_exact() {
    let (transcript, x) = training();
    let (_, paths) = equations(&transcript);
    let (span, _) = equations(&transcript);
    let a = coordinates(&span, &x, 0) + DVector::from_element(4, 0.05);
    let signs = paths.signs(&a);
    for signs in [None, Some(&signs)] {
        let path = paths.path(&a, signs);
        for i in 0..4 {
            let mut step = DVector::zeros(4);
            step[i] = 1e-5;
            let (above, below) =
                (paths.path(&(&a + &step), signs), paths.path(&(&a - &step), signs));
            let difference = (above.weights - below.weights) / 2e-5;
            let slope = path.slopes.row(i).transpose();
            let size = slope.amax().max(1e-3);
            assert!((difference - &slope).amax() < 1e-6 * size, "{i}");
        }
    }
}
