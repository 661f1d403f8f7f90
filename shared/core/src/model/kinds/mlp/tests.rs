//! Tests of perceptrons.

use super::*;
use crate::gradient_checks::{check_neighbours, check_pass, check_sub_model};
use crate::model::TrainingValues;
use crate::model::contract::start_of;

fn origin(hidden: &[usize], activation: &str, active: bool, seed: u64) -> SubModelOrigin {
    let settings = serde_json::json!({ "hidden": hidden, "activation": activation });
    let spec = SubModelSpec::new(NAME, 4, settings.as_object().unwrap().clone()).unwrap();
    SubModelOrigin { spec, features: 5, active, start: start_of(seed) }
}

fn random(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| rng.random::<f64>())
}

/// Every depth and activation that J and P use, away from where training starts: with biases
/// that are not 0, and for relu with no sum within 1e-3 of its kink.
#[test]
fn gradients_are_those_of_central_differences() {
    for hidden in [&[8][..], &[8, 8], &[8, 8, 8], &[3, 1, 7], &[32]] {
        for activation in ["sigmoid", "tanh", "relu"] {
            for active in [true, false] {
                let mut model =
                    Mlp::zeros(&origin(hidden, activation, active, 0).spec, 5, active).unwrap();
                let x = random(5, 8, 8);
                let clear = (0..50).any(|seed| {
                    for (at, tensor) in model.tensors_mut().into_iter().enumerate() {
                        let values = random(tensor.values.len(), 1, 100 * seed + at as u64);
                        tensor
                            .values
                            .iter_mut()
                            .zip(&values)
                            .for_each(|(to, v)| *to = 2.0 * v - 1.0);
                    }
                    let mut least = f64::INFINITY;
                    let mut a = x.clone();
                    for layer in &model.layers {
                        let z = affine(&layer.weights, layer.bias.as_ref(), &a);
                        if let Some(activation) = layer.activation {
                            least = z.iter().fold(least, |least, z| least.min(z.abs()));
                            a = z.map(|v| activation.of(v));
                        }
                    }
                    activation != "relu" || least > 1e-3
                });
                assert!(clear, "some draw is away from the kinks");
                check_sub_model(&mut model, &x, 1e-6);
                check_neighbours(&model, &random(5, 70, 9));
                check_pass(&model, &x, 1e-6);
            }
        }
    }
}

/// By hand: one hidden unit, two features.
#[test]
fn outputs_are_those_of_the_formula() {
    let settings = serde_json::json!({ "hidden": [1] });
    let spec = SubModelSpec::new(NAME, 2, settings.as_object().unwrap().clone()).unwrap();
    let mut model = Mlp::zeros(&spec, 2, true).unwrap();
    let values = [vec![1.0, -2.0], vec![0.5], vec![3.0, -1.0], vec![0.25, 0.0]];
    model.put_back(&values);
    let x = DMatrix::from_column_slice(2, 1, &[0.2, 0.4]);
    let hidden = 1.0 / (1.0 + f64::exp(-(0.2 - 0.8 + 0.5)));
    let z = model.outputs(&x).unwrap();
    assert!((z.matrix()[(0, 0)] - (3.0 * hidden + 0.25)).abs() < 1e-15);
    assert!((z.matrix()[(1, 0)] + hidden).abs() < 1e-15);
    assert_eq!(format!("{model:?}"), "Mlp(2 features, layers of [1, 2], values withheld)");
}

/// The start is a function of the seed, and no two roles start equal.
#[test]
fn first_parameters_are_drawn_from_the_seed() {
    let start =
        |active, seed| MlpKind.start(&origin(&[8, 8], "relu", active, seed)).unwrap().snapshot();
    assert_eq!(start(true, 3), start(true, 3));
    assert_ne!(start(true, 3), start(true, 4));
    assert_ne!(start(true, 3)[0], start(false, 3)[0]);
    let weights = &start(true, 3)[0];
    let reach = (6.0_f64 / 13.0).sqrt();
    assert!(
        weights.iter().all(|w| w.abs() <= reach) && weights.iter().any(|w| w.abs() > 0.8 * reach)
    );
    assert!(start(true, 3)[1].iter().all(|b| *b == 0.0));
}

/// No honest training leaves the bound that the coordinator refuses shares by: gradients that
/// all point one way move parameters the farthest.
#[test]
fn the_largest_output_is_a_bound() {
    for activation in ["sigmoid", "tanh", "relu"] {
        let config =
            TrainingConfig::try_from(TrainingValues { learning_rate: 0.05, ..Default::default() })
                .unwrap();
        let origin = origin(&[8, 8], activation, true, 5);
        let mut model = MlpKind.start(&origin).unwrap();
        let mut adam = crate::model::Adam::new(&config);
        let x = DMatrix::from_element(5, 6, 1.0);
        for updates in 0..40u64 {
            let bound = MlpKind.largest_output(&config, &origin.spec, 5, updates);
            let largest = model.outputs(&x).unwrap().matrix().amax();
            assert!(largest <= bound, "{activation}, {updates} updates: {largest}, {bound}");
            let slopes =
                model.tensors().iter().map(|tensor| vec![-1.0; tensor.values.len()]).collect();
            adam.step(model.tensors_mut(), slopes).unwrap();
        }
    }
}
