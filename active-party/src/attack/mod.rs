//! Reconstruction attacks, one module per method, behind one trait.
//!
//! An attack sees an [`AdversaryView`] and nothing else: what its threat model grants. The truth is not reachable from it;
//! estimates are scored elsewhere, after the attack has returned.

mod affine;
mod baseline;
mod error;
mod half_star;
mod least_squares;
mod method;
mod system;
mod view;

pub use baseline::{Constant, Random};
pub use error::AttackError;
pub use half_star::HalfStar;
pub use least_squares::LeastSquares;
pub use method::{Method, MethodError, Settings};
pub use system::LinearSystem;
pub use view::{AdversaryView, KnownModel, Replacement};

use nalgebra::DMatrix;
use rand::Rng;

/// What an attack needs to be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirements {
    /// The passive party's parameters (white box).
    pub parameters: bool,
}

/// How an estimate came about. An outcome, not an error: a system with many solutions is the normal case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Nothing was solved: the estimate does not depend on the scores.
    Baseline,
    /// The equations determine all features.
    Unique,
    /// The solution of least norm among many.
    LeastNorm {
        /// Rank of the system.
        rank: usize,
    },
    /// The solution nearest to ½ among many.
    NearestHalf {
        /// Rank of the system.
        rank: usize,
    },
}

/// Estimates of the passive features, with how they came about.
#[derive(Clone, PartialEq)]
pub struct Reconstruction {
    /// d × n, one record per column.
    pub estimates: DMatrix<f64>,
    /// How they came about.
    pub status: Status,
    /// Of the system solved, if one was.
    pub solved: Option<Solved>,
}

/// Facts of a solved system.
#[derive(Debug, Clone, PartialEq)]
pub struct Solved {
    /// Rank of A.
    pub rank: usize,
    /// Dimension of the null space of A.
    pub nullity: usize,
    /// σ₁ / σ_rank of A.
    pub condition_number: f64,
    /// ‖A x̂ − b'‖₂ of each record.
    pub residuals: Vec<f64>,
}

impl std::fmt::Debug for Reconstruction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (d, n) = self.estimates.shape();
        write!(f, "Reconstruction({d} × {n}, {:?}, values withheld)", self.status)
    }
}

/// A reconstruction attack. Pure: what it gives depends on the view and the generator alone.
pub trait Attack: Send + Sync + std::fmt::Debug {
    /// What it needs to be given.
    fn requirements(&self) -> Requirements;

    /// Estimates the passive features of every record of the view.
    ///
    /// # Errors
    /// [`AttackError`] when the view does not grant what the attack needs, or its system cannot be decomposed.
    fn reconstruct(&self, view: &AdversaryView, rng: &mut dyn Rng) -> Result<Reconstruction, AttackError>;
}

/// Clips every estimate to [0, 1], where normalised features are known to lie.
fn clamp(estimates: &mut DMatrix<f64>) {
    for v in estimates.as_mut_slice() {
        *v = v.clamp(0.0, 1.0);
    }
}
