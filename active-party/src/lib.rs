//! The active party: labels, predictions and reconstruction attacks.

pub mod attack;
pub mod cli;
pub mod config;
mod parameters;
pub mod publish;
pub mod reconstruct;
pub mod scoring;
pub mod service;
mod told;
