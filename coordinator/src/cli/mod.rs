//! The command line of the coordinator.

mod defend;
mod import;
pub mod ledger;

use clap::{CommandFactory, Parser, Subcommand};
use vfl_server::cli::{
    CheckArgs, CliError, CompletionsArgs, ExportArgs, ManArgs, ServeArgs, TrainingsArgs,
};

pub use defend::DefendArgs;
pub use import::ImportArgs;

use self::ledger::LedgerArgs;
use crate::config::Settings;

/// Cloison's coordinator: sums logit shares, applies defenses, drives training and audits.
#[derive(Debug, Parser)]
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
  coordinator import-parameters --config coordinator.toml --parameters top.safetensors --active-party shop
                                                         stage a top model that was trained elsewhere
  coordinator ledger approve m-0123456789abcdef --config coordinator.toml

Exit codes: 0 done, 1 failed, 2 usage or bad input. RUST_LOG sets the log filter (default info)."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve gRPC with mutual TLS until SIGINT or SIGTERM.
    Serve(Serve),
    /// Apply a defense to a file of scores, without any service, and say what it cost.
    Defend(Box<DefendArgs>),
    /// Check a config file and everything it names; with --health, ask the running service too.
    Check(CheckArgs),
    /// Show the query ledger, back it up, forget what is old, erase a person's entries.
    Ledger(LedgerArgs),
    /// Stage a top model that was trained elsewhere, for an active party to have it published with
    /// the parties' embeddings.
    ImportParameters(ImportArgs),
    /// Write the top model of a model to a file: safetensors as PyTorch reads it.
    ExportParameters(ExportArgs),
    /// List the trainings that began here, whether or not a model came of them.
    Trainings(TrainingsArgs),
    /// Print the script that completes this command in a shell.
    Completions(CompletionsArgs),
    /// Print the page of the manual, or write one for each command.
    Man(ManArgs),
}

#[derive(Debug, clap::Args)]
struct Serve {
    #[command(flatten)]
    args: ServeArgs,
    /// Start even if the ledger is missing, is another one or is an old copy.
    ///
    /// The state directory remembers which ledger was used last and how far it had come. Without
    /// this option the coordinator does not start on any other: what was spent and which shares are
    /// bound would be forgotten. With it the coordinator begins a new ledger where there is none,
    /// or goes on with the one that is there; nothing is deleted. The ledger records it. Give the
    /// option once: where nothing is wrong, the coordinator does not start with it.
    #[arg(long)]
    begin_new_ledger: bool,
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] with the exit code.
    pub async fn run(self) -> Result<(), CliError> {
        match self.command {
            Command::Completions(args) => args.run(Self::command()),
            Command::Man(args) => args.run(Self::command()),
            Command::Serve(Serve { args, begin_new_ledger }) => {
                let adjust = |settings| begin_new(settings, begin_new_ledger);
                args.serve_with(adjust, crate::service::run).await
            }
            Command::Defend(args) => args.run(),
            Command::Check(args) => args.run::<Settings>().await,
            Command::Ledger(args) => args.run().await,
            Command::ImportParameters(args) => args.run(),
            Command::ExportParameters(args) => args.run_with::<Settings>(import::top_of),
            Command::Trainings(args) => args.run::<Settings>(),
        }
    }
}

/// Returns the settings with `--begin-new-ledger`, which needs a ledger.
fn begin_new(mut settings: Settings, begin_new_ledger: bool) -> Result<Settings, CliError> {
    match &mut settings.ledger {
        Some(ledger) => ledger.begin_new = begin_new_ledger,
        None if begin_new_ledger => {
            let message = "--begin-new-ledger needs the ledger, which `kept = false` in [ledger] switches off";
            return Err(CliError::input(message));
        }
        None => {}
    }
    Ok(settings)
}
