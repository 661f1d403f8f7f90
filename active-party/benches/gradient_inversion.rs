//! Gradient inversion on 1000 records of the size of satellite's (k = 6, d = 18 of 36 features, weights of the published
//! model): 1000 steps per record, every loss, on one thread and on all.
//!
//! The weights come from the golden vectors;
//! the features are drawn with a fixed seed, so that no data set is needed.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::ThreadPoolBuilder;
use vfl_active_party::attack::gradient_inversion::{Iterate, Loss};
use vfl_active_party::attack::{AdversaryView, Attack, GradientInversion, KnownModel, Replacement};
use vfl_shared::types::{ConfidenceScores, FeatureBlock, Logits, ReleasedScores};

use crate::support::published_model;

mod support;

const RECORDS: usize = 1000;
const PASSIVE: usize = 18;
const SEED: u64 = 20_220_711;

fn gradient_inversion(c: &mut Criterion) {
    let (w, b) = published_model();
    let (w_pas, w_act) = (w.columns(0, PASSIVE).into_owned(), w.columns_range(PASSIVE..).into_owned());
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
    let view = AdversaryView::new(&model, &active, &released, Replacement::default()).expect("shapes");

    let mut group = c.benchmark_group("gradient_inversion");
    group.throughput(Throughput::Elements(RECORDS as u64)).sample_size(10);
    let one = ThreadPoolBuilder::new().num_threads(1).build().expect("a pool of one thread");
    let all = ThreadPoolBuilder::new().build().expect("a pool");
    // A fixed number of steps, so that what is timed is a step.
    let default =
        GradientInversion::default().with_steps(1000).expect("in range").with_stop_loss(0.0).expect("in range");
    let mut attacks: Vec<_> = Loss::ALL.map(|loss| (loss.as_str(), default.with_loss(loss))).to_vec();
    attacks.push(("kl_best", default.with_loss(Loss::Kl).with_iterate(Iterate::Best)));
    for (name, attack) in attacks {
        for (threads, pool) in [("one", &one), ("all", &all)] {
            let id = BenchmarkId::new(name, format!("n={RECORDS},d={PASSIVE},threads={threads}"));
            group.bench_function(id, |b| {
                b.iter(|| pool.install(|| attack.reconstruct(black_box(&view), &mut ChaCha20Rng::seed_from_u64(SEED))));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, gradient_inversion);
criterion_main!(benches);
