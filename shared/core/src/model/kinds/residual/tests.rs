//! Tests of whole networks, and what tests of layers share.

use super::*;
use crate::gradient_checks::{check_neighbours, check_pass, check_sub_model};
use crate::model::contract::{ParameterRole, start_of};
use crate::model::{Adam, TrainingValues};

/// Values in [−1, 1].
pub(super) fn random(count: usize, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    (0..count).map(|_| 2.0 * rng.random::<f64>() - 1.0).collect()
}

/// Compares a gradient with central differences of `value`, which takes an entry and how far to move it.
pub(super) fn check(what: &str, gradient: &[f64], mut value: impl FnMut(usize, f64) -> f64) {
    let step = 1e-5;
    for (at, &gradient) in gradient.iter().enumerate() {
        let difference = (value(at, step) - value(at, -step)) / (2.0 * step);
        let off = (difference - gradient).abs() / gradient.abs().max(1.0);
        assert!(
            off < 1e-6,
            "{what}, entry {at}: the gradient is {gradient}, a central difference {difference}"
        );
    }
}

/// Many small batches are slow where each layer waits for other threads: they are quick on one.
fn on_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

fn origin(
    settings: serde_json::Value,
    outputs: u32,
    features: usize,
    active: bool,
    seed: u64,
) -> SubModelOrigin {
    let spec = SubModelSpec::new(NAME, outputs, settings.as_object().unwrap().clone()).unwrap();
    SubModelOrigin { spec, features, active, start: start_of(seed) }
}

/// Two channels of 5 rows and 4 columns, a stage of 3 channels and one of 4, one block each.
fn small(outputs: u32, active: bool, seed: u64) -> SubModelOrigin {
    let settings =
        serde_json::json!({ "channels": 2, "height": 5, "blocks": 1, "filters": [3, 4] });
    origin(settings, outputs, 40, active, seed)
}

/// Stages as wide as P's, so that products take the fast route.
fn wide(outputs: u32) -> SubModelOrigin {
    let settings = serde_json::json!({ "height": 7, "blocks": 1 });
    origin(settings, outputs, 35, true, 3)
}

fn records(features: usize, count: usize, seed: u64) -> DMatrix<f64> {
    DMatrix::from_vec(features, count, random(features * count, seed)).map(|v| 0.5 + 0.5 * v)
}

/// The least distance of what goes into a relu from its kink.
fn least_before_relu(model: &Residual<f64>, batch: &DMatrix<f64>) -> f64 {
    let network = &model.network;
    let mut least = f64::INFINITY;
    let mut through_relu = |mut maps: Maps<f64>| {
        least = maps.values.iter().fold(least, |least, v| least.min(v.abs()));
        maps.relu();
        maps
    };
    let of = |unit: &network::Unit<f64>, maps: &Maps<f64>| {
        unit.norm.forward(unit.convolution.forward(maps)).0
    };
    let mut maps = through_relu(of(&network.stem, &model.maps(batch).unwrap()));
    for block in &network.blocks {
        let inner = through_relu(of(&block.first, &maps));
        let mut outputs = of(&block.second, &inner);
        outputs.add(&block.shortcut.as_ref().map_or_else(|| maps.clone(), |unit| of(unit, &maps)));
        maps = through_relu(outputs);
    }
    least
}

/// The whole network in 64 bits, with and without a last layer, away from where training starts and from kinks.
#[test]
fn gradients_are_those_of_central_differences() {
    on_threads(1, || {
        for (outputs, active) in [(2, true), (4, false)] {
            let batch = records(40, 2, 8);
            let clear = (0..200).find_map(|seed| {
                let mut model = Residual::<f64>::start(&small(outputs, active, seed)).unwrap();
                for (at, tensor) in model.tensors_mut().into_iter().enumerate() {
                    if tensor.used == ParameterRole::Free {
                        let draw = random(tensor.values.len(), seed + 1000 * at as u64);
                        tensor.values.iter_mut().zip(draw).for_each(|(v, r)| *v += 0.5 * r);
                    }
                }
                (least_before_relu(&model, &batch) > 5e-4).then_some(model)
            });
            check_sub_model(&mut clear.unwrap(), &batch, 1e-6);
        }
    });
}

/// The least distance of what goes into a relu from its kink, in service.
fn least_in_service(model: &Residual<f64>, batch: &DMatrix<f64>) -> f64 {
    let network = &model.network;
    let mut least = f64::INFINITY;
    for record in batch.column_iter() {
        let mut columns = Vec::new();
        let mut through_relu = |values: &mut Vec<f64>| {
            least = values.iter().fold(least, |least, v| least.min(v.abs()));
            values.iter_mut().for_each(|v| *v = v.max(0.0));
        };
        let (mut shape, mut values) =
            network.stem.outputs(network.input, record.as_slice(), &mut columns);
        through_relu(&mut values);
        for block in &network.blocks {
            let (inner, mut z) = block.first.outputs(shape, &values, &mut columns);
            through_relu(&mut z);
            let (after, mut z) = block.second.outputs(inner, &z, &mut columns);
            let added = block
                .shortcut
                .as_ref()
                .map_or_else(|| values.clone(), |s| s.outputs(shape, &values, &mut columns).1);
            z.iter_mut().zip(added).for_each(|(v, s)| *v += s);
            through_relu(&mut z);
            (shape, values) = (after, z);
        }
    }
    least
}

/// The pass that is differentiated with respect to the features is that of service: with running statistics away from where they
/// start.
#[test]
fn slopes_in_service_are_those_of_central_differences() {
    on_threads(1, || {
        for (outputs, active) in [(2, true), (4, false)] {
            let batch = records(40, 8, 8);
            let clear = (0..2000).find_map(|seed| {
                let mut model = Residual::<f64>::start(&small(outputs, active, seed)).unwrap();
                for (at, tensor) in model.tensors_mut().into_iter().enumerate() {
                    let draw = random(tensor.values.len(), seed + 1000 * at as u64);
                    match tensor.used {
                        ParameterRole::Free => {
                            tensor.values.iter_mut().zip(draw).for_each(|(v, r)| *v += 0.5 * r)
                        }
                        ParameterRole::Statistic => {
                            tensor.values.iter_mut().zip(draw).for_each(|(v, r)| *v += 0.4 * r)
                        }
                        ParameterRole::Weight => {}
                    }
                }
                (least_in_service(&model, &batch) > 1e-4).then_some(model)
            });
            check_pass(&clear.unwrap(), &batch, 1e-6);
        }
    });
}

/// What is trained in 32 bits is what is checked in 64.
#[test]
fn thirty_two_bits_are_close_to_sixty_four() {
    let mut exact = Residual::<f64>::start(&wide(10)).unwrap();
    let mut model = Residual::<f32>::start(&wide(10)).unwrap();
    let batch = records(35, 6, 1);
    let close = |what: &str, found: &[f64], expected: &[f64], tolerance: f64| {
        assert_eq!(found.len(), expected.len(), "{what}");
        let norm =
            |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
        let off = norm(&mut found.iter().zip(expected).map(|(f, e)| f - e))
            / norm(&mut expected.iter().copied());
        assert!(off < tolerance, "{what} is off by {off}");
    };
    let (found, expected) =
        (model.forward(batch.clone()).unwrap(), exact.forward(batch.clone()).unwrap());
    close("a training batch", found.matrix().as_slice(), expected.matrix().as_slice(), 1e-5);
    let gradient = DMatrix::from_vec(10, 6, random(60, 2));
    let (found, expected) =
        (model.backward(&gradient, true).unwrap(), exact.backward(&gradient, true).unwrap());
    for (at, (found, expected)) in found.parameters.iter().zip(&expected.parameters).enumerate() {
        close(&format!("gradient {at}"), found, expected, 1e-3);
    }
    close("inputs", found.inputs.unwrap().as_slice(), expected.inputs.unwrap().as_slice(), 1e-3);
    let (found, expected) = (model.outputs(&batch).unwrap(), exact.outputs(&batch).unwrap());
    close("outputs", found.matrix().as_slice(), expected.matrix().as_slice(), 1e-5);
}

/// Service and training use the same layers: with the statistics of a batch as the running ones, outputs are those of training.
#[test]
fn service_takes_the_running_statistics() {
    let mut model = Residual::<f64>::start(&wide(64)).unwrap();
    let batch = records(35, 6, 1);
    let trained = model.forward(batch.clone()).unwrap();
    let before = model.outputs(&batch).unwrap();
    assert_eq!(before, model.outputs(&batch).unwrap(), "a look changes nothing");
    let mut statistics = Network::zeros(
        &ResidualSettings::read(model.spec.settings()).unwrap(),
        model.network.input,
        64,
        true,
    );
    model.batch.as_ref().unwrap().1.move_statistics(&mut statistics);
    // Six records of 7 × 5, 4 × 3 and 2 × 2 pixels.
    let counts = [35.0, 35.0, 35.0, 12.0, 12.0, 12.0, 4.0, 4.0, 4.0].map(|pixels| 6.0 * pixels);
    for ((unit, moved), count) in
        model.network.units_mut().into_iter().zip(statistics.units()).zip(counts)
    {
        unit.norm.mean = moved.norm.mean.iter().map(|mean| mean / 0.1).collect();
        unit.norm.variance =
            moved.norm.variance.iter().map(|v| (v - 0.9) / 0.1 * (count - 1.0) / count).collect();
    }
    let off = (model.outputs(&batch).unwrap().into_matrix() - trained.into_matrix()).amax();
    assert!(off < 1e-10, "off by {off}");
}

/// The coordinator knows a share by its bits, before and after training.
#[test]
fn outputs_do_not_depend_on_the_records_beside_a_record() {
    let mut model = Residual::<f32>::start(&wide(10)).unwrap();
    let block = records(35, 5, 4);
    check_neighbours(&model, &block);
    model.forward(block.clone()).unwrap();
    check_neighbours(&model, &block);
}

/// What is stored gives the same bits again, running statistics among it.
#[test]
fn a_restored_model_has_the_same_outputs() {
    for (outputs, active) in [(4, true), (2, true), (2, false)] {
        let mut model = ResidualKind.start(&small(outputs, active, 5)).unwrap();
        model.forward(records(40, 9, 1)).unwrap();
        let parameters = Parameters::of(&*model, model.snapshot());
        let restored = ResidualKind.restore(&parameters).unwrap();
        let block = records(40, 5, 2);
        assert_eq!(restored.outputs(&block).unwrap(), model.outputs(&block).unwrap());
        assert_eq!(restored.snapshot(), model.snapshot());

        let mut other = parameters.clone();
        other.blocks.remove(0);
        assert!(matches!(ResidualKind.restore(&other), Err(SpecError::Parameters { .. })));
        let mut other = parameters;
        other.features = 41;
        let said = ResidualKind.restore(&other).unwrap_err().to_string();
        assert!(
            said.contains("a multiple of 10") && said.contains("set `channels` and `height`"),
            "{said}"
        );
    }
}

/// The start is a function of the seed, and no two roles start equal.
#[test]
fn first_parameters_are_drawn_from_the_seed() {
    let start = |active, seed| ResidualKind.start(&small(2, active, seed)).unwrap();
    assert_eq!(start(true, 3).snapshot(), start(true, 3).snapshot());
    assert_ne!(start(true, 3).snapshot(), start(true, 4).snapshot());
    assert_ne!(start(true, 3).snapshot()[0], start(false, 3).snapshot()[0]);
    let model = start(true, 3);
    for Tensor { name, shape, values, .. } in model.tensors() {
        let one = name.ends_with("running_var") || name.contains("bn") && name.ends_with("weight");
        if one || name.ends_with("bias") || name.ends_with("running_mean") {
            assert!(values.iter().all(|v| *v == f64::from(u8::from(one))), "{name}");
        } else {
            let inputs: usize = shape[1..].iter().product();
            let reach = (6.0 / if &*name == "linear.weight" { 6.0 } else { inputs as f64 }).sqrt();
            assert!(values.iter().all(|w| w.abs() <= reach), "{name}");
            assert!(values.iter().any(|w| w.abs() > 0.6 * reach), "{name}");
        }
    }
}

/// Names and shapes are those of PyTorch's `state_dict` for such modules; the active party alone has a bias.
#[test]
fn parameters_have_the_names_and_shapes_of_layers() {
    let model = ResidualKind.start(&small(2, true, 3)).unwrap();
    let found: Vec<String> = model
        .tensors()
        .iter()
        .map(|tensor| format!("{} {:?}", tensor.name, tensor.shape))
        .collect();
    let unit = |conv: &str, bn: &str, shape: [usize; 4]| {
        let mut lines = vec![format!("{conv}.weight {shape:?}")];
        let channels = shape[0];
        lines.extend(
            ["weight", "bias", "running_mean", "running_var"]
                .map(|what| format!("{bn}.{what} [{channels}]")),
        );
        lines
    };
    let mut expected = unit("conv", "bn", [3, 2, 3, 3]);
    expected.extend(unit("stage1.block1.conv1", "stage1.block1.bn1", [3, 3, 3, 3]));
    expected.extend(unit("stage1.block1.conv2", "stage1.block1.bn2", [3, 3, 3, 3]));
    expected.extend(unit("stage2.block1.conv1", "stage2.block1.bn1", [4, 3, 3, 3]));
    expected.extend(unit("stage2.block1.conv2", "stage2.block1.bn2", [4, 4, 3, 3]));
    expected.extend(unit("stage2.block1.shortcut.conv", "stage2.block1.shortcut.bn", [4, 3, 1, 1]));
    expected.extend(["linear.weight [2, 4]".to_owned(), "linear.bias [2]".to_owned()]);
    assert_eq!(found, expected);
    let passive = ResidualKind.start(&small(2, false, 3)).unwrap();
    assert_eq!(passive.tensors().last().unwrap().name, "linear.weight");
    let pooled = ResidualKind.start(&small(4, true, 3)).unwrap();
    assert!(pooled.tensors().iter().all(|tensor| !tensor.name.contains("linear")));
    for model in [model, passive, pooled] {
        for Tensor { name, shape, used, values } in model.tensors() {
            assert_eq!(shape.iter().product::<usize>(), values.len(), "{name}");
            let statistic = name.contains("running");
            let weight = name.ends_with("weight") && !name.contains("bn");
            assert_eq!(
                (used == ParameterRole::Statistic, used == ParameterRole::Weight),
                (statistic, weight),
                "{name}"
            );
        }
    }
    let whole =
        ResidualKind.start(&origin(serde_json::json!({ "height": 28 }), 64, 392, true, 1)).unwrap();
    let trained = whole
        .tensors()
        .iter()
        .filter(|t| t.used != ParameterRole::Statistic)
        .map(|t| t.values.len())
        .sum::<usize>();
    // 144, 9 × 16², 3 × 16², ... and 2 values of each of the batch norms' channels.
    let convolutions = 144 + 6 * 2304 + 4608 + 512 + 5 * 9216 + 18_432 + 2048 + 5 * 36_864;
    assert_eq!(trained, convolutions + 2 * (7 * 16 + 7 * 32 + 7 * 64));
    assert_eq!(format!("{whole:?}"), "Residual(1 × 28 × 14 features, 9 blocks, values withheld)");
}

/// The order of every sum depends on the number of records alone.
#[test]
fn training_does_not_depend_on_the_number_of_threads() {
    let train = || {
        let mut model = Residual::<f32>::start(&wide(10)).unwrap();
        let share = model.forward(records(35, 11, 1)).unwrap();
        let gradients = model.backward(&DMatrix::from_vec(10, 11, random(110, 2)), true).unwrap();
        (share, gradients.parameters, gradients.inputs, model.snapshot())
    };
    assert!(on_threads(1, train) == on_threads(3, train));
}

#[test]
fn one_record_and_none_are_taken() {
    for outputs in [4, 2] {
        let mut model = Residual::<f32>::start(&small(outputs, true, 1)).unwrap();
        let trained =
            model.tensors().iter().filter(|tensor| tensor.used != ParameterRole::Statistic).count();
        for count in [0, 1] {
            let before = model.snapshot();
            let block = records(40, count, 1);
            assert_eq!(model.outputs(&block).unwrap().matrix().shape(), (outputs as usize, count));
            assert_eq!(model.forward(block).unwrap().matrix().shape(), (outputs as usize, count));
            assert_eq!(
                before == model.snapshot(),
                count == 0,
                "without a record the statistics stay"
            );
            let gradients =
                model.backward(&DMatrix::from_element(outputs as usize, count, 1.0), true).unwrap();
            assert_eq!(gradients.parameters.len(), trained);
            assert!(
                gradients
                    .parameters
                    .iter()
                    .flatten()
                    .all(|v| v.is_finite() && (count > 0 || *v == 0.0))
            );
            assert_eq!(gradients.inputs.unwrap().shape(), (40, count));
        }
    }
    // One pixel in the last stage, so that a batch norm has one value.
    let settings = serde_json::json!({ "height": 2, "blocks": 1, "filters": [3, 4] });
    let mut model = Residual::<f32>::start(&origin(settings, 2, 4, true, 1)).unwrap();
    model.forward(records(4, 1, 1)).unwrap();
    model.backward(&DMatrix::from_element(2, 1, 1.0), true).unwrap();
    model.outputs(&records(4, 3, 1)).unwrap();
}

#[test]
fn other_shapes_are_refused() {
    let mut model = Residual::<f32>::start(&small(2, true, 1)).unwrap();
    let before = model.snapshot();
    assert!(matches!(
        model.outputs(&records(41, 1, 1)),
        Err(ShapeError::Size { expected: 40, got: 41, .. })
    ));
    assert!(model.forward(records(39, 2, 1)).is_err());
    let mut endless = records(40, 2, 1);
    endless[3] = f64::NAN;
    assert!(model.outputs(&endless).is_err() && model.forward(endless).is_err());
    assert_eq!(model.snapshot(), before, "a batch that is refused moves no statistics");
    assert_eq!(model.backward(&DMatrix::zeros(2, 2), false).err(), Some(BackwardError::NoBatch));
    for (outputs, count) in [(3, 2), (2, 3)] {
        model.forward(records(40, 2, 1)).unwrap();
        let refused = model.backward(&DMatrix::zeros(outputs, count), false);
        assert!(matches!(refused.err(), Some(BackwardError::Shape(_))));
    }
    model.forward(records(40, 2, 1)).unwrap();
    assert!(model.backward(&DMatrix::zeros(2, 2), false).unwrap().inputs.is_none());
}

/// By hand for the default network on 28 × 14: 28 × 14, 14 × 7 and 7 × 4 pixels.
#[test]
fn multiplications_are_counted() {
    let model =
        Residual::<f32>::start(&origin(serde_json::json!({ "height": 28 }), 64, 392, true, 1))
            .unwrap();
    let first = 392 * (9 * 16 + 6 * 9 * 16 * 16);
    let second = 98 * (9 * 16 * 32 + 5 * 9 * 32 * 32 + 16 * 32);
    let third = 28 * (9 * 32 * 64 + 5 * 9 * 64 * 64 + 32 * 64);
    assert_eq!(model.work(), first + second + third);
}

#[test]
fn settings_and_features_that_do_not_fit_are_refused_with_what_to_do() {
    for features in [0, 9, 41] {
        let said = ResidualKind
            .start(&SubModelOrigin { features, ..small(2, true, 1) })
            .unwrap_err()
            .to_string();
        assert!(
            said.starts_with("model: settings of `residual`:") && said.contains("a multiple of 10"),
            "{said}"
        );
    }
    let spec = |settings: serde_json::Value| settings.as_object().unwrap().clone();
    assert!(ResidualKind.check(&spec(serde_json::json!({ "height": 28 }))).is_ok());
    assert!(
        ResidualKind
            .check(&spec(serde_json::json!({})))
            .unwrap_err()
            .contains("`height` is missing")
    );
    let large = origin(serde_json::json!({ "height": 28 }), 65_536, 28, true, 1);
    assert!(
        ResidualKind.start(&large).unwrap_err().to_string().contains("parameters, at most 4000000")
    );
    assert!(ResidualKind.values(&large.spec, 784) > 50_000);
    let config = TrainingConfig::default();
    assert_eq!(ResidualKind.largest_output(&config, &large.spec, 28, 1), f64::INFINITY);
}

/// Adam brings the outputs of a batch towards targets, in 32 bits.
#[test]
fn training_lowers_the_loss() {
    let config =
        TrainingConfig::try_from(TrainingValues { learning_rate: 0.01, ..Default::default() })
            .unwrap();
    let mut adam = Adam::new(&config);
    let mut model = Residual::<f32>::start(&small(2, true, 1)).unwrap();
    let batch = records(40, 8, 1);
    let targets = DMatrix::from_fn(2, 8, |row, record| f64::from(u8::from(record % 2 == row)));
    let mut losses = Vec::new();
    for _ in 0..60 {
        let off = model.forward(batch.clone()).unwrap().into_matrix() - &targets;
        losses.push(off.norm_squared() / 8.0);
        let gradients = model.backward(&(off * 0.25), false).unwrap();
        adam.step(model.tensors_mut(), gradients.parameters).unwrap();
    }
    assert!(losses[59] < 0.2 * losses[0], "from {} to {}", losses[0], losses[59]);
}
