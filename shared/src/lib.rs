//! The common library of Cloison's parties: domain types, numerics, data, models, metrics, the wire
//! contract and its transport.
//!
//! Dependencies point one way: [`numerics`], the crate `vfl-numerics`, knows nothing of Cloison;
//! `types` knows nothing of the wire; only `rpc`, `service` and `training` know tonic.
//!
//! # Example
//!
//! Two parties' logit shares of one record add up to its logits, and softmax turns them into
//! scores:
//!
//! ```
//! use nalgebra::DMatrix;
//! use vfl_shared::types::{ConfidenceScores, LogitShare, Logits};
//!
//! let share = |values: &[f64]| LogitShare::new(DMatrix::from_column_slice(2, 1, values));
//! let logits = Logits::sum(share(&[0.0, 1.0])?, [share(&[0.0, -1.0])?])?;
//! let scores = ConfidenceScores::softmax(logits);
//! assert_eq!(scores.matrix().as_slice(), [0.5, 0.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod alignment;
pub mod blocking;
pub mod cli;
pub mod clock;
pub mod common_rules;
pub mod config;
pub mod data;
pub mod disjoint_sets;
pub mod files;
mod hex;
pub mod json;
pub mod metrics;
pub mod model;
pub mod monitoring;
pub mod policy;
pub mod purifier;
pub mod rpc;
pub mod service;
pub mod state_dir;
pub mod state_file;
pub mod state_folder;
pub mod state_table;
pub mod telemetry;
#[cfg(feature = "test-util")]
pub mod testing;
pub mod training;
pub mod transform;
pub mod types;

pub use hex::{hex, unhex};
pub use vfl_numerics as numerics;
