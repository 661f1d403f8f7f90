//! Attacks of the security review, kept as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod import;
mod labels;
mod ledger;
mod scoring;
mod scoring_sockets;
mod strangers;
mod summaries;
#[allow(dead_code, reason = "shared with the integration tests")]
#[path = "../integration/support.rs"]
mod support;
mod training;
mod transcript;
mod versions;
