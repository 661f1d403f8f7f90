//! Descent over matrices with orthonormal columns: limited-memory BFGS with a QR retraction.
//!
//! Tangent vectors at Y are the Z with YᵀZ + ZᵀY = 0, with the inner product of the entries. The
//! gradient is the derivative less Y sym(Yᵀ·); a step Z goes to the orthonormal factor of Y + Z
//! (found from the Cholesky factor of its Gram matrix I + ZᵀZ, which is well conditioned); pairs of
//! steps and gradient changes are carried along by projection (Absil, Mahony and Sepulchre,
//! chapters 3, 4 and 8).

use std::collections::VecDeque;

use nalgebra::DMatrix;

use super::objective::Objective;

/// The number of pairs of steps and gradient changes that are kept.
const MEMORY: usize = 12;
/// The most steps of a descent.
const STEPS: u64 = 3000;
/// The longest step. It keeps the Gram matrix well conditioned.
const LONGEST: f64 = 1.0;

/// The end of a descent.
pub(super) struct Descent {
    /// The point Y, d × r.
    pub(super) point: DMatrix<f64>,
    pub(super) value: f64,
    /// The norm of the Riemannian gradient.
    pub(super) gradient_norm: f64,
    pub(super) steps: u64,
}

/// Returns the orthonormal factor Y of M = Y Rᵤ, where Rᵤ has a positive diagonal; `None` if the
/// columns are dependent.
pub(super) fn orthonormalised(m: DMatrix<f64>) -> Option<DMatrix<f64>> {
    let upper = m.tr_mul(&m).cholesky()?.l().transpose();
    // Y Rᵤ = M, column by column.
    let mut y = m;
    for j in 0..y.ncols() {
        let (done, mut rest) = y.columns_range_pair_mut(0..j, j..);
        let mut column = rest.column_mut(0);
        for i in 0..j {
            column.axpy(-upper[(i, j)], &done.column(i), 1.0);
        }
        column /= upper[(j, j)];
    }
    y.iter().all(|v| v.is_finite()).then_some(y)
}

/// Projects Z on the tangent space at Y: Z less Y sym(YᵀZ).
fn project(y: &DMatrix<f64>, z: &mut DMatrix<f64>) {
    let inner = y.tr_mul(z);
    let symmetric = (&inner + inner.transpose()) * 0.5;
    z.gemm(-1.0, y, &symmetric, 1.0);
}

/// Descends from `point` until the gradient or the gain is at rounding.
pub(super) fn descend(objective: &Objective, point: DMatrix<f64>) -> Descent {
    let mut gradient = DMatrix::zeros(point.nrows(), point.ncols());
    let value = objective.value_and_gradient(&point, &mut gradient);
    project(&point, &mut gradient);
    let mut at = Descent { gradient_norm: gradient.norm(), point, value, steps: 0 };
    let mut pairs: VecDeque<(DMatrix<f64>, DMatrix<f64>, f64)> = VecDeque::with_capacity(MEMORY);
    let mut small_gains = 0;
    let mut next_gradient = gradient.clone();
    while at.steps < STEPS && at.gradient_norm > 1e-10 * (1.0 + at.value.abs()) {
        at.steps += 1;
        let mut direction = two_loops(&gradient, &pairs);
        project(&at.point, &mut direction);
        let mut slope = direction.dot(&gradient);
        let downhill = slope < -1e-12 * at.gradient_norm * direction.norm();
        if !downhill {
            pairs.clear();
            direction = -&gradient;
            slope = -at.gradient_norm * at.gradient_norm;
        }
        let length = direction.norm();
        let mut step = if pairs.is_empty() { (0.1 / length).min(1.0) } else { 1.0 };
        step = step.min(LONGEST / length);
        let Some((point, value, taken)) =
            line_search(objective, &at, &direction, slope, step, &mut next_gradient)
        else {
            if pairs.is_empty() {
                break;
            }
            pairs.clear();
            continue;
        };
        project(&point, &mut next_gradient);
        // All stored vectors move to the new tangent space.
        let mut moved = direction * taken;
        project(&point, &mut moved);
        project(&point, &mut gradient);
        for (s, y, _) in &mut pairs {
            project(&point, s);
            project(&point, y);
        }
        pairs.iter_mut().for_each(|(s, y, sy)| *sy = s.dot(y));
        pairs.retain(|(_, _, sy)| *sy > 0.0);
        let change = &next_gradient - &gradient;
        let curvature = moved.dot(&change);
        if curvature > 1e-10 * moved.norm() * change.norm() {
            if pairs.len() == MEMORY {
                pairs.pop_front();
            }
            pairs.push_back((moved, change, curvature));
        }
        let gain = at.value - value;
        small_gains = if gain <= 1e-14 * (1e-3 + value.abs()) { small_gains + 1 } else { 0 };
        std::mem::swap(&mut gradient, &mut next_gradient);
        (at.point, at.value, at.gradient_norm) = (point, value, gradient.norm());
        if small_gains == 5 {
            break;
        }
    }
    at
}

/// Returns minus the gradient times the inverse Hessian that the pairs represent.
fn two_loops(
    gradient: &DMatrix<f64>,
    pairs: &VecDeque<(DMatrix<f64>, DMatrix<f64>, f64)>,
) -> DMatrix<f64> {
    let mut q = -gradient;
    let mut weights = Vec::with_capacity(pairs.len());
    for (s, y, sy) in pairs.iter().rev() {
        let weight = s.dot(&q) / sy;
        q.zip_apply(y, |q, y| *q -= weight * y);
        weights.push(weight);
    }
    if let Some((_, y, sy)) = pairs.back() {
        q *= sy / y.norm_squared();
    }
    for ((s, y, sy), weight) in pairs.iter().zip(weights.into_iter().rev()) {
        let other = weight - y.dot(&q) / sy;
        q.zip_apply(s, |q, s| *q += other * s);
    }
    q
}

/// Finds a step along `direction` that gives at least a part of the decrease that the slope
/// predicts (Armijo), shortened by the parabola through the known values. Returns the new point,
/// its value and the step, and writes its derivative to `gradient`.
fn line_search(
    objective: &Objective,
    from: &Descent,
    direction: &DMatrix<f64>,
    slope: f64,
    mut step: f64,
    gradient: &mut DMatrix<f64>,
) -> Option<(DMatrix<f64>, f64, f64)> {
    for _ in 0..40 {
        if let Some(point) = orthonormalised(&from.point + direction * step) {
            let value = objective.value_and_gradient(&point, gradient);
            if value <= from.value + 1e-4 * step * slope {
                return Some((point, value, step));
            }
            let parabola = -0.5 * slope * step * step / (value - from.value - slope * step);
            step = if parabola.is_finite() {
                parabola.clamp(0.1 * step, 0.5 * step)
            } else {
                0.1 * step
            };
        } else {
            step *= 0.1;
        }
    }
    None
}
