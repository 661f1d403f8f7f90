#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;

use nalgebra::{DMatrix, DVector};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use vfl_core::model::{
    Combiner, HeadLearner, ModelConfig, PartyLearner, Schedule, Settings, TrainingConfig,
    TrainingValues, cross_entropy, heads,
};
use vfl_core::types::FeatureBlock;
use vfl_datasets::local_training::start;
use vfl_datasets::{DatasetName, DatasetSpec};
use vfl_numerics::PseudoInverse;

use super::*;
use crate::subject::SubjectSpec;
use crate::transcript::{Adversary, Experiment, TranscriptPlan, accuracy};
use crate::{Report, Study};

/// Perceptrons with these hidden layers and an embedding of `width` under a top model.
fn concat(hidden: &[u32], width: u32) -> ModelConfig {
    let settings = serde_json::json!({ "hidden": hidden, "activation": "relu" });
    let settings: Settings = settings.as_object().unwrap().clone();
    ModelConfig::new(Combiner::Concat, "mlp", Some(width), settings).unwrap()
}

fn values(model: ModelConfig, epochs: u32) -> TrainingValues {
    TrainingValues { epochs, patience: epochs, seed: 4, model, ..Default::default() }
}

fn uniform(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| rng.random::<f64>())
}

/// Blocks of 3 active and 5 passive features, and labels of two classes that depend on both.
fn blocks(records: usize) -> ([FeatureBlock; 2], Vec<u32>) {
    let (own, x) = (uniform(3, records, 1), uniform(5, records, 2));
    let labels = (0..records).map(|r| u32::from(own[(0, r)] + x[(1, r)] > x[(2, r)] + 0.5));
    let labels = labels.collect();
    ([own, x].map(|m| FeatureBlock::new(m).unwrap()), labels)
}

fn mean_over_variance(estimates: &DMatrix<f64>, truth: &DMatrix<f64>) -> f64 {
    let everyone: Vec<usize> = (0..truth.ncols()).collect();
    accuracy(estimates, truth, &everyone).error_over_variance
}

/// The first columns as known records, and the embeddings and features of the rest.
fn divided(
    embeddings: &DMatrix<f64>,
    features: &DMatrix<f64>,
    known: usize,
) -> (KnownRecords, [DMatrix<f64>; 1], DMatrix<f64>) {
    let first = |m: &DMatrix<f64>| m.columns(0, known).into_owned();
    let rest = |m: &DMatrix<f64>| m.columns(known, m.ncols() - known).into_owned();
    let told = KnownRecords { embeddings: vec![first(embeddings)], features: first(features) };
    (told, [rest(embeddings)], rest(features))
}

/// What is recorded is what arrives: the steps written out with the learners of both sides.
#[test]
fn embeddings_are_those_that_the_coordinator_receives() {
    let (blocks, labels) = blocks(200);
    let values = values(concat(&[6], 4), 3);
    let config = TrainingConfig::try_from(values.clone()).unwrap();
    let found = observe(&config, 2, &blocks, &labels, &[1, 3]).unwrap();
    assert_eq!(found.iter().map(|after| after.epochs).collect::<Vec<_>>(), [1, 3]);

    let party = |place: usize| PartyLearner::new(&config, 2, blocks[place].clone(), place == 0);
    let mut parties = [party(0).unwrap(), party(1).unwrap()];
    let sub_model = values.model.sub_model(2).unwrap();
    let spec = values.model.model(2, sub_model.clone(), vec![sub_model]).unwrap();
    let mut head = HeadLearner::new(&config, heads::start(&spec, 2, start(&config)).unwrap());
    let mut schedule = Schedule::new(&config, 200);
    let everyone: Vec<u32> = (0..200).collect();
    for epoch in 1..=3 {
        let after = found.iter().find(|after| after.epochs == epoch);
        for batch in schedule.next_epoch() {
            let shares = parties.each_mut().map(|party| party.shares(&batch, false).unwrap());
            for (share, seen) in shares.iter().zip(after.iter().flat_map(|after| &after.steps)) {
                let columns: Vec<usize> = batch.iter().map(|&p| p as usize).collect();
                assert_eq!(&seen.select_columns(&columns), share.matrix());
            }
            let y: Vec<u32> = batch.iter().map(|&p| labels[p as usize]).collect();
            let logits = head.logits(shares.to_vec(), false).unwrap();
            let (_, gradient, _) = cross_entropy(logits, &y);
            let gradients = head.update(gradient).unwrap();
            for (party, gradient) in parties.iter_mut().zip(&gradients) {
                party.update(gradient.matrix()).unwrap();
            }
        }
        if let Some(after) = after {
            for (party, seen) in parties.iter_mut().zip(&after.predictions) {
                assert_eq!(party.shares(&everyone, true).unwrap().matrix(), seen);
            }
        }
    }
}

/// A linear network with more outputs than features hides nothing: with as many known records as
/// determine a linear map, the regression has every feature to the penalty's round-off. So has
/// least squares, the closed form.
#[test]
fn a_linear_network_as_wide_as_its_features_is_inverted() {
    let (blocks, labels) = blocks(400);
    let config = TrainingConfig::try_from(values(concat(&[], 8), 2)).unwrap();
    let found = observe(&config, 2, &blocks, &labels, &[2]).unwrap();
    let x = blocks[1].matrix();
    let (told, embeddings, truth) = divided(&found[0].predictions[1], x, 60);
    let estimates = Attack::KernelRidge.estimate(&told, &embeddings, 1, 1).unwrap();
    assert!((&estimates - &truth).amax() < 1e-6, "{}", (&estimates - &truth).amax());

    let with_one = |m: &DMatrix<f64>| m.clone().insert_row(m.nrows(), 1.0);
    let inverse = PseudoInverse::new(&with_one(&told.embeddings[0])).unwrap();
    let map = &told.features * inverse.matrix;
    assert!((map * with_one(&embeddings[0]) - &estimates).amax() < 1e-6);

    // The inverse network comes near it.
    let network = Attack::InverseNetwork.estimate(&told, &embeddings, 300, 1).unwrap();
    let error = mean_over_variance(&network, &truth);
    assert!(error < 0.05, "{error}");
}

/// One number h = w · x of five normal features of covariance Σ leaves Σ_ii − (Σ w)_i² / wᵀ Σ w of
/// each, whatever estimates them.
#[test]
fn an_embedding_of_one_number_leaves_the_residual_variance() {
    let (n, d) = (20_000, 5);
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let factor = uniform(d, d, 3).map(|v| 0.12 * (v - 0.5));
    let covariance = &factor * factor.transpose();
    let noise = DMatrix::from_fn(d, n, |_, _| StandardNormal.sample(&mut rng));
    let x = (&factor * noise).map(|v: f64| v + 0.5);
    let w = DVector::from_column_slice(&[0.8, -1.3, 0.4, 2.0, 0.6]);
    let h = x.tr_mul(&w).transpose();
    let (told, embeddings, truth) = divided(&DMatrix::from_row_slice(1, n, h.as_slice()), &x, 500);
    let along = &covariance * &w;
    let left: Vec<f64> =
        (0..d).map(|i| covariance[(i, i)] - along[i].powi(2) / w.dot(&along)).collect();
    // In shares of the features' variances. The network is fitted to fewer records, and by steps.
    for (attack, tolerance) in [(Attack::KernelRidge, 0.03), (Attack::InverseNetwork, 0.15)] {
        let estimates = attack.estimate(&told, &embeddings, 300, 1).unwrap();
        for (i, left) in left.iter().enumerate() {
            let error = (estimates.row(i) - truth.row(i)).norm_squared() / truth.ncols() as f64;
            let excess = (error - left) / covariance[(i, i)];
            assert!(excess > -0.03 && excess < tolerance, "{attack}, feature {i}: {excess}");
        }
    }
    // The test would see an attack that does nothing: most of some variance goes.
    let shares = left.iter().enumerate().map(|(i, left)| left / covariance[(i, i)]);
    assert!(shares.fold(1.0, f64::min) < 0.5);
}

/// Embeddings of other records tell nothing: no attack does better than the means by more than
/// chance, with the same embeddings that give most of the features in their own order.
#[test]
fn embeddings_of_other_records_tell_nothing() {
    let (blocks, labels) = blocks(1200);
    let config = TrainingConfig::try_from(values(concat(&[16], 8), 1)).unwrap();
    let found = observe(&config, 2, &blocks, &labels, &[1]).unwrap();
    let (x, embeddings) = (blocks[1].matrix(), &found[0].predictions[1]);
    let mut order: Vec<usize> = (0..1200).collect();
    order.shuffle(&mut ChaCha20Rng::seed_from_u64(6));
    for attack in Attack::ALL {
        let error = |embeddings: &DMatrix<f64>| {
            let (told, embeddings, truth) = divided(embeddings, x, 200);
            mean_over_variance(&attack.estimate(&told, &embeddings, 100, 1).unwrap(), &truth)
        };
        let (own, others) = (error(embeddings), error(&embeddings.select_columns(&order)));
        assert!(own < 0.3, "{attack}: {own}");
        assert!(others > 0.97, "{attack}: {others}");
    }
}

fn plan(known: usize) -> TranscriptPlan {
    TranscriptPlan {
        subject: SubjectSpec {
            data: DatasetSpec::new(DatasetName::Satellite, None, 7).into(),
            first_column: 0,
            passive_features: Some(12),
            passive_parties: 1,
        },
        training: values(concat(&[32], 32), 2),
        adversary: Adversary::Coordinator,
        known,
        epochs: vec![1, 2],
        iterations: 60,
        seed: 7,
    }
}

fn satellite() -> &'static EmbeddingReport {
    static REPORT: OnceLock<EmbeddingReport> = OnceLock::new();
    REPORT.get_or_init(|| EmbeddingExperiment::prepare(&plan(100)).unwrap().run(&|_| ()).unwrap())
}

/// On a real set, on both occasions and for both parties, most of the variance that the control
/// leaves is gone, and the worst feature says so with an interval.
#[test]
fn a_hundred_known_records_of_satellite_give_most_of_all_others() {
    let report = satellite();
    assert_eq!(report.targets.iter().map(|t| t.attacked_features).collect::<Vec<_>>(), [24, 12]);
    for target in &report.targets {
        assert_eq!(target.embedding_width, 32);
        for results in &target.occasions {
            let expected = match results.occasion {
                Occasion::Training => report.training_records - 100,
                Occasion::Prediction => 2000,
            };
            assert_eq!(results.records, expected);
            let control = results.control.unwrap().error_over_variance;
            let bound = match results.occasion {
                Occasion::Training => 0.1..0.6,
                Occasion::Prediction => 0.9..1.2,
            };
            assert!(bound.contains(&control), "{control}");
            assert_eq!(results.attacks.len(), 4);
            for row in &results.attacks {
                let result = row.result.as_ref().unwrap();
                let error = result.accuracy.error_over_variance;
                assert!(error < 0.5 * control, "{} {}: {error}", target.features_of, row.attack);
                let worst = result.worst.as_ref().unwrap();
                assert!(worst.low > 0.5 && worst.low < worst.removed, "{worst:?}");
                assert!(worst.removed < worst.high && worst.high <= 1.0, "{worst:?}");
                assert_eq!(result.features.len(), target.attacked_features);
                assert!(result.features.iter().any(|of| of.attribute == worst.feature));
            }
        }
    }
    let text = report.text();
    assert!(text.contains("kernel_ridge, 2") && text.contains("inverse_network, 1"), "{text}");
}

/// Without known records the attacks are named, with what they need, beside the baselines.
#[test]
fn without_known_records_the_attacks_are_named() {
    let plan = TranscriptPlan { epochs: vec![1], ..plan(0) };
    let report = EmbeddingExperiment::prepare(&plan).unwrap().run(&|_| ()).unwrap();
    for results in report.targets.iter().flat_map(|target| &target.occasions) {
        assert!(results.attacks.iter().all(|row| row.result.is_none()));
        assert_eq!((results.attacks.len(), results.known_means), (2, None));
        assert!((results.column_means.error_over_variance - 1.0).abs() < 1e-9);
    }
    let text = report.text();
    for attack in Attack::ALL {
        assert!(text.contains(&format!("{attack}, 1")), "{text}");
    }
    assert!(text.contains("kernel_ridge and inverse_network need"), "{text}");
}

#[test]
fn plans_that_cannot_be_measured_are_refused() {
    let told =
        |plan: &TranscriptPlan| EmbeddingExperiment::prepare(plan).err().unwrap().to_string();
    let active = TranscriptPlan { adversary: Adversary::Active, ..plan(10) };
    assert!(told(&active).contains("--chair coordinator"));
    assert!(told(&plan(1_000_000)).contains("known records: 1000000"));
    let summed = TranscriptPlan { training: TrainingValues::default(), ..plan(10) };
    assert!(told(&summed).contains("under `concat`"));
    let shares = Experiment::prepare(&active).err().unwrap().to_string();
    assert!(shares.contains("combiner `sum`"), "{shares}");
}
