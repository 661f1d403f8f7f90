//! What the command lines of all binaries have in common: exit codes and the last words.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::service::{Credentials, Peer, check_health};

/// Why a command failed, and with it the exit code.
#[derive(Debug)]
pub enum CliError {
    /// Bad input: a file, an option, a setting. Exit code 2.
    Input(String),
    /// The work failed. Exit code 1.
    Failed(String),
}

impl CliError {
    /// Bad input.
    pub fn input(error: impl std::fmt::Display) -> Self {
        Self::Input(error.to_string())
    }

    /// The work failed.
    pub fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Input(message) | Self::Failed(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for CliError {}

/// The exit code of a command: 0 done, 1 failed, 2 bad input; a failure is told on standard error.
#[must_use]
pub fn exit(result: Result<(), CliError>) -> ExitCode {
    use std::io::Write;
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(if matches!(error, CliError::Input(_)) { 2 } else { 1 })
        }
    }
}

/// Binds a listener.
///
/// # Errors
/// [`CliError::Failed`] naming the address and the likely cause.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(address)
        .await
        .map_err(|e| CliError::Failed(format!("cannot listen on {address}: {e} (is another process using the port?)")))
}

/// `check`: says that the config is good, and if asked whether the service it describes is up.
///
/// # Errors
/// [`CliError::Failed`] when the service is not reachable or does not serve.
pub async fn check(
    path: &Path,
    listen: SocketAddr,
    credentials: &Credentials,
    health: bool,
) -> Result<String, CliError> {
    let identity = credentials.identity();
    let mut said = format!("{}: good; this is {} ({})", path.display(), identity.words(), identity.uri());
    if health {
        // A service that listens on every address is asked on loopback.
        let mut address = listen;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let peer = Peer { role: identity.role(), name: identity.name().clone(), address: address.to_string() };
        check_health(credentials, &peer, Duration::from_secs(5)).await.map_err(CliError::failed)?;
        said.push_str(&format!("\n{peer} serves"));
    }
    Ok(said)
}

/// What is wrong with a JSON text, without the value found there: case files hold features and scores.
#[must_use]
pub fn json_error(error: &serde_json::Error) -> String {
    let words = error.to_string();
    // "invalid type: VALUE, expected KIND at line L column C"; the other messages name keys and places only.
    match (words.find(':'), words.rfind(", expected ")) {
        (Some(kind), Some(expected)) if words.starts_with("invalid ") && kind < expected => {
            format!("{}{}", &words[..kind], &words[expected..])
        }
        _ => words,
    }
}
