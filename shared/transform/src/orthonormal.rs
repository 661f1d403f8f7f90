//! Uniform orthonormal matrices.

use nalgebra::{DMatrix, DVector};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

/// Draws a d × d matrix from the uniform (Haar) distribution on the orthogonal group, of
/// determinant 1 and −1 with probability ½ each: normal columns, each made orthogonal to those
/// before it. A Householder QR decomposition in its place would give determinant (−1)^(d−1) always.
pub(super) fn orthonormal(d: usize, rng: &mut dyn Rng) -> DMatrix<f64> {
    extended(DMatrix::zeros(d, 0), rng)
}

/// Extends `columns` (d × r, orthonormal) by d − r more, drawn uniformly from those that complete
/// them.
pub(super) fn extended(columns: DMatrix<f64>, rng: &mut dyn Rng) -> DMatrix<f64> {
    let (d, r) = columns.shape();
    let mut q = columns.resize_horizontally(d, 0.0);
    for j in r..d {
        // A column that lies nearly in the span of the others is drawn again: the rest of it would
        // be rounding.
        loop {
            let mut column = DVector::from_fn(d, |_, _| StandardNormal.sample(&mut *rng));
            let drawn: f64 = column.norm();
            // Twice is enough (Kahan): the second pass removes the rounding error of the first.
            for _ in 0..2 {
                for i in 0..j {
                    let along = q.column(i).dot(&column);
                    column.axpy(-along, &q.column(i), 1.0);
                }
            }
            let norm = column.norm();
            if norm > 1e-8 * drawn {
                q.set_column(j, &(column / norm));
                break;
            }
        }
    }
    q
}

/// Draws such a matrix of determinant −1 if `reflected`, else 1.
pub(super) fn orthonormal_of(d: usize, reflected: bool, rng: &mut dyn Rng) -> DMatrix<f64> {
    let mut q = orthonormal(d, rng);
    if (q.determinant() < 0.0) != reflected {
        q.column_mut(0).neg_mut();
    }
    q
}
