//! Error of a reconstruction and utility of a release.
//!
//! Matrices hold one record per column, as everywhere. Every function checks the shapes it is given: a mean over the wrong
//! entries is a number like any other.

mod attack_accuracy;
mod calibration;
mod correlation;
mod entropy;
mod error;
mod interpretability;
mod mismatch;
mod order;
mod permutation;
mod reconstruction;
mod utility;

pub use attack_accuracy::attack_accuracy;
pub use calibration::expected_calibration_error;
pub use correlation::active_correlation;
pub use entropy::{FeatureEntropy, conditional_entropy};
pub use error::MetricError;
pub use interpretability::Interpretability;
pub use mismatch::{ScoreMismatch, score_mismatch};
pub use order::OrderTotals;
pub use permutation::{MatchedError, permutation_matched_mse};
pub use reconstruction::{SquaredError, column_mean_error, half_error, mse, share_within, squared_error_by_record};
pub use utility::{UtilityTotals, accuracy, kl_divergence, total_variation};
