//! Linear support vector machines by dual coordinate descent (C.-J. Hsieh, K.-W. Chang, C.-J. Lin,
//! S. Keerthi, S. Sundararajan, *A Dual Coordinate Descent Method for Large-scale Linear SVM*, ICML
//! 2008, algorithm 1).

use std::fmt;

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use rand::seq::SliceRandom;

use crate::softmax::arg_max;

/// The settings of a fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SvmSettings {
    /// C, above 0: the weight of the hinge losses relative to ½ ‖w‖².
    pub cost: f64,
    /// A class is finished when its duality gap is at most this share of its objective.
    pub tolerance: f64,
    /// The maximum number of passes over the records.
    pub most_passes: u32,
}

impl Default for SvmSettings {
    /// Uses C = 1, a gap of 10⁻⁶ and 5000 passes.
    fn default() -> Self {
        Self { cost: 1.0, tolerance: 1e-6, most_passes: 5000 }
    }
}

/// Errors from fitting a support vector machine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SvmError {
    /// The numbers of labels and of records differ.
    #[error("there are {labels} labels of {records} records, expected one of each")]
    Labels {
        /// The number of labels.
        labels: usize,
        /// The number of records.
        records: usize,
    },
    /// Fewer than two classes.
    #[error("a classifier needs at least 2 classes, got {got}")]
    Classes {
        /// The number of classes that was given.
        got: usize,
    },
    /// A label is not a class.
    #[error("the label of record {record} is no class: expected 0 to {}", .classes - 1)]
    Label {
        /// The position of the record, from 0.
        record: usize,
        /// The number of classes.
        classes: usize,
    },
    /// A value is NaN or infinite.
    #[error("record {record} holds a value that is not finite")]
    NotFinite {
        /// The position of the record, from 0.
        record: usize,
    },
    /// A cost or a tolerance is out of range.
    #[error("`{what}` is {got}, expected a finite number above 0")]
    Setting {
        /// The name of the setting.
        what: &'static str,
        /// The value that was given.
        got: f64,
    },
}

/// One linear classifier for each class against all others.
///
/// The classifier of class m minimises ½ ‖w‖² + C Σ_i max(0, 1 − y_i wᵀx_i), y_i = 1 for records of
/// class m and −1 for others, and x_i with a 1 below it: the bias is the last entry of w and
/// penalised with it, as in liblinear. A record belongs to the class with the largest wᵀx. The
/// dual, min ½ ‖Σ α_i y_i x_i‖² − Σ α_i over 0 ≤ α_i ≤ C, is minimised exactly over one α_i at a
/// time, in a new random order for each pass. The objective and the dual enclose the minimum, and
/// their distance is the gap.
///
/// # Example
///
/// Two classes on a line; the border is half way between them:
///
/// ```
/// use nalgebra::DMatrix;
/// use rand::SeedableRng;
/// use vfl_numerics::{LinearSvm, SvmSettings};
///
/// let x = DMatrix::from_row_slice(1, 4, &[-2.0, -1.0, 1.0, 2.0]);
/// let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(1);
/// let svm = LinearSvm::fit(&x, &[0, 0, 1, 1], 2, &SvmSettings::default(), &mut rng)?;
/// assert_eq!(svm.classify(&DMatrix::from_row_slice(1, 2, &[-0.1, 0.1])), [0, 1]);
/// assert!((svm.weights()[(1, 0)] - 1.0).abs() < 1e-3 && svm.bias()[1].abs() < 1e-3);
/// # Ok::<(), vfl_numerics::SvmError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct LinearSvm {
    /// k × d.
    weights: DMatrix<f64>,
    bias: DVector<f64>,
    objectives: Vec<f64>,
    gap: f64,
    converged: bool,
}

/// Shows sizes only: weights reveal information about the records.
impl fmt::Debug for LinearSvm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (k, d) = self.weights.shape();
        write!(f, "LinearSvm({k} classes, {d} features, gap {:.1e}, values withheld)", self.gap)
    }
}

/// The classifier of one class.
struct OneClass {
    /// w, the bias last.
    w: DVector<f64>,
    objective: f64,
    /// As a share of the objective.
    gap: f64,
}

impl LinearSvm {
    /// Fits `classes` (k) classifiers to records `x` (d × n) with their labels, below k. `rng`
    /// gives the order of the records in each pass.
    ///
    /// # Errors
    /// [`SvmError`] for labels that do not match the records or the classes, values that are not
    /// finite, or settings out of range.
    pub fn fit(
        x: &DMatrix<f64>,
        labels: &[u32],
        classes: usize,
        settings: &SvmSettings,
        rng: &mut dyn Rng,
    ) -> Result<Self, SvmError> {
        let (d, n) = x.shape();
        if classes < 2 {
            return Err(SvmError::Classes { got: classes });
        }
        if labels.len() != n {
            return Err(SvmError::Labels { labels: labels.len(), records: n });
        }
        if let Some(record) = labels.iter().position(|label| *label as usize >= classes) {
            return Err(SvmError::Label { record, classes });
        }
        for (what, got) in [("cost", settings.cost), ("tolerance", settings.tolerance)] {
            if !(got > 0.0 && got.is_finite()) {
                return Err(SvmError::Setting { what, got });
            }
        }
        let with_one = x.clone().insert_row(d, 1.0);
        let squares: Vec<f64> = with_one.column_iter().map(|x| x.norm_squared()).collect();
        if let Some(record) = squares.iter().position(|square| !square.is_finite()) {
            return Err(SvmError::NotFinite { record });
        }
        let mut fits = Vec::with_capacity(classes);
        for class in 0..classes {
            let signs: Vec<f64> =
                labels.iter().map(|l| if *l as usize == class { 1.0 } else { -1.0 }).collect();
            fits.push(one_class(&with_one, &squares, &signs, settings, rng));
        }
        let gap = fits.iter().map(|fit| fit.gap).fold(0.0, f64::max);
        Ok(Self {
            weights: DMatrix::from_fn(classes, d, |class, i| fits[class].w[i]),
            bias: DVector::from_fn(classes, |class, _| fits[class].w[d]),
            objectives: fits.iter().map(|fit| fit.objective).collect(),
            gap,
            converged: gap <= settings.tolerance,
        })
    }

    /// Returns wᵀx of each class (k × n) at records `x` (d × n).
    ///
    /// # Panics
    /// If `x` has another number of features.
    #[must_use]
    pub fn decisions(&self, x: &DMatrix<f64>) -> DMatrix<f64> {
        let mut found = &self.weights * x;
        found.column_iter_mut().for_each(|mut column| column += &self.bias);
        found
    }

    /// Returns the class of each record of `x` (d × n); of equal decisions the lowest one.
    ///
    /// # Panics
    /// If `x` has another number of features.
    #[must_use]
    pub fn classify(&self, x: &DMatrix<f64>) -> Vec<u32> {
        self.decisions(x).column_iter().map(|column| arg_max(column.as_slice()) as u32).collect()
    }

    /// Returns the weights, k × d.
    #[must_use]
    pub fn weights(&self) -> &DMatrix<f64> {
        &self.weights
    }

    /// Returns the biases, k entries.
    #[must_use]
    pub fn bias(&self) -> &DVector<f64> {
        &self.bias
    }

    /// Returns the objective of each class's classifier.
    #[must_use]
    pub fn objectives(&self) -> &[f64] {
        &self.objectives
    }

    /// Returns the largest duality gap, as a share of the objective: no classifier's objective is
    /// farther above the least one.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.gap
    }

    /// Returns true if the gap is within the tolerance.
    #[must_use]
    pub fn converged(&self) -> bool {
        self.converged
    }
}

/// Fits the classifier of one class. `x` has a 1 in its last row, `squares` are ‖x_i‖², `signs` the
/// y_i.
fn one_class(
    x: &DMatrix<f64>,
    squares: &[f64],
    signs: &[f64],
    settings: &SvmSettings,
    mut rng: &mut dyn Rng,
) -> OneClass {
    let cost = settings.cost;
    let mut alphas = vec![0.0; signs.len()];
    let mut w = DVector::zeros(x.nrows());
    let mut order: Vec<usize> = (0..signs.len()).collect();
    let mut passes = 0;
    loop {
        let losses: f64 =
            x.column_iter().zip(signs).map(|(x, y)| (1.0 - y * x.dot(&w)).max(0.0)).sum();
        let half = 0.5 * w.norm_squared();
        let objective = half + cost * losses;
        // Minimum ≥ dual = Σ α − ½ ‖w‖².
        let gap = objective - (alphas.iter().sum::<f64>() - half);
        let gap = (gap / objective.max(f64::MIN_POSITIVE)).max(0.0);
        if gap <= settings.tolerance || passes == settings.most_passes {
            return OneClass { w, objective, gap };
        }
        order.shuffle(&mut rng);
        for &i in &order {
            let (x, y, alpha) = (x.column(i), signs[i], alphas[i]);
            // ‖x‖² is at least 1, because of the last row.
            let next = (alpha - (y * x.dot(&w) - 1.0) / squares[i]).clamp(0.0, cost);
            w.axpy((next - alpha) * y, &x, 1.0);
            alphas[i] = next;
        }
        passes += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    use super::*;

    fn fit(x: &DMatrix<f64>, labels: &[u32], classes: usize, settings: SvmSettings) -> LinearSvm {
        LinearSvm::fit(x, labels, classes, &settings, &mut ChaCha20Rng::seed_from_u64(4)).unwrap()
    }

    /// ½ ‖w‖² + C Σ hinge of a class, written out.
    fn objective(
        x: &DMatrix<f64>,
        labels: &[u32],
        class: usize,
        w: &[f64],
        bias: f64,
        cost: f64,
    ) -> f64 {
        let mut sum = 0.5 * (bias * bias + w.iter().map(|w| w * w).sum::<f64>());
        for (record, label) in labels.iter().enumerate() {
            let y = if *label as usize == class { 1.0 } else { -1.0 };
            let decision: f64 =
                bias + w.iter().enumerate().map(|(i, w)| w * x[(i, record)]).sum::<f64>();
            sum += cost * (1.0 - y * decision).max(0.0);
        }
        sum
    }

    /// −a and a of two classes: with a cost of at least 1 / (2a²) the margin is kept, w = 1/a and
    /// the objective 1/(2a²); with less every α is at its bound, w = 2aC. The bias is 0.
    #[test]
    fn two_points_have_a_closed_form() {
        for (a, cost) in [(1.0, 3.0), (0.5, 2.5), (0.5, 0.4), (2.0, 0.01)] {
            let x = DMatrix::from_row_slice(1, 2, &[-a, a]);
            let svm = fit(
                &x,
                &[0, 1],
                2,
                SvmSettings { cost, tolerance: 1e-12, ..SvmSettings::default() },
            );
            let w = f64::min(1.0 / a, 2.0 * a * cost);
            let least = 0.5 * w * w + 2.0 * cost * (1.0 - w * a).max(0.0);
            assert!(svm.converged() && svm.gap() <= 1e-12);
            assert!(
                (svm.weights()[(1, 0)] - w).abs() < 1e-5
                    && (svm.weights()[(0, 0)] + w).abs() < 1e-5,
                "{a} {cost}"
            );
            assert!(svm.bias().amax() < 1e-5);
            assert!((svm.objectives()[1] - least).abs() < 1e-10 * least.max(1.0));
        }
    }

    #[test]
    fn bad_input_is_refused() {
        let x = DMatrix::from_row_slice(1, 2, &[0.0, 1.0]);
        let refused = |x: &DMatrix<f64>, labels: &[u32], classes, settings: SvmSettings| {
            LinearSvm::fit(x, labels, classes, &settings, &mut ChaCha20Rng::seed_from_u64(1))
                .unwrap_err()
        };
        let plain = SvmSettings::default();
        assert_eq!(refused(&x, &[0, 1], 1, plain), SvmError::Classes { got: 1 });
        assert_eq!(refused(&x, &[0], 2, plain), SvmError::Labels { labels: 1, records: 2 });
        assert_eq!(refused(&x, &[0, 2], 2, plain), SvmError::Label { record: 1, classes: 2 });
        let bad = DMatrix::from_row_slice(1, 2, &[0.0, f64::NAN]);
        assert_eq!(refused(&bad, &[0, 1], 2, plain), SvmError::NotFinite { record: 1 });
        let free = SvmSettings { cost: 0.0, ..plain };
        assert_eq!(refused(&x, &[0, 1], 2, free), SvmError::Setting { what: "cost", got: 0.0 });
        // One pass is not enough, and says so.
        let hasty = SvmSettings { most_passes: 1, tolerance: 1e-12, ..plain };
        let svm = fit(
            &DMatrix::from_fn(2, 40, |i, j| ((i + 2) * j % 7) as f64),
            &[0, 1].repeat(20),
            2,
            hasty,
        );
        assert!(!svm.converged() && svm.gap() > 1e-12);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// The gap is a promise: no point has an objective below (1 − gap) of the one found. Points
        /// all around are tried, and zero.
        #[test]
        fn nothing_is_better_by_more_than_the_gap(seed in any::<u64>(), d in 1usize..5, k in 2usize..4, cost in 0.01f64..20.0) {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let n = 30;
            let x = DMatrix::from_fn(d, n, |_, _| rng.random::<f64>());
            // Not separable: a third of the labels is drawn.
            let labels: Vec<u32> = (0..n).map(|j| match rng.random_range(0..3) {
                0 => rng.random_range(0..k as u32),
                _ => ((x[(0, j)] * k as f64) as u32).min(k as u32 - 1),
            }).collect();
            let svm = fit(&x, &labels, k, SvmSettings { cost, ..SvmSettings::default() });
            // Large costs take many passes.
            prop_assert!(svm.gap() < 1e-2, "gap {}", svm.gap());
            for class in 0..k {
                let w: Vec<f64> = svm.weights().row(class).iter().copied().collect();
                let found = objective(&x, &labels, class, &w, svm.bias()[class], cost);
                prop_assert!((found - svm.objectives()[class]).abs() < 1e-9 * found.max(1.0));
                let least = found * (1.0 - svm.gap()) - 1e-9;
                prop_assert!(objective(&x, &labels, class, &vec![0.0; d], 0.0, cost) >= least);
                for step in [1e-4, 1e-2, 1.0] {
                    for _ in 0..30 {
                        let moved: Vec<f64> = w.iter().map(|w| w + step * (2.0 * rng.random::<f64>() - 1.0)).collect();
                        let bias = svm.bias()[class] + step * (2.0 * rng.random::<f64>() - 1.0);
                        prop_assert!(objective(&x, &labels, class, &moved, bias, cost) >= least, "{step}");
                    }
                }
            }
        }
    }
}
