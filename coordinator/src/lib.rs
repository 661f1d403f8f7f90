//! The coordinator: sums logit shares, applies the link function and the defense, drives training,
//! opens audits.
//!
//! It alone sees undefended scores; what leaves it is a [`vfl_core::types::ReleasedScores`].

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
mod private_release;
pub mod publish;
pub mod registry;
pub mod replicas;
mod run_error;
pub mod secret;
pub mod service;
pub mod sessions;
pub mod share;
pub mod training;
mod window;
