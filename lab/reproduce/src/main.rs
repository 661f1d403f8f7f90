//! The `cloison-reproduce` binary: the figures of the papers, as `cloison reproduce` calls it.

use std::process::ExitCode;

use clap::Parser;
use vfl_reproduce::cli::Cli;
use vfl_server::cli::exit;

#[tokio::main]
async fn main() -> ExitCode {
    exit(Cli::parse().run().await)
}
