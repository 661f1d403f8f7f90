//! Error of a reconstruction and utility of a release.
//!
//! Matrices hold one record per column, as everywhere. Every function checks the shapes it is given: a mean over the wrong
//! entries is a number like any other.

mod error;
mod reconstruction;
mod utility;

pub use error::MetricError;
pub use reconstruction::{SquaredError, column_mean_error, half_error, mse, share_within, squared_error_by_record};
pub use utility::{UtilityTotals, accuracy, kl_divergence, total_variation};
