//! The passive party: holds private features, answers with logit shares, and scores reconstructions
//! against the truth that stays with it.

mod align;
pub mod cli;
pub mod collusion;
pub mod config;
pub mod consent;
pub mod disclosure;
pub mod evaluation;
pub mod logits;
mod private_release;
pub mod record_outputs;
pub mod release;
mod run_error;
pub mod service;
pub mod training_map;
