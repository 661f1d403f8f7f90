//! Reconstruction attacks: one module per method, behind one [contract](Attack), found by name in one [register](Method).
//!
//! An attack sees an [`AdversaryView`] and nothing else: what its threat model grants. The truth is not reachable from it;
//! estimates are scored elsewhere, after the attack has returned. [`run`] supplies what an attack [needs](Needs), or says what
//! is missing.

pub mod adaptive;
mod affine;
pub mod agnostic;
mod baseline;
mod chebyshev_exact;
mod coalition;
mod collusion;
mod config;
mod constrained;
mod contract;
mod differentiable;
mod discrete;
mod error;
mod evidence;
pub mod gradient_inversion;
mod half_star;
mod in_ranges;
mod knowledge;
mod known_model;
mod least_squares;
mod method;
mod one_feature;
mod runner;
mod settings;
mod shadow_model;
mod system;
mod view;

pub use adaptive::{Centre, KnownPolicy, adaptive_for};
pub use agnostic::{Agnostic, AgnosticFound, AgnosticSettings, EstimatedScores, LabelledRecords, OutOfRange, Seen};
pub use baseline::{Constant, Random};
pub use chebyshev_exact::{ChebyshevExact, MAX_CORNERS, MAX_NULLITY};
pub use coalition::{Coalition, Party, Role};
pub use collusion::{Colluders, Collusion};
pub use config::AttackConfig;
pub use constrained::{ConstrainedLeastSquares, Rcc1, Rcc2};
pub use contract::{
    Attack, AuxiliarySystem, ChosenQuestions, Ended, Need, Needs, Parameters, Questions, Reconstruction, RecordOutcome,
    Solved, Status,
};
pub use differentiable::{Differentiable, LANES, Lanes, LogitBlock};
pub use discrete::{ExactBinary, MAX_BINARY, Snap};
pub use error::{AttackError, NotRun};
pub use evidence::{Equations, Evidence, NoisyScores};
pub use gradient_inversion::GradientInversion;
pub use half_star::HalfStar;
pub use in_ranges::InRanges;
pub use knowledge::{FeatureKnowledge, KnowledgeError, StatedKnowledge};
pub use known_model::KnownModel;
pub use least_squares::LeastSquares;
pub use method::{Entry, Group, Method, MethodError};
pub use one_feature::{OneFeature, OneFeatureCase, OneFeatureError, one_feature};
pub use runner::run;
pub use settings::{AnySetting, Setting, Settings};
pub use shadow_model::{AuxiliaryRecords, Descent, DescentEnd, ShadowBias, ShadowEstimate, ShadowFit, ShadowModel};
pub use system::LinearSystem;
pub use view::{AdversaryView, Beside, Replacement, Told};

/// Makes the register: the attacks by name, and a constant of each.
macro_rules! register {
    ($($constant:ident = $entry:path,)*) => {
        /// The attacks there are.
        static REGISTER: &[Method] = &[$(Method(&$entry)),*];

        #[allow(non_upper_case_globals, reason = "they stand for the variants of an enumeration")]
        impl Method {
            $(
                #[doc = concat!("The attack `", stringify!($entry), "`.")]
                pub const $constant: Self = Self(&$entry);
            )*
        }
    };
}

// A new attack is a module and a line here.
register! {
    Random = baseline::RANDOM,
    Zero = baseline::ZERO,
    Half = baseline::HALF,
    LeastSquares = least_squares::LEAST_SQUARES,
    ClampedLeastSquares = least_squares::CLAMPED_LEAST_SQUARES,
    ConstrainedLeastSquares = constrained::CONSTRAINED_LEAST_SQUARES,
    HalfStar = half_star::HALF_STAR,
    ClampedHalfStar = half_star::CLAMPED_HALF_STAR,
    Rcc1 = constrained::RCC1,
    Rcc2 = constrained::RCC2,
    GradientInversion = gradient_inversion::GRADIENT_INVERSION,
    OneFeature = one_feature::ONE_FEATURE,
    ChebyshevExact = chebyshev_exact::CHEBYSHEV_EXACT,
    Interval = adaptive::interval::INTERVAL,
    RankingCone = adaptive::cones::RANKING_CONE,
    LabelCone = adaptive::cones::LABEL_CONE,
    CodebookCell = adaptive::cones::CODEBOOK_CELL,
    NoiseDirection = adaptive::noise_direction::NOISE_DIRECTION,
    Averaging = adaptive::averaging::AVERAGING,
    UndoTransform = adaptive::undo::UNDO_TRANSFORM,
    ChosenShares = adaptive::chosen_shares::CHOSEN_SHARES,
    Agnostic = agnostic::AGNOSTIC,
    ShadowModel = shadow_model::SHADOW_MODEL,
    Coalition = collusion::COALITION,
}
