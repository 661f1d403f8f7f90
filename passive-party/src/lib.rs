//! The passive party: holds private features, answers with logit shares, and scores reconstructions
//! against the truth that stays with it.
//!
//! # Example
//!
//! The release of these weights would reveal features like these completely: there are three
//! classes and two features.
//!
//! ```
//! use nalgebra::DMatrix;
//! use vfl_transform::assess::assess;
//! use vfl_core::types::FeatureBlock;
//!
//! let w_pas = DMatrix::from_row_slice(3, 2, &[1.0, 0.5, -1.0, 2.0, 0.25, -0.75]);
//! let records = FeatureBlock::new(DMatrix::from_row_slice(2, 4, &[0.1, 0.9, 0.4, 0.6, 0.5, 0.2, 0.8, 0.3]))?;
//! let found = assess(&w_pas, &records)?;
//! assert_eq!((found.rank, found.nul), (2, 0));
//! assert!(found.mse_half_star < 1e-12 && found.mse_half > 0.05);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod align;
pub mod cli;
pub mod collusion;
pub mod config;
pub mod consent;
pub mod disclosure;
pub mod evaluation;
pub mod logits;
pub mod release;
pub mod service;
pub mod training_map;
