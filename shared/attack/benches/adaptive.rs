//! Adaptive attacks on 2000 records of the size of satellite's (k = 6, d = 18 of 36 features, weights of the published model):
//! scores rounded to one decimal, and the labels alone, for each centre. All work is on one thread.
//!
//! The weights come from the golden vectors; the
//! features are drawn with a fixed seed.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_attack::{AdversaryView, Centre, KnownModel, KnownPolicy, Method, Replacement};
use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits, ReleasedScores};

use crate::support::published_model;

mod support;

const RECORDS: usize = 2000;
const PASSIVE: usize = 18;
const SEED: u64 = 20_220_711;

fn adaptive(c: &mut Criterion) {
    let (w, b) = published_model();
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let x = DMatrix::from_fn(w.ncols(), RECORDS, |_, _| rng.random::<f64>());
    let mut logits = &w * &x;
    logits.column_iter_mut().for_each(|mut column| column += &b);
    let scores =
        ConfidenceScores::softmax(Logits::new(logits).expect("finite logits")).into_matrix();
    let (w_pas, w_act) =
        (w.columns(0, PASSIVE).into_owned(), w.columns_range(PASSIVE..).into_owned());
    let active = FeatureBlock::new(x.rows_range(PASSIVE..).into_owned()).expect("finite features");
    let model = KnownModel::white_box(w_act, b, w_pas).expect("shapes");
    let rounded = ReleasedScores::Numbers(scores.map(|v| (v * 10.0).round_ties_even() / 10.0));
    let labels = ReleasedScores::Labels {
        classes: scores.nrows(),
        labels: ReleasedScores::Numbers(scores).predicted_labels(),
    };
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");

    let mut group = c.benchmark_group("adaptive");
    group.throughput(Throughput::Elements(RECORDS as u64)).sample_size(10);
    for (method, policy, released) in [
        (Method::Interval, "rounding (decimals = 1)", &rounded),
        (Method::LabelCone, "class_label", &labels),
    ] {
        let view =
            AdversaryView::new(&model, &active, released, Replacement::default()).expect("shapes");
        for (name, centre) in [
            ("half", Centre::Half),
            ("analytic", Centre::Analytic),
            ("likely", Centre::Likely),
            ("posterior", Centre::Posterior),
        ] {
            let policy = policy.parse().expect("a policy");
            let known = KnownPolicy { policy, centre: Some(centre), ..KnownPolicy::default() };
            let attack = method.build(&known.settings());
            let id =
                BenchmarkId::new(format!("{method}/{name}"), format!("n={RECORDS},d={PASSIVE}"));
            group.bench_function(id, |bencher| {
                one_thread.install(|| {
                    bencher.iter(|| {
                        attack.reconstruct(black_box(&view), &mut ChaCha20Rng::seed_from_u64(1))
                    });
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, adaptive);
criterion_main!(benches);
