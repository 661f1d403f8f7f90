//! The command line of the active party.

mod attack;
mod client;
mod publish;

use clap::{Parser, Subcommand};
use vfl_shared::cli::{CheckArgs, CliError, ExportArgs, ServeArgs};
use vfl_shared::data::FeatureStore as _;

pub use attack::{AttackArgs, attack_case};
pub use client::{PredictArgs, TrainArgs};
pub use publish::{ImportArgs, PublishArgs};

use crate::config::Settings;

/// Cloison's active party: labels, predictions and reconstruction attacks.
#[derive(Debug, Parser)]
#[command(
    name = "active-party",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  active-party serve --config active.toml
  active-party train --config active.toml                                  train through the running service
  active-party import-parameters --config active.toml --parameters active.parameters.json
                                                                           stage a model that was trained elsewhere
  active-party publish --config active.toml                                and put it in service, without any training
  active-party predict --config active.toml --ids customers.ids --out scores.csv
  active-party attack --case case.json --attack half_star,least_squares --out estimates.json

Exit codes: 0 done, 1 failed, 2 usage or bad input. RUST_LOG sets the log filter (default info)."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve gRPC with mutual TLS until SIGINT or SIGTERM.
    Serve(ServeArgs),
    /// Check a config file and everything it names; with --health, ask the running service too.
    Check(CheckArgs),
    /// Have a model trained and published, through the running service.
    Train(TrainArgs),
    /// Stage parameters that were trained elsewhere, to be published without any training.
    ImportParameters(ImportArgs),
    /// Put the parameters in service that all parties have imported, through the running service.
    Publish(PublishArgs),
    /// Write this party's parameters of a model to a file: safetensors as PyTorch reads them, or JSON.
    ExportParameters(ExportArgs),
    /// Score records by id, through the running service.
    Predict(PredictArgs),
    /// Run reconstruction attacks on a case file, without any service.
    Attack(AttackArgs),
}

impl Cli {
    /// Carries the command out.
    ///
    /// # Errors
    /// [`CliError`] with the exit code.
    pub async fn run(self) -> Result<(), CliError> {
        match self.command {
            Command::Serve(args) => args.serve(crate::service::run).await,
            Command::Check(args) => args.run::<Settings>().await,
            Command::Train(args) => args.run().await,
            Command::ImportParameters(args) => args.run(),
            Command::Publish(args) => args.run().await,
            Command::ExportParameters(args) => args.run::<Settings>(|settings, _| {
                settings.table.schema().label().map(|label| label.classes.clone()).unwrap_or_default()
            }),
            Command::Predict(args) => args.run().await,
            Command::Attack(args) => args.run(),
        }
    }
}
