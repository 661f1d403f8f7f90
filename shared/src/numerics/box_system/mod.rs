//! The points of the unit box that satisfy linear equations: {x ∈ [0, 1]^d : A x = b}, and the centres of it that the
//! attacks take (R sections V-B and V-C).

use nalgebra::DMatrix;

use super::DecompositionError;

/// The equations A x = b over the unit box, for one A (m × d) and any number of right sides. All that depends on A alone
/// is worked out once.
#[derive(Debug, Clone)]
pub struct BoxSystem {
    a: DMatrix<f64>,
}

/// One point per right side, with how it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxSolution {
    /// d × n, each column in [0, 1]^d.
    pub x: DMatrix<f64>,
    /// How each column was found.
    pub outcomes: Vec<BoxOutcome>,
}

/// How one point was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxOutcome {
    /// The value of the method's own objective; see the method.
    pub objective: f64,
    /// Whether a point of the box satisfies the equations, to 1e-9 of ‖A‖. If none does, the point answers for the nearest
    /// right side that one can satisfy.
    pub consistent: bool,
    /// Whether the method's stopping rule was met.
    pub converged: bool,
    /// Newton steps, or changes of the active set.
    pub iterations: u32,
}

impl BoxSystem {
    /// Factors `a`, m × d.
    ///
    /// # Errors
    /// [`DecompositionError`] for values that are not finite.
    pub fn new(a: &DMatrix<f64>) -> Result<Self, DecompositionError> {
        Ok(Self { a: a.clone() })
    }

    /// The point nearest to ½·1 among those with A x = b, for each column of `b` (m × n): R's second relaxation of the
    /// Chebyshev centre (RCC2). `objective` is Σ x_i (1 − x_i), an upper bound of the squared Chebyshev radius.
    ///
    /// # Panics
    /// If `b` does not have m rows.
    #[must_use]
    pub fn project_half(&self, b: &DMatrix<f64>) -> BoxSolution {
        assert_eq!(b.nrows(), self.a.nrows(), "rows of b");
        unimplemented!()
    }

    /// A minimiser of ‖A x − b‖² over the box, the one nearest to ½·1, for each column of `b` (m × n). `objective` is the
    /// minimum ‖A x − b‖².
    ///
    /// # Panics
    /// If `b` does not have m rows.
    #[must_use]
    pub fn least_squares(&self, b: &DMatrix<f64>) -> BoxSolution {
        assert_eq!(b.nrows(), self.a.nrows(), "rows of b");
        unimplemented!()
    }

    /// R's first relaxation of the Chebyshev centre (RCC1), the semidefinite program (16), for each column of `b` (m × n).
    /// `objective` is its optimal value, an upper bound of the squared Chebyshev radius that is at most
    /// [`project_half`](Self::project_half)'s.
    ///
    /// # Panics
    /// If `b` does not have m rows.
    #[must_use]
    pub fn relaxed_chebyshev(&self, b: &DMatrix<f64>) -> BoxSolution {
        assert_eq!(b.nrows(), self.a.nrows(), "rows of b");
        unimplemented!()
    }
}
