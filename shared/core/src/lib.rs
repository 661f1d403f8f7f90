//! Domain types, models, feature tables and metrics, without a transport: whoever adds an attack, a
//! defense or a metric needs this crate and no server.
//!
//! # Example
//!
//! Two parties' logit shares of one record add up to its logits, and softmax turns them into
//! scores:
//!
//! ```
//! use nalgebra::DMatrix;
//! use vfl_core::types::{ConfidenceScores, LogitShare, Logits};
//!
//! let share = |values: &[f64]| LogitShare::new(DMatrix::from_column_slice(2, 1, values));
//! let logits = Logits::sum(share(&[0.0, 1.0])?, [share(&[0.0, -1.0])?])?;
//! let scores = ConfidenceScores::softmax(logits);
//! assert_eq!(scores.matrix().as_slice(), [0.5, 0.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod clock;
pub mod data;
#[cfg(feature = "test-util")]
pub mod gradient_checks;
mod hex;
pub mod json;
pub mod metrics;
pub mod model;
pub mod types;

pub use hex::{hex, unhex};
