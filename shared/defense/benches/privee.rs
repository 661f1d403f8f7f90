//! Defenses by number of classes, per score vector, on random score vectors (P table 9): PRIVEE-DP with noise keyed by the record, beside
//! the same release with a dense K × K matrix as P's code builds it, and P's other defenses.
//! Homomorphic encryption is in scripts/homomorphic.
//!
//! Batches stay below the size from which columns go to several threads, so that times are those of one thread.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use vfl_core::types::RecordIds;
use vfl_defense::{
    Defense, DefenseConfig, GaussianNoise, Noise, NoiseSecret, OrderPreservingEncryption, Privee,
    Rounding,
};

const SIGMA: f64 = 4.844_805_262_605_389;

fn scores(k: usize, n: usize) -> DMatrix<f64> {
    let mut rng = ChaCha12Rng::seed_from_u64(k as u64);
    let mut scores = DMatrix::from_fn(k, n, |_, _| (6.0 * rng.random::<f64>()).exp());
    scores.column_iter_mut().for_each(|mut c| c /= c.sum());
    scores
}

/// Ranks by sorting positions, A + diag(u σ) in full, one product.
fn dense(c: DVector<f64>, noise: &Noise<'_>, record: usize) -> DVector<f64> {
    let k = c.len();
    let mut order: Vec<usize> = (0..k).collect();
    order.sort_by(|&i, &j| c[j].total_cmp(&c[i]));
    let mut matrix = DMatrix::from_element(k, k, -2.0 / k as f64);
    let u: Vec<f64> = noise.record(record).random_iter().take(k).collect();
    for (rank, &at) in order.iter().enumerate() {
        matrix[(at, at)] += 1.0 + ((k - 1 - rank) as f64 + u[at]) / k as f64 * SIGMA;
    }
    matrix * c
}

fn privee(criterion: &mut Criterion) {
    let key = NoiseSecret::new([7; 32]).key("m", "p");
    let config: DefenseConfig = made("privee_dp (template = \"householder\")".parse());
    let mut group = criterion.benchmark_group("privee_dp");
    for k in [10, 100, 1000, 10_000] {
        let n = (10_000 / k).min(256);
        let scores = scores(k, n);
        let ids = made(RecordIds::new((0..n).map(|i| format!("record-{i:06}"))));
        let noise = Noise::keyed(&key, &ids);
        let defense = made(Privee::new(&config, k));
        group.throughput(Throughput::Elements(n as u64));
        group.bench_with_input(BenchmarkId::new("keyed", k), &scores, |bench, scores| {
            bench.iter_batched(
                || scores.clone(),
                |s| black_box(defense.apply(s, &noise)),
                BatchSize::LargeInput,
            );
        });
        if k <= 1000 {
            group.throughput(Throughput::Elements(1));
            group.bench_with_input(BenchmarkId::new("dense", k), &scores, |bench, scores| {
                bench.iter(|| black_box(dense(scores.column(0).into_owned(), &noise, 0)));
            });
        }
    }
    group.finish();
}

/// A value, or the benchmark ends.
fn made<T>(result: Result<T, impl std::fmt::Display>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// P's defenses with its settings.
fn table_9(k: usize) -> Vec<(&'static str, Box<dyn Defense>)> {
    let privee = |text: &str| Box::new(made(Privee::new(&made(text.parse()), k)));
    vec![
        ("privee_dp", privee("privee_dp (template = \"householder\")")),
        ("privee_dp_plus_plus", privee("privee_dp_plus_plus (template = \"householder\")")),
        ("order_preserving_encryption", Box::new(made(OrderPreservingEncryption::new(k)))),
        ("rounding", Box::new(made(Rounding::new(2)))),
        ("dp_gaussian", Box::new(made(GaussianNoise::private(0.5, 1e-5, 0.1)))),
    ]
}

/// One vector in a batch of its own, as P times it: with what a defense sets up for a batch.
fn defenses(criterion: &mut Criterion) {
    let key = NoiseSecret::new([7; 32]).key("m", "p");
    let ids = made(RecordIds::new(["record-000000".to_owned()]));
    for k in [10, 100, 1000, 10_000] {
        let scores = scores(k, 1);
        let noise = Noise::keyed(&key, &ids);
        let mut group = criterion.benchmark_group("table_9");
        for (name, defense) in table_9(k) {
            group.bench_with_input(BenchmarkId::new(name, k), &scores, |bench, scores| {
                bench.iter_batched(
                    || scores.clone(),
                    |s| black_box(defense.apply(s, &noise)),
                    BatchSize::LargeInput,
                );
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(std::time::Duration::from_secs(2)).warm_up_time(std::time::Duration::from_millis(500));
    targets = privee, defenses
}
criterion_main!(benches);
