//! All parties in one process, over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod active_processes;
mod alignment;
mod alignment_ids;
mod audits;
mod defenses;
mod feature_service;
mod fuzz;
mod helped;
mod inference;
mod informed;
mod lattice;
mod ledger;
mod limited_line;
mod metrics;
mod moments;
mod monitoring;
mod networks;
mod passive_processes;
mod predictions;
mod privacy;
mod private_release;
mod private_training;
mod raw;
mod recommend;
mod refusals;
mod replicas;
mod roles;
mod share_stream;
mod shown;
mod slow_stores;
mod stores;
mod support;
mod traces;
mod training;
mod transforms;
