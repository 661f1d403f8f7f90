//! The dashboard over real HTTP, against all parties in this process.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod audits;
mod browser;
mod door;
mod hostile;
mod pages;
#[allow(dead_code, reason = "shared with the integration tests")]
#[path = "../integration/support.rs"]
mod support;
