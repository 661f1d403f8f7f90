//! The command line of `cloison`: demonstration, audits, studies and certificates.

pub mod cli;
