//! Training on shares on real data: its accuracy beside that of the training in the clear.
#![allow(clippy::unwrap_used)]

use nalgebra::DMatrix;
use vfl_core::metrics::accuracy;
use vfl_core::model::{TrainingConfig, TrainingMode, TrainingValues};
use vfl_datasets::local_training::{TrainedParties, summed_scores};
use vfl_datasets::private_training::train_in_the_clear;
use vfl_datasets::{DatasetName, PassiveColumns, VerticalSplit, load, passive_names};
use vfl_numerics::arg_max;
use vfl_testing::data_set;

/// The second half of the features belongs to the given number of passive parties.
fn split(total: usize, parties: usize) -> VerticalSplit {
    let passive: Vec<usize> = (total / 2..total).collect();
    let share = passive.len().div_ceil(parties);
    let parties = passive_names(parties).unwrap().into_iter().zip(passive.chunks(share));
    let parties = parties.map(|(name, columns)| PassiveColumns { name, columns: columns.to_vec() });
    VerticalSplit::new(total, parties.collect()).unwrap()
}

/// Trains by the steps of the computation on shares, and returns the share of the test records that
/// the model predicts.
fn on_shares(
    (x, labels): (&DMatrix<f64>, &[u32]),
    (test, test_labels): (&DMatrix<f64>, &[u32]),
    classes: usize,
    split: &VerticalSplit,
) -> f64 {
    let values = TrainingValues {
        mode: TrainingMode::Private,
        epochs: 200,
        validation_share: 0.0,
        ..TrainingValues::default()
    };
    let config = TrainingConfig::try_from(values).unwrap();
    let model = train_in_the_clear(&config, classes, (x, labels), split).unwrap();
    let mut logits = model.weights * test;
    logits.column_iter_mut().for_each(|mut record| record += &model.bias);
    let predicted: Vec<u32> = logits.column_iter().map(|z| arg_max(z.as_slice()) as u32).collect();
    accuracy(&predicted, test_labels).unwrap()
}

#[test]
fn steps_on_shares_predict_within_a_point_of_training_in_the_clear() {
    use DatasetName::*;
    let test = "steps_on_shares_predict_within_a_point_of_training_in_the_clear";
    for name in [Satellite, Robot, Pendigits, Bank, Adult, Credit, Grid] {
        let Some(spec) = data_set(name, 7, test) else { continue };
        let set = load(&spec).unwrap();
        let part = |records: &[usize]| {
            let labels: Vec<u32> = records.iter().map(|&r| set.labels()[r]).collect();
            (set.x().select_columns(records), labels)
        };
        let ((x, labels), (held, held_labels)) =
            (part(&set.split().train), part(&set.split().test));
        let classes = set.class_names().len();
        let split = split(set.x().nrows(), 2);
        let config = TrainingConfig::try_from(TrainingValues::default()).unwrap();
        let plain = TrainedParties::train(&config, classes, (&x, &labels), &split).unwrap();
        let shares = plain.outputs(&held).unwrap();
        let scores = summed_scores(&shares).unwrap();
        let predicted: Vec<u32> =
            scores.column_iter().map(|c| arg_max(c.as_slice()) as u32).collect();
        let plain = accuracy(&predicted, &held_labels).unwrap();
        let ours = on_shares((&x, &labels), (&held, &held_labels), classes, &split);
        println!("{name}: {plain:.4} in the clear with Adam, {ours:.4} by the steps on shares");
        assert!(ours > plain - 0.01, "{name}: {plain} {ours}");
    }
}
