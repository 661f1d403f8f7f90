//! Parameters as released.

use nalgebra::{DMatrix, DVector};

/// Parameters as released, and how they came about.
#[derive(Clone, PartialEq)]
pub struct Rewritten {
    /// W_n, k × d.
    pub weights: DMatrix<f64>,
    /// What the active party adds to its bias to read the released parameters as a model of features in [0, 1]: W_pas 1 for
    /// `complement`, the sum of the columns it negates for `selective`, else 0. k entries. With x → H x + t the map of the
    /// features, W_n (H x + t) + `bias_shift` = W_pas x.
    pub bias_shift: DVector<f64>,
    /// R with W_n = W_pas R, where the transform is such a matrix; d × d, orthonormal. Secret: whoever has it undoes the
    /// transform.
    pub matrix: Option<DMatrix<f64>>,
    /// What the search for it found, if there was one.
    pub search: Option<Search>,
}

/// Facts of a search over many starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The objective at the point taken: of `stiefel` V (39) or (48), which is minimised; the greatest error V (53) of
    /// `binary`, (1 − ρ)² of V (49) of `single_feature`, and the error of R theorem 3 of `least_squares_optimal`.
    pub objective: f64,
    /// Starting points; 0 where nothing was searched.
    pub starts: u32,
    /// Steps over all starts.
    pub steps: u64,
    /// Norm of the Riemannian gradient at the point taken; 0 for a closed form and for a maximum that is proven.
    pub gradient_norm: f64,
}

/// Shows the shape only.
impl std::fmt::Debug for Rewritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (k, d) = self.weights.shape();
        write!(f, "Rewritten({k} × {d}, {:?}, values withheld)", self.search)
    }
}
