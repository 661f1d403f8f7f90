//! `binary`: V case iv, k = 2.

use nalgebra::{DMatrix, DVector};

use super::distance::Distance;
use super::fraction::{Quadratic, maximise};
use super::{RewrittenParameters, Search, TransformError};
use crate::linear::symmetric_eigen;
use crate::moments::Moments;

const NAME: &str = "binary";

/// Refuses any number of classes but two, and an ε at which V (54) has no bound: with A the
/// difference of the two rows it is bounded iff 4 d ε < ‖A‖² (V remark 16).
pub(super) fn check(w_pas: &DMatrix<f64>, distance: &Distance) -> Result<(), TransformError> {
    let (k, d) = w_pas.shape();
    if k != 2 {
        let reason = format!(
            "it is for 2 classes, these weights have {k}; use stiefel, or single_feature for 1 feature"
        );
        return Err(TransformError::Setting { transform: NAME, reason });
    }
    let bound = difference(w_pas).norm_squared() / (4 * d) as f64;
    distance.below(
        NAME,
        bound,
        "from there on the weights of both classes can become equal, and the error has no bound",
    )
}

/// Returns A = J W_pas as a column.
fn difference(w_pas: &DMatrix<f64>) -> DVector<f64> {
    (w_pas.row(1) - w_pas.row(0)).transpose()
}

/// Returns the weights at distance g = ε that make the error of `half_star` largest: the maximum of
/// V (54). `search.objective` is the error V (53).
///
/// Only A_n = A + δ matters, and w_n = w + (−δ/2, +δ/2) is the nearest to w that has it: ‖δ‖² ≤ 4 d
/// ε. In that ball the error less (1/d) Tr K_½ is the fraction (A_n S A_nᵀ − 2 A K₀ A_nᵀ + A K₀ Aᵀ)
/// / (d ‖A_n‖²) with S = ½ (M + Mᵀ) and M = 1(μ − ¼ 1)ᵀ, whose maximum is found globally in the
/// eigenbasis of S.
pub(super) fn rewrite(
    w_pas: &DMatrix<f64>,
    moments: &Moments,
    epsilon: f64,
) -> Result<RewrittenParameters, TransformError> {
    let d = w_pas.ncols();
    let a = difference(w_pas);
    let scale = a.amax();
    let least = moments.about_half.trace() / d as f64;
    let done = |weights, objective, steps| RewrittenParameters {
        weights,
        bias_shift: DVector::zeros(2),
        matrix: None,
        search: Some(Search { objective, starts: 1, steps, gradient_norm: 0.0 }),
    };
    if scale == 0.0 {
        // Nothing is revealed, and nothing has to be hidden.
        return Ok(done(w_pas.clone(), least, 0));
    }
    let a = a / scale;
    let v = moments.mean.add_scalar(-0.25);
    let s = DMatrix::from_fn(d, d, |i, j| 0.5 * (v[i] + v[j]));
    let (values, vectors) = symmetric_eigen(&s)?;
    let (ka, sa) = (&moments.about_zero * &a, &s * &a);
    let above = Quadratic {
        constant: a.dot(&sa) - a.dot(&ka),
        linear: vectors.transpose() * (&sa - &ka),
        squares: values,
    };
    let below = Quadratic {
        constant: a.norm_squared(),
        linear: vectors.transpose() * &a,
        squares: DVector::from_element(d, 1.0),
    };
    let radius = 2.0 * (d as f64 * epsilon).sqrt() / scale;
    let found = maximise(&above, &below, radius);
    let half = (vectors * found.y * (0.5 * scale)).transpose();
    // The rest of the distance changes no estimate and goes into a shift common to both classes.
    let shift = (epsilon - half.norm_squared() / d as f64).max(0.0).sqrt();
    let mut weights = w_pas.add_scalar(shift);
    for j in 0..d {
        weights[(0, j)] -= half[j];
        weights[(1, j)] += half[j];
    }
    Ok(done(weights, least + found.value / d as f64, found.steps))
}
