//! The equipment of every server of a deployment: TLS, identity, limits, metrics, traces,
//! configuration and the shell of a command line.

pub mod cli;
pub mod config;
pub mod monitoring;
pub mod service;
pub mod telemetry;
