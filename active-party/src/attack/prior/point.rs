//! The point of a posterior that is the estimate.

/// Which point of the posterior is the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The mean without the box, m + S Aᵀ (A S Aᵀ)⁺ (b' − A m). Takes equations only.
    Unconfined,
    /// The likeliest point of the box.
    Likeliest,
    /// The mean in the box, which has the least expected squared error.
    Mean,
}
