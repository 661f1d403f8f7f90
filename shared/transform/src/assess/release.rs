//! Closed forms for an adversary that takes released parameters for the true ones, or estimated
//! scores for exact ones.
//!
//! It reads W_n with the bias b + s, has exact scores z, and solves A_n x̂ = J (z − W_act y − b −
//! s) = A x − J s, with A = J W_pas and A_n = J W_n:
//!
//! ```text
//! least_squares   x̂ = A_n⁺ (A x − J s)
//! half_star       x̂ = A_n⁺ (A x − J s) + ½ (I − A_n⁺A_n) 1
//! ```
//!
//! The error x̂ − x = F u + v is affine in u = x − ½ 1, with F = A_n⁺A − I and v the error at x =
//! ½ 1. So for any W_n
//!
//! ```text
//! MSE = (1/d) [Tr(F K_½ Fᵀ) + 2 vᵀF (μ − ½ 1) + ‖v‖²]
//! ```
//!
//! V (38), (47), (49), (53), R (50), (51) and the increase (4/d) Tr(P K_½) of R section VIII-D are
//! this for W_n = W_pas R, one feature, two classes, W_n = W_pas, and W_n = −W_pas with s = W_pas
//! 1.

use nalgebra::{DMatrix, DVector};
use serde::Serialize;
use vfl_core::types::FeatureBlock;
use vfl_numerics::{PseudoInverse, row_differences};

use super::{AssessError, moments_of, unsolved};
use crate::linear::System;
use crate::moments::Moments;

/// The mean squared errors per feature (R (7)) of two attacks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AttackErrors {
    /// The error of `least_squares`.
    pub least_squares: f64,
    /// The error of `half_star`.
    pub half_star: f64,
}

/// Returns the errors of an adversary with exact scores that takes `released` (k × d) and
/// `bias_shift` (k) for the true parameters, over records with the moments of `x` (d × n). For
/// `released` = `w_pas` and no shift they are R (50), (51).
///
/// # Errors
/// [`AssessError`] for shapes that do not fit, no feature or record, and values that are not finite
/// or too large.
pub fn release_errors(
    w_pas: &DMatrix<f64>,
    released: &DMatrix<f64>,
    bias_shift: &DVector<f64>,
    x: &FeatureBlock,
) -> Result<AttackErrors, AssessError> {
    let moments = moments_of(w_pas, x)?;
    of_moments(w_pas, released, bias_shift, &moments)
}

/// Computes [`release_errors`] from given moments.
pub(crate) fn of_moments(
    w_pas: &DMatrix<f64>,
    released: &DMatrix<f64>,
    bias_shift: &DVector<f64>,
    moments: &Moments,
) -> Result<AttackErrors, AssessError> {
    let (k, d) = w_pas.shape();
    if released.shape() != (k, d) || bias_shift.len() != k {
        let got = released.nrows().max(bias_shift.len());
        return Err(AssessError::Released { expected: (k, d), got: (got, released.ncols()) });
    }
    if !released.iter().chain(bias_shift).all(|v| v.is_finite()) {
        return Err(AssessError::Weight);
    }
    let system = System::of(released).map_err(|e| unsolved(&e))?;
    let shift = DMatrix::from_column_slice(k, 1, bias_shift.as_slice());
    // In units of A_n's scale, like its inverse.
    let known = |m: &DMatrix<f64>| &system.inverse.matrix * (row_differences(m) / system.scale);
    let (mut f, shifted) = (known(w_pas), known(&shift).column(0).into_owned());
    let half = DVector::from_element(d, 0.5);
    let told = &f * &half;
    let kept = &half - system.projector() * &half;
    for i in 0..d {
        f[(i, i)] -= 1.0;
    }
    let at_half = told - shifted - &half;
    let spread = (&f * &moments.about_half).dot(&f);
    let mean = &f * (&moments.mean - &half);
    let error = |v: &DVector<f64>| per_feature(spread + 2.0 * v.dot(&mean) + v.norm_squared(), d);
    Ok(AttackErrors { least_squares: error(&at_half)?, half_star: error(&(&at_half + kept))? })
}

/// Divides a sum of squares by d. Returns 0 if rounding made it negative.
fn per_feature(sum: f64, d: usize) -> Result<f64, AssessError> {
    if sum.is_finite() {
        Ok(sum.max(0.0) / d as f64)
    } else {
        Err(AssessError::Overflow { what: "the sums of squares" })
    }
}

/// The errors of an adversary that knows W_pas and has estimates ĉ of the scores (the agnostic
/// attack of V), per feature.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AgnosticErrors {
    /// The error that exact scores would leave: (1/d) Tr((I − A⁺A) K_½), the first term of V (21);
    /// 0 if A has full column rank.
    pub exact_scores: f64,
    /// The error that the estimates of the scores add: (1/d) Tr(A⁺ᵀA⁺ K_{c′,ĉ′}), the second term
    /// of V (21); V (13) if A has full column rank.
    pub estimated_scores: f64,
    /// V (21): their sum, the error of `half_star`; if A has full column rank, that of
    /// `least_squares` too (V (13)).
    pub total: f64,
}

/// Computes V (13) and (21). `a` is A = J W_pas (k − 1 × d), `about_half` K_½ (d × d),
/// `score_error` the second moments K_{c′,ĉ′} = E[(ĉ′ − c′)(ĉ′ − c′)ᵀ] of the error of the
/// estimated log-ratios c′ = J ln c, (k − 1) × (k − 1), in squared nats.
///
/// The result holds for any dependence of the error on the features: A⁺ᵀ(I − A⁺A) = 0 removes the
/// cross term.
///
/// # Errors
/// [`AssessError`] for no feature, shapes that do not fit together, and values that are not finite
/// or too large.
pub fn agnostic_errors(
    a: &DMatrix<f64>,
    about_half: &DMatrix<f64>,
    score_error: &DMatrix<f64>,
) -> Result<AgnosticErrors, AssessError> {
    let (equations, d) = a.shape();
    if d == 0 {
        return Err(AssessError::NoFeature);
    }
    if about_half.shape() != (d, d) {
        return Err(AssessError::Features { expected: d, got: about_half.nrows() });
    }
    if score_error.shape() != (equations, equations) {
        return Err(AssessError::Scores { expected: equations, got: score_error.nrows() });
    }
    let inverse = PseudoInverse::new(a).map_err(|e| unsolved(&e))?.matrix;
    let complement = DMatrix::identity(d, d) - &inverse * a;
    let exact_scores = per_feature(complement.dot(about_half), d)?;
    let estimated_scores = per_feature(inverse.tr_mul(&inverse).dot(score_error), d)?;
    Ok(AgnosticErrors { exact_scores, estimated_scores, total: exact_scores + estimated_scores })
}

#[cfg(test)]
mod tests;
