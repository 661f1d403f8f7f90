//! Gradient inversion on 1000 records of the size of satellite's (k = 6, d = 18 of 36 features, weights of the published
//! model): 1000 steps per record, every loss, on one thread and on all; and the same through two perceptrons of J (8, 8, sigmoid) whose
//! outputs are added, and generative regression through them, which `scripts/pytorch/speed.py` does in PyTorch.
//!
//! The weights come from the golden vectors;
//! the features are drawn with a fixed seed, so that no data set is needed.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::ThreadPoolBuilder;
use vfl_attack::gradient_inversion::{Iterate, Loss};
use vfl_attack::{
    AdversaryView, Attack, GradientInversion, KnownModel, KnownNetwork, Method, Replacement,
    Settings,
};
use vfl_core::model::contract::{SubModelOrigin, start_of};
use vfl_core::model::{SubModel, SubModelSpec, kinds};
use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits, ReleasedScores};

use crate::support::published_model;

mod support;

const RECORDS: usize = 1000;
const PASSIVE: usize = 18;
const SEED: u64 = 20_220_711;

fn gradient_inversion(c: &mut Criterion) {
    let (w, b) = published_model();
    let (w_pas, w_act) =
        (w.columns(0, PASSIVE).into_owned(), w.columns_range(PASSIVE..).into_owned());
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let x = DMatrix::from_fn(w.ncols(), RECORDS, |_, _| rng.random::<f64>());
    let mut logits = &w * &x;
    for mut column in logits.column_iter_mut() {
        column += &b;
    }
    let scores = ConfidenceScores::softmax(Logits::new(logits).expect("finite logits"));
    let active = FeatureBlock::new(x.rows_range(PASSIVE..).into_owned()).expect("finite features");
    let released = ReleasedScores::Probabilities(scores.into_matrix());
    let model = KnownModel::white_box(w_act, b, w_pas).expect("shapes");
    let view =
        AdversaryView::new(&model, &active, &released, Replacement::default()).expect("shapes");

    let mut group = c.benchmark_group("gradient_inversion");
    group.throughput(Throughput::Elements(RECORDS as u64)).sample_size(10);
    let one = ThreadPoolBuilder::new().num_threads(1).build().expect("a pool of one thread");
    let all = ThreadPoolBuilder::new().build().expect("a pool");
    // A fixed number of steps, so that what is timed is a step.
    let default = GradientInversion::default()
        .with_steps(1000)
        .expect("in range")
        .with_stop_loss(0.0)
        .expect("in range");
    let mut attacks: Vec<_> =
        Loss::ALL.map(|loss| (loss.as_str(), default.with_loss(loss))).to_vec();
    attacks.push(("kl_best", default.with_loss(Loss::Kl).with_iterate(Iterate::Best)));
    for (name, attack) in attacks {
        for (threads, pool) in [("one", &one), ("all", &all)] {
            let id = BenchmarkId::new(name, format!("n={RECORDS},d={PASSIVE},threads={threads}"));
            group.bench_function(id, |b| {
                b.iter(|| {
                    pool.install(|| {
                        attack.reconstruct(black_box(&view), &mut ChaCha20Rng::seed_from_u64(SEED))
                    })
                });
            });
        }
    }
    group.finish();
}

/// A perceptron of J with weights that say something.
fn perceptron(seed: u64) -> Arc<dyn SubModel> {
    let settings = SubModelSpec::parse_settings(r#"{"hidden":[8,8],"activation":"sigmoid"}"#)
        .expect("settings");
    let spec = SubModelSpec::new("mlp", 6, settings).expect("a width");
    let origin =
        SubModelOrigin { spec, features: PASSIVE, active: seed == 1, start: start_of(seed) };
    let mut model = kinds::start(&origin).expect("a perceptron");
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    for tensor in model.tensors_mut() {
        tensor.values.iter_mut().for_each(|v| *v = 4.0 * rng.random::<f64>() - 2.0);
    }
    model.into()
}

fn through_networks(c: &mut Criterion) {
    let (own, passive) = (perceptron(1), perceptron(2));
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let mut features = || DMatrix::from_fn(PASSIVE, RECORDS, |_, _| rng.random::<f64>());
    let (y, x) = (features(), features());
    let share = own.outputs(&y).expect("outputs").into_matrix();
    let logits = &share + passive.outputs(&x).expect("outputs").matrix();
    let scores = ConfidenceScores::softmax(Logits::new(logits).expect("finite logits"));
    let released = ReleasedScores::Probabilities(scores.into_matrix());
    let w_act = DMatrix::identity(6, 6);
    let known = KnownNetwork::summed(vec![passive]);
    let model = KnownModel::of_network(w_act, DVector::zeros(6), known).expect("shapes");
    let active = FeatureBlock::new(share).expect("finite outputs");
    let view =
        AdversaryView::new(&model, &active, &released, Replacement::default()).expect("shapes");
    let mut group = c.benchmark_group("gradient_inversion_perceptron");
    group.throughput(Throughput::Elements(RECORDS as u64)).sample_size(10);
    let steps = GradientInversion::default()
        .with_steps(1000)
        .expect("in range")
        .with_stop_loss(0.0)
        .expect("in range");
    for loss in [Loss::Mse, Loss::LogSq] {
        let attack = steps.with_loss(loss);
        for (name, threads) in [("one", 1), ("all", 0)] {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            let id =
                BenchmarkId::new(loss.as_str(), format!("n={RECORDS},d={PASSIVE},threads={name}"));
            group.bench_function(id, |b| {
                b.iter(|| {
                    pool.install(|| {
                        attack.reconstruct(black_box(&view), &mut ChaCha20Rng::seed_from_u64(SEED))
                    })
                });
            });
        }
    }
    group.finish();

    // The generative regression network on the same: 10 epochs of batches of 64, one step each of generator and perceptron both ways.
    let settings =
        Settings::read([("generator", "published"), ("epochs", "10")]).expect("settings");
    let attack = Method::GenerativeRegression.build(&settings);
    let mut group = c.benchmark_group("generative_regression_perceptron");
    group.throughput(Throughput::Elements(10 * RECORDS as u64)).sample_size(10);
    for (name, threads) in [("one", 1), ("all", 0)] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        group.bench_function(
            BenchmarkId::new("published", format!("n={RECORDS},d={PASSIVE},threads={name}")),
            |b| {
                b.iter(|| {
                    pool.install(|| {
                        attack.reconstruct(black_box(&view), &mut ChaCha20Rng::seed_from_u64(SEED))
                    })
                });
            },
        );
    }
    group.finish();
}

criterion_group!(benches, gradient_inversion, through_networks);
criterion_main!(benches);
