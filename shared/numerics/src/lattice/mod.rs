//! Closest points of a grid: integer vectors t with A t ≈ b, where A has far fewer rows than
//! columns.
//!
//! Few equations determine many unknowns if each equation is known to many digits and the unknowns
//! lie on a known grid. In the norm ‖D (A t − b)‖² + ‖M (t − c)‖² (D weights the equations by their
//! precision, M the unknowns by prior knowledge) the true t is a lattice point close to (b, c). If
//! the equations carry more bits than t has, it is the only one. [`GridLattice`] reduces the
//! lattice once for all right sides; [`GridLattice::points_near`] lists the points within a radius,
//! all of them or none. [`Matching`] does the same for choices out of lists by meeting in the
//! middle.

mod enumeration;
mod error;
mod grid;
mod matching;
mod reduction;
#[cfg(test)]
mod tests;

pub use enumeration::{GridPoint, Listing};
pub use error::LatticeError;
pub use grid::GridLattice;
pub use matching::{Match, Matching, MatchingError};
