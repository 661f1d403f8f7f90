//! Texts about a binary's own command line: shell completions and manual pages.

use std::io::Write;
use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;

use super::CliError;

/// The options of `completions`, the same for all binaries.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell to complete for.
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints the script that completes `command` in the shell.
    ///
    /// # Errors
    /// [`CliError::Failed`] if standard output cannot be written.
    pub fn run(&self, command: Command) -> Result<(), CliError> {
        std::io::stdout().write_all(&completions(self.shell, command)).map_err(CliError::failed)
    }
}

/// The options of `man`, the same for all binaries.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write a page for each command to this directory, which is created if necessary, instead of
    /// the first page to standard output.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl ManArgs {
    /// Writes the pages of `command`.
    ///
    /// # Errors
    /// [`CliError::Failed`] if standard output or a file cannot be written.
    pub fn run(&self, command: Command) -> Result<(), CliError> {
        let Some(out) = &self.out else {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page).map_err(CliError::failed)?;
            return std::io::stdout().write_all(&page).map_err(CliError::failed);
        };
        let told = |e| CliError::Failed(format!("cannot write pages to {}: {e}", out.display()));
        std::fs::create_dir_all(out).map_err(told)?;
        clap_mangen::generate_to(command, out).map_err(told)
    }
}

/// Returns the script that completes a command in a shell. It is built in memory, as the generator
/// accepts no failing writer.
#[must_use]
pub fn completions(shell: Shell, mut command: Command) -> Vec<u8> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name.clone(), &mut script);
    if shell != Shell::Bash {
        return script;
    }
    // The generator names a binary with a hyphen in two different ways, so that the completions of
    // its subcommands are never found.
    let text = String::from_utf8_lossy(&script);
    text.replace(&name.replace('-', "__subcmd__"), &name.replace('-', "__")).into_bytes()
}
