//! A Gaussian prior of x, under equations A x = b and in the unit box: the estimates of an
//! adversary who knows the moments of x.

mod confined;
mod error;
mod factor;
mod quadratic;
mod sampler;
mod system;
#[cfg(test)]
mod tests;
mod truncated;

pub use confined::{ConfinedGaussian, ConfinedMean};
pub use error::GaussianError;
pub use system::{FactoredCovariance, GaussianSystem};
