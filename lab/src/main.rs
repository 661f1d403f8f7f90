//! The `cloison` binary: parses the command line and runs the command.

use std::process::ExitCode;

use clap::Parser;
use vfl_lab::cli::Cli;
use vfl_server::cli::exit;

#[tokio::main]
async fn main() -> ExitCode {
    exit(Cli::parse().run().await)
}
