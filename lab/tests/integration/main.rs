//! All parties in one process, over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod audits;
mod defenses;
mod fuzz;
mod helped;
mod informed;
mod ledger;
mod metrics;
mod moments;
mod networks;
mod predictions;
mod privacy;
mod raw;
mod recommend;
mod refusals;
mod roles;
mod shown;
mod support;
mod training;
mod transforms;
