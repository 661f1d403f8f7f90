//! The active party: labels, predictions, and the attacks that an auditor asks for.

mod align;
pub mod cli;
pub mod client;
pub mod config;
pub mod fallback;
mod inference;
mod invert_transform;
mod model_description;
mod own_logits;
pub mod own_service;
mod parameters;
mod passive_party;
mod predict;
mod private_release;
pub mod publish;
pub mod reconstruct;
pub mod scoring;
pub mod service;
pub mod training_labels;
