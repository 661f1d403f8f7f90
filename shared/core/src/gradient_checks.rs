//! Checks for models of every kind: gradients against central differences, and outputs that do not
//! depend on the neighbouring records.

use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use crate::model::contract::ParameterRole;
use crate::model::{Head, LANES, Lanes, SubModel};
use crate::types::LogitShare;

/// Half the distance of the two points of a difference. The error of a central difference is about
/// the square of this step; rounding adds about 1e-16 over it.
const STEP: f64 = 1e-5;

fn random(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| 2.0 * rng.random::<f64>() - 1.0)
}

fn compare(what: &str, at: usize, difference: f64, gradient: f64, tolerance: f64) {
    let off = (difference - gradient).abs() / difference.abs().max(gradient.abs()).max(1.0);
    assert!(
        off <= tolerance,
        "{what}, entry {at}: the gradient is {gradient}, a central difference {difference}"
    );
}

/// Compares the gradients of a sub-model with central differences of a random linear function of
/// its outputs on `block` (d × n): with respect to every trained parameter and every input. Where
/// the outputs have kinks, choose parameters and inputs away from them.
///
/// # Panics
/// If a gradient is off by more than `tolerance`, relative to the larger of it, the difference and
/// 1; the message has the block's name.
pub fn check_sub_model(model: &mut dyn SubModel, block: &DMatrix<f64>, tolerance: f64) {
    let direction = random(model.spec().width() as usize, block.ncols(), 1);
    let value = |model: &mut dyn SubModel, block: &DMatrix<f64>| {
        let outputs = model.forward(block.clone()).unwrap_or_else(|e| panic!("forward: {e}"));
        outputs.matrix().dot(&direction)
    };
    value(model, block);
    let gradients = model.backward(&direction, true).unwrap_or_else(|e| panic!("backward: {e}"));
    let trained: Vec<usize> = model
        .tensors()
        .iter()
        .enumerate()
        .filter(|(_, t)| t.used != ParameterRole::Statistic)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(trained.len(), gradients.parameters.len(), "one gradient for each trained block");
    for (&which, gradient) in trained.iter().zip(&gradients.parameters) {
        let name = model.tensors()[which].name.clone().into_owned();
        assert_eq!(
            model.tensors()[which].values.len(),
            gradient.len(),
            "the gradient of `{name}` has its size"
        );
        for (at, &analytic) in gradient.iter().enumerate() {
            let mut moved = |by: f64| {
                let before = model.tensors()[which].values[at];
                model.tensors_mut()[which].values[at] = before + by;
                let found = value(model, block);
                model.tensors_mut()[which].values[at] = before;
                found
            };
            let difference = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            compare(&format!("parameters `{name}`"), at, difference, analytic, tolerance);
        }
    }
    let Some(inputs) = gradients.inputs else { panic!("no gradient with respect to the inputs") };
    assert_eq!(inputs.shape(), block.shape(), "the gradient of the inputs has their shape");
    for (at, &analytic) in inputs.iter().enumerate() {
        let mut moved = |by: f64| {
            let mut block = block.clone();
            block[at] += by;
            value(model, &block)
        };
        let difference = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
        compare("inputs", at, difference, analytic, tolerance);
    }
}

/// Compares the gradients of a head with central differences: with respect to each party's outputs
/// (`w × n`, the active party's first) and to its own parameters.
///
/// # Panics
/// As [`check_sub_model`].
pub fn check_head(head: &mut dyn Head, outputs: &[DMatrix<f64>], tolerance: f64) {
    let direction = random(head.classes(), outputs[0].ncols(), 2);
    let value = |head: &mut dyn Head, outputs: &[DMatrix<f64>]| {
        let outputs = outputs
            .iter()
            .map(|m| LogitShare::new(m.clone()).unwrap_or_else(|e| panic!("{e}")))
            .collect();
        head.forward(outputs).unwrap_or_else(|e| panic!("forward: {e}")).matrix().dot(&direction)
    };
    value(head, outputs);
    let gradients = head.backward(direction.clone()).unwrap_or_else(|e| panic!("backward: {e}"));
    assert_eq!(gradients.parties.len(), outputs.len(), "one gradient for each party");
    for (party, gradient) in gradients.parties.iter().enumerate() {
        assert_eq!(
            gradient.matrix().shape(),
            outputs[party].shape(),
            "the gradient has the shape of the outputs"
        );
        for (at, &analytic) in gradient.matrix().iter().enumerate() {
            let mut moved = |by: f64| {
                let mut outputs = outputs.to_vec();
                outputs[party][at] += by;
                value(head, &outputs)
            };
            let difference = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            compare(&format!("outputs of party {party}"), at, difference, analytic, tolerance);
        }
    }
    let trained: Vec<usize> = head
        .tensors()
        .iter()
        .enumerate()
        .filter(|(_, t)| t.used != ParameterRole::Statistic)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(trained.len(), gradients.parameters.len(), "one gradient for each trained block");
    for (&which, gradient) in trained.iter().zip(&gradients.parameters) {
        let name = head.tensors()[which].name.clone().into_owned();
        for (at, &analytic) in gradient.iter().enumerate() {
            let mut moved = |by: f64| {
                let before = head.tensors()[which].values[at];
                head.tensors_mut()[which].values[at] = before + by;
                let found = value(head, outputs);
                head.tensors_mut()[which].values[at] = before;
                found
            };
            let difference = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            compare(&format!("parameters `{name}`"), at, difference, analytic, tolerance);
        }
    }
}

/// Checks that the outputs of every record of `block` (d × n) are the same to the bit alone, with
/// the next record, and with all others: the coordinator recognises a share by its bits.
///
/// # Panics
/// If the outputs differ.
pub fn check_neighbours(model: &dyn SubModel, block: &DMatrix<f64>) {
    let outputs = |block: &DMatrix<f64>| match model.outputs(block) {
        Ok(outputs) => outputs.into_matrix(),
        Err(e) => panic!("outputs: {e}"),
    };
    let all = outputs(block);
    for at in 0..block.ncols() {
        for n in [1, 2].into_iter().filter(|n| at + n <= block.ncols()) {
            let part = outputs(&block.columns(at, n).into_owned());
            assert_eq!(
                part,
                all.columns(at, n).into_owned(),
                "record {at} beside {} others",
                n - 1
            );
        }
    }
}

/// Checks that the pass of a sub-model has the outputs of the sub-model itself, and that its slopes
/// are central differences of these, for the records of `block` (d × [`LANES`]).
///
/// # Panics
/// As [`check_sub_model`], and if the sub-model has no pass.
pub fn check_pass(model: &dyn SubModel, block: &DMatrix<f64>, tolerance: f64) {
    assert_eq!(block.ncols(), LANES, "as many records as go together");
    let lanes = |m: &DMatrix<f64>| -> Vec<Lanes> {
        m.row_iter().map(|row| Lanes(std::array::from_fn(|l| row[l]))).collect()
    };
    let matrix = |lanes: &[Lanes]| DMatrix::from_fn(lanes.len(), LANES, |i, l| lanes[i].0[l]);
    let served = |block: &DMatrix<f64>| match model.outputs(block) {
        Ok(outputs) => outputs.into_matrix(),
        Err(e) => panic!("outputs: {e}"),
    };
    let Some(mut pass) = model.pass() else { panic!("no pass") };
    let width = model.spec().width() as usize;
    let mut outputs = vec![Lanes::all(0.0); width];
    pass.outputs(&lanes(block), &mut outputs);
    let all = served(block);
    for (at, (found, expected)) in matrix(&outputs).iter().zip(&all).enumerate() {
        compare("outputs", at, *expected, *found, 1e-12);
    }
    let direction = random(width, LANES, 3);
    let mut slopes = vec![Lanes::all(0.0); block.nrows()];
    // Called twice, as the second call must not add to the first.
    pass.pull_back(&lanes(&direction), &mut slopes);
    pass.pull_back(&lanes(&direction), &mut slopes);
    for (at, analytic) in matrix(&slopes).iter().enumerate() {
        let moved = |by: f64| {
            let mut block = block.clone();
            block[at] += by;
            served(&block).dot(&direction)
        };
        compare("slopes", at, (moved(STEP) - moved(-STEP)) / (2.0 * STEP), *analytic, tolerance);
    }
}
