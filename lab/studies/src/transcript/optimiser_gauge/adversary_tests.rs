#![allow(clippy::unwrap_used)]

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_core::types::FeatureBlock;

use super::study::{matched, reassigned};
use super::*;
use crate::transcript::{Adversary, LabelReading, Owner, Target, features_of};

/// The features of an active and two passive parties, labels of four classes, and the targets of
/// an adversary of sixteen steps of one batch.
struct Training {
    blocks: Vec<FeatureBlock>,
    labels: Vec<u32>,
    targets: Vec<Target>,
}

fn training(adversary: Adversary) -> Training {
    let (n, k) = (200, 4);
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    let mut uniform = |r: usize, c: usize| DMatrix::from_fn(r, c, |_, _| rng.random::<f64>());
    let blocks = [uniform(3, n), uniform(2, n), uniform(3, n)];
    let mut part = |x: &DMatrix<f64>| uniform(k, x.nrows()).add_scalar(-0.5) * x.add_scalar(-0.5);
    let mut logits: DMatrix<f64> = blocks.iter().map(&mut part).sum();
    // Classes of different sizes: the bias is not 0.
    logits.row_mut(0).add_scalar_mut(0.1);
    let labels: Vec<u32> = logits.column_iter().map(|z| z.argmax().0 as u32).collect();
    let values = TrainingValues {
        epochs: 16,
        patience: 16,
        batch_size: 1000,
        learning_rate: 0.05,
        l2: 1e-4,
        seed: 3,
        ..Default::default()
    };
    let config = TrainingConfig::try_from(values).unwrap();
    let blocks: Vec<_> = blocks.into_iter().map(|x| FeatureBlock::new(x).unwrap()).collect();
    let targets = adversary.observe(&config, k, &blocks, &labels).unwrap();
    Training { blocks, labels, targets }
}

/// Checks that all features of a target come out, and none in the control.
fn assert_recovered(target: &Target, blocks: &[FeatureBlock]) {
    let Target { owners, transcript } = target;
    let truth = features_of(owners, blocks);
    let d = truth.nrows();
    let found = recover(transcript, &transcript.steps, d, 100, 1).unwrap();
    let (matching, _) = matched(&found, &truth);
    assert_eq!((matching.features_found, matching.features_recovered), (d, d), "{owners:?}");
    assert!(matching.root_mean_square_error.unwrap() < 1e-5, "{owners:?}: {matching:?}");

    let others = reassigned(transcript, &transcript.steps, 1);
    let found = recover(transcript, &others, d, 100, 1).unwrap();
    assert_eq!((found.rank, found.features.nrows()), (d, 0), "{owners:?}");
}

/// Checks that the adversary read the label of each record of the steps.
fn assert_labels_read(training: &Training) {
    let transcript = &training.targets[0].transcript;
    let records: Vec<usize> = transcript.steps[0].positions.iter().map(|&p| p as usize).collect();
    let read = LabelReading::of(transcript, &training.labels, &records);
    assert!(records.len() > 150);
    assert_eq!(read.labels_read, 1.0);
    assert!(read.most_frequent_class < 0.6);
}

#[test]
fn the_active_party_recovers_the_features_of_all_passive_parties() {
    let training = training(Adversary::Active);
    let [target] = training.targets.as_slice() else { panic!("one target") };
    assert_eq!(target.owners, [Owner::Passive(1), Owner::Passive(2)]);
    assert_recovered(target, &training.blocks);
}

#[test]
fn a_passive_party_recovers_labels_and_the_features_of_all_others() {
    let training = training(Adversary::Passive);
    let [target] = training.targets.as_slice() else { panic!("one target") };
    assert_eq!(target.owners, [Owner::Active, Owner::Passive(2)]);
    assert_recovered(target, &training.blocks);
    assert_labels_read(&training);
}

#[test]
fn the_coordinator_recovers_labels_and_the_features_of_each_party() {
    let training = training(Adversary::Coordinator);
    let owners: Vec<_> = training.targets.iter().map(|target| target.owners.as_slice()).collect();
    assert_eq!(owners, [[Owner::Active], [Owner::Passive(1)], [Owner::Passive(2)]]);
    training.targets.iter().for_each(|target| assert_recovered(target, &training.blocks));
    assert_labels_read(&training);
}

/// The contributions of the active party are those of its weights alone: their rank is the number
/// of its features, and one more with the bias.
#[test]
fn the_bias_is_taken_off() {
    let training = training(Adversary::Coordinator);
    let steps = &training.targets[0].transcript.steps;
    let x = training.blocks[0].matrix();
    for step in steps {
        let positions: Vec<usize> = step.positions.iter().map(|&p| p as usize).collect();
        let at = x.select_columns(&positions);
        let basis = at.transpose().qr().q();
        let left = &step.logits - &step.logits * &basis * basis.transpose();
        assert!(left.amax() < 1e-12, "{}", left.amax());
    }
    assert!(steps.last().unwrap().logits.amax() > 0.1);
}
