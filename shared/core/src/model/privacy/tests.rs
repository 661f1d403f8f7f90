use nalgebra::DMatrix;
use proptest::prelude::*;
use rand::RngExt;

use super::*;
use crate::model::contract::{SubModel, SubModelOrigin, start_of};
use crate::model::{
    Combiner, LearnerError, ModelConfig, PartyLearner, SubModelSpec, TrainingValues,
};
use crate::types::FeatureBlock;

const SECRET: InitialSeed = [7; 32];

fn random(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| 2.0 * rng.random::<f64>() - 1.0)
}

/// Five features, four outputs; `hidden` empty: softmax regression. Parameters are random.
fn model(hidden: &[usize], activation: &str, active: bool, seed: u64) -> Box<dyn SubModel> {
    let spec = match hidden {
        [] => SubModelSpec::softmax_regression(4),
        _ => {
            let settings = serde_json::json!({ "hidden": hidden, "activation": activation });
            SubModelSpec::new("mlp", 4, settings.as_object().unwrap().clone()).unwrap()
        }
    };
    let mut model =
        kinds::start(&SubModelOrigin { spec, features: 5, active, start: start_of(seed) }).unwrap();
    for (at, tensor) in model.tensors_mut().into_iter().enumerate() {
        let values = random(tensor.values.len(), 1, 100 * seed + at as u64);
        tensor.values.copy_from_slice(values.as_slice());
    }
    model
}

/// All depths and activations, of both roles.
fn models() -> Vec<(String, Box<dyn SubModel>)> {
    let mut all = Vec::new();
    for active in [true, false] {
        all.push((format!("softmax regression, active {active}"), model(&[], "", active, 1)));
        for hidden in [&[8][..], &[8, 8], &[3, 1, 7]] {
            for activation in ["sigmoid", "tanh", "relu"] {
                let name = format!("mlp {hidden:?} {activation}, active {active}");
                all.push((name, model(hidden, activation, active, 2)));
            }
        }
    }
    all
}

/// The gradient of one record alone, all blocks end to end.
fn alone(
    model: &mut dyn SubModel,
    x: &DMatrix<f64>,
    gradient: &DMatrix<f64>,
    record: usize,
) -> Vec<f64> {
    model.forward(x.columns(record, 1).into_owned()).unwrap();
    model.backward(&gradient.columns(record, 1).into_owned(), false).unwrap().parameters.concat()
}

fn length(values: &[f64]) -> f64 {
    // Large numbers must not overflow where the length does not.
    let most = values.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    if most == 0.0 {
        0.0
    } else {
        most * values.iter().map(|v| (v / most).powi(2)).sum::<f64>().sqrt()
    }
}

fn config(clip: f64, noise: f64, max_epsilon: Option<f64>) -> PrivacyConfig {
    PrivacyConfig::try_from(PrivacyValues { clip, noise, delta: 1e-5, max_epsilon }).unwrap()
}

/// Beside what a file can ask for: without noise.
fn without_noise(clip: f64) -> PrivacyConfig {
    let mut config = config(clip, 1.0, None);
    config.values.noise = 0.0;
    config
}

/// The obvious form: one record at a time backwards, clipped, added.
#[test]
fn clipping_columns_is_clipping_records() {
    let (clip, records) = (0.5, 9);
    for (name, mut model) in models() {
        let x = random(5, records, 3).abs();
        let mut gradient = random(4, records, 4);
        // Some parts are longer than the bound, others shorter, and one is nothing.
        for (record, mut column) in gradient.column_iter_mut().enumerate() {
            column *= 10f64.powi(record as i32 - 5);
        }
        gradient.column_mut(2).fill(0.0);
        let bound = clip / records as f64;
        let mut expected: Vec<f64> = Vec::new();
        let (mut shortened, mut squares_expected) = (0, Vec::new());
        for record in 0..records {
            let part = alone(&mut *model, &x, &gradient, record);
            let length = length(&part);
            squares_expected.push(length * length);
            let scale = if length > bound { bound / length } else { 1.0 };
            shortened += usize::from(scale < 1.0);
            expected.resize(part.len(), 0.0);
            expected.iter_mut().zip(&part).for_each(|(sum, v)| *sum += scale * v);
        }
        assert!((1..records).contains(&shortened), "{name}: {shortened} parts are shortened");
        model.forward(x.clone()).unwrap();
        let squares = model.squared_norms(&gradient).unwrap().unwrap();
        for (got, expected) in squares.iter().zip(&squares_expected) {
            assert!((got - expected).abs() <= 1e-12 * expected, "{name}: {got}, {expected}");
        }
        let privacy = Privacy::new(without_noise(clip), records, SECRET);
        let clipped = privacy.clipped(&gradient, &squares);
        let got = model.backward(&clipped, false).unwrap().parameters.concat();
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(&expected) {
            assert!((got - expected).abs() <= 1e-12, "{name}: {got}, {expected}");
        }
    }
}

#[test]
fn squared_norms_want_the_gradient_of_the_last_batch_and_leave_it() {
    for (name, mut model) in models() {
        let gradient = random(4, 3, 5);
        assert!(model.squared_norms(&gradient).is_err(), "{name}: no batch");
        model.forward(random(5, 3, 6)).unwrap();
        assert!(model.squared_norms(&random(3, 3, 5)).is_err(), "{name}: other outputs");
        assert!(model.squared_norms(&random(4, 2, 5)).is_err(), "{name}: other records");
        assert_eq!(model.squared_norms(&gradient), model.squared_norms(&gradient), "{name}");
        model.backward(&gradient, false).unwrap();
        assert!(kinds::find(model.spec().kind()).unwrap().tells_records_apart(), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever gradient a coordinator sends: no record's part of the mean is longer than γ / B.
    #[test]
    fn no_record_has_more_than_its_part(
        seed in 0u64..1000,
        which in 0usize..20,
        clip in 1e-3..1e3f64,
        records in 1usize..8,
        scales in proptest::collection::vec(-200i32..300, 8),
    ) {
        let mut all = models();
        let at = which % all.len();
        let (name, model) = &mut all[at];
        let x = random(5, records, seed).abs();
        let mut gradient = random(4, records, seed + 1);
        for (mut column, scale) in gradient.column_iter_mut().zip(scales) {
            column *= 10f64.powi(scale);
        }
        model.forward(x.clone()).unwrap();
        let squares = model.squared_norms(&gradient).unwrap().unwrap();
        let clipped = Privacy::new(without_noise(clip), records, SECRET).clipped(&gradient, &squares);
        for record in 0..records {
            let part = length(&alone(&mut **model, &x, &clipped, record));
            prop_assert!(part <= clip / records as f64 * (1.0 + 1e-12), "{name}: {part}");
            let before = length(&alone(&mut **model, &x, &gradient, record));
            if before < clip / records as f64 * (1.0 - 1e-12) && before > 1e-140 {
                prop_assert_eq!(clipped.column(record), gradient.column(record));
            }
        }
    }
}

fn training(epochs: u32, model: ModelConfig) -> TrainingConfig {
    TrainingConfig::try_from(TrainingValues {
        epochs,
        learning_rate: 0.05,
        model,
        ..Default::default()
    })
    .unwrap()
}

fn networks() -> [ModelConfig; 2] {
    let hidden = serde_json::json!({ "hidden": [8, 8] });
    let mlp =
        ModelConfig::new(Combiner::Sum, "mlp", None, hidden.as_object().unwrap().clone()).unwrap();
    [ModelConfig::default(), mlp]
}

fn learner(model: ModelConfig, privacy: Option<(PrivacyConfig, InitialSeed)>) -> PartyLearner {
    let config = training(10, model);
    let block = FeatureBlock::new(random(5, 20, 8).abs()).unwrap();
    let learner = PartyLearner::new(&config, 4, block, true).unwrap();
    match privacy {
        Some((privacy, seed)) => learner.with_privacy(privacy, &config, seed).unwrap(),
        None => learner,
    }
}

/// Parameters after a few updates with random gradients.
fn trained(mut learner: PartyLearner) -> Vec<f64> {
    for step in 0..6 {
        let batch: Vec<u32> = (0..10).map(|at| (2 * at + step) % 20).collect();
        learner.shares(&batch, false).unwrap();
        learner.shares(&[0, 0], true).unwrap();
        learner.update(&random(4, 10, u64::from(step))).unwrap();
    }
    learner.parameters(false).unwrap().blocks.into_iter().flat_map(|block| block.values).collect()
}

#[test]
fn nothing_to_clip_and_no_noise_is_training_without_privacy() {
    for model in networks() {
        let without = trained(learner(model.clone(), None));
        assert_eq!(trained(learner(model.clone(), Some((without_noise(1e6), SECRET)))), without);
        assert_ne!(trained(learner(model, Some((without_noise(0.1), SECRET)))), without);
    }
}

#[test]
fn another_secret_gives_other_parameters() {
    for model in networks() {
        let private = |seed| trained(learner(model.clone(), Some((config(1.0, 1.0, None), seed))));
        assert_eq!(private(SECRET), private(SECRET));
        assert_ne!(private(SECRET), private([8; 32]));
    }
}

/// 40 000 draws: the deviation of the sample is within 1.5 % of the true one but in one case of 10 000.
#[test]
fn noise_has_the_scale_of_the_batch() {
    for (clip, noise, records) in [(1.0, 4.0, 100), (0.25, 0.5, 7)] {
        let mut privacy = Privacy::new(config(clip, noise, None), records, SECRET);
        let mut gradients = vec![vec![0.0; 10_000], vec![0.0; 30_000]];
        privacy.blur(&mut gradients, records);
        let all = gradients.concat();
        let n = all.len() as f64;
        let mean = all.iter().sum::<f64>() / n;
        let deviation = (all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        let expected = noise * clip / records as f64;
        assert!((deviation / expected - 1.0).abs() < 0.015, "{deviation}, expected {expected}");
        assert!(mean.abs() < 4.0 * expected / n.sqrt(), "{mean}");
        let first = gradients.clone();
        gradients.iter_mut().for_each(|block| block.fill(0.0));
        privacy.blur(&mut gradients, records);
        assert_ne!(gradients, first);
    }
}

/// What two data sets that differ in one record make of an update differs by at most 2 γ / B.
#[test]
fn a_replaced_record_moves_an_update_by_twice_the_clip() {
    let (clip, records) = (0.5, 6);
    for (name, mut model) in models() {
        let mut sums = Vec::new();
        for other in [10, 11, 12] {
            let mut x = random(5, records, 9).abs();
            x.set_column(3, &random(5, 1, other).abs().column(0));
            let mut gradient = random(4, records, 13);
            gradient.set_column(3, &random(4, 1, other + 10).column(0));
            model.forward(x).unwrap();
            let squares = model.squared_norms(&gradient).unwrap().unwrap();
            let clipped =
                Privacy::new(without_noise(clip), records, SECRET).clipped(&gradient, &squares);
            sums.push(model.backward(&clipped, false).unwrap().parameters.concat());
        }
        for other in &sums[1..] {
            let moved: Vec<f64> = sums[0].iter().zip(other).map(|(a, b)| a - b).collect();
            let most = 2.0 * clip / records as f64;
            assert!(
                length(&moved) <= most * (1.0 + 1e-12) && length(&moved) > 0.0,
                "{name}: {}",
                length(&moved)
            );
        }
    }
}

#[test]
fn updates_are_counted_by_record() {
    let privacy = config(1.0, 4.0, None);
    let mut learner = learner(ModelConfig::default(), Some((privacy, SECRET)));
    assert_eq!(learner.privacy().map(|p| (p.steps, p.epsilon)), Some((0, 0.0)));
    for (batch, steps) in
        [(&[0, 1][..], 1), (&[2, 3], 1), (&[3, 4, 5], 2), (&[0], 2), (&[19, 3], 3)]
    {
        learner.shares(batch, false).unwrap();
        // What is looked at alone is not counted.
        learner.shares(&[3, 3, 3], true).unwrap();
        learner.update(&random(4, batch.len(), 1)).unwrap();
        let said = learner.privacy().unwrap();
        assert_eq!((said.steps, said.epsilon), (steps, privacy.epsilon(steps)));
        assert_eq!((said.clip, said.noise, said.delta), (1.0, 4.0, 1e-5));
    }
    // A batch without a gradient costs nothing.
    learner.shares(&[3], false).unwrap();
    assert_eq!(learner.privacy().unwrap().steps, 3);
    let twice = learner.shares(&[4, 3, 4], false).unwrap_err();
    assert_eq!(twice, PrivacyError::Twice { position: 4 }.into());
    assert_eq!(learner.update(&random(4, 3, 1)), Err(LearnerError::NoBatch));
    // Nor does a gradient that is refused.
    learner.shares(&[3], false).unwrap();
    assert!(learner.update(&DMatrix::from_element(4, 1, f64::NAN)).is_err());
    assert_eq!(learner.privacy().unwrap().steps, 3);
}

#[test]
fn no_record_passes_the_largest_epsilon() {
    let free = config(1.0, 4.0, None);
    let most = free.epsilon(3);
    let bounded = config(1.0, 4.0, Some(most));
    assert_eq!(bounded.most_steps(), Some(3));
    for model in networks() {
        free.check(&training(4, model.clone())).unwrap();
        bounded.check(&training(3, model.clone())).unwrap();
        let refused = bounded.check(&training(4, model)).unwrap_err().to_string();
        for part in [
            "4 epochs",
            "`max_epsilon`",
            "at most 3 epochs",
            "`noise`",
            &format!("{:.3}", free.epsilon(4)),
        ] {
            assert!(refused.contains(part), "{refused}");
        }
    }
    // A coordinator that names a record more often than there are epochs.
    let block = FeatureBlock::new(random(5, 20, 8).abs()).unwrap();
    let config = training(2, ModelConfig::default());
    let learner = PartyLearner::new(&config, 4, block, false).unwrap();
    let mut learner = learner.with_privacy(bounded, &config, SECRET).unwrap();
    for others in 0..3 {
        learner.shares(&[4 + others, 2], false).unwrap();
        learner.update(&random(4, 2, 1)).unwrap();
    }
    let before = learner.parameters(false).unwrap();
    learner.shares(&[10, 2], false).unwrap();
    let refused = learner.update(&random(4, 2, 1)).unwrap_err();
    assert_eq!(refused, PrivacyError::Spent { position: 2, steps: 3 }.into());
    assert!(refused.to_string().contains("`max_epsilon`"), "{refused}");
    assert!(learner.parameters(false).unwrap() == before, "a refused update changes nothing");
    assert_eq!(learner.privacy().unwrap().epsilon, most);
    learner.shares(&[10, 11], false).unwrap();
    learner.update(&random(4, 2, 1)).unwrap();
}

#[test]
fn kinds_that_mix_records_are_refused() {
    let settings = serde_json::json!({ "height": 8 });
    let residual =
        ModelConfig::new(Combiner::Concat, "residual", None, settings.as_object().unwrap().clone());
    let refused = config(1.0, 4.0, None).check(&training(5, residual.unwrap())).unwrap_err();
    assert_eq!(refused, PrivacyError::Kind { kind: "residual".into() });
    let said = refused.to_string();
    assert!(said.contains("mixes the records") && said.contains("[training.privacy]"), "{said}");
}

/// μ = 2 √steps / σ. ε of the closed form (Balle and Wang 2018, theorem 8) for δ = 1e-5 was computed apart from this program.
#[test]
fn epsilon_is_that_of_a_replacement() {
    for (noise, steps, closed) in CLOSED_FORM {
        let config = config(1.0, noise, None);
        let epsilon = config.epsilon(steps);
        assert_eq!(
            epsilon,
            GaussianSampling::new(1.0, noise / 2.0).unwrap().epsilon(steps, 1e-5).epsilon
        );
        assert!(
            epsilon >= closed && epsilon <= 1.1 * closed,
            "σ {noise}, {steps} steps: {epsilon}, {closed}"
        );
    }
}

const CLOSED_FORM: [(f64, u64, f64); 5] = [
    (8.0, 5, 2.258145),
    (4.0, 10, 7.511276),
    (2.0, 10, 17.856587),
    (1.0, 20, 77.330091),
    (16.0, 1, 0.434416),
];

#[test]
fn values_out_of_range_are_refused_with_the_key() {
    let read = |text: &str| toml::from_str::<PrivacyConfig>(text).map_err(|e| e.to_string());
    let good = read("clip = 1.0\nnoise = 4.0").unwrap();
    assert_eq!(
        *good.values(),
        PrivacyValues { clip: 1.0, noise: 4.0, delta: 1e-5, max_epsilon: None }
    );
    assert_eq!(
        read("clip = 1\nnoise = 4\ndelta = 1e-6\nmax_epsilon = 3").unwrap().values().max_epsilon,
        Some(3.0)
    );
    for (bad, says) in [
        ("clip = 0.0\nnoise = 4.0", "`clip` in [training.privacy] is 0"),
        ("clip = nan\nnoise = 4.0", "`clip`"),
        ("clip = -1.0\nnoise = 4.0", "`clip`"),
        ("clip = inf\nnoise = 4.0", "`clip`"),
        (
            "clip = 1.0\nnoise = 0.0",
            "`noise` in [training.privacy] is 0: set it to a number from 0.01",
        ),
        ("clip = 1.0\nnoise = nan", "`noise`"),
        ("clip = 1.0\nnoise = inf", "`noise`"),
        ("clip = 1.0\nnoise = 4.0\ndelta = 0.0", "`delta`"),
        ("clip = 1.0\nnoise = 4.0\ndelta = 0.5", "`delta`"),
        ("clip = 1.0\nnoise = 4.0\ndelta = nan", "`delta`"),
        ("clip = 1.0\nnoise = 4.0\nmax_epsilon = 0.0", "`max_epsilon`"),
        ("clip = 1.0\nnoise = 4.0\nmax_epsilon = inf", "`max_epsilon`"),
        ("clip = 1.0\nnoise = 4.0\nepsilon = 1.0", "epsilon"),
        ("clip = 1.0", "noise"),
        ("noise = 1.0", "clip"),
    ] {
        let refused = read(bad).unwrap_err();
        assert!(refused.contains(says), "{bad}: {refused}");
    }
}
