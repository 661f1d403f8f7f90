//! The errors of a lattice reduction.

/// Errors from reducing a lattice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LatticeError {
    /// A value is not finite.
    #[error("the lattice has an entry that is not finite")]
    NotFinite,
    /// Shapes that do not fit.
    #[error("the equations, their weights and the metric of the lattice do not fit together")]
    Shape,
    /// The numbers grow beyond what the arithmetic holds.
    #[error("the lattice cannot be reduced: its numbers grow too large")]
    TooLarge,
}
