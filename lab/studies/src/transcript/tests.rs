#![allow(clippy::unwrap_used)]

use rand::RngExt;
use vfl_core::model::{PartyLearner, cross_entropy};
use vfl_core::types::{FeatureBlock, Logits};

use super::*;

/// n records of d_act active and d passive features, independent and uniform, with labels of a noisy linear model.
fn subject(
    n: usize,
    d_act: usize,
    d: usize,
    classes: usize,
    seed: u64,
) -> (DMatrix<f64>, DMatrix<f64>, Vec<u32>) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut uniform = |r: usize, c: usize| DMatrix::from_fn(r, c, |_, _| rng.random::<f64>());
    let (own, x) = (uniform(d_act, n), uniform(d, n));
    let weights = uniform(classes, d_act + d).map(|v| 8.0 * (v - 0.5));
    let noise = uniform(classes, n);
    let labels = (0..n)
        .map(|r| {
            let z = (0..classes).map(|k| {
                let w = weights.row(k);
                (0..d_act).map(|i| w[i] * own[(i, r)]).sum::<f64>()
                    + (0..d).map(|i| w[d_act + i] * x[(i, r)]).sum::<f64>()
                    + noise[(k, r)]
            });
            let z: Vec<f64> = z.collect();
            vfl_numerics::arg_max(&z) as u32
        })
        .collect();
    (own, x, labels)
}

fn config(epochs: u32) -> TrainingConfig {
    TrainingConfig::try_from(TrainingValues {
        epochs,
        patience: epochs,
        seed: 4,
        ..Default::default()
    })
    .unwrap()
}

/// The steps hold W_t x of every record, up to a number per record, exactly: checked against the
/// passive learner's own shares.
#[test]
fn a_transcript_is_the_passive_logits() {
    let (own, x, labels) = subject(300, 3, 4, 3, 1);
    let config = config(3);
    let block = |m: &DMatrix<f64>| FeatureBlock::new(m.clone()).unwrap();
    let transcript = record(&config, 3, block(&own), vec![block(&x)], labels.clone()).unwrap();
    let mut schedule = Schedule::new(&config, 300);
    let mut active = PartyLearner::new(&config, 3, block(&own), true).unwrap();
    let mut passive = PartyLearner::new(&config, 3, block(&x), false).unwrap();
    let mut steps = transcript.steps.iter();
    let mut seen = 0;
    for _ in 0..3 {
        for batch in schedule.next_epoch() {
            let (a, p) =
                (active.shares(&batch, false).unwrap(), passive.shares(&batch, false).unwrap());
            let mut expected = p.matrix().clone();
            expected.column_iter_mut().for_each(|mut c| {
                let mean = c.mean();
                c.add_scalar_mut(-mean);
            });
            let step = steps.next().unwrap();
            assert_eq!(step.positions, batch);
            assert!((&step.logits - &expected).amax() < 1e-12);
            seen += usize::from(expected.amax() > 0.1);
            let y: Vec<u32> = batch.iter().map(|&p| labels[p as usize]).collect();
            let (_, gradient, _) = cross_entropy(Logits::sum(a, [p]).unwrap(), &y);
            active.update(&gradient).unwrap();
            passive.update(&gradient).unwrap();
        }
    }
    assert!(steps.next().is_none());
    assert!(seen > 3, "the comparison is of logits that differ from 0");
}

/// With as many known records as features, independent features and many more equations than are needed, every other
/// record comes out; without the equations, it does not.
#[test]
fn a_few_epochs_give_every_record() {
    let (own, x, labels) = subject(700, 4, 5, 4, 2);
    let config = config(20);
    let block = |m: &DMatrix<f64>| FeatureBlock::new(m.clone()).unwrap();
    let transcript = record(&config, 4, block(&own), vec![block(&x)], labels).unwrap();
    let trained: Vec<usize> =
        Schedule::new(&config, 700).training().iter().map(|&p| p as usize).collect();
    let (known, others) = trained.split_at(5);
    let truth = x.select_columns(known);
    let after = |epochs: usize| {
        let estimates = reconstruct(&transcript, transcript.first(epochs), known, &truth, 300);
        accuracy(&estimates.x, &x, others)
    };
    let (one, many) = (after(1), after(20));
    assert!(many.error_over_variance < 1e-3, "{many:?}");
    assert!(many.records_within_0_01 > 0.9, "{many:?}");
    assert!(one.error_over_variance > 100.0 * many.error_over_variance, "{one:?} {many:?}");
}

/// A passive party, which reads the labels, reconstructs the active party's features from known
/// records as the active party does those of the passive party; the bias is no obstacle.
#[test]
fn a_passive_party_with_known_records_gives_every_record() {
    let (own, x, labels) = subject(700, 4, 5, 4, 2);
    let config = config(20);
    let blocks = [&own, &x].map(|m| FeatureBlock::new(m.clone()).unwrap());
    let targets = Adversary::Passive.observe(&config, 4, &blocks, &labels).unwrap();
    let transcript = &targets[0].transcript;
    let trained: Vec<usize> =
        Schedule::new(&config, 700).training().iter().map(|&p| p as usize).collect();
    let (known, others) = trained.split_at(5);
    let truth = own.select_columns(known);
    let estimates = reconstruct(transcript, transcript.first(20), known, &truth, 300);
    let found = accuracy(&estimates.x, &own, others);
    assert!(found.error_over_variance < 1e-3, "{found:?}");
    let half = accuracy(&DMatrix::from_element(4, 700, 0.5), &own, others);
    assert!(half.error_over_variance > 0.9, "{half:?}");
}

/// The coordinator's attack takes no known records, and says so.
#[test]
fn the_coordinator_with_known_records_is_refused() {
    let data = vfl_datasets::DatasetSpec::new("synthetic".parse().unwrap(), None, 1).into();
    let plan = TranscriptPlan {
        subject: SubjectSpec { data, first_column: 0, passive_features: None, passive_parties: 1 },
        training: TrainingValues::default(),
        adversary: Adversary::Coordinator,
        known: 3,
        epochs: vec![1],
        iterations: 1,
        seed: 1,
    };
    let Err(error) = Experiment::prepare(&plan) else { panic!("it was not refused") };
    assert!(error.to_string().contains("take --known 0"), "{error}");
}

/// The measures against figures worked out by hand.
#[test]
fn accuracy_is_what_it_says() {
    let truth = DMatrix::from_row_slice(2, 3, &[0.0, 0.5, 9.0, 1.0, 0.5, 9.0]);
    let estimates = DMatrix::from_row_slice(2, 3, &[0.0, 0.5, 0.0, 0.8, 0.505, 0.0]);
    let a = accuracy(&estimates, &truth, &[0, 1]);
    let mse = (0.04 + 0.000_025) / 4.0;
    assert!((a.mean_squared_error - mse).abs() < 1e-15);
    assert!((a.error_over_variance - mse / 0.0625).abs() < 1e-12);
    assert_eq!((a.values_within_0_01, a.records_within_0_01), (0.75, 0.5));
    assert!((a.median_largest_error - 0.2).abs() < 1e-12);
}
