//! The `coordinator` binary: parses, starts logging, calls the library.

use std::process::ExitCode;

use clap::Parser;
use vfl_coordinator::cli::Cli;
use vfl_server::cli::run;

fn main() -> ExitCode {
    run(Cli::parse().run())
}
