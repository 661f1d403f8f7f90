//! Softmax regression to full convergence. Early stopping and Adam depend on the axes of the
//! features; the minimum itself does not. So claims about models of transformed features (R
//! proposition 4) refer to the minimum.

use nalgebra::{DMatrix, DMatrixView, DVector};
use vfl_numerics::{Lbfgs, Minimum};

use super::cross_entropy;
use crate::types::{Logits, ShapeError};

/// The result of training to full convergence.
#[derive(Clone, PartialEq)]
pub struct ConvergedFit {
    /// Weights of all features, k × d.
    pub weights: DMatrix<f64>,
    /// Bias of each class (k).
    pub bias: DVector<f64>,
    /// Mean cross-entropy (nats) plus l2 · ‖W‖².
    pub objective: f64,
    /// Largest magnitude of an entry of the gradient, of centred features.
    pub gradient_norm: f64,
    /// Number of steps taken.
    pub iterations: u32,
    /// True if the gradient is within the requested tolerance.
    pub converged: bool,
}

/// Shows the outcome, not the parameters.
impl std::fmt::Debug for ConvergedFit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { objective, gradient_norm, iterations, converged, .. } = self;
        write!(
            f,
            "ConvergedFit({objective}, gradient {gradient_norm:e}, {iterations} steps, converged: {converged})"
        )
    }
}

/// Minimises the mean cross-entropy of `labels` (below `classes`) on `x` (d × n, one record per
/// column) plus l2 · ‖W‖², without a penalty on the bias, from W = 0. With l2 = 0 and linearly
/// separable classes there is no minimum.
///
/// # Errors
/// [`ShapeError`] if the labels are not those of the records, or a feature is not finite.
pub fn train_converged(
    classes: usize,
    x: &DMatrix<f64>,
    labels: &[u32],
    l2: f64,
    method: Lbfgs,
) -> Result<ConvergedFit, ShapeError> {
    let (d, n) = x.shape();
    if labels.len() != n {
        return Err(ShapeError::Size {
            what: "labels",
            unit: "records",
            expected: n,
            got: labels.len(),
        });
    }
    if let Some(label) = labels.iter().find(|&&l| l as usize >= classes) {
        return Err(ShapeError::Size {
            what: "labels",
            unit: "classes",
            expected: classes,
            got: *label as usize + 1,
        });
    }
    if classes < 2 {
        return Err(ShapeError::TooFewClasses { what: "labels", got: classes });
    }
    // Centred features leave the bias nearly independent of the weights, which halves the steps.
    let mean = x.column_mean();
    let mut extended = x.clone().insert_row(d, 1.0);
    for mut column in extended.column_iter_mut() {
        let mut features = column.rows_mut(0, d);
        features -= &mean;
    }
    let mut objective = |theta: &[f64], gradient: &mut [f64]| {
        let theta = DMatrixView::from_slice(theta, classes, d + 1);
        let Ok(logits) = Logits::new(theta * &extended) else {
            gradient.fill(f64::NAN);
            return f64::INFINITY;
        };
        let (loss, residual, _) = cross_entropy(logits, labels);
        let mut slope = &residual * extended.transpose();
        let weights = theta.columns(0, d);
        let mut of_weights = slope.columns_mut(0, d);
        of_weights += weights * (2.0 * l2);
        gradient.copy_from_slice(slope.as_slice());
        loss + l2 * weights.norm_squared()
    };
    let Minimum { x: theta, value, gradient_norm, iterations, converged } =
        method.minimise(&vec![0.0; classes * (d + 1)], &mut objective);
    let theta = DMatrix::from_vec(classes, d + 1, theta);
    let weights = theta.columns(0, d).into_owned();
    let bias = theta.column(d) - &weights * &mean;
    Ok(ConvergedFit { weights, bias, objective: value, gradient_norm, iterations, converged })
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use vfl_numerics::softmax_columns;

    /// 300 records of 6 features, labels drawn from a model.
    fn drawn(seed: u64) -> (DMatrix<f64>, Vec<u32>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let x = DMatrix::from_fn(6, 300, |_, _| rng.random::<f64>());
        let w = DMatrix::from_fn(4, 6, |_, _| 6.0 * rng.random::<f64>() - 3.0);
        let mut c = w * &x;
        softmax_columns(&mut c);
        let labels = c.column_iter().map(|c| {
            let (mut u, mut label) = (rng.random::<f64>(), 0);
            while label < 3 && u > c[label] {
                u -= c[label];
                label += 1;
            }
            label as u32
        });
        (x.clone(), labels.collect())
    }

    /// (1/n) Σ (c − e_y) xᵀ + 2 l2 W, written out, is 0 at the minimum, and so is (1/n) Σ (c −
    /// e_y).
    #[test]
    fn the_minimum_is_stationary() {
        let (x, labels) = drawn(1);
        for l2 in [0.0, 1e-3] {
            let fit = train_converged(4, &x, &labels, l2, Lbfgs::default()).unwrap();
            assert!(fit.converged, "{fit:?}");
            let mut c = &fit.weights * &x;
            c.column_iter_mut().for_each(|mut z| z += &fit.bias);
            softmax_columns(&mut c);
            labels.iter().enumerate().for_each(|(i, &y)| c[(y as usize, i)] -= 1.0);
            let slope = &c * x.transpose() / 300.0 + &fit.weights * (2.0 * l2);
            assert!(slope.amax() < 1e-8 && (c.column_sum() / 300.0).amax() < 1e-8);
        }
    }

    /// R proposition 4 and errata R6: an orthonormal change of the features, a shift among them,
    /// leaves every score as it was if the bias is free.
    #[test]
    fn scores_do_not_depend_on_the_axes() {
        let (x, labels) = drawn(2);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let h = DMatrix::from_fn(6, 6, |_, _| rng.random::<f64>() - 0.5).qr().q();
        let mut turned = &h * &x;
        turned.apply(|v| *v += 0.7);
        let scores = |x: &DMatrix<f64>| {
            let fit = train_converged(4, x, &labels, 1e-3, Lbfgs::default()).unwrap();
            assert!(fit.converged);
            let mut c = &fit.weights * x;
            c.column_iter_mut().for_each(|mut z| z += &fit.bias);
            softmax_columns(&mut c);
            c
        };
        let off = (scores(&x) - scores(&turned)).amax();
        assert!(off < 1e-6, "{off:e}");
    }

    #[test]
    fn labels_that_do_not_fit_are_refused() {
        let (x, labels) = drawn(4);
        let refuse = |classes, labels: &[u32]| {
            train_converged(classes, &x, labels, 0.0, Lbfgs::default()).unwrap_err()
        };
        assert!(matches!(refuse(4, &labels[1..]), ShapeError::Size { unit: "records", .. }));
        assert!(matches!(refuse(3, &labels), ShapeError::Size { unit: "classes", .. }));
        assert!(matches!(refuse(1, &vec![0; 300]), ShapeError::TooFewClasses { .. }));
    }
}
