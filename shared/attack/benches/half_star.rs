//! Half* on 100 000 records of the size of satellite's (k = 6, d = 18 of 36 features, weights of the published model),
//! beside the bare matrix product it needs, and from the scores, with the logarithms on their own.
//!
//! The weights come from the golden vectors;
//! the features are drawn with a fixed seed, so that no data set is needed. All work is on one thread.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_attack::{AdversaryView, KnownModel, LinearSystem, Replacement};
use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits, ReleasedScores};

use crate::support::published_model;

mod support;

const RECORDS: usize = 100_000;
const PASSIVE: usize = 18;
const SEED: u64 = 20_220_711;

struct Case {
    model: KnownModel,
    system: LinearSystem,
    active: FeatureBlock,
    released: ReleasedScores,
    b_prime: DMatrix<f64>,
}

fn case() -> Case {
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
    let model = KnownModel::white_box(w_act, b, w_pas.clone()).expect("shapes");
    let system = LinearSystem::new(&w_pas).expect("finite weights");
    let view =
        AdversaryView::new(&model, &active, &released, Replacement::default()).expect("shapes");
    let b_prime = view.b_prime().expect("released scores").clone();
    drop(view);
    Case { model, system, active, released, b_prime }
}

fn half_star(c: &mut Criterion) {
    let case = case();
    let mut group = c.benchmark_group("half_star");
    group.throughput(Throughput::Elements(RECORDS as u64));
    let id = |name: &str| BenchmarkId::new(name, format!("n={RECORDS},d={PASSIVE}"));

    // What the bound stands on: A⁺ B' into memory of its own, as `nearest_half` gives its estimates.
    let inverse = case.system.pseudo_inverse();
    group.bench_function(id("bare_product"), |b| {
        b.iter(|| black_box(inverse) * black_box(&case.b_prime))
    });
    group.bench_function(id("from_b_prime"), |b| {
        b.iter(|| case.system.nearest_half(black_box(&case.b_prime)))
    });

    group.bench_function(id("from_scores"), |b| {
        b.iter(|| {
            let view = AdversaryView::new(
                &case.model,
                &case.active,
                black_box(&case.released),
                Replacement::default(),
            )
            .expect("shapes");
            case.system.nearest_half(view.b_prime().expect("released scores"))
        });
    });
    let ReleasedScores::Probabilities(scores) = &case.released else {
        unreachable!("probabilities were built above")
    };
    group.bench_function(id("logarithms"), |b| b.iter(|| black_box(scores).map(f64::ln)));
    group.finish();
}

criterion_group!(benches, half_star);
criterion_main!(benches);
