//! The coordinator: sums logit shares, applies the link function and the defense, drives training, opens audits.
//!
//! It alone sees undefended scores; what leaves it is a [`vfl_shared::types::ReleasedScores`].

pub mod audit;
pub mod config;
pub mod defense;
pub mod engine;
pub mod passive;
pub mod registry;
pub mod service;
pub mod training;
