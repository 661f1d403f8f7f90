//! Commands that are programs of their own, beside this one: most who serve or audit a model never
//! call them, and the demonstration is built in less time without them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use vfl_server::cli::CliError;

/// The arguments of a command that is a program of its own, as they were given.
#[derive(Debug, Args)]
pub struct SiblingArgs {
    /// The arguments of the command; `--help` lists them.
    #[arg(
        value_name = "ARGUMENTS",
        num_args = 0..,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

impl SiblingArgs {
    /// Replaces this process by `cloison-NAME`; where a system cannot do that, runs it and ends
    /// with 2 if it refused its input, and with 1 if it failed. `package` is the crate that has the
    /// program.
    ///
    /// # Errors
    /// [`CliError::Input`] if there is no such program, with the command that builds it.
    pub(super) fn run(self, name: &str, package: &str) -> Result<(), CliError> {
        let program = format!("cloison-{name}{}", std::env::consts::EXE_SUFFIX);
        let own = std::env::current_exe().ok();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = own.as_deref().and_then(Path::parent).map(Path::to_owned);
        // An empty entry of PATH is the working directory, whose files nobody vouches for.
        let path = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
        let folders = folders.into_iter().chain(path);
        let Some(file) = find(&program, folders) else {
            return Err(CliError::input(format!(
                "`cloison {name}` is a program of its own, `{program}`, which is neither beside \
                 this one nor in PATH: build it with `cargo build --release -p {package} --features \
                 full`, in the same target directory"
            )));
        };
        start(Command::new(&file).args(self.arguments), &file)
    }
}

/// Returns the first file of this name in the folders.
fn find(program: &str, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(unix)]
fn start(command: &mut Command, file: &Path) -> Result<(), CliError> {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    Err(CliError::failed(format!("{} does not start: {error}", file.display())))
}

#[cfg(not(unix))]
fn start(command: &mut Command, file: &Path) -> Result<(), CliError> {
    let status = command.status();
    let status =
        status.map_err(|e| CliError::failed(format!("{} does not start: {e}", file.display())))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(2) => Err(CliError::input(format!("{} refused its input", file.display()))),
        _ => Err(CliError::failed(format!("{} ended with {status}", file.display()))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_program_is_looked_for_in_the_order_of_the_folders() {
        let [first, second] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let folders = || [first.path(), second.path()].map(Path::to_owned).into_iter();
        assert_eq!(find("cloison-load", folders()), None);
        std::fs::write(second.path().join("cloison-load"), "").unwrap();
        assert_eq!(find("cloison-load", folders()), Some(second.path().join("cloison-load")));
        std::fs::write(first.path().join("cloison-load"), "").unwrap();
        assert_eq!(find("cloison-load", folders()), Some(first.path().join("cloison-load")));
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named_with_its_build() {
        // The test's own folder has no such program, and PATH has none.
        let args = SiblingArgs { arguments: vec![] };
        let error = args.run("nothing-of-this-name", "vfl-reproduce").unwrap_err().to_string();
        assert!(error.contains("cloison-nothing-of-this-name"), "{error}");
        assert!(error.contains("cargo build --release -p vfl-reproduce"), "{error}");
        // Every argument is the program's, help among them.
        for line in ["cloison reproduce --help", "cloison load --seconds 5 -h"] {
            Cli::try_parse_from(line.split(' ')).unwrap();
        }
    }
}
