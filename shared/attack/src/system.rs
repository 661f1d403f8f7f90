//! The linear system A x = b' that exact scores determine (R (6); A = J W_pas, b' = c' − J W_act y
//! − J b, c' = J ln c).

use std::sync::{Arc, OnceLock};

use nalgebra::{DMatrix, DVector};
use vfl_numerics::{BoxSystem, DecompositionError, PseudoInverse, row_differences};

use super::affine::affine;
use super::{AttackError, SystemSummary};

/// The system of one model and split. A is factored once, whatever the number of records.
#[derive(Clone)]
pub struct LinearSystem {
    a: Arc<DMatrix<f64>>,
    inverse: PseudoInverse,
    /// ½ P⊥ 1: the null-space part of the point nearest to ½.
    half_offset: DVector<f64>,
    in_box: OnceLock<Result<BoxSystem, DecompositionError>>,
}

impl std::fmt::Debug for LinearSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "LinearSystem({} × {}, rank {})",
            self.a.nrows(),
            self.a.ncols(),
            self.inverse.rank
        )
    }
}

impl LinearSystem {
    /// Factors the system of passive weights W_pas (k × d).
    ///
    /// # Errors
    /// [`AttackError::Decomposition`] for weights that are not finite.
    pub fn new(w_pas: &DMatrix<f64>) -> Result<Self, AttackError> {
        let a = row_differences(w_pas);
        let inverse = PseudoInverse::new(&a)?;
        let half = DVector::from_element(a.ncols(), 0.5);
        let half_offset = &half - &inverse.matrix * (&a * &half);
        Ok(Self { a: Arc::new(a), inverse, half_offset, in_box: OnceLock::new() })
    }

    /// Returns the same equations over the unit box, factored on first use.
    ///
    /// # Errors
    /// [`AttackError::Decomposition`] if A cannot be decomposed.
    pub fn in_box(&self) -> Result<&BoxSystem, AttackError> {
        self.in_box.get_or_init(|| BoxSystem::new(&self.a)).as_ref().map_err(|e| e.clone().into())
    }

    /// Returns A, (k − 1) × d.
    #[must_use]
    pub fn matrix(&self) -> &DMatrix<f64> {
        &self.a
    }

    /// Returns A, shared so that it can outlive the system.
    #[must_use]
    pub(super) fn shared_matrix(&self) -> Arc<DMatrix<f64>> {
        self.a.clone()
    }

    /// Returns A⁺, d × (k − 1).
    #[must_use]
    pub fn pseudo_inverse(&self) -> &DMatrix<f64> {
        &self.inverse.matrix
    }

    /// Returns the rank of A, from singular values above 1e-10 of the largest.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.inverse.rank
    }

    /// Returns the dimension of the null space of A.
    #[must_use]
    pub fn nullity(&self) -> usize {
        self.a.ncols() - self.inverse.rank
    }

    /// Returns the singular values of A, largest first.
    #[must_use]
    pub fn singular_values(&self) -> &[f64] {
        &self.inverse.singular_values
    }

    /// Returns the solution of least norm, A⁺ b', for each column of `b_prime` ((k − 1) × n); R
    /// section IV, V (10).
    ///
    /// # Panics
    /// If `b_prime` does not have k − 1 rows.
    #[must_use]
    pub fn least_norm(&self, b_prime: &DMatrix<f64>) -> DMatrix<f64> {
        affine(&self.inverse.matrix, None, b_prime)
    }

    /// Returns the solution nearest to ½, A⁺ b' + ½ P⊥ 1, for each column of `b_prime` ((k − 1) ×
    /// n); R (22), V (14).
    ///
    /// P⊥ 1 is taken from A⁺ directly; forming P⊥ pinv(P⊥), as R's code does, inverts round-off.
    ///
    /// # Panics
    /// If `b_prime` does not have k − 1 rows.
    #[must_use]
    pub fn nearest_half(&self, b_prime: &DMatrix<f64>) -> DMatrix<f64> {
        affine(&self.inverse.matrix, Some(&self.half_offset), b_prime)
    }

    /// Returns the ‖A x − b'‖₂ up to which x counts as a solution for one record: 1e-9 of ‖A‖₂, as
    /// features go up to 1, and the round-off of the logarithms.
    pub(super) fn tolerance(&self, b_prime: &[f64]) -> f64 {
        let largest = b_prime.iter().fold(1.0, |m: f64, b| m.max(b.abs()));
        1e-9 * self.inverse.singular_values.first().copied().unwrap_or(0.0) + 1e-12 * largest
    }

    /// Returns the facts of this system with the residuals of given estimates.
    #[must_use]
    pub fn solved(&self, estimates: &DMatrix<f64>, b_prime: &DMatrix<f64>) -> SystemSummary {
        let residual = &*self.a * estimates - b_prime;
        SystemSummary {
            rank: self.rank(),
            nullity: self.nullity(),
            condition_number: self.inverse.condition_number(),
            residuals: residual.column_iter().map(|r| r.norm()).collect(),
            auxiliary: None,
        }
    }
}
