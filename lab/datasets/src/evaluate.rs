//! Attack accuracy (J section 5.1.3): the share of reconstructed records that a classifier gives
//! the class of the true ones.
//!
//! It needs the truth, the estimates and the labels in one place. No party has all of them, so this
//! is only for the lab.

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use vfl_core::metrics::{MetricError, attack_accuracy};
use vfl_core::types::ShapeError;
use vfl_numerics::{LinearSvm, SvmError, SvmSettings};

/// The default α of scikit-learn's `SGDClassifier`, which minimises the mean hinge loss + α/2 ‖w‖².
const PENALTY: f64 = 1e-4;

/// Errors from measuring attack accuracy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EvaluateError {
    /// The blocks do not fit together, or are empty.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// There are fewer than two classes, or values that are not finite.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The support vector machine cannot be fitted to the numbers.
    #[error("the evaluation classifier: {0}")]
    Machine(#[from] SvmError),
    /// A label is not a class.
    #[error("label {label} of held-out record {record} is not below the {classes} classes")]
    Label {
        /// The label that is not valid.
        label: u32,
        /// The record's position, from 0.
        record: usize,
        /// The number of classes.
        classes: usize,
    },
}

/// The evaluation classifier M of J (24), which predicts a class from the passive features alone.
///
/// It is a linear support vector machine for each class against the others, as J's `SGDClassifier`
/// of scikit-learn is (J names no setting).
///
/// Deviation: the objective is solved to a duality gap of 10⁻⁴, while stochastic gradient descent
/// stops near the optimum; and the bias is penalised with the weights.
#[derive(Debug, Clone)]
pub struct EvaluationClassifier {
    machine: LinearSvm,
}

/// Shares of records, in [0, 1], to which the evaluation classifier gives the same class as to the
/// true features.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttackAccuracy {
    /// The share for the estimates: J (24).
    pub estimates: f64,
    /// The share for ½ in every feature. If this is high as well, the classifier depends little on
    /// these features, and the attack's share means little.
    pub half: f64,
}

impl EvaluationClassifier {
    /// Trains on *held-out* records, which neither the training of the attacked model nor the
    /// attack uses: `held_out` is d × n passive features in [0, 1], `labels` their n true labels,
    /// below `classes`. The seed gives the order of the records in each pass. The same records and
    /// seed give the same classifier.
    ///
    /// # Errors
    /// [`EvaluateError`] for fewer than two classes, labels of another number than the records or
    /// not below `classes`, no feature, no record, or values that are not finite.
    pub fn train(
        classes: usize,
        held_out: &DMatrix<f64>,
        labels: &[u32],
        seed: u64,
    ) -> Result<Self, EvaluateError> {
        let what = "the held-out block";
        if classes < 2 {
            return Err(ShapeError::TooFewClasses {
                what: "the evaluation classifier",
                got: classes,
            }
            .into());
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
        let cost = 1.0 / (PENALTY * labels.len() as f64);
        let settings = SvmSettings { cost, tolerance: 1e-4, most_passes: 20_000 };
        let machine = LinearSvm::fit(
            held_out,
            labels,
            classes,
            &settings,
            &mut ChaCha20Rng::seed_from_u64(seed),
        )?;
        Ok(Self { machine })
    }

    /// Returns the class of each record of `x` (d × n); the lowest class if decisions are equal.
    ///
    /// # Errors
    /// [`EvaluateError`] for another number of features, or for values that are not finite or so
    /// large that decisions are not.
    pub fn classify(&self, x: &DMatrix<f64>) -> Result<Vec<u32>, EvaluateError> {
        let expected = self.machine.weights().ncols();
        if x.nrows() != expected {
            let (what, got) = ("the block to classify", x.nrows());
            return Err(MetricError::Size { what, unit: "features", expected, got }.into());
        }
        let what = "the decision of the evaluation classifier";
        match self
            .machine
            .decisions(x)
            .column_iter()
            .position(|of_record| of_record.iter().any(|v| !v.is_finite()))
        {
            Some(record) => Err(ShapeError::NotFinite { what, record }.into()),
            None => Ok(self.machine.classify(x)),
        }
    }

    /// Returns J (24) of `estimates` against `truth`, both d × n, and the same share for ½.
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
    use serde::Deserialize;

    use super::*;

    /// Machines that scikit-learn's `LinearSVC` fitted (`scripts/numpy/linear_svm.py`).
    #[derive(Deserialize)]
    struct Fitted {
        cost: f64,
        classes: usize,
        x: Vec<Vec<f64>>,
        labels: Vec<u32>,
        weights: Vec<Vec<f64>>,
        bias: Vec<f64>,
        objectives: Vec<f64>,
        predicted: Vec<u32>,
    }

    #[test]
    fn machines_are_those_of_scikit_learn() {
        let cases: Vec<Fitted> =
            serde_json::from_str(include_str!("evaluate/scikit_learn.json")).unwrap();
        assert_eq!(cases.iter().map(|case| case.classes).collect::<Vec<_>>(), [2, 3, 4]);
        for case in cases {
            let x = DMatrix::from_fn(case.x[0].len(), case.x.len(), |i, j| case.x[j][i]);
            let settings = SvmSettings { cost: case.cost, tolerance: 1e-12, most_passes: 200_000 };
            let mut rng = ChaCha20Rng::seed_from_u64(1);
            let machine =
                LinearSvm::fit(&x, &case.labels, case.classes, &settings, &mut rng).unwrap();
            assert!(machine.converged(), "{machine:?}");
            for (class, want) in case.objectives.iter().enumerate() {
                let found = machine.objectives()[class];
                assert!((found - want).abs() < 1e-8 * want, "class {class}: {found} {want}");
                let weights = machine.weights().row(class);
                let off = weights.iter().zip(&case.weights[class]).map(|(f, w)| (f - w).abs());
                let off = off.fold((machine.bias()[class] - case.bias[class]).abs(), f64::max);
                // ½ ‖w − w*‖² is at most the distance of the objectives, which liblinear leaves at
                // 1e-8.
                assert!(off < 3e-4, "class {class}: off by {off:e}");
            }
            assert_eq!(machine.classify(&x), case.predicted);
        }
    }

    /// Three classes, given by which of three features is the largest; a fourth feature says
    /// nothing. Computed, so that the true class of any record is known.
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
        let m = EvaluationClassifier::train(3, &held_out, &labels, 3).unwrap();
        assert_eq!(m.classify(&truth).unwrap(), classes);
        let share = |estimates: &DMatrix<f64>| m.attack_accuracy(estimates, &truth).unwrap();
        // ½ has one class, and so have a third of the records.
        assert_eq!(share(&truth), AttackAccuracy { estimates: 1.0, half: 1.0 / 3.0 });
        // Each record gets its neighbour's features, which are all of another class.
        let shifted = DMatrix::from_fn(4, 300, |i, j| truth[(i, (j + 1) % 300)]);
        assert_eq!(share(&shifted).estimates, 0.0);
        // The useless feature may be anything. Half of the records are reconstructed.
        let mut part = truth.clone();
        part.row_mut(3).fill(0.0);
        assert_eq!(share(&part).estimates, 1.0);
        part.columns_mut(0, 150).fill(0.5);
        assert!((share(&part).estimates - (0.5 + 0.5 / 3.0)).abs() < 1e-12);
        // Labels have no effect; only the predicted classes of both do.
        assert_eq!(m.attack_accuracy(&shifted, &shifted).unwrap().estimates, 1.0);
    }

    #[test]
    fn bad_input_is_refused() {
        let (x, labels) = world(30, 0);
        let refuse = |classes, x: &DMatrix<f64>, labels: &[u32]| {
            EvaluationClassifier::train(classes, x, labels, 3).err().unwrap()
        };
        assert!(matches!(
            refuse(1, &x, &labels),
            EvaluateError::Shape(ShapeError::TooFewClasses { .. })
        ));
        assert_eq!(
            refuse(2, &x, &labels),
            EvaluateError::Label { label: 2, record: 2, classes: 2 }
        );
        assert!(matches!(
            refuse(3, &x, &labels[1..]),
            EvaluateError::Metric(MetricError::Size { .. })
        ));
        for shape in [(0, 30), (4, 0)] {
            let empty = DMatrix::zeros(shape.0, shape.1);
            assert!(matches!(
                refuse(3, &empty, &labels),
                EvaluateError::Metric(MetricError::Empty { .. })
            ));
        }
        let mut bad = x.clone();
        bad[(1, 5)] = f64::NAN;
        assert!(matches!(
            refuse(3, &bad, &labels),
            EvaluateError::Shape(ShapeError::NotFinite { record: 5, .. })
        ));

        let m = EvaluationClassifier::train(3, &x, &labels, 3).unwrap();
        let refuse = |estimates: &DMatrix<f64>, truth: &DMatrix<f64>| {
            m.attack_accuracy(estimates, truth).unwrap_err()
        };
        assert!(matches!(
            refuse(&x.rows(0, 3).into_owned(), &x),
            EvaluateError::Metric(MetricError::Size { .. })
        ));
        assert!(matches!(
            refuse(&x.columns(0, 3).into_owned(), &x),
            EvaluateError::Metric(MetricError::Size { .. })
        ));
        assert!(matches!(refuse(&bad, &x), EvaluateError::Shape(ShapeError::NotFinite { .. })));
        let none = DMatrix::zeros(4, 0);
        assert!(matches!(refuse(&none, &none), EvaluateError::Metric(MetricError::Empty { .. })));
    }
}
