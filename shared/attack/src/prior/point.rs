//! The point of a posterior that is the estimate.

/// The point of the posterior that is the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The mean without the box, m + S Aᵀ (A S Aᵀ)⁺ (b' − A m). It takes equations or noisy scores,
    /// but no bounds.
    Unconfined,
    /// The likeliest point of the box.
    Likeliest,
    /// The mean in the box, which has the least expected squared error.
    Mean,
}
