//! The coordinator: sums logit shares, applies the link function and the defense, drives training, opens audits.
//!
//! It alone sees undefended scores; what leaves it is a [`vfl_shared::types::ReleasedScores`].

pub mod account;
pub mod audit;
pub mod cli;
pub mod config;
pub mod defense;
pub mod engine;
pub mod import;
pub mod ledger;
pub mod passive;
pub mod policy;
pub mod publish;
pub mod registry;
pub mod secret;
pub mod service;
pub mod share;
pub mod training;
