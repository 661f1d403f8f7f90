//! Bounds for an adversary that knows the mean μ and the covariance S of the features, before any
//! score is released.
//!
//! Exact scores and W_pas give it u = A x, A = J W_pas. Of all estimates that are affine in u the
//! best is μ + S Aᵀ (A S Aᵀ)⁺ (u − A μ). Its error has the covariance S − T, where T = S Aᵀ (A S
//! Aᵀ)⁺ A S is the covariance of the estimate itself. So
//!
//! ```text
//! without scores                           tr S / d
//! exact scores, best affine estimate       tr(S − T) / d
//! at most B bits about a record            [tr(S − T) + D_T(B)] / d      any attack, Gaussian features
//! ```
//!
//! D_T(B) is the least error that B bits leave of a Gaussian vector with covariance T
//! ([`WaterFilling`] on its eigenvalues).
//!
//! **Why the last line holds.** Let x be Gaussian and x̄ = E[x | A x]. The answers M depend on x
//! through A x alone, so that x − x̄ is independent of (A x, M) and has mean 0. For an estimate x̂
//! made of M therefore E‖x − x̂‖² = E‖x − x̄‖² + E‖x̄ − x̂‖². The first term is tr(S − T). In the
//! second x̂ has I(x̄; x̂) ≤ I(A x; M) ≤ B, and x̄ has covariance T, so that it is at least D_T(B),
//! the distortion-rate function of x̄ with reproductions in R^d. What M depends on besides, noise
//! and active features, must be independent of x: an adversary that knows how active and passive
//! features go together may do better.
//!
//! **Any A of rank r.** Let S = F Fᵀ with F of full column rank q. Then T = F P Fᵀ with the
//! projector P on the rows of A F, and tr T = tr(P FᵀF). P has a rank between r − (d − q) and r,
//! since the kernel of Fᵀ takes at most d − q from the rank. The eigenvalues of FᵀF are those of S
//! above 0. So by Ky Fan tr T is at most the sum of the r greatest eigenvalues of S, and at least
//! the sum of the r − (d − q) least ones above 0. With the d − q that are 0 these are the r least
//! of S. Eigenvectors as rows of A attain both ends. So tr(S − T) lies between the sums of the d −
//! r least and of the d − r greatest eigenvalues of S.

use nalgebra::DMatrix;
use serde::Serialize;
use vfl_numerics::{DecompositionError, PseudoInverse, WaterFilling};

use crate::linear::{row_space, symmetric_eigen};
use crate::moments::Moments;

/// The relative bound of round-off: for variances, relative to the largest; for a product, relative
/// to its factors.
const FLAT: f64 = 1e-12;

/// A lower bound on the error of any attack, if at most so many bits are released about a record.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BitsBound {
    /// B: the bits that all answers about a record reveal together.
    pub bits: f64,
    /// [tr(S − T) + D_T(B)] / d: the least mean squared error per feature of any attack, if the
    /// features are Gaussian.
    pub mse: f64,
    /// 1 − `mse` / tr S · d: the greatest added risk. Left out if no feature varies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_risk: Option<f64>,
}

/// The traces and eigenvalues that the bounds need, from the moments and A. Sums are over features,
/// in their squared units.
#[derive(Debug)]
pub(super) struct InformedBounds {
    d: f64,
    /// The trace of S.
    control: f64,
    /// The trace of S − T.
    left: f64,
    /// The eigenvalues of T above 0.
    told: Vec<f64>,
}

impl InformedBounds {
    /// Computes them for A (m × d), or any multiple of it, and the covariance S (d × d).
    pub(super) fn of(
        a: &DMatrix<f64>,
        covariance: &DMatrix<f64>,
    ) -> Result<Self, DecompositionError> {
        let spread = factor(covariance)?;
        let (d, control) = (covariance.nrows() as f64, covariance.trace());
        if spread.ncols() == 0 {
            return Ok(Self { d, control: 0.0, left: 0.0, told: Vec::new() });
        }
        let rows = row_space(&seen(a, &spread))?;
        let told = &spread * &rows;
        // From differences: tr S − tr T would cancel if the scores reveal nearly all.
        let left = (&spread - &told * rows.transpose()).norm_squared();
        let mut eigenvalues = Vec::new();
        if rows.ncols() > 0 {
            // The eigenvalues of T = told toldᵀ above 0 are those of toldᵀ told.
            let (values, _) = symmetric_eigen(&told.tr_mul(&told))?;
            eigenvalues.extend(values.iter().map(|v| v.max(0.0)));
        }
        Ok(Self { d, control, left, told: eigenvalues })
    }

    /// Returns tr S / d: the error of an adversary that knows the moments and no score.
    pub(super) fn control_mse(&self) -> f64 {
        self.control / self.d
    }

    /// Returns tr(S − T) / d: the least error of an affine estimate from exact scores.
    pub(super) fn linear_mse(&self) -> f64 {
        self.left / self.d
    }

    /// Returns 1 − `mse` / [`control_mse`](Self::control_mse); `None` if no feature varies.
    pub(super) fn added_risk(&self, mse: f64) -> Option<f64> {
        (self.control > 0.0).then(|| (1.0 - mse / self.control_mse()).clamp(0.0, 1.0))
    }

    /// Returns [tr(S − T) + D_T(B)] / d for B = `bits`; `None` if that is not a number of bits.
    pub(super) fn with_bits(&self, bits: f64) -> Option<BitsBound> {
        let mse = (self.left + WaterFilling::new(&self.told, bits)?.error) / self.d;
        Some(BitsBound { bits, mse, added_risk: self.added_risk(mse) })
    }
}

/// Returns the best affine estimates (d × n) of the records `x` (d × n), each from its A x.
pub(super) fn estimates(
    a: &DMatrix<f64>,
    moments: &Moments,
    x: &DMatrix<f64>,
) -> Result<DMatrix<f64>, DecompositionError> {
    let spread = factor(&moments.about_mean)?;
    let gain = &spread * PseudoInverse::new(&seen(a, &spread))?.matrix;
    let at_mean = a * &moments.mean;
    let mut known = a * x;
    known.column_iter_mut().for_each(|mut u| u -= &at_mean);
    let mut estimates = gain * known;
    estimates.column_iter_mut().for_each(|mut estimate| estimate += &moments.mean);
    Ok(estimates)
}

/// Returns F (d × q) of full column rank with F Fᵀ = `covariance`.
fn factor(covariance: &DMatrix<f64>) -> Result<DMatrix<f64>, DecompositionError> {
    let (values, vectors) = symmetric_eigen(covariance)?;
    let cut = FLAT * values.iter().copied().fold(0.0, f64::max);
    let kept: Vec<usize> = (0..values.len()).filter(|&i| values[i] > cut).collect();
    Ok(DMatrix::from_fn(covariance.nrows(), kept.len(), |i, j| {
        vectors[(i, kept[j])] * values[kept[j]].sqrt()
    }))
}

/// Returns A F, or 0 if all of it is round-off: A then sees no direction in which the features
/// vary.
fn seen(a: &DMatrix<f64>, spread: &DMatrix<f64>) -> DMatrix<f64> {
    let product = a * spread;
    if product.norm() > FLAT * a.norm() * spread.norm() { product } else { product * 0.0 }
}

#[cfg(test)]
mod tests;
