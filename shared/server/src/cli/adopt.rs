//! The command `adopt-state`: copies the state of a folder into the database of `[state]`, for the
//! two parties that may share one.

use std::io::Write as _;
use std::path::PathBuf;

use vfl_state::state_folder::{FolderError, adopt};

use super::{CliError, PartySettings};

/// The options of `adopt-state`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, of a passive party:
  passive-party adopt-state --config passive-party.toml --from state/passive-party

The config names the database in [state]. It must hold no state yet. The service on the folder must be stopped; none serves from the \
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
    /// Copies the files, and prints how many.
    ///
    /// # Errors
    /// [`CliError`] if the config is invalid, or the state cannot be copied.
    pub fn run<S: PartySettings>(&self) -> Result<(), CliError> {
        let (_, settings) = S::read(&self.config).map_err(CliError::input)?;
        let files = adopt(&self.from, &settings.state_dir()).map_err(|e| match e {
            FolderError::File(_) | FolderError::InUse(_) => CliError::failed(e),
            other => CliError::Input(other.to_string()),
        })?;
        writeln!(std::io::stdout(), "{files} files of {} are in the database.", self.from.display())
            .map_err(CliError::failed)
    }
}
