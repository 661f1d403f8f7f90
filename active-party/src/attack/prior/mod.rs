//! Adversaries that know something of the passive features beforehand, and the control that has no scores.

mod error;
pub(super) mod imputation;
mod moments;
mod noisy;
mod point;
pub(super) mod posterior;
mod used;

pub use error::PriorError;
pub use imputation::Imputation;
pub use moments::Prior;
pub use point::Point;
pub use posterior::Posterior;
pub use used::Moments;
