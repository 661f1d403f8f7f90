//! The lab: demo, audit, report, certificates and load tests. The only crate that sees all three
//! parties.
//!
//! # Example
//!
//! Make certificates for two parties, as `cloison certs` does:
//!
//! ```
//! let dir = tempfile::tempdir()?;
//! let parties = ["coordinator/c", "active-party/a"].map(str::to_owned);
//! vfl_lab::certs::write(dir.path(), "example", 30, &parties)?;
//! assert!(dir.path().join("ca.pem").exists() && dir.path().join("a.key").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod audit;
mod audit_config;
pub mod certs;
pub mod cli;
pub mod cli_reference;
pub mod client;
pub mod dashboard;
pub mod demo;
pub mod deployment;
pub mod evaluate;
pub mod inference;
pub mod labels;
pub mod load;
mod local_training;
pub mod membership;
mod page;
pub mod progress;
pub mod properties;
pub mod recommend;
pub mod report;
pub mod reproduce;
pub mod result_cache;
pub mod results;
pub mod scale;
pub mod screen;
pub mod set_facts;
pub mod transcript;
