//! The coordinator: sums logit shares, applies the link function and the defense, drives training,
//! opens audits.
//!
//! It alone sees undefended scores; what leaves it is a [`vfl_core::types::ReleasedScores`].
//!
//! # Example
//!
//! A policy of one defense, applied to the logits of one record:
//!
//! ```
//! use nalgebra::DMatrix;
//! use vfl_defense::{Grants, Noise, Pipeline};
//! use vfl_defense::Policy;
//! use vfl_core::types::Logits;
//!
//! let policy: Policy = "rounding (decimals = 1)".parse()?;
//! let pipeline = Pipeline::build(&policy.defenses, 2, &Grants::default())?;
//! let logits = Logits::new(DMatrix::from_column_slice(2, 1, &[1.0, 0.0]))?;
//! let released = pipeline.release(logits, Noise::fresh([0; 32]))?;
//! // softmax gives 0.731 and 0.269.
//! assert_eq!(released.released.predicted_labels(), [0]);
//! assert!((released.scores.matrix()[0] - 0.731).abs() < 1e-3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod account;
mod align;
pub mod audit;
pub mod catalogue;
pub mod cli;
pub mod client;
pub mod config;
pub mod engine;
pub mod import;
pub mod ledger;
pub mod meter;
pub mod policy;
pub mod publish;
pub mod registry;
pub mod replicas;
pub mod secret;
mod secret_file;
pub mod service;
pub mod sessions;
pub mod share;
pub mod training;
mod window;
mod wire;
