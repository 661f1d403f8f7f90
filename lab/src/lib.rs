//! The lab: demo, audit, report, certificates and load. The only crate that sees all three parties.

pub mod audit;
pub mod certs;
pub mod cli;
pub mod demo;
pub mod deployment;
pub mod evaluate;
pub mod load;
pub mod progress;
pub mod report;
pub mod reproduce;
pub mod transcript;
