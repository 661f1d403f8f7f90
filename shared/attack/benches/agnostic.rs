//! The agnostic attack and the examination of released parameters, at the size of satellite (k = 6, weights of the published
//! model): the fit of an adversary model to 2000 labelled records, with and without 100 scores seen; 2000 records held against
//! negated parameters (d = 18), and searches over signs and orders that find nothing (d = 12, 200 records;
//! d = 18, 2000 records). One thread.
//!
//! The weights come from the golden vectors; the
//! features are drawn with a fixed seed.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_attack::adaptive::{TransformEvidence, UndoTransform};
use vfl_attack::agnostic::AdversaryModel;
use vfl_attack::{
    AdversaryView, AgnosticSettings, HalfStar, KnownModel, KnownPolicy, LabelledRecords,
    ObservedRecords, Replacement,
};
use vfl_core::model::TrainingConfig;
use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits, ReleasedScores};

use crate::support::published_model;

mod support;

const RECORDS: usize = 2000;
const SEED: u64 = 20_220_711;

fn drawn() -> (DMatrix<f64>, DVector<f64>, DMatrix<f64>, DMatrix<f64>) {
    let (w, b) = published_model();
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let x = DMatrix::from_fn(w.ncols(), RECORDS, |_, _| rng.random::<f64>());
    let mut logits = &w * &x;
    logits.column_iter_mut().for_each(|mut column| column += &b);
    let scores =
        ConfidenceScores::softmax(Logits::new(logits).expect("finite logits")).into_matrix();
    (w, b, x, scores)
}

fn fit(c: &mut Criterion) {
    let (w, _, x, scores) = drawn();
    let y = FeatureBlock::new(x.rows_range(18..).into_owned()).expect("finite features");
    let seen = FeatureBlock::new(y.matrix().columns(0, 100).into_owned()).expect("finite features");
    let released = ReleasedScores::Probabilities(scores.columns(0, 100).into_owned());
    let labels = ReleasedScores::Numbers(scores).predicted_labels();
    let own = LabelledRecords { y, labels };
    let mut group = c.benchmark_group("agnostic");
    group.throughput(Throughput::Elements(RECORDS as u64)).sample_size(10);
    for (name, seen) in
        [("am", None), ("ram", Some(ObservedRecords { y: &seen, released: &released }))]
    {
        group.bench_function(BenchmarkId::new(name, format!("n={RECORDS},d_act=18")), |bencher| {
            let (settings, recipe) = (AgnosticSettings::default(), TrainingConfig::default());
            bencher.iter(|| {
                AdversaryModel::fit(
                    &settings,
                    &recipe,
                    w.nrows(),
                    black_box(&own),
                    seen,
                    Replacement::default(),
                )
            });
        });
    }
}

fn undo(c: &mut Criterion) {
    let (w, b, x, scores) = drawn();
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let mut group = c.benchmark_group("undo_transform");
    group.sample_size(10);
    for (name, d, records) in
        [("negate", 18, RECORDS), ("search", 12, 200), ("search", 18, RECORDS)]
    {
        let shown = match name {
            "negate" => -w.columns(0, d),
            // Parameters of other features: nothing explains them.
            _ => w.columns(18, d).into_owned(),
        };
        let model = KnownModel::white_box(w.columns_range(d..).into_owned(), b.clone(), shown)
            .expect("shapes");
        let y = FeatureBlock::new(x.view((d, 0), (w.ncols() - d, records)).into_owned())
            .expect("finite features");
        let released = ReleasedScores::Probabilities(scores.columns(0, records).into_owned());
        let view =
            AdversaryView::new(&model, &y, &released, Replacement::default()).expect("shapes");
        let attack = UndoTransform {
            inner: Box::new(HalfStar { clamped: true }),
            grounds: TransformEvidence::default(),
            known: KnownPolicy::default(),
        };
        group.throughput(Throughput::Elements(records as u64));
        group.bench_function(BenchmarkId::new(name, format!("n={records},d={d}")), |bencher| {
            one_thread.install(|| bencher.iter(|| attack.examine(black_box(&view))));
        });
    }
}

criterion_group!(benches, fit, undo);
criterion_main!(benches);
