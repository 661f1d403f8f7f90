//! Factorisation of a covariance as F Fᵀ.

use faer::{Mat, Side};
use nalgebra::DMatrix;

use super::error::GaussianError;
use crate::pseudo_inverse::DecompositionError;

/// Variances at or below this share of the largest count as 0.
const FLAT: f64 = 1e-12;

/// A covariance may miss positive semidefiniteness by this share of its largest variance, which is
/// round-off.
const ROUND_OFF: f64 = 1e-8;

/// Returns F (d × q) with F Fᵀ = `covariance`, of full column rank q.
pub(super) fn factor(covariance: &DMatrix<f64>) -> Result<DMatrix<f64>, GaussianError> {
    let d = covariance.nrows();
    if covariance.iter().any(|v| !v.is_finite()) {
        return Err(DecompositionError::NotFinite.into());
    }
    if d == 0 {
        return Ok(DMatrix::zeros(0, 0));
    }
    let symmetric = Mat::from_fn(d, d, |i, j| 0.5 * (covariance[(i, j)] + covariance[(j, i)]));
    let eigen =
        symmetric.self_adjoint_eigen(Side::Lower).map_err(|_| DecompositionError::NoConvergence)?;
    let values: Vec<f64> = eigen.S().column_vector().iter().copied().collect();
    let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    if let Some(least) = values.iter().copied().find(|v| *v < -ROUND_OFF * largest) {
        return Err(GaussianError::Negative { variance: least });
    }
    let kept: Vec<usize> = (0..d).rev().filter(|&a| values[a] > FLAT * largest).collect();
    Ok(DMatrix::from_fn(d, kept.len(), |i, a| eigen.U()[(i, kept[a])] * values[kept[a]].sqrt()))
}
