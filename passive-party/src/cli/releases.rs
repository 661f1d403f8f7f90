//! `releases`: lists the releases in this party's state directory.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use vfl_server::cli::CliError;

use crate::config::Settings;
use crate::release::{release_table, releases};

/// The arguments of `passive-party releases`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  passive-party releases --config passive-party.toml
  passive-party releases --config passive-party.toml --json

The list holds no parameter. It stays with this party: g of a transform with a secret distance is that distance.")]
pub struct ReleasesArgs {
    /// The config file, which names the state directory.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print JSON in place of the table.
    #[arg(long)]
    json: bool,
}

impl ReleasesArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (_, settings) =
            Settings::read(&self.config).map_err(|e| CliError::Input(e.to_string()))?;
        let found = releases(&settings.state_dir).map_err(CliError::failed)?;
        let content = if self.json {
            let mut json = serde_json::to_string(&found).map_err(CliError::failed)?;
            json.push('\n');
            json
        } else {
            release_table(&found)
        };
        std::io::stdout().write_all(content.as_bytes()).map_err(CliError::failed)
    }
}
