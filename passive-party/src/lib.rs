//! The passive party: holds private features, answers with logit shares, and scores reconstructions against the truth that
//! stays with it.

pub mod assess;
pub mod cli;
pub mod config;
pub mod consent;
pub mod evaluation;
mod linear;
pub mod logits;
mod moments;
pub mod release;
pub mod service;
pub mod showing;
pub mod training_map;
pub mod transform;
pub mod words;
