//! The `coordinator` binary: parses, starts logging, calls the library.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use vfl_coordinator::cli::ledger::LedgerArgs;
use vfl_coordinator::config::Settings;
use vfl_shared::cli::{CheckArgs, CliError, ServeArgs, TrainingsArgs, exit};
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
  coordinator trainings --config coordinator.toml        what was trained here, and on how many records?
  coordinator ledger approve m-0123456789abcdef --config coordinator.toml

Exit codes: 0 done, 1 failed, 2 usage or bad input. RUST_LOG sets the log filter (default info)."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve gRPC with mutual TLS until SIGINT or SIGTERM.
    Serve(Serve),
    /// Apply a defense to a file of scores, without any service, and say what it cost.
    Defend(Box<vfl_coordinator::cli::DefendArgs>),
    /// Check a config file and everything it names; with --health, ask the running service too.
    Check(CheckArgs),
    /// Show the query ledger, back it up, forget what is old, erase a person's entries.
    Ledger(LedgerArgs),
    /// List the trainings that began here, whether or not a model came of them.
    Trainings(TrainingsArgs),
}

#[derive(clap::Args)]
struct Serve {
    #[command(flatten)]
    args: ServeArgs,
    /// Go on although the ledger is lost, another one or an old copy.
    ///
    /// The state directory remembers which ledger was used last and how far it had come. Without this option the coordinator does
    /// not start on any other: what was spent and which shares are bound would be forgotten. With it the coordinator begins a
    /// new ledger where there is none, or goes on with the one that is there; nothing is deleted. The ledger records it. Give
    /// the option once: where nothing is wrong, the coordinator does not start with it.
    #[arg(long)]
    begin_new_ledger: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit(run(Cli::parse().command).await)
}

async fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Serve(Serve { args, begin_new_ledger }) => {
            let (listener, mut settings) = args.listen(Settings::read, |s| &s.credentials).await?;
            match &mut settings.ledger {
                Some(ledger) => ledger.begin_new = begin_new_ledger,
                None if begin_new_ledger => {
                    let message = "--begin-new-ledger needs the ledger, which `kept = false` in [ledger] switches off";
                    return Err(CliError::input(message));
                }
                None => {}
            }
            vfl_coordinator::service::run(settings, listener, shutdown_signal()).await.map_err(CliError::failed)
        }
        Command::Defend(args) => args.run(),
        Command::Check(args) => args.run(Settings::read, |s| &s.credentials).await,
        Command::Ledger(args) => args.run().await,
        Command::Trainings(args) => args.run(|path| Settings::read(path).map(|(_, s)| s.state_dir)),
    }
}
