//! Singular values, and pseudo-inverse, rank and condition number from them.

use faer::Mat;
use nalgebra::DMatrix;

/// Singular values at or below this share of the largest one count as zero. Round-off leaves values
/// of about 1e-16 of the largest. Inverting them would invent directions, so the cut-off is well
/// above.
pub const RANK_TOLERANCE: f64 = 1e-10;

/// Up to this many products, A⁺ = V S⁺ Uᵀ is computed entry by entry; above, as a product of
/// matrices.
const FEW_PRODUCTS: usize = 1 << 20;

/// Errors from decomposing a matrix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecompositionError {
    /// The matrix contains NaN or infinity.
    #[error("the matrix holds a value that is not finite")]
    NotFinite,
    /// The iteration did not converge.
    #[error("the singular value decomposition did not converge")]
    NoConvergence,
}

/// The thin singular value decomposition A = U diag(σ) Vᵀ of an m × d matrix, with p = min(m, d)
/// singular values.
#[derive(Debug, Clone, PartialEq)]
pub struct ThinSvd {
    /// U, m × p, with orthonormal columns.
    pub left: DMatrix<f64>,
    /// σ, largest first.
    pub singular_values: Vec<f64>,
    /// V, d × p, with orthonormal columns.
    pub right: DMatrix<f64>,
}

impl ThinSvd {
    /// Decomposes `a`. Uses faer: nalgebra's `svd` is silently wrong on some rank-deficient
    /// matrices.
    ///
    /// # Errors
    /// [`DecompositionError`] for values that are not finite or an iteration that does not
    /// converge.
    pub fn new(a: &DMatrix<f64>) -> Result<Self, DecompositionError> {
        if a.iter().any(|v| !v.is_finite()) {
            return Err(DecompositionError::NotFinite);
        }
        let (m, d) = a.shape();
        let p = m.min(d);
        if p == 0 {
            let (left, right) = (DMatrix::zeros(m, 0), DMatrix::zeros(d, 0));
            return Ok(Self { left, singular_values: Vec::new(), right });
        }
        let svd = Mat::from_fn(m, d, |i, j| a[(i, j)])
            .thin_svd()
            .map_err(|_| DecompositionError::NoConvergence)?;
        Ok(Self {
            left: DMatrix::from_fn(m, p, |i, l| svd.U()[(i, l)]),
            singular_values: svd.S().column_vector().iter().copied().collect(),
            right: DMatrix::from_fn(d, p, |i, l| svd.V()[(i, l)]),
        })
    }
}

/// The Moore–Penrose inverse A⁺ of an m × d matrix, with its rank and singular values.
///
/// # Example
///
/// Two equal rows: the rank is 1, and A⁺b is the least-squares solution of least norm.
///
/// ```
/// use nalgebra::DMatrix;
/// use vfl_numerics::PseudoInverse;
///
/// let a = PseudoInverse::new(&DMatrix::from_row_slice(2, 2, &[3.0, 4.0, 3.0, 4.0]))?;
/// assert_eq!((a.rank, a.condition_number()), (1, 1.0));
/// let x = &a.matrix * DMatrix::from_column_slice(2, 1, &[4.0, 6.0]);
/// assert!((x[0] - 0.6).abs() < 1e-12 && (x[1] - 0.8).abs() < 1e-12);
/// # Ok::<(), vfl_numerics::DecompositionError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PseudoInverse {
    /// A⁺, d × m.
    pub matrix: DMatrix<f64>,
    /// Number of singular values above [`RANK_TOLERANCE`] · σ₁.
    pub rank: usize,
    /// All min(m, d) singular values, largest first.
    pub singular_values: Vec<f64>,
}

impl PseudoInverse {
    /// Inverts `a`.
    ///
    /// # Errors
    /// Those of [`ThinSvd::new`].
    pub fn new(a: &DMatrix<f64>) -> Result<Self, DecompositionError> {
        let (m, d) = a.shape();
        let ThinSvd { left: u, singular_values, right: v } = ThinSvd::new(a)?;
        let Some(&largest) = singular_values.first() else {
            return Ok(Self { matrix: DMatrix::zeros(d, m), rank: 0, singular_values });
        };
        let cut = RANK_TOLERANCE * largest;
        let rank = singular_values.iter().filter(|&&s| s > cut).count();
        let matrix = match rank * m * d > FEW_PRODUCTS {
            false => entrywise((d, m), rank, |i, j, l| v[(i, l)] * u[(j, l)] / singular_values[l]),
            true => {
                let left = DMatrix::from_fn(d, rank, |i, l| v[(i, l)] / singular_values[l]);
                left * DMatrix::from_fn(rank, m, |l, j| u[(j, l)])
            }
        };
        Ok(Self { matrix, rank, singular_values })
    }

    /// Returns σ₁ / σ_rank: the largest relative growth of an error in the right side. 1 for the
    /// zero matrix.
    #[must_use]
    pub fn condition_number(&self) -> f64 {
        if self.rank == 0 {
            1.0
        } else {
            self.singular_values[0] / self.singular_values[self.rank - 1]
        }
    }
}

/// Returns the matrix of the sums of `term` over l below `terms`.
fn entrywise(
    (rows, columns): (usize, usize),
    terms: usize,
    term: impl Fn(usize, usize, usize) -> f64,
) -> DMatrix<f64> {
    DMatrix::from_fn(rows, columns, |i, j| (0..terms).map(|l| term(i, j, l)).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two equal rows among others, a row of zeros, a matrix without columns.
    #[test]
    fn the_factors_of_rank_deficient_matrices_are_orthonormal_and_give_the_matrix() {
        let scattered = |i: usize, j: usize| ((7 * i + 3 * j) as f64).sin();
        for (m, d) in [(5, 3), (3, 5), (4, 4), (3, 0)] {
            let a = DMatrix::from_fn(m, d, |i, j| match i {
                1 => scattered(0, j),
                2 => 0.0,
                _ => scattered(i, j),
            });
            let ThinSvd { left, singular_values, right } = ThinSvd::new(&a).unwrap();
            let p = m.min(d);
            assert!(singular_values.is_sorted_by(|one, other| one >= other));
            let sigma =
                DMatrix::from_fn(p, p, |i, j| if i == j { singular_values[i] } else { 0.0 });
            let close = |x: DMatrix<f64>, y: DMatrix<f64>| {
                x.iter().zip(&y).all(|(x, y)| (x - y).abs() < 1e-12)
            };
            assert!(close(&left * sigma * right.transpose(), a));
            assert!(close(left.tr_mul(&left), DMatrix::identity(p, p)));
            assert!(close(right.tr_mul(&right), DMatrix::identity(p, p)));
        }
    }

    /// Matrices so large that they are multiplied, and of less than full rank.
    #[test]
    fn large_matrices_are_inverted_like_small_ones() {
        let (m, d, rank) = (110, 130, 90);
        let scattered = |i: usize, j: usize| {
            ((1000 * i + j) as f64 * 12.9898).sin().mul_add(43758.5453, 0.5).fract()
        };
        let a = DMatrix::from_fn(m, rank, scattered)
            * DMatrix::from_fn(rank, d, |i, j| scattered(i + 500, j));
        let found = PseudoInverse::new(&a).unwrap();
        assert_eq!(found.rank, rank);
        assert!(rank * m * d > FEW_PRODUCTS);
        let (scale, p) = (found.singular_values[0], &found.matrix);
        let close = |x: DMatrix<f64>, y: &DMatrix<f64>, of: f64| {
            assert!((x - y).amax() < 1e-10 * of, "{of}")
        };
        close(&a * p * &a, &a, scale);
        close(p * &a * p, p, p.amax());
        close((&a * p).transpose(), &(&a * p), 1.0);
        close((p * &a).transpose(), &(p * &a), 1.0);
    }

    #[test]
    fn equal_rows_are_seen() {
        // The matrix on which a careless decomposition gives σ₁ = 3.80 instead of √14.
        let row = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0];
        let a = DMatrix::from_fn(2, 12, |_, j| row[j]);
        let p = PseudoInverse::new(&a).unwrap();
        assert_eq!(p.rank, 1);
        assert!((p.singular_values[0] - 14f64.sqrt()).abs() < 1e-12);
        assert_eq!(
            PseudoInverse::new(&DMatrix::from_element(2, 2, f64::NAN)),
            Err(DecompositionError::NotFinite)
        );
        assert_eq!(PseudoInverse::new(&DMatrix::zeros(3, 2)).unwrap().rank, 0);
    }

    proptest! {
        /// The four Penrose conditions define A⁺; entries of 0 and 1 and repeated rows make rank
        /// loss common.
        #[test]
        fn penrose_conditions(m in 1usize..6, d in 1usize..9, bits in any::<u64>(), repeat in any::<bool>()) {
            let a = DMatrix::from_fn(m, d, |i, j| {
                let i = if repeat && i > 0 { i - 1 } else { i };
                ((bits >> ((i * 9 + j) % 63)) & 1) as f64
            });
            let p = PseudoInverse::new(&a).unwrap().matrix;
            prop_assert!((&a * &p * &a - &a).amax() < 1e-12);
            prop_assert!((&p * &a * &p - &p).amax() < 1e-12);
            prop_assert!((&a * &p - (&a * &p).transpose()).amax() < 1e-12);
            prop_assert!((&p * &a - (&p * &a).transpose()).amax() < 1e-12);
        }
    }
}
