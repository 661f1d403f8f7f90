//! Domain types, models, feature tables and metrics, without a transport: whoever adds an attack, a
//! defense or a metric needs this crate and no server.

pub mod clock;
pub mod data;
#[cfg(feature = "test-util")]
pub mod gradient_checks;
mod hex;
pub mod json;
pub mod metrics;
pub mod model;
pub mod types;

pub use hex::{hex, unhex};
