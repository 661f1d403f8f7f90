//! Two softmax regressions of one record as one.

use nalgebra::{DMatrix, DVector};
use vfl_numerics::softmax_columns;

/// A linear model: logits W x + b.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearModel {
    /// The weights, k × d.
    pub weights: DMatrix<f64>,
    /// The bias, k.
    pub bias: DVector<f64>,
}

impl LinearModel {
    /// Returns the logits (k × n) of records (d × n).
    ///
    /// # Panics
    /// If the records have another number of features.
    #[must_use]
    pub fn logits(&self, x: &DMatrix<f64>) -> DMatrix<f64> {
        let mut logits = &self.weights * x;
        logits.column_iter_mut().for_each(|mut column| column += &self.bias);
        logits
    }
}

/// Returns one softmax regression whose scores of a record say what two say together, and these
/// scores (K × n, K = k + k' − 1). Each comes with its scores of the same n records, k × n and k' ×
/// n. The second model has the first features of the other.
///
/// Scores determine the differences of logits to a class of reference. The first class of both
/// stands for the reference: its row is 0, and the others hold w_j − w_1 of either model. The
/// released scores give the same differences, ln c_j − ln c_1, so that nothing but them is used.
/// A score of 0 counts as the least positive number.
///
/// # Panics
/// If the second model has more features than the first, or a model fewer than one class.
#[must_use]
pub fn stacked(
    (first, c): (&LinearModel, &DMatrix<f64>),
    (second, c_2): (&LinearModel, &DMatrix<f64>),
) -> (LinearModel, DMatrix<f64>) {
    let (k, d) = first.weights.shape();
    let (k_2, d_2) = second.weights.shape();
    assert!(d_2 <= d && k > 0 && k_2 > 0, "the second model's features are the first of the other");
    let rows = k + k_2 - 1;
    // The model and the class of each row but the first.
    let place = |row: usize| if row < k { (first, c, row) } else { (second, c_2, row - k + 1) };
    let weights = DMatrix::from_fn(rows, d, |row, column| {
        let (model, _, class) = place(row);
        let of = |class: usize| model.weights.get((class, column)).copied().unwrap_or(0.0);
        if row == 0 { 0.0 } else { of(class) - of(0) }
    });
    let bias = DVector::from_fn(rows, |row, _| {
        let (model, _, class) = place(row);
        if row == 0 { 0.0 } else { model.bias[class] - model.bias[0] }
    });
    let log = |c: f64| c.max(f64::MIN_POSITIVE).ln();
    let mut scores = DMatrix::from_fn(rows, c.ncols(), |row, record| {
        let (_, c, class) = place(row);
        if row == 0 { 0.0 } else { log(c[(class, record)]) - log(c[(0, record)]) }
    });
    softmax_columns(&mut scores);
    (LinearModel { weights, bias }, scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scores_of_the_stacked_model_are_those_that_two_answers_give() {
        let numbers = |rows, columns, step: usize| {
            DMatrix::from_fn(rows, columns, |i, j| ((i * 5 + j * step) % 17) as f64 / 8.0 - 1.0)
        };
        let model = |k, d, step| LinearModel {
            weights: numbers(k, d, step),
            bias: DVector::from_fn(k, |i, _| 0.3 * i as f64 - 0.2),
        };
        let (first, second) = (model(4, 6, 3), model(3, 4, 7));
        let x = numbers(6, 9, 11).map(f64::abs);
        let scores = |model: &LinearModel, x: &DMatrix<f64>| {
            let mut scores = model.logits(x);
            softmax_columns(&mut scores);
            scores
        };
        let known = x.rows(0, 4).into_owned();
        let answers = (scores(&first, &x), scores(&second, &known));
        let (both, released) = stacked((&first, &answers.0), (&second, &answers.1));
        assert_eq!(both.weights.shape(), (6, 6));
        assert!((scores(&both, &x) - released).amax() < 1e-14);
        // The fallback's equations have no feature of the party that is away.
        assert_eq!(both.weights.view((4, 4), (2, 2)).amax(), 0.0);
    }
}
