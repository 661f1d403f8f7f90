//! PRIVEE-DP with noise keyed by the record, per score vector, beside the same release with a dense K × K matrix as P's code
//! builds it (P table 9).
//!
//! Batches stay below the size from which columns go to several threads, so that times are those of one thread.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use vfl_coordinator::defense::{Defense, DefenseConfig, Noise, NoiseSecret, Privee};
use vfl_shared::types::RecordIds;

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
    let config: DefenseConfig = match "privee_dp (template = \"householder\")".parse() {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    };
    let mut group = criterion.benchmark_group("privee_dp");
    for k in [10, 100, 1000, 10_000] {
        let n = (10_000 / k).min(256);
        let scores = scores(k, n);
        let ids = match RecordIds::new((0..n).map(|i| format!("record-{i:06}"))) {
            Ok(ids) => ids,
            Err(error) => panic!("{error}"),
        };
        let noise = Noise::keyed(&key, &ids);
        let defense = match Privee::new(&config, k) {
            Ok(defense) => defense,
            Err(error) => panic!("{error}"),
        };
        group.throughput(Throughput::Elements(n as u64));
        group.bench_with_input(BenchmarkId::new("keyed", k), &scores, |bench, scores| {
            bench.iter_batched(|| scores.clone(), |s| black_box(defense.apply(s, &noise)), BatchSize::LargeInput);
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

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(std::time::Duration::from_secs(2)).warm_up_time(std::time::Duration::from_millis(500));
    targets = privee
}
criterion_main!(benches);
