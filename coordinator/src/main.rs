//! The `coordinator` binary: parses, starts logging, calls the library.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use vfl_coordinator::cli::ledger::LedgerArgs;
use vfl_coordinator::config::Settings;
use vfl_shared::cli::{CheckArgs, CliError, ServeArgs, exit};
use vfl_shared::service::shutdown_signal;

/// Cloison's coordinator: sums logit shares, applies defenses, drives training and audits.
#[derive(Parser)]
#[command(
    name = "coordinator",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  coordinator check --config coordinator.toml            is the config good?
  coordinator serve --config coordinator.toml            serve until SIGINT or SIGTERM
  coordinator check --config coordinator.toml --health   is the service up?
  coordinator defend --scores scores.csv --defense rounding --set decimals=2 --out -
  coordinator ledger show --ledger sqlite:ledger.db      who asked for what, what is left?

Exit codes: 0 done, 1 failed, 2 usage or bad input. RUST_LOG sets the log filter (default info)."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve gRPC with mutual TLS until SIGINT or SIGTERM.
    Serve(ServeArgs),
    /// Apply a defense to a file of scores, without any service, and say what it cost.
    Defend(Box<vfl_coordinator::cli::DefendArgs>),
    /// Check a config file and everything it names; with --health, ask the running service too.
    Check(CheckArgs),
    /// Show the query ledger, back it up, forget what is old, erase a person's entries.
    Ledger(LedgerArgs),
}

#[tokio::main]
async fn main() -> ExitCode {
    exit(run(Cli::parse().command).await)
}

async fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Serve(args) => {
            let (listener, settings) = args.listen(Settings::read, |s| &s.credentials).await?;
            vfl_coordinator::service::run(settings, listener, shutdown_signal()).await.map_err(CliError::failed)
        }
        Command::Defend(args) => args.run(),
        Command::Check(args) => args.run(Settings::read, |s| &s.credentials).await,
        Command::Ledger(args) => args.run().await,
    }
}
