//! `single_feature`: V case iii, d = 1.

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use super::distance::Distance;
use super::fraction::{Quadratic, maximise};
use super::{RewrittenParameters, Search, TransformError};
use crate::linear::symmetric_eigen;

const NAME: &str = "single_feature";

/// Returns the weights w_n (k × 1) at distance g = ε that make the error of least squares largest:
/// V (50) for any k.
///
/// The error is σ² (1 − ρ)² with ρ = A_nᵀA / A_nᵀA_n, A = J w, A_n = J w_n (V (49));
/// `search.objective` is (1 − ρ)². With A_n = A + δ, the least change of w that makes δ is J⁺δ of
/// squared norm δᵀ(JJᵀ)⁻¹δ ≤ k ε: an ellipsoid that excludes A_n = 0 iff k ε < Aᵀ(JJᵀ)⁻¹A = ‖w −
/// mean w‖². There ρ is a fraction of quadratics; its greatest and its least value are both found
/// globally. For k = 2 that is the two weights moved together by √ε each, the right one of V's
/// remark 11.
///
/// The way in which an adversary combines the equations matters here: the error holds for J and not
/// for T J (V's remark 8 does not cover this case).
pub(super) fn rewrite(
    w_pas: &DMatrix<f64>,
    distance: &Distance,
    rng: &mut dyn Rng,
) -> Result<RewrittenParameters, TransformError> {
    let (k, d) = w_pas.shape();
    if d != 1 {
        let reason = format!(
            "it is for 1 feature, these weights have {d}; use stiefel, or binary for 2 classes"
        );
        return Err(TransformError::Setting { transform: NAME, reason });
    }
    let w = w_pas.column(0).into_owned();
    let centred = w.add_scalar(-w.mean());
    let bound = centred.norm_squared() / k as f64;
    distance.below(
        NAME,
        bound,
        "from there on the weights of all classes can become equal, and the error has no bound",
    )?;
    let epsilon = distance.draw(rng);
    let done = |weights: DVector<f64>, objective, steps| RewrittenParameters {
        weights: DMatrix::from_column_slice(k, 1, weights.as_slice()),
        bias_shift: DVector::zeros(k),
        matrix: None,
        search: Some(Search { objective, starts: 1, steps, gradient_norm: 0.0 }),
    };
    let scale = centred.amax();
    if epsilon == 0.0 || scale == 0.0 {
        return Ok(done(w, 0.0, 0));
    }
    if k == 2 {
        // V remark 11, with the sign that brings the weights together.
        let step = if w[0] > w[1] { -epsilon.sqrt() } else { epsilon.sqrt() };
        let (gap, left) = ((w[0] - w[1]).abs(), (w[0] - w[1]).abs() - 2.0 * epsilon.sqrt());
        return Ok(done(
            DVector::from_vec(vec![w[0] + step, w[1] - step]),
            (gap / left - 1.0).powi(2),
            0,
        ));
    }
    // e = w_n − w without its mean, in units of the greatest weight and in the eigenbasis of JᵀJ,
    // whose kernel is the common shift: ‖A_n‖² = Σ θ_i (u_i + y_i)² and A_nᵀA = Σ θ_i (u_i + y_i)
    // u_i with u the weights, y = e in that basis.
    let laplacian = DMatrix::from_fn(k, k, |i, j| match i.abs_diff(j) {
        0 => {
            if i == 0 || i == k - 1 {
                1.0
            } else {
                2.0
            }
        }
        1 => -1.0,
        _ => 0.0,
    });
    let (values, vectors) = symmetric_eigen(&laplacian)?;
    let kernel = values.imin();
    let (theta, basis) = (values.remove_row(kernel), vectors.remove_column(kernel));
    let u = basis.transpose() * &centred / scale;
    let product = theta.component_mul(&u);
    let norm = product.dot(&u);
    let aligned =
        Quadratic { constant: norm, linear: &product * 0.5, squares: DVector::zeros(k - 1) };
    let against =
        Quadratic { constant: -norm, linear: &product * -0.5, squares: DVector::zeros(k - 1) };
    let length = Quadratic { constant: norm, linear: product, squares: theta };
    let radius = (k as f64 * epsilon).sqrt() / scale;
    let (greatest, least) =
        (maximise(&aligned, &length, radius), maximise(&against, &length, radius));
    let steps = greatest.steps + least.steps;
    let (up, down) = (greatest.value - 1.0, 1.0 + least.value);
    let (y, miss) = if up.abs() >= down.abs() { (greatest.y, up) } else { (least.y, down) };
    let change = basis * y * scale;
    // The rest of the distance changes no estimate and goes into the shift common to all classes.
    let shift = (epsilon - change.norm_squared() / k as f64).max(0.0).sqrt();
    Ok(done((w + change).add_scalar(shift), miss * miss, steps))
}
