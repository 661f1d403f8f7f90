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
//! vfl_testbed::certs::write(dir.path(), "example", 30, &parties)?;
//! assert!(dir.path().join("ca.pem").exists() && dir.path().join("a.key").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cli;
