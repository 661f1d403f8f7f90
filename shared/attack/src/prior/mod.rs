//! Adversaries that know moments of the passive features or whole records, and their controls,
//! which have no scores.

pub(super) mod best_imputation;
mod error;
pub(super) mod imputation;
mod mixture;
mod moments;
mod moments_setting;
mod noisy_posterior;
mod point;
pub(super) mod posterior;
pub(super) mod regression;
mod tangent;

pub use best_imputation::BestImputation;
pub use error::PriorError;
pub use imputation::Imputation;
pub use moments::Prior;
pub use moments_setting::Moments;
pub use point::Point;
pub use posterior::Posterior;
pub use regression::{MAX_FITTED, Regression};
