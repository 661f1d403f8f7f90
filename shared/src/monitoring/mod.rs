//! What a party measures of its own work, for a Prometheus server to fetch, and the [`traces`] of predictions, for a collector.
//!
//! Each party has a [`Monitor`] of its own, so that several parties in one process stay apart. Labels are names of parties, calls,
//! codes and kinds of outcome, all of them bounded. No record id, feature, parameter or score is measured; counts and times are.

mod calls;
mod config;
mod endpoint;
mod hop;
mod monitor;
mod predictions;
pub mod traces;

pub(crate) use calls::{Calls, OpenCall};
pub use config::{MetricsTable, Monitoring};
pub use endpoint::{Endpoint, EndpointError};
pub use hop::{Hop, LATENCY_BUCKETS};
pub use monitor::{Monitor, Reading};
pub use predictions::Predictions;
