//! The command `replace-rules`: replaces the rules that all processes of a party must have in
//! common.

use std::io::Write as _;
use std::path::PathBuf;

use super::{CliError, PartySettings};

/// The options of `replace-rules`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, of a passive party:
  passive-party replace-rules --config passive-party.toml

Processes that share [state] serve under the same rules, or not at all. Those that serve under others than this file's end within \
seconds; start them with the new ones.")]
pub struct ReplaceRulesArgs {
    /// The config file (TOML), which names the database and has the new rules.
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
}

impl ReplaceRulesArgs {
    /// Replaces the rules, and prints which tables change.
    ///
    /// # Errors
    /// [`CliError`] if the config is invalid or names no database, or the database cannot be
    /// written.
    pub fn run<S: PartySettings>(&self) -> Result<(), CliError> {
        let (_, settings) = S::read(&self.config).map_err(CliError::input)?;
        let state = settings.state_dir();
        if state.folder().is_some() {
            let message = "a party with a `state_dir` has one process, which serves under its own file; nothing is to be replaced";
            return Err(CliError::input(message));
        }
        let changed = settings.rules().replace(&state).map_err(CliError::failed)?;
        let said = match changed[..] {
            [] => "These are the rules that all processes serve under.".to_owned(),
            _ => format!("Replaced: {}. Processes with the old rules end.", changed.join(", ")),
        };
        writeln!(std::io::stdout(), "{said}").map_err(CliError::failed)
    }
}
