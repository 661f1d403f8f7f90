//! The search of `stiefel` with its default settings, on seeded synthetic weights and rows: d = 48, k = 11 (the size of drive)
//! and d = 18, k = 6 (half of satellite). The objective reached is printed beside the time, since a search is as good as what
//! it finds.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::types::FeatureBlock;
use vfl_transform::{TransformConfig, natural_distance, rewrite};

const RECORDS: usize = 2000;
const SEED: u64 = 20_230_215;

fn stiefel(c: &mut Criterion) {
    let mut group = c.benchmark_group("stiefel");
    group.sample_size(10);
    for (d, k) in [(18, 6), (48, 11)] {
        let mut rng = ChaCha20Rng::seed_from_u64(SEED);
        let w = DMatrix::from_fn(k, d, |_, _| 4.0 * rng.random::<f64>() - 2.0);
        let x = DMatrix::from_fn(d, RECORDS, |_, _| rng.random::<f64>().powi(2));
        let x = FeatureBlock::new(x).expect("finite features");
        let epsilon = 0.1 * natural_distance(&w);
        let config = TransformConfig::Stiefel {
            epsilon,
            randomised: false,
            case: None,
            penalty: None,
            starts: None,
        };
        let run = || {
            rewrite(&config, black_box(&w), Some(&x), &mut ChaCha20Rng::seed_from_u64(SEED))
                .expect("a release")
        };
        let found = run();
        let g = (&found.weights - &w).norm_squared() / w.len() as f64;
        println!("d = {d}, k = {k}: ε = {epsilon:.6}, g = {g:.6}, {:?}", found.search);
        group.bench_function(BenchmarkId::from_parameter(format!("d={d},k={k}")), |b| b.iter(run));
    }
    group.finish();
}

criterion_group!(benches, stiefel);
criterion_main!(benches);
