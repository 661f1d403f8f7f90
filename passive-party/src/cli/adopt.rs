//! `adopt-state`: takes the state of a folder into the database of `[state]`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use vfl_shared::cli::CliError;

use crate::adopt::{FolderError, adopt};
use crate::config::Settings;

/// `passive-party adopt-state`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  passive-party adopt-state --config passive-party.toml --from state/passive-party

The config names the database in [state]. It must hold no state yet. The service on the folder must be stopped; none serves from the
folder again. What was interrupted may be done again.")]
pub struct AdoptArgs {
    /// The config file, which names the database.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The folder that was `state_dir`.
    #[arg(long, value_name = "DIRECTORY")]
    from: PathBuf,
}

impl AdoptArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (_, settings) = Settings::read(&self.config).map_err(|e| CliError::Input(e.to_string()))?;
        let files = adopt(&self.from, &settings.state_dir).map_err(|e| match e {
            FolderError::File(_) | FolderError::InUse(_) => CliError::failed(e),
            other => CliError::Input(other.to_string()),
        })?;
        writeln!(std::io::stdout(), "{files} files of {} are in the database.", self.from.display())
            .map_err(CliError::failed)
    }
}
