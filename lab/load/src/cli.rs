//! The command `cloison load`, a program of its own.

use clap::{CommandFactory, Parser, Subcommand};
use vfl_server::cli::{CliError, ManArgs};
use vfl_server::telemetry;

use crate::{LoadArgs, WorkerArgs, run, worker};

/// The command line of `cloison-load`, which `cloison load` calls.
#[derive(Debug, Parser)]
#[command(name = "cloison-load", bin_name = "cloison load", version)]
#[command(about = "Measure the service with three processes, beside a bare gRPC echo of the same \
                   size")]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    args: LoadArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one process of a measurement.
    #[command(hide = true)]
    LoadWorker(WorkerArgs),
    /// Print the page of the manual, or write it into a folder.
    #[command(hide = true)]
    Man(ManArgs),
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] with the exit code.
    pub async fn run(self) -> Result<(), CliError> {
        telemetry::init("warn,vfl_coordinator::service=error", false);
        match self.command {
            None => run(self.args).await,
            Some(Command::LoadWorker(args)) => worker(args).await,
            Some(Command::Man(args)) => return args.run(Self::command()),
        }
        .map_err(CliError::failed)
    }
}
