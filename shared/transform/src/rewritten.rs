//! Parameters that were rewritten for release.

use nalgebra::{DMatrix, DVector};

/// Parameters that were rewritten for release, with the facts of the search for them.
#[derive(Clone, PartialEq)]
pub struct RewrittenParameters {
    /// The weights W_n, k × d.
    pub weights: DMatrix<f64>,
    /// The term that the active party adds to its bias to read the released parameters as a model
    /// of features in [0, 1]: W_pas 1 for `complement`, the sum of the columns it negates for
    /// `selective`, else 0. k entries. With x → H x + t the map of the features, W_n (H x + t) +
    /// `bias_shift` = W_pas x.
    pub bias_shift: DVector<f64>,
    /// The R with W_n = W_pas R, if the transform is such a matrix; d × d, orthonormal. It is
    /// secret: anyone who has it can undo the transform.
    pub matrix: Option<DMatrix<f64>>,
    /// The facts of the search, if there was one.
    pub search: Option<Search>,
}

/// The facts of a search over many starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The objective at the chosen point: V (39) or (48) of `stiefel`, which is minimised; the
    /// greatest error V (53) of `binary`, (1 − ρ)² of V (49) of `single_feature`, and the error of
    /// R theorem 3 of `least_squares_optimal`.
    pub objective: f64,
    /// The number of starting points; 0 without a search.
    pub starts: u32,
    /// The number of steps over all starts.
    pub steps: u64,
    /// The norm of the Riemannian gradient at the chosen point; 0 for a closed form and for a
    /// maximum that is proven.
    pub gradient_norm: f64,
}

/// Shows the shape only.
impl std::fmt::Debug for RewrittenParameters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (k, d) = self.weights.shape();
        write!(f, "Rewritten({k} × {d}, {:?}, values withheld)", self.search)
    }
}
