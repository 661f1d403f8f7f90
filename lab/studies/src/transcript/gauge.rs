//! The choice of the true factors among equivalent ones, from known records and the range of
//! features.
//!
//! W_t x_r = (W_t A⁻ᵀ)(Aᵀ x_r) for every invertible A, so the products determine the features up to
//! one d × d matrix. Known records have x = Aᵀ x̂ up to the error of x̂. All records have 0 ≤ Aᵀ x̂
//! ≤ 1, which determines A if known records are few or x̂ is still rough.

use nalgebra::{DMatrix, DVector};
use rayon::prelude::*;

use super::factor::inverse;

/// The share of the evidence's ridge that is kept once the range of the features is used too.
const KEPT: f64 = 0.01;
/// The Newton steps for one column of A.
const STEPS: usize = 60;

/// Returns A (d × d) with x ≈ Aᵀ x̂, from known records (`known`, `their_estimates`: d × m) and the
/// estimates of all (d × n).
///
/// Each column a of A minimises Σ (x − x̂ᵀa)² over known records + Σ dist(x̂ᵀa, [0, 1])² over all +
/// ρ ‖a − e‖². It is a convex function; a semismooth Newton method finds its minimum. ρ comes from
/// the evidence of the known records.
pub(super) fn gauge(
    known: &DMatrix<f64>,
    their_estimates: &DMatrix<f64>,
    all: &DMatrix<f64>,
) -> DMatrix<f64> {
    let d = all.nrows();
    let rho = evidence(&(known - their_estimates), their_estimates);
    let start = ridge(&(known - their_estimates), their_estimates, rho);
    let rho = (KEPT * rho).max(1e-13);
    let gram = their_estimates * their_estimates.transpose();
    let columns: Vec<DVector<f64>> = (0..d)
        .into_par_iter()
        .map(|j| {
            let truth = known.row(j).transpose();
            let mut unit = DVector::zeros(d);
            unit[j] = 1.0;
            let value = |a: &DVector<f64>| {
                let excess = all.tr_mul(a).map(|z| z - z.clamp(0.0, 1.0));
                let misfit = their_estimates.tr_mul(a) - &truth;
                let cost = misfit.norm_squared()
                    + excess.norm_squared()
                    + rho * (a - &unit).norm_squared();
                (cost, misfit, excess)
            };
            let mut a = &unit + start.column(j);
            let mut now = value(&a);
            for _ in 0..STEPS {
                let outside: Vec<usize> = (0..all.ncols()).filter(|&r| now.2[r] != 0.0).collect();
                let out = all.select_columns(&outside);
                let mut curvature = &gram + &out * out.transpose();
                (0..d).for_each(|i| curvature[(i, i)] += rho);
                let slope = their_estimates * &now.1 + all * &now.2 + (&a - &unit) * rho;
                let direction = inverse(curvature) * slope;
                let tried = (0..14).find_map(|halvings| {
                    let next = &a - &direction * 0.5f64.powi(halvings);
                    let reached = value(&next);
                    (reached.0 < now.0).then_some((next, reached))
                });
                let Some((next, reached)) = tried else { break };
                let gain = now.0 - reached.0;
                (a, now) = (next, reached);
                if gain < 1e-10 * now.0 {
                    break;
                }
            }
            a
        })
        .collect();
    DMatrix::from_columns(&columns)
}

/// Returns the ridge estimate of A − 1: X̂ (X̂ᵀX̂ + ρ)⁻¹ (X − X̂)ᵀ.
fn ridge(difference: &DMatrix<f64>, estimates: &DMatrix<f64>, rho: f64) -> DMatrix<f64> {
    let mut gram = estimates.tr_mul(estimates);
    (0..gram.nrows()).for_each(|i| gram[(i, i)] += rho);
    estimates * inverse(gram) * difference.transpose()
}

/// Returns the ρ of greatest likelihood, the noise of an estimate over the variance of an entry of
/// A − 1: the differences are N(0, τ² (X̂ᵀX̂ + ρ)) in each feature, and τ² is profiled out.
fn evidence(difference: &DMatrix<f64>, estimates: &DMatrix<f64>) -> f64 {
    let (d, m) = estimates.shape();
    if d == 0 || m == 0 {
        return 1.0;
    }
    let eigen = estimates.tr_mul(estimates).symmetric_eigen();
    let turned = difference * &eigen.eigenvectors;
    let energy: Vec<f64> = turned.column_iter().map(|c| c.norm_squared()).collect();
    let values: Vec<f64> = eigen.eigenvalues.iter().map(|l| l.max(0.0)).collect();
    let minus_log = |rho: f64| {
        let tau: f64 =
            energy.iter().zip(&values).map(|(e, l)| e / (l + rho)).sum::<f64>() / (d * m) as f64;
        (m as f64) * tau.max(f64::MIN_POSITIVE).ln()
            + values.iter().map(|l| (l + rho).ln()).sum::<f64>()
    };
    let grid = (-14..=2).map(|e| 10f64.powi(e));
    grid.min_by(|a, b| minus_log(*a).total_cmp(&minus_log(*b))).unwrap_or(1e-3)
}

/// Regresses the passive features on what the active party knows of every record, from known
/// records alone: its inference without a training. `z` is p × n, `known` the records' positions,
/// `truth` d × m. Values are in [0, 1].
pub(super) fn regression(z: &DMatrix<f64>, known: &[usize], truth: &DMatrix<f64>) -> DMatrix<f64> {
    let at = z.select_columns(known);
    let (middle, level) = (at.column_mean(), truth.column_mean());
    let centred = |m: &DMatrix<f64>, by: &DVector<f64>| {
        let mut m = m.clone();
        m.column_iter_mut().for_each(|mut c| c -= by);
        m
    };
    let slope = ridge(&centred(truth, &level), &centred(&at, &middle), 1.0);
    let mut x = slope.tr_mul(&centred(z, &middle));
    x.column_iter_mut().for_each(|mut c| c += &level);
    x.apply(|v| *v = v.clamp(0.0, 1.0));
    x
}
