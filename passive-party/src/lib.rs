//! The passive party: holds private features, answers with logit shares, and scores reconstructions against the truth that
//! stays with it.

pub mod assess;
pub mod cli;
pub mod config;
pub mod evaluation;
mod linear;
pub mod logits;
mod moments;
pub mod service;
pub mod transform;
