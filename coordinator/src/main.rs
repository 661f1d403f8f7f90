//! The `coordinator` binary: parses, starts logging, calls the library.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use vfl_coordinator::config::Settings;
use vfl_shared::cli::{CliError, bind, check, exit};
use vfl_shared::service::shutdown_signal;
use vfl_shared::telemetry;

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

Exit codes: 0 done, 1 failed, 2 usage or bad input. RUST_LOG sets the log filter (default info)."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve gRPC with mutual TLS until SIGINT or SIGTERM.
    Serve {
        /// The config file (TOML).
        #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
        config: PathBuf,
        /// Log as JSON lines.
        #[arg(long)]
        log_json: bool,
    },
    /// Check a config file and everything it names; with --health, ask the running service too.
    Check {
        /// The config file (TOML).
        #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
        config: PathBuf,
        /// Ask the service at the config's address whether it serves.
        #[arg(long)]
        health: bool,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    exit(run(Cli::parse().command).await)
}

async fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Serve { config, log_json } => {
            telemetry::init("info", log_json);
            let (listen, settings) = Settings::read(&config).map_err(CliError::input)?;
            let listener = bind(listen).await?;
            tracing::info!(%listen, identity = %settings.credentials.identity(), "listening");
            vfl_coordinator::service::run(settings, listener, shutdown_signal()).await.map_err(CliError::failed)
        }
        Command::Check { config, health } => {
            let (listen, settings) = Settings::read(&config).map_err(CliError::input)?;
            let said = check(&config, listen, &settings.credentials, health).await?;
            writeln!(std::io::stdout(), "{said}").map_err(CliError::failed)
        }
    }
}
