//! `least_squares_optimal`: R theorem 3, V example 1.

use nalgebra::{DMatrix, DVector};

use super::{RewrittenParameters, Search, TransformError};
use crate::linear::{SquareSvd, System};
use crate::moments::Moments;

/// Returns W_n = W_pas R with R = Hᵀ = −U Vᵀ, where P K₀ = U S Vᵀ and P = A⁺A.
///
/// An adversary that reads A R finds (A R)⁺ A x = Rᵀ P x. Its error (1/d) [Tr((I + P) K₀) − 2 Tr(R
/// K₀ P)] is greatest for this R: (1/d) [Tr((I + P) K₀) + 2 ‖P K₀‖_*] (R (81), V (28), with the 1/d
/// and the K₀ that they lack). `search.objective` is that error.
pub(super) fn rewrite(
    w_pas: &DMatrix<f64>,
    moments: &Moments,
) -> Result<RewrittenParameters, TransformError> {
    let (k, d) = w_pas.shape();
    let pk = System::of(w_pas)?.projector() * &moments.about_zero;
    let SquareSvd { u, s, v } = SquareSvd::of(&pk)?;
    let matrix = -(u * v.transpose());
    let objective = (moments.about_zero.trace() + pk.trace() + 2.0 * s.sum()) / d as f64;
    Ok(RewrittenParameters {
        weights: w_pas * &matrix,
        bias_shift: DVector::zeros(k),
        matrix: Some(matrix),
        search: Some(Search { objective, starts: 0, steps: 0, gradient_norm: 0.0 }),
    })
}
