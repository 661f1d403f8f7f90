//! What the parties of Cloison share: domain types, numerics, data, models, metrics, the wire contract and its transport.
//!
//! Dependencies point one way: `types` and `numerics` know nothing of the wire; only `rpc`, `service` and `training` know tonic.

pub mod apart;
pub mod cli;
pub mod clock;
pub mod config;
pub mod data;
pub mod files;
mod hex;
pub mod metrics;
pub mod model;
pub mod numerics;
pub mod policy;
pub mod rpc;
pub mod service;
pub mod telemetry;
#[cfg(feature = "test-util")]
pub mod testing;
pub mod training;
pub mod types;

pub use hex::hex;
