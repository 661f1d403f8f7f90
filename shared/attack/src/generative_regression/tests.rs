//! The generator and its objective against central differences, and a training against PyTorch's.

use std::sync::Arc;

use nalgebra::DVector;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::Deserialize;
use vfl_core::model::contract::{SubModelOrigin, start_of};
use vfl_core::model::{SubModel, SubModelSpec, kinds};

use super::super::differentiable::LinearLogits;
use super::super::gradient_inversion::loss::Loss;
use super::super::{Differentiable, KnownNetwork};
use super::*;

fn random(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| StandardNormal.sample(&mut rng))
}

/// Scores of n records of k classes.
fn scores(k: usize, n: usize, seed: u64) -> DMatrix<f64> {
    let mut c = random(k, n, seed).map(f64::exp);
    c.column_iter_mut().for_each(|mut c| c /= c.sum());
    c
}

/// The whole objective, by the formula.
fn value(objective: &Objective<'_>, x: &DMatrix<f64>, batch: &[usize]) -> f64 {
    let (misfit, _) = objective.at(x, batch);
    let b = x.ncols() as f64;
    let of_feature =
        |(i, x): (usize, nalgebra::MatrixView1xX<'_, f64, nalgebra::U1, nalgebra::Dyn>)| {
            let mean = x.sum() / b;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (b - 1.0);
            let known =
                objective.mean.as_ref().map_or(0.0, |(m, known)| m * (mean - known[i]).powi(2));
            objective.variance_weight * variance + known
        };
    misfit + x.row_iter().enumerate().map(of_feature).sum::<f64>()
}

/// Every loss, through weights and through a perceptron, with both moments, a batch that fills no block, and records out of order: the
/// slopes in every parameter of the generator are those of central differences.
#[test]
fn gradients_are_those_of_central_differences() {
    let (own, d, k, n) = (3, 4, 5, 30);
    let weights = random(k, d, 1);
    let settings = SubModelSpec::parse_settings(r#"{"hidden":[6],"activation":"tanh"}"#).unwrap();
    let spec = SubModelSpec::new("mlp", k as u32, settings).unwrap();
    let part =
        kinds::start(&SubModelOrigin { spec, features: d, active: false, start: start_of(1) })
            .unwrap();
    let network = KnownNetwork::summed(vec![Arc::from(part) as Arc<dyn SubModel>]);
    let models: [Box<dyn Differentiable>; 2] = [
        Box::new(LinearLogits::new(&weights, random(k, n, 2))),
        Box::new(network.logits(random(k, n, 2)).unwrap()),
    ];
    let batch: Vec<usize> = (0..19).map(|i| (7 * i + 3) % n).collect();
    for model in &models {
        for loss in Loss::ALL {
            let objective = Objective {
                model: &**model,
                scores: scores(k, n, 3),
                loss,
                variance_weight: 0.25,
                mean: Some((0.7, DVector::from_element(d, 0.3))),
            };
            let mut generator =
                Generator::new(own + d, &[9, 7], d, &mut ChaCha20Rng::seed_from_u64(4));
            // Gains and shifts away from where they start.
            for (at, tensor) in generator.tensors_mut().into_iter().enumerate() {
                let noise = random(tensor.values.len(), 1, 10 + at as u64);
                tensor.values.iter_mut().zip(&noise).for_each(|(to, noise)| *to += 0.2 * noise);
            }
            let input = random(own + d, batch.len(), 5);
            let (_, slopes) = objective.at(generator.forward(input.clone()), &batch);
            let gradients = generator.backward(slopes);
            let mut kinks = 0;
            for (block, gradient) in gradients.iter().enumerate() {
                for (entry, slope) in gradient.iter().enumerate() {
                    let mut at = |step: f64| {
                        generator.tensors_mut()[block].values[entry] += step;
                        let value = value(&objective, generator.forward(input.clone()), &batch);
                        generator.tensors_mut()[block].values[entry] -= step;
                        value
                    };
                    let h = 1e-5;
                    let (wide, near) =
                        ((at(h) - at(-h)) / (2.0 * h), (at(h / 4.0) - at(-h / 4.0)) / (h / 2.0));
                    // Where a sum crosses the kink of relu between the two points, the two quotients differ.
                    if (wide - near).abs() > 1e-6 * (1.0 + slope.abs()) {
                        kinks += 1;
                        continue;
                    }
                    assert!(
                        (near - slope).abs() < 1e-6 * (1.0 + slope.abs()),
                        "{loss:?} {block} {entry}: {near} {slope}"
                    );
                }
            }
            assert!(kinks < 10, "{kinks} entries cross a kink");
        }
    }
}

/// A training that PyTorch did (`scripts/pytorch/generator.py`): same first parameters, same noise, same batches.
#[derive(Deserialize)]
struct Case {
    pytorch: String,
    own: usize,
    passive: usize,
    classes: usize,
    hidden: Vec<usize>,
    /// One after the other, as [`Parametrised::tensors_mut`] has them; matrices row by row.
    weights: Vec<Vec<f64>>,
    /// k × d, row by row.
    w_pas: Vec<f64>,
    /// By record: its own features, W_act y + b, its scores.
    y: Vec<Vec<f64>>,
    known: Vec<Vec<f64>>,
    scores: Vec<Vec<f64>>,
    learning_rate: f64,
    variance_weight: f64,
    /// Batches with the noise of each record.
    steps: Vec<(Vec<usize>, Vec<Vec<f64>>)>,
    /// What came out: the misfit of each batch, and in the end the estimates at the noise given.
    misfits: Vec<f64>,
    last_noise: Vec<Vec<f64>>,
    estimates: Vec<Vec<f64>>,
}

fn columns(of: &[Vec<f64>]) -> DMatrix<f64> {
    DMatrix::from_fn(of[0].len(), of.len(), |i, j| of[j][i])
}

#[test]
fn a_training_is_that_of_pytorch() {
    let case: Case = serde_json::from_str(include_str!("pytorch.json")).unwrap();
    assert!(case.pytorch.starts_with("torch "));
    let mut generator = Generator::new(
        case.own + case.passive,
        &case.hidden,
        case.passive,
        &mut ChaCha20Rng::seed_from_u64(0),
    );
    for (tensor, values) in generator.tensors_mut().into_iter().zip(&case.weights) {
        let from = match tensor.shape[..] {
            [inputs, outputs] => {
                DMatrix::from_row_slice(outputs, inputs, values).as_slice().to_vec()
            }
            _ => values.clone(),
        };
        tensor.values.copy_from_slice(&from);
    }
    let w_pas = DMatrix::from_row_slice(case.classes, case.passive, &case.w_pas);
    let model = LinearLogits::new(&w_pas, columns(&case.known));
    let objective = Objective {
        model: &model,
        scores: columns(&case.scores),
        loss: Loss::Mse,
        variance_weight: case.variance_weight,
        mean: None,
    };
    let mut adam = Adam::at(case.learning_rate);
    let y = columns(&case.y);
    let input = |batch: &[usize], noise: &[Vec<f64>]| {
        DMatrix::from_fn(case.own + case.passive, batch.len(), |i, j| {
            match i.checked_sub(case.own) {
                None => y[(i, batch[j])],
                Some(i) => noise[j][i],
            }
        })
    };
    for ((batch, noise), expected) in case.steps.iter().zip(&case.misfits) {
        let (misfit, slopes) = objective.at(generator.forward(input(batch, noise)), batch);
        assert!((misfit - expected).abs() < 1e-12, "{misfit} {expected}");
        let gradients = generator.backward(slopes);
        adam.step(generator.tensors_mut(), gradients).unwrap();
    }
    let all: Vec<usize> = (0..y.ncols()).collect();
    let estimates = generator.forward(input(&all, &case.last_noise));
    let error = (estimates - columns(&case.estimates)).amax();
    assert!(error < 1e-10, "{error}");
}
