//! The `coordinator` binary: parses, starts logging, calls the library.

use std::process::ExitCode;

use clap::Parser;
use vfl_coordinator::cli::Cli;
use vfl_shared::cli::exit;

#[tokio::main]
async fn main() -> ExitCode {
    exit(Cli::parse().run().await)
}
