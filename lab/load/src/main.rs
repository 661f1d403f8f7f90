//! The `cloison-load` binary: measurements of a deployment, as `cloison load` calls it.

use std::process::ExitCode;

use clap::Parser;
use vfl_load::cli::Cli;
use vfl_server::cli::exit;

#[tokio::main]
async fn main() -> ExitCode {
    exit(Cli::parse().run().await)
}
