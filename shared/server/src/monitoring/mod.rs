//! The metrics of a party's own work, for a Prometheus server, and the [`traces`] of predictions,
//! for a collector.
//!
//! Each party has a [`Monitor`] of its own, so that several parties in one process stay apart.
//! Labels are names of parties, calls, codes and kinds of outcome, all of them bounded. Only counts
//! and times are measured: no record id, feature, parameter or score.

mod calls;
mod config;
mod endpoint;
mod monitor;
mod peer_metrics;
mod predictions;
pub mod traces;

pub(crate) use calls::{Calls, OpenCall};
pub use config::{MetricsTable, Monitoring};
pub use endpoint::{Endpoint, EndpointError};
pub use monitor::{GaugeReading, Monitor};
pub use peer_metrics::{LATENCY_BUCKETS, PeerMetrics};
pub use predictions::Predictions;
