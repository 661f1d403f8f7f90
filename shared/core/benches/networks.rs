//! Networks in one process: a training step of all parties and the head, and outputs of 10 000 records. `scripts/pytorch/speed.py` prints
//! the same rows of PyTorch; `cloison scale` has the steps over sockets. Features are random: times do not depend on them.
//!
//! ```text
//! cargo bench --profile dist -p vfl-core --bench networks
//! ```

use std::hint::black_box;
use std::time::Instant;

use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::model::contract::start_of;
use vfl_core::model::{
    Combiner, HeadLearner, ModelConfig, PartyLearner, Settings, SubModel, TrainingConfig,
    TrainingValues, cross_entropy, heads, kinds,
};
use vfl_core::types::FeatureBlock;

/// Records of a training batch.
const BATCH: usize = 64;
/// Records of an outputs row.
const MANY: usize = 10_000;

struct Shape {
    name: &'static str,
    model: ModelConfig,
    features: usize,
    classes: usize,
    /// Steps of a run, and records whose outputs are timed.
    steps: usize,
    records: usize,
}

fn settings(value: serde_json::Value) -> Settings {
    value.as_object().expect("an object").clone()
}

fn shapes() -> [Shape; 3] {
    let j = settings(serde_json::json!({ "hidden": [8, 8] }));
    let p = settings(serde_json::json!({ "hidden": [128], "activation": "relu" }));
    let image = settings(serde_json::json!({ "channels": 3, "height": 32 }));
    let model = |combiner, kind, width, settings| {
        ModelConfig::new(combiner, kind, width, settings).expect("a model")
    };
    [
        Shape {
            name: "J, 2 x (18-8-8-6), summed",
            model: model(Combiner::Sum, "mlp", None, j),
            features: 18,
            classes: 6,
            steps: 500,
            records: MANY,
        },
        Shape {
            name: "P, 2 x (392-128-64), concat-10",
            model: model(Combiner::Concat, "mlp", Some(64), p),
            features: 392,
            classes: 10,
            steps: 100,
            records: MANY,
        },
        Shape {
            name: "P, 2 x residual (3x32x16), concat-10",
            model: model(Combiner::Concat, "residual", Some(64), image),
            features: 3 * 32 * 16,
            classes: 10,
            steps: 4,
            records: 500,
        },
    ]
}

fn main() {
    // `cargo test --benches` runs this too, unoptimised: only `cargo bench` says `--bench`.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    println!(
        "{:<40} {:>8} {:>16} {:>24}",
        "", "threads", "ms a step of 64", "us a record, outputs"
    );
    for threads in [1, std::thread::available_parallelism().map_or(1, usize::from)] {
        // Perceptrons take one thread whatever there are.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| shapes().iter().for_each(|shape| row(shape, threads)));
    }
}

fn row(shape: &Shape, threads: usize) {
    let Shape { name, model, features, classes, steps, records } = shape;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut block = |n: usize| DMatrix::from_fn(*features, n, |_, _| rng.random::<f64>());
    let values =
        TrainingValues { model: model.clone(), learning_rate: 1e-3, ..TrainingValues::default() };
    let config = TrainingConfig::try_from(values).expect("a training");
    let k = *classes as u32;
    let party = model.sub_model(k).expect("a sub-model");
    let mut learners: Vec<PartyLearner> = [true, false]
        .map(|active| {
            let block = FeatureBlock::new(block(BATCH)).expect("features");
            PartyLearner::new(&config, *classes, block, active).expect("a learner")
        })
        .into();
    let whole = model.model(k, party.clone(), vec![party]).expect("a model");
    let mut head = HeadLearner::new(&config, heads::start(&whole, k, start_of(1)).expect("a head"));
    let labels: Vec<u32> = (0..BATCH as u32).map(|n| n % k).collect();
    let positions: Vec<u32> = (0..BATCH as u32).collect();
    let mut step = || {
        let shares = learners
            .iter_mut()
            .map(|party| party.shares(&positions, false).expect("shares"))
            .collect();
        let (_, gradient, _) = cross_entropy(head.logits(shares, false).expect("logits"), &labels);
        for (party, gradient) in learners.iter_mut().zip(head.update(gradient).expect("gradients"))
        {
            party.update(gradient.matrix()).expect("a step");
        }
    };
    step();
    let ms = best(3, || (0..*steps).for_each(|_| step())) * 1e3 / *steps as f64;
    let many = block(*records);
    let parameters = learners[0].parameters(false).expect("parameters");
    let model: Box<dyn SubModel> = kinds::restore(&parameters).expect("a sub-model");
    let us =
        best(3, || drop(black_box(model.outputs(&many).expect("outputs")))) * 1e6 / *records as f64;
    println!("{name:<40} {threads:>8} {ms:>16.3} {us:>24.2}");
}

/// The shortest of some runs, in seconds.
fn best(runs: usize, mut run: impl FnMut()) -> f64 {
    let times = (0..runs).map(|_| {
        let begun = Instant::now();
        run();
        begun.elapsed().as_secs_f64()
    });
    times.fold(f64::INFINITY, f64::min)
}
