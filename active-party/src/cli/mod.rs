//! The command line of the active party.

mod align;
mod attack;
mod client;
mod publish;

use clap::{CommandFactory, Parser, Subcommand};
use vfl_party::cli::AlignmentsArgs;
use vfl_party::cli::features::{LoadArgs, SchemaArgs};
use vfl_server::cli::{
    AdoptArgs, CheckArgs, CliError, CompletionsArgs, ExportArgs, ManArgs, ReplaceRulesArgs,
    ServeArgs,
};
use vfl_server::config::ConfigFile;

pub use align::AlignArgs;
pub use attack::{AttackArgs, attack_case};
pub use client::{PredictArgs, TrainArgs};
pub use publish::{ImportArgs, PublishArgs};

use crate::config::{ConfigValues, Settings};

/// Cloison's active party: labels, predictions and reconstruction attacks.
#[derive(Debug, Parser)]
#[command(
    name = "active-party",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  active-party serve --config active.toml
  active-party align --config active.toml --passive-party bank --out common.ids
                                                                           which records does the bank hold too?
  active-party train --config active.toml                                  train through the running service
  active-party schema infer --from customers.csv --label default --out active.schema.toml
                                                                           a first schema, to be corrected
  active-party load-features --config active.toml --from customers.csv     fill the SQLite file of [data.sqlite]
  active-party import-parameters --config active.toml --parameters active.parameters.json
                                                                           stage a model that was trained elsewhere
  active-party publish --config active.toml                                and put it in service, without any training
  active-party predict --config active.toml --ids customers.ids --out scores.csv
  active-party attack --case case.json --attack half_star,least_squares --out estimates.json

Exit codes: 0 done, 1 failed, 2 usage or bad input, 3 no record was scored. RUST_LOG sets the log filter (default info)."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve gRPC with mutual TLS until SIGINT or SIGTERM.
    Serve(ServeArgs),
    /// Guess a schema from a file of values.
    Schema(SchemaArgs),
    /// Fill the SQLite file of [data.sqlite] from a CSV or Parquet file.
    LoadFeatures(LoadArgs),
    /// Check a config file and everything it names; with --health, ask the running service too.
    Check(CheckArgs),
    /// Find out which records a passive party holds too, through the running service.
    Align(AlignArgs),
    /// List the alignments that began here, including those that failed.
    Alignments(AlignmentsArgs),
    /// Have a model trained and published, through the running service.
    Train(TrainArgs),
    /// Stage parameters that were trained elsewhere, to be published without any training.
    ImportParameters(ImportArgs),
    /// Put the parameters in service that all parties have imported, through the running service.
    Publish(PublishArgs),
    /// Write this party's parameters of a model to a file: safetensors as PyTorch reads them, or
    /// JSON.
    ExportParameters(ExportArgs),
    /// Score records by id, through the running service.
    Predict(PredictArgs),
    /// Run reconstruction attacks on a case file, without any service.
    Attack(AttackArgs),
    /// Take the state of a folder into the database of [state], for several processes to share.
    AdoptState(AdoptArgs),
    /// Have all processes that share [state] serve under the rules of this file.
    ReplaceRules(ReplaceRulesArgs),
    /// Print the script that completes this command in a shell.
    Completions(CompletionsArgs),
    /// Print the page of the manual, or write one for each command.
    Man(ManArgs),
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
            Command::Serve(args) => args.serve(crate::service::run).await,
            Command::Schema(args) => args.run(),
            Command::LoadFeatures(args) => {
                args.run(|path| ConfigFile::<ConfigValues>::read(path).map(|file| file.values.data))
                    .await
            }
            Command::Check(args) => args.run::<Settings>().await,
            Command::Align(args) => args.run().await,
            Command::Alignments(args) => args.run::<Settings>(),
            Command::Train(args) => args.run().await,
            Command::ImportParameters(args) => args.run(),
            Command::Publish(args) => args.run().await,
            Command::ExportParameters(args) => {
                args.run::<Settings>(|settings, _| settings.features.schema().output_names())
            }
            Command::Predict(args) => args.run().await,
            Command::Attack(args) => args.run(),
            Command::AdoptState(args) => args.run::<Settings>(),
            Command::ReplaceRules(args) => args.run::<Settings>(),
        }
    }
}
