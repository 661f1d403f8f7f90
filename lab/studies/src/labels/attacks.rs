//! The attacks: each lets a passive party name the labels of the training records.
//!
//! Each names a class for every record of the training's list, or `None` for a record that the
//! party received nothing about.

use nalgebra::{DMatrix, DVector};
use vfl_core::model::train_converged;
use vfl_core::types::ShapeError;
use vfl_numerics::{Lbfgs, arg_max};

use super::passive_transcript::{PassiveTranscript, Step};

/// The class that an attack names for each record of the training's list.
pub type PredictedLabels = Vec<Option<u32>>;

/// A record whose label the adversary knows: its position and its class.
pub type KnownLabel = (usize, u32);

/// The weight of the squared norm in classifiers that are fitted to few records, whose inputs have
/// variance 1 over their number.
const PENALTY: f64 = 0.01;

/// Combiner `sum`: names the class at which a record's column is below 0, at the first step with
/// such an entry.
///
/// The gradient is (c − e_y) / B. Scores are at least 0, so the entry of class y is the only one
/// below 0 wherever c_y < 1: the answer is exact, for any model and any number of classes (Fu et
/// al. 2022, direct label inference; Li et al. 2022).
#[must_use]
pub fn gradient_sign(received: &PassiveTranscript) -> PredictedLabels {
    let mut named = vec![None; received.records];
    for step in &received.steps {
        for (column, &position) in step.gradient.column_iter().zip(&step.positions) {
            if let (Some(name @ None), true) =
                (named.get_mut(position as usize), column.min() < 0.0)
            {
                *name = class(column.imin());
            }
        }
    }
    named
}

/// Returns the gradients of one epoch as unit vectors, w × n: 0 for a record that was not in a
/// step.
fn directions(steps: &[Step], records: usize) -> DMatrix<f64> {
    let width = steps.first().map_or(0, |step| step.gradient.nrows());
    let mut all = DMatrix::zeros(width, records);
    for step in steps {
        for (column, &position) in step.gradient.column_iter().zip(&step.positions) {
            let length = column.norm();
            if length > 0.0 {
                all.set_column(position as usize, &(column / length));
            }
        }
    }
    all
}

/// Any combiner: names the class whose known records' gradients have the most similar direction, by
/// the cosine with their mean direction, summed over epochs (Li et al. 2022, 3.2, with known
/// records in place of a known class).
#[must_use]
pub fn gradient_direction(
    epochs: &[&[Step]],
    known: &[KnownLabel],
    classes: usize,
    records: usize,
) -> PredictedLabels {
    let mut scores = DMatrix::<f64>::zeros(classes, records);
    for steps in epochs {
        let directions = directions(steps, records);
        let mut means = DMatrix::<f64>::zeros(directions.nrows(), classes);
        for &(record, label) in known {
            let mut mean = means.column_mut(label as usize);
            mean += directions.column(record);
        }
        for mut mean in means.column_iter_mut() {
            let length = mean.norm();
            if length > 0.0 {
                mean /= length;
            }
        }
        scores += means.tr_mul(&directions);
    }
    scores
        .column_iter()
        .map(|column| class(column.imax()).filter(|_| column.amax() > 0.0))
        .collect()
}

/// Two classes, no label known: splits records by the side of the main axis of the gradients'
/// directions on which their gradient lies. The side with more records gets the class `larger`,
/// which the adversary takes for the more frequent one (Li et al. 2022, 3.2).
///
/// Under a top model without hidden layers all gradients of a step lie on one line, on two sides by
/// their class.
#[must_use]
pub fn gradient_sides(epochs: &[&[Step]], larger: u32, records: usize) -> PredictedLabels {
    let mut total = DVector::<f64>::zeros(records);
    for steps in epochs {
        let directions = directions(steps, records);
        if directions.nrows() == 0 {
            continue;
        }
        let axes = (&directions * directions.transpose()).symmetric_eigen();
        let along = directions.tr_mul(&axes.eigenvectors.column(axes.eigenvalues.imax()));
        // An axis has no sign of its own: the epochs are aligned to the same sign.
        let turn = if along.dot(&total) < 0.0 { -1.0 } else { 1.0 };
        total += along * turn;
    }
    let seen = total.iter().filter(|side| **side != 0.0).count();
    let above = total.iter().filter(|side| **side > 0.0).count();
    let (positive, negative) =
        if 2 * above >= seen { (larger, 1 - larger) } else { (1 - larger, larger) };
    let name = |side: &f64| (*side != 0.0).then_some(if *side > 0.0 { positive } else { negative });
    total.iter().map(name).collect()
}

/// Two classes, no label known: names the records with the longest gradients `rarer`, as many as
/// `share` of them (Li et al. 2022, 3.1: a model is less sure of the rarer class).
#[must_use]
pub fn gradient_norm(
    epochs: &[&[Step]],
    rarer: u32,
    share: f64,
    records: usize,
) -> PredictedLabels {
    let mut lengths = vec![0.0f64; records];
    for step in epochs.iter().copied().flatten() {
        // Batches differ in size, and the gradient is that of a mean.
        let size = step.positions.len() as f64;
        for (column, &position) in step.gradient.column_iter().zip(&step.positions) {
            lengths[position as usize] += size * column.norm();
        }
    }
    let mut order: Vec<usize> = (0..records).filter(|&record| lengths[record] > 0.0).collect();
    order.sort_by(|&a, &b| lengths[b].total_cmp(&lengths[a]));
    let many = (share * order.len() as f64).round() as usize;
    let mut named = vec![None; records];
    for (place, &record) in order.iter().enumerate() {
        named[record] = Some(if place < many { rarer } else { 1 - rarer });
    }
    named
}

/// Combiner `sum`, from the party's own parameters alone: names the class of its largest output.
/// The outputs (k × n) are centred by their means over all records, which stand in for the active
/// party's bias.
#[must_use]
pub fn own_outputs(outputs: &DMatrix<f64>) -> PredictedLabels {
    largest(&centred(outputs))
}

/// Softmax regression: does the same from the signs of the weights (k × d) alone, relative to their
/// mean over the classes. After the first step of Adam these are the signs of the gradient.
#[must_use]
pub fn parameter_signs(weights: &DMatrix<f64>, own: &DMatrix<f64>) -> PredictedLabels {
    let mut signs = weights.clone();
    for mut column in signs.column_iter_mut() {
        let mean = column.mean();
        column.apply(|w| {
            *w = if *w > mean {
                1.0
            } else if *w < mean {
                -1.0
            } else {
                0.0
            }
        });
    }
    largest(&(signs * centred(own)))
}

/// Fits a softmax regression on `inputs` (p × n), standardised to mean 0 and variance 1, to the
/// known records. On the outputs of the party's sub-model this is model completion (Fu et al. 2022,
/// passive; without their semi-supervised step), on its features the control.
///
/// # Errors
/// [`ShapeError`] for inputs that are not finite.
pub fn completion(
    inputs: &DMatrix<f64>,
    known: &[KnownLabel],
    classes: usize,
) -> Result<PredictedLabels, ShapeError> {
    let (p, n) = inputs.shape();
    let mut inputs = centred(inputs);
    for mut row in inputs.row_iter_mut() {
        let deviation = (row.norm_squared() / n.max(1) as f64).sqrt();
        // An output that hardly varies carries no information.
        let scale = if deviation > 1e-12 { 1.0 / (deviation * (p as f64).sqrt()) } else { 0.0 };
        row *= scale;
    }
    let (records, labels): (Vec<usize>, Vec<u32>) = known.iter().copied().unzip();
    let fit = train_converged(
        classes,
        &inputs.select_columns(&records),
        &labels,
        PENALTY,
        Lbfgs::default(),
    )?;
    let mut scores = fit.weights * inputs;
    scores.column_iter_mut().for_each(|mut column| column += &fit.bias);
    Ok(largest(&scores))
}

/// Subtracts the mean of each row.
fn centred(rows: &DMatrix<f64>) -> DMatrix<f64> {
    let mut centred = rows.clone();
    for mut row in centred.row_iter_mut() {
        let mean = row.mean();
        row.add_scalar_mut(-mean);
    }
    centred
}

fn largest(scores: &DMatrix<f64>) -> PredictedLabels {
    scores.column_iter().map(|column| class(arg_max(column.as_slice()))).collect()
}

fn class(index: usize) -> Option<u32> {
    u32::try_from(index).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use vfl_core::model::Combiner;

    use super::*;

    fn step(positions: &[u32], columns: &[[f64; 2]]) -> Step {
        let values: Vec<f64> = columns.iter().flatten().copied().collect();
        Step {
            positions: positions.to_vec(),
            gradient: DMatrix::from_vec(2, columns.len(), values),
        }
    }

    #[test]
    fn the_only_negative_entry_is_the_class() {
        let received = PassiveTranscript {
            combiner: Combiner::Sum,
            records: 4,
            // The model may be certain of a record before or after a step: its score is then 1, and
            // the signs say nothing.
            steps: vec![
                step(&[2, 0], &[[0.0, 0.0], [-0.4, 0.4]]),
                step(&[0, 2], &[[0.0, 0.0], [0.2, -0.2]]),
            ],
            epoch_ends: vec![2],
        };
        assert_eq!(gradient_sign(&received), [Some(0), None, Some(1), None]);
    }

    #[test]
    fn directions_go_by_their_angle_alone() {
        let first = step(&[0, 1, 2, 3], &[[1.0, 0.1], [-0.1, 3.0], [9.0, 2.0], [0.0, 0.01]]);
        let named = gradient_direction(&[&[first]], &[(0, 1), (1, 0)], 2, 5);
        assert_eq!(named, [Some(1), Some(0), Some(1), Some(0), None]);
    }

    /// Two sides of a line that turns round between the epochs, which may happen: five records
    /// against two.
    #[test]
    fn sides_of_an_axis_need_no_label() {
        let of = |turn: f64| {
            let columns: Vec<[f64; 2]> = [1.0, -2.0, 0.5, 1.0, -0.1, 4.0, 1.0]
                .iter()
                .map(|side| [turn * side, turn * side * 0.3])
                .collect();
            step(&[0, 1, 2, 3, 4, 5, 6], &columns)
        };
        let (first, second) = (of(1.0), of(-1.0));
        let named = gradient_sides(&[&[first], &[second]], 1, 8);
        let expected = [1, 0, 1, 1, 0, 1, 1].map(Some);
        assert_eq!(named[..7], expected);
        assert_eq!(named[7], None);
    }

    #[test]
    fn the_longest_gradients_are_the_rarer_class() {
        let small = step(&[0], &[[1.0, 0.0]]);
        // The gradient is a mean over four records, so each one counts four times.
        let large = step(&[1, 2, 3, 4], &[[0.3, 0.0], [0.0, 0.1], [0.05, 0.0], [0.0, -0.2]]);
        let named = gradient_norm(&[&[small, large]], 0, 0.4, 5);
        assert_eq!(named, [Some(0), Some(0), Some(1), Some(1), Some(1)]);
    }

    #[test]
    fn own_parameters_are_read_around_their_mean() {
        let outputs = DMatrix::from_row_slice(2, 3, &[10.0, 11.0, 12.0, 0.0, 0.0, 0.0]);
        assert_eq!(own_outputs(&outputs), [Some(1), Some(0), Some(0)]);
        let weights = DMatrix::from_row_slice(2, 1, &[5.0, 4.0]);
        let own = DMatrix::from_row_slice(1, 3, &[0.1, 0.9, 0.8]);
        assert_eq!(parameter_signs(&weights, &own), [Some(1), Some(0), Some(0)]);
    }

    /// A constant input changes nothing, and few records tell two clusters apart.
    #[test]
    fn completion_learns_from_few_records() {
        let inputs = DMatrix::from_fn(2, 10, |i, j| {
            if i == 0 { 7.0 } else { f64::from(u8::from(j >= 6)) + 0.01 * j as f64 }
        });
        let named = completion(&inputs, &[(0, 1), (9, 0)], 2).unwrap();
        let expected: PredictedLabels = (0..10).map(|j| Some(u32::from(j < 6))).collect();
        assert_eq!(named, expected);
    }
}
