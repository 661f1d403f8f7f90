//! The command line of the passive party.

mod assess;
mod case;
mod import;
mod releases;
mod scorings;
mod transform;

use clap::{CommandFactory, Parser, Subcommand};
use vfl_party::cli::AlignmentsArgs;
use vfl_party::cli::features::{LoadArgs, SchemaArgs};
use vfl_server::cli::{
    AdoptArgs, CheckArgs, CliError, CompletionsArgs, ExportArgs, ManArgs, ReplaceRulesArgs,
    ServeArgs, TrainingsArgs, known_classes,
};
use vfl_server::config::ConfigFile;

pub use assess::{AssessArgs, assess_case};
pub use import::ImportArgs;
pub use releases::ReleasesArgs;
pub use scorings::ScoringsArgs;
pub use transform::{TransformArgs, transform_case};

use crate::config::{ConfigValues, Settings};

/// Cloison's passive party: holds private features, answers with logit shares.
#[derive(Debug, Parser)]
#[command(
    name = "passive-party",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  passive-party check --config passive-party.toml            is the config good?
  passive-party serve --config passive-party.toml            serve until SIGINT or SIGTERM
  passive-party check --config passive-party.toml --health   is the service up?
  passive-party schema infer --from customers.csv --out customers.schema.toml
                                                             a first schema, to be corrected
  passive-party load-features --config passive-party.toml --from customers.csv
                                                             fill the SQLite file that [data.sqlite] names
  passive-party assess --case case.json                      what would releasing the parameters give away?
  passive-party transform --case case.json --transform complement --out release.json
                                                             what to release in their place
  passive-party import-parameters --config passive-party.toml --parameters passive.parameters.json --active-party shop
                                                             stage a model that was trained elsewhere
  passive-party releases --config passive-party.toml         what was released, to whom and how far from the truth?
  passive-party alignments --config passive-party.toml       with whom were records aligned, and how many are common?
  passive-party trainings --config passive-party.toml        what was trained here, for whom and on how many records?
  passive-party scorings --config passive-party.toml         what were auditors told of the truth, and what is left?

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
    /// Guess a schema from a file of values.
    Schema(SchemaArgs),
    /// Fill the SQLite file of [data.sqlite] from a CSV or Parquet file.
    LoadFeatures(LoadArgs),
    /// Check a config file and everything it names; with --health, ask the running service too.
    Check(CheckArgs),
    /// Stage parameters that were trained elsewhere, for an active party to have them published
    /// without any training.
    ImportParameters(ImportArgs),
    /// Write this party's parameters of a model to a file: safetensors as PyTorch reads them, or
    /// JSON.
    ExportParameters(ExportArgs),
    /// Predict the reconstruction error if the true parameters are released, without any service.
    Assess(AssessArgs),
    /// Rewrite parameters for release, so that an adversary who takes them for the true ones
    /// reconstructs something else.
    Transform(TransformArgs),
    /// List the parameters that were released: model, role, transform, distance from the true ones,
    /// when.
    Releases(ReleasesArgs),
    /// List the alignments that began here, including those that failed.
    Alignments(AlignmentsArgs),
    /// List the trainings that this party took part in, including those without a model.
    Trainings(TrainingsArgs),
    /// List the sets of records that auditors had scored, with what is spent and left; `renew`
    /// allows a budget once more.
    Scorings(ScoringsArgs),
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
            Command::ImportParameters(args) => args.run(),
            Command::ExportParameters(args) => args
                .run::<Settings>(|settings, version| known_classes(&settings.state_dir, version)),
            Command::Assess(args) => args.run(),
            Command::Transform(args) => args.run(),
            Command::Releases(args) => args.run(),
            Command::Alignments(args) => args.run::<Settings>(),
            Command::Trainings(args) => args.run::<Settings>(),
            Command::Scorings(args) => args.run(),
            Command::AdoptState(args) => args.run::<Settings>(),
            Command::ReplaceRules(args) => args.run::<Settings>(),
        }
    }
}
