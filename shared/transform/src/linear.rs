//! Decompositions of the matrices of this crate: A = J W with its pseudo-inverse, eigenvalues,
//! singular values.

use faer::{Mat, Side};
use nalgebra::{DMatrix, DVector};
use vfl_numerics::{DecompositionError, PseudoInverse, RANK_TOLERANCE, row_differences};

/// A = J W (k − 1 × d) and A⁺, with A divided by `scale`: A⁺A, and with it every estimate, is the
/// same for any multiple of A, and so weights of any size can be decomposed.
pub(crate) struct System {
    /// A / scale.
    pub(crate) a: DMatrix<f64>,
    /// (A / scale)⁺ = scale · A⁺, with the rank of A.
    pub(crate) inverse: PseudoInverse,
    /// The greatest magnitude in A; 1 for A = 0.
    pub(crate) scale: f64,
}

impl System {
    /// Computes the system of `weights`, k × d.
    pub(crate) fn of(weights: &DMatrix<f64>) -> Result<Self, DecompositionError> {
        let mut a = row_differences(weights);
        let greatest = a.amax();
        let scale = if greatest > 0.0 { greatest } else { 1.0 };
        a.apply(|v| *v /= scale);
        Ok(Self { inverse: PseudoInverse::new(&a)?, a, scale })
    }

    /// Returns P = A⁺A, d × d: the projector on the combinations of features that A x determines.
    pub(crate) fn projector(&self) -> DMatrix<f64> {
        &self.inverse.matrix * &self.a
    }
}

fn to_faer(m: &DMatrix<f64>) -> Mat<f64> {
    Mat::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)])
}

/// Returns the eigenvalues of a symmetric matrix, in no particular order, and its eigenvectors in
/// columns.
pub(crate) fn symmetric_eigen(
    m: &DMatrix<f64>,
) -> Result<(DVector<f64>, DMatrix<f64>), DecompositionError> {
    check(m)?;
    let eigen = to_faer(m)
        .self_adjoint_eigen(Side::Lower)
        .map_err(|_| DecompositionError::NoConvergence)?;
    let (values, vectors) = (eigen.S().column_vector(), eigen.U());
    let n = m.nrows();
    Ok((DVector::from_fn(n, |i, _| values[i]), DMatrix::from_fn(n, n, |i, j| vectors[(i, j)])))
}

/// The decomposition m = U S Vᵀ of a square matrix.
pub(crate) struct SquareSvd {
    /// U, d × d.
    pub(crate) u: DMatrix<f64>,
    /// The singular values, greatest first.
    pub(crate) s: DVector<f64>,
    /// V, d × d.
    pub(crate) v: DMatrix<f64>,
}

impl SquareSvd {
    /// Decomposes `m`, d × d.
    pub(crate) fn of(m: &DMatrix<f64>) -> Result<Self, DecompositionError> {
        check(m)?;
        let svd = to_faer(m).svd().map_err(|_| DecompositionError::NoConvergence)?;
        let (u, s, v, d) = (svd.U(), svd.S().column_vector(), svd.V(), m.nrows());
        Ok(Self {
            u: DMatrix::from_fn(d, d, |i, j| u[(i, j)]),
            s: DVector::from_fn(d, |i, _| s[i]),
            v: DMatrix::from_fn(d, d, |i, j| v[(i, j)]),
        })
    }
}

/// Returns an orthonormal basis of the space that the rows of `m` span, in columns (d × rank).
/// Directions below [`RANK_TOLERANCE`] of the greatest singular value do not count.
pub(crate) fn row_space(m: &DMatrix<f64>) -> Result<DMatrix<f64>, DecompositionError> {
    check(m)?;
    let svd = to_faer(m).thin_svd().map_err(|_| DecompositionError::NoConvergence)?;
    let (s, v) = (svd.S().column_vector(), svd.V());
    let cut = if s.nrows() > 0 { RANK_TOLERANCE * s[0] } else { 0.0 };
    let rank = s.iter().filter(|&&s| s > cut).count();
    Ok(DMatrix::from_fn(m.ncols(), rank, |i, j| v[(i, j)]))
}

fn check(m: &DMatrix<f64>) -> Result<(), DecompositionError> {
    if m.iter().all(|v| v.is_finite()) { Ok(()) } else { Err(DecompositionError::NotFinite) }
}
