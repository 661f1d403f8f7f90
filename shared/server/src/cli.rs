//! The common parts of all command lines: exit codes and error output.

mod adopt;
pub mod case_file;
mod key_value;
mod parameters;
mod positive;
mod rules;
mod texts;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use tokio::net::TcpListener;
use vfl_state::common_rules::CommonRules;
use vfl_state::journal::{Journal, Training};
use vfl_state::state_dir::StateDir;

use crate::config::ConfigError;
use crate::service::{Credentials, Peer, check_health, raise_descriptor_limit, shutdown_signal};
use crate::telemetry;

pub use adopt::AdoptArgs;
pub use key_value::key_value;
pub use parameters::{ExportArgs, StagingArgs, import_failure, known_classes};
pub use positive::positive;
pub use rules::ReplaceRulesArgs;
pub use texts::{CompletionsArgs, ManArgs, completions};

/// The common interface of the settings of all parties.
pub trait PartySettings: Sized {
    /// Reads a config file and everything it names: the address to listen on, and the settings.
    ///
    /// # Errors
    /// [`ConfigError`] with the file and what is wrong in it.
    fn read(path: &Path) -> Result<(SocketAddr, Self), ConfigError>;

    /// Returns the party's certificate and key.
    fn credentials(&self) -> &Credentials;

    /// Returns the place of the party's state: a folder or a database.
    fn state_dir(&self) -> StateDir;

    /// Returns the rules that all processes that share the state must have in common.
    fn rules(&self) -> CommonRules {
        CommonRules::new([])
    }

    /// Returns remarks on valid settings for the operator, a line each: `check` prints them.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Checks that remote resources in the config, such as a feature store, can be reached.
    ///
    /// # Errors
    /// A message that names the unreachable resource and the reason.
    fn reach(&self) -> impl Future<Output = Result<(), String>> + Send {
        async { Ok(()) }
    }
}

/// A future that completes when the service must stop.
pub type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The options of `serve`, the same for the three parties.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// The config file (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// Log as JSON lines.
    #[arg(long)]
    log_json: bool,
}

impl ServeArgs {
    /// Starts logging, reads the config, binds its address and runs the service until SIGINT or
    /// SIGTERM.
    ///
    /// # Errors
    /// [`CliError`] if the config is invalid, the address cannot be bound, or the service fails.
    pub async fn serve<S, E, F>(
        &self,
        run: impl FnOnce(S, TcpListener, Shutdown) -> F,
    ) -> Result<(), CliError>
    where
        S: PartySettings,
        E: std::fmt::Display,
        F: Future<Output = Result<(), E>>,
    {
        self.serve_with(Ok, run).await
    }

    /// Like [`ServeArgs::serve`], with settings that `adjust` changes, or rejects as bad input.
    ///
    /// # Errors
    /// As [`ServeArgs::serve`], and the error of `adjust`.
    pub async fn serve_with<S, E, F>(
        &self,
        adjust: impl FnOnce(S) -> Result<S, CliError>,
        run: impl FnOnce(S, TcpListener, Shutdown) -> F,
    ) -> Result<(), CliError>
    where
        S: PartySettings,
        E: std::fmt::Display,
        F: Future<Output = Result<(), E>>,
    {
        telemetry::init("info", self.log_json);
        raise_descriptor_limit();
        let (listen, settings) = S::read(&self.config).map_err(CliError::input)?;
        let settings = adjust(settings)?;
        let listener = bind(listen).await?;
        tracing::info!(%listen, identity = %settings.credentials().identity(), "listening");
        run(settings, listener, Box::pin(shutdown_signal())).await.map_err(CliError::failed)
    }
}

/// The options of `check`, the same for the three parties.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// The config file (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// Also check that the service at the config's address serves.
    #[arg(long)]
    health: bool,
}

impl CheckArgs {
    /// Checks the config and reports the result. If asked, also checks that the service it
    /// describes is up.
    ///
    /// # Errors
    /// [`CliError`] if the config is invalid, or the service cannot be reached.
    pub async fn run<S: PartySettings>(&self) -> Result<(), CliError> {
        use std::io::Write;
        let (listen, settings) = S::read(&self.config).map_err(CliError::input)?;
        let path = self.config.display();
        settings.reach().await.map_err(|e| CliError::failed(format!("{path}: {e}")))?;
        let said = check(&self.config, listen, settings.credentials(), self.health).await?;
        for remark in settings.remarks() {
            writeln!(std::io::stderr(), "{path}: {remark}").map_err(CliError::failed)?;
        }
        writeln!(std::io::stdout(), "{said}").map_err(CliError::failed)
    }
}

/// The options of `trainings`, the same for the parties that keep a journal of them.
#[derive(Debug, clap::Args)]
pub struct TrainingsArgs {
    /// The config file (TOML), which names the state directory.
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// Print JSON in place of the table.
    #[arg(long)]
    json: bool,
}

impl TrainingsArgs {
    /// Prints the journal of the state directory that the config names. The service may be running.
    ///
    /// # Errors
    /// [`CliError`] if the config is invalid, or the journal cannot be read.
    pub fn run<S: PartySettings>(&self) -> Result<(), CliError> {
        use std::io::Write;
        let (_, settings) = S::read(&self.config).map_err(CliError::input)?;
        let trainings =
            Journal::list(settings.state_dir().below("trainings")).map_err(CliError::failed)?;
        let text = match self.json {
            true => serde_json::to_string(&trainings).map_err(CliError::failed)? + "\n",
            false => training_table(&trainings),
        };
        std::io::stdout().write_all(text.as_bytes()).map_err(CliError::failed)
    }
}

/// Returns a table with one line for each training.
fn training_table(trainings: &[Training]) -> String {
    use std::fmt::Write;
    if trainings.is_empty() {
        return "No training has begun.\n".into();
    }
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{:>4} {:<20} {:<16} {:>9} {:>8} {:>7} {:>10}  outcome",
        "", "began (UTC)", "active party", "records", "classes", "epochs", "steps"
    );
    for t in trainings {
        let at_least = if t.ended_at.is_none() { "≥ " } else { "" };
        let outcome = match (&t.published, t.ended_at) {
            (Some(version), _) => format!("published {version}"),
            (None, Some(_)) => "ended without a model".into(),
            (None, None) => "under way, or cut off".into(),
        };
        let began = vfl_core::clock::utc(u64::try_from(t.begun_at).unwrap_or(0));
        let steps = format!("{at_least}{}", t.steps);
        let _ = writeln!(
            out,
            "{:>4} {began:<20} {:<16} {:>9} {:>8} {:>7} {steps:>10}  {outcome}",
            t.number,
            t.active_party.as_str(),
            t.records,
            t.class_names.len(),
            t.config.values().epochs,
        );
    }
    out.push_str("epochs: as asked for. The records of each are listed in the state directory, trainings/*.ids.\n");
    out
}

/// The errors of a command, each with its exit code.
#[derive(Debug)]
pub enum CliError {
    /// Bad input: a file, an option, a setting. Exit code 2.
    Input(String),
    /// The command failed. Exit code 1.
    Failed(String),
    /// The command succeeded, but its result does not meet a demand: the message names the demand
    /// and the next step. Exit code 3.
    Unmet(String),
}

impl CliError {
    /// Creates an error of bad input.
    pub fn input(error: impl std::fmt::Display) -> Self {
        Self::Input(error.to_string())
    }

    /// Creates an error of a failed command.
    pub fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Input(message) | Self::Failed(message) | Self::Unmet(message) => {
                f.write_str(message)
            }
        }
    }
}

impl std::error::Error for CliError {}

/// Returns the exit code of a command: 0 done, 1 failed, 2 bad input, 3 a demand is not met. Prints
/// all errors to standard error.
#[must_use]
pub fn exit(result: Result<(), CliError>) -> ExitCode {
    use std::io::Write;
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let (kind, code) = match error {
                CliError::Failed(_) => ("error", 1),
                CliError::Input(_) => ("error", 2),
                CliError::Unmet(_) => ("not met", 3),
            };
            let _ = writeln!(std::io::stderr(), "{kind}: {error}");
            ExitCode::from(code)
        }
    }
}

/// The time that a command's remaining threads have once it has ended.
const REST: Duration = Duration::from_secs(1);

/// Runs the command of a party, and returns the exit code of [`exit`].
///
/// Threads that wait for the system cannot be cancelled: a name server that does not answer keeps
/// the look-up of a peer for 10 s and longer. The process ends a second after the command, even if
/// such threads are still waiting.
#[must_use]
pub fn run(command: impl Future<Output = Result<(), CliError>>) -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return exit(Err(CliError::Failed(format!("cannot start threads: {error}")))),
    };
    let code = exit(runtime.block_on(command));
    runtime.shutdown_timeout(REST);
    code
}

/// Binds a listener.
///
/// # Errors
/// [`CliError::Failed`] naming the address and the likely cause.
async fn bind(address: SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|e| {
        CliError::Failed(format!(
            "cannot listen on {address}: {e} (is another process using the port?)"
        ))
    })
}

/// Runs `check`: reports that the config is valid. If asked, also checks that the service it
/// describes is up.
///
/// # Errors
/// [`CliError::Failed`] when the service is not reachable or does not serve.
async fn check(
    path: &Path,
    listen: SocketAddr,
    credentials: &Credentials,
    health: bool,
) -> Result<String, CliError> {
    let identity = credentials.identity();
    let mut said =
        format!("{}: good; this is {} ({})", path.display(), identity.words(), identity.uri());
    if health {
        // The health of a service that listens on every address is checked on loopback.
        let mut address = listen;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let peer = Peer {
            role: identity.role(),
            name: identity.name().clone(),
            address: address.to_string(),
        };
        check_health(credentials, &peer, Duration::from_secs(5)).await.map_err(CliError::failed)?;
        said.push_str(&format!("\n{peer} serves"));
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The thread waits for this test: whoever waited for the thread would not come back.
    #[test]
    fn a_command_ends_without_the_threads_that_cannot_be_cancelled() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let code = run(async move {
            let _look_up = tokio::task::spawn_blocking(move || {
                started.send(()).unwrap();
                held.recv()
            });
            has_started.await.unwrap();
            Err(CliError::Unmet("as asked".into()))
        });
        assert_eq!(code, ExitCode::from(3));
        release.send(()).unwrap();
    }
}
