//! The command line of the passive party.

mod assess;
mod case;
mod transform;

use clap::{Parser, Subcommand};
use vfl_shared::cli::{CheckArgs, CliError, ServeArgs};
use vfl_shared::service::shutdown_signal;

pub use assess::AssessArgs;
pub use transform::TransformArgs;

use crate::config::Settings;

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
  passive-party assess --case case.json                      what would releasing the parameters give away?
  passive-party transform --case case.json --transform complement --out release.json
                                                             what to release in their place

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
    /// Foretell what an adversary rebuilds if the true parameters are released, without any service.
    Assess(AssessArgs),
    /// Rewrite parameters for release, so that whoever takes them for the true ones reconstructs something else.
    Transform(TransformArgs),
}

impl Cli {
    /// Carries the command out.
    ///
    /// # Errors
    /// [`CliError`] with the exit code.
    pub async fn run(self) -> Result<(), CliError> {
        match self.command {
            Command::Serve(args) => {
                let (listener, settings) = args.listen(Settings::read, |s| &s.credentials).await?;
                crate::service::run(settings, listener, shutdown_signal()).await.map_err(CliError::failed)
            }
            Command::Check(args) => args.run(Settings::read, |s| &s.credentials).await,
            Command::Assess(args) => args.run(),
            Command::Transform(args) => args.run(),
        }
    }
}
