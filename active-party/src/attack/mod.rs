//! Reconstruction attacks, one module per method, behind one trait.
//!
//! An attack sees an [`AdversaryView`] and nothing else: what its threat model grants. The truth is not reachable from it;
//! estimates are scored elsewhere, after the attack has returned.

pub mod adaptive;
mod affine;
pub mod agnostic;
mod baseline;
mod chebyshev_exact;
mod coalition;
mod constrained;
mod discrete;
mod error;
pub mod gradient_inversion;
mod half_star;
mod in_ranges;
mod knowledge;
mod least_squares;
mod method;
mod one_feature;
mod settings;
mod shadow_model;
mod system;
mod view;

pub use adaptive::{Centre, KnownPolicy, adaptive_for};
pub use agnostic::{Agnostic, AgnosticFound, AgnosticSettings, LabelledRecords, OutOfRange, Seen};
pub use baseline::{Constant, Random};
pub use chebyshev_exact::{ChebyshevExact, MAX_CORNERS, MAX_NULLITY};
pub use coalition::{Coalition, Party, Role};
pub use constrained::{ConstrainedLeastSquares, Rcc1, Rcc2};
pub use discrete::{ExactBinary, MAX_BINARY, Snap};
pub use error::AttackError;
pub use gradient_inversion::GradientInversion;
pub use half_star::HalfStar;
pub use in_ranges::InRanges;
pub use knowledge::{FeatureKnowledge, KnowledgeError, StatedKnowledge};
pub use least_squares::LeastSquares;
pub use method::{Method, MethodError};
pub use one_feature::{OneFeature, OneFeatureCase, OneFeatureError, one_feature};
pub use settings::Settings;
pub use shadow_model::{AuxiliaryRecords, Descent, DescentEnd, ShadowBias, ShadowEstimate, ShadowFit, ShadowModel};
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
    /// The point of the box that fits the equations best.
    BestFit {
        /// Rank of the system.
        rank: usize,
    },
    /// A centre of the points of the box that satisfy the equations.
    Centre {
        /// Rank of the system.
        rank: usize,
    },
    /// Where a descent on the scores ended.
    Descent,
    /// Nothing was solved: the spread of the records' values was put on [0, 1].
    Scaled,
}

impl Status {
    /// Its name, as in a result file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Unique => "unique",
            Self::LeastNorm { .. } => "least_norm",
            Self::NearestHalf { .. } => "nearest_half",
            Self::BestFit { .. } => "best_fit",
            Self::Centre { .. } => "centre",
            Self::Descent => "descent",
            Self::Scaled => "scaled",
        }
    }
}

/// How the estimate of one record came about, for methods that work record by record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordOutcome {
    /// What became of it.
    pub ended: Ended,
    /// Steps taken.
    pub iterations: u32,
    /// The method's objective at the estimate: the relaxation's value, the squared misfit, the loss.
    pub objective: f64,
}

/// What became of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The stopping rule was met on the scores as they are.
    Solved,
    /// No point of the box gives these scores, as behind a defense: solved for the nearest scores that one gives.
    NearestConsistent,
    /// The steps allowed were used up first; the estimate is where they led.
    StepLimit,
}

impl Ended {
    /// Its name, as in a result file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::NearestConsistent => "nearest_consistent",
            Self::StepLimit => "step_limit",
        }
    }
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
    /// One per record for methods that work record by record, else empty.
    pub outcomes: Vec<RecordOutcome>,
    /// What the attack has to say in words: which transform it undid, and on what evidence. Never a feature value or a score.
    pub remarks: Vec<String>,
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
    /// Where A is itself an estimate from auxiliary records: what they determined.
    pub auxiliary: Option<AuxiliarySystem>,
}

/// Facts of the auxiliary records that a system was estimated from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AuxiliarySystem {
    /// Number of auxiliary records.
    pub records: usize,
    /// Unknowns of each log-ratio: d, and one more if the bias is unknown.
    pub unknowns: usize,
    /// How many of them the records determine: all of them if it equals `unknowns`.
    pub rank: usize,
    /// σ₁ / σ_rank of the auxiliary features: how much an error in the scores may grow, relative to them.
    pub condition_number: f64,
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

impl<A: Attack + ?Sized> Attack for &A {
    fn requirements(&self) -> Requirements {
        (**self).requirements()
    }

    fn reconstruct(&self, view: &AdversaryView, rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        (**self).reconstruct(view, rng)
    }
}

impl<A: Attack + ?Sized> Attack for Box<A> {
    fn requirements(&self) -> Requirements {
        (**self).requirements()
    }

    fn reconstruct(&self, view: &AdversaryView, rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        (**self).reconstruct(view, rng)
    }
}

/// Clips every estimate to [0, 1], where normalised features are known to lie.
fn clamp(estimates: &mut DMatrix<f64>) {
    for v in estimates.as_mut_slice() {
        *v = v.clamp(0.0, 1.0);
    }
}
