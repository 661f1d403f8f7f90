//! Attack accuracy (J section 5.1.3): is a reconstructed record classified as the true one would be?
//!
//! It takes the truth, the estimates and labels in one place, which no party has: for the lab only.

use nalgebra::DMatrix;
use vfl_shared::metrics::{MetricError, attack_accuracy};
use vfl_shared::model::{CentralFit, TrainingConfig, train_central};
use vfl_shared::numerics::arg_max;
use vfl_shared::types::{Logits, ShapeError};

/// Why there is no attack accuracy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EvaluateError {
    /// Blocks that do not fit together, or nothing in them.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// Fewer than two classes, or logits that are not finite.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A label that is no class.
    #[error("label {label} of held-out record {record} is not below the {classes} classes")]
    Label {
        /// What came.
        label: u32,
        /// The record's position, from 0.
        record: usize,
        /// How many classes there are.
        classes: usize,
    },
}

/// The evaluation classifier M of J (24): it answers a class from the passive features alone.
///
/// J takes the SGD classifier of scikit-learn; this is multinomial logistic regression, trained as all models here are.
#[derive(Clone)]
pub struct EvaluationClassifier {
    fit: CentralFit,
}

/// Shares of records, in [0, 1], that the evaluation classifier gives the class that it gives the true features.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttackAccuracy {
    /// Of the estimates: J (24).
    pub estimates: f64,
    /// Of ½ in every feature. Where this is high as well, the classifier tells little by these features, and the attack's
    /// share means little.
    pub half: f64,
}

impl EvaluationClassifier {
    /// Trains on *held-out* records, which neither the model under attack was trained on nor the attack is run on:
    /// `held_out` is d × n passive features in [0, 1], `labels` their n true labels, below `classes`. The same
    /// configuration and records give the same classifier.
    ///
    /// # Errors
    /// [`EvaluateError`] for fewer than two classes, labels that are not the records' or not below `classes`, no feature, no
    /// record, or values that are not finite.
    pub fn train(
        config: &TrainingConfig,
        classes: usize,
        held_out: &DMatrix<f64>,
        labels: &[u32],
    ) -> Result<Self, EvaluateError> {
        let what = "the held-out block";
        if classes < 2 {
            return Err(ShapeError::TooFewClasses { what: "the evaluation classifier", got: classes }.into());
        }
        match held_out.shape() {
            (0, _) => return Err(MetricError::Empty { what, unit: "features" }.into()),
            (_, 0) => return Err(MetricError::Empty { what, unit: "records" }.into()),
            (_, n) if n != labels.len() => {
                let (what, got) = ("the list of held-out labels", labels.len());
                return Err(MetricError::Size { what, unit: "records", expected: n, got }.into());
            }
            (d, _) => {
                if let Some(at) = held_out.as_slice().iter().position(|v| !v.is_finite()) {
                    return Err(ShapeError::NotFinite { what, record: at / d }.into());
                }
            }
        }
        if let Some(record) = labels.iter().position(|&label| label as usize >= classes) {
            return Err(EvaluateError::Label { label: labels[record], record, classes });
        }
        Ok(Self { fit: train_central(config, classes, held_out, labels) })
    }

    /// The class of each record of `x` (d × n); of equal logits the lowest class.
    ///
    /// # Errors
    /// [`EvaluateError`] for another number of features, or values so large or not finite that their logits are not finite.
    pub fn classify(&self, x: &DMatrix<f64>) -> Result<Vec<u32>, EvaluateError> {
        let expected = self.fit.weights.ncols();
        if x.nrows() != expected {
            let (what, got) = ("the block to classify", x.nrows());
            return Err(MetricError::Size { what, unit: "features", expected, got }.into());
        }
        let mut logits = &self.fit.weights * x;
        for mut column in logits.column_iter_mut() {
            column += &self.fit.bias;
        }
        let logits = Logits::new(logits)?;
        Ok(logits.matrix().column_iter().map(|z| arg_max(z.as_slice()) as u32).collect())
    }

    /// J (24) of `estimates` against `truth`, both d × n, and of ½ beside it.
    ///
    /// # Errors
    /// [`EvaluateError`] if the shapes differ, there is no record, or a value is not finite.
    pub fn attack_accuracy(
        &self,
        estimates: &DMatrix<f64>,
        truth: &DMatrix<f64>,
    ) -> Result<AttackAccuracy, EvaluateError> {
        let of_truth = self.classify(truth)?;
        let half = self.classify(&DMatrix::from_element(truth.nrows(), truth.ncols(), 0.5))?;
        Ok(AttackAccuracy {
            estimates: attack_accuracy(&of_truth, &self.classify(estimates)?)?,
            half: attack_accuracy(&of_truth, &half)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfl_shared::model::TrainingValues;

    fn config() -> TrainingConfig {
        TrainingConfig::try_from(TrainingValues { epochs: 60, learning_rate: 0.05, seed: 3, ..Default::default() })
            .unwrap()
    }

    /// Three classes, told apart by which of three features is the largest; a fourth says nothing. Made by arithmetic, so
    /// that the true class of any record is known.
    fn world(n: usize, offset: usize) -> (DMatrix<f64>, Vec<u32>) {
        let x = DMatrix::from_fn(4, n, |i, j| {
            let noise = (((i + 1) * 7919 + (j + offset) * 104_729) % 1009) as f64 / 1009.0;
            if i < 3 && (j + offset) % 3 == i { 0.6 + 0.4 * noise } else { 0.5 * noise }
        });
        (x, (0..n).map(|j| ((j + offset) % 3) as u32).collect())
    }

    #[test]
    fn a_perfect_reconstruction_is_classified_as_the_truth_and_noise_is_not() {
        let (held_out, labels) = world(600, 0);
        let (truth, classes) = world(300, 600);
        let m = EvaluationClassifier::train(&config(), 3, &held_out, &labels).unwrap();
        assert_eq!(m.classify(&truth).unwrap(), classes);
        let share = |estimates: &DMatrix<f64>| m.attack_accuracy(estimates, &truth).unwrap();
        // ½ has one class, and so have a third of the records.
        assert_eq!(share(&truth), AttackAccuracy { estimates: 1.0, half: 1.0 / 3.0 });
        // Each record gets its neighbour's features: of another class, every one.
        let shifted = DMatrix::from_fn(4, 300, |i, j| truth[(i, (j + 1) % 300)]);
        assert_eq!(share(&shifted).estimates, 0.0);
        // The useless feature may be anything; half of the records are given away.
        let mut part = truth.clone();
        part.row_mut(3).fill(0.0);
        assert_eq!(share(&part).estimates, 1.0);
        part.columns_mut(0, 150).fill(0.5);
        assert!((share(&part).estimates - (0.5 + 0.5 / 3.0)).abs() < 1e-12);
        // Labels do not enter, nor does anything that is not the classes of both.
        assert_eq!(m.attack_accuracy(&shifted, &shifted).unwrap().estimates, 1.0);
    }

    #[test]
    fn bad_input_is_refused() {
        let (x, labels) = world(30, 0);
        let refuse = |classes, x: &DMatrix<f64>, labels: &[u32]| {
            EvaluationClassifier::train(&config(), classes, x, labels).err().unwrap()
        };
        assert!(matches!(refuse(1, &x, &labels), EvaluateError::Shape(ShapeError::TooFewClasses { .. })));
        assert_eq!(refuse(2, &x, &labels), EvaluateError::Label { label: 2, record: 2, classes: 2 });
        assert!(matches!(refuse(3, &x, &labels[1..]), EvaluateError::Metric(MetricError::Size { .. })));
        for shape in [(0, 30), (4, 0)] {
            let empty = DMatrix::zeros(shape.0, shape.1);
            assert!(matches!(refuse(3, &empty, &labels), EvaluateError::Metric(MetricError::Empty { .. })));
        }
        let mut bad = x.clone();
        bad[(1, 5)] = f64::NAN;
        assert!(matches!(refuse(3, &bad, &labels), EvaluateError::Shape(ShapeError::NotFinite { record: 5, .. })));

        let m = EvaluationClassifier::train(&config(), 3, &x, &labels).unwrap();
        let refuse = |estimates: &DMatrix<f64>, truth: &DMatrix<f64>| m.attack_accuracy(estimates, truth).unwrap_err();
        assert!(matches!(refuse(&x.rows(0, 3).into_owned(), &x), EvaluateError::Metric(MetricError::Size { .. })));
        assert!(matches!(refuse(&x.columns(0, 3).into_owned(), &x), EvaluateError::Metric(MetricError::Size { .. })));
        assert!(matches!(refuse(&bad, &x), EvaluateError::Shape(ShapeError::NotFinite { .. })));
        let none = DMatrix::zeros(4, 0);
        assert!(matches!(refuse(&none, &none), EvaluateError::Metric(MetricError::Empty { .. })));
    }
}
