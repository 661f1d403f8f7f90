//! Logging: one span per call with method, caller and record count; never a feature, a parameter or
//! a score.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging to standard error: the filter from `RUST_LOG` (default `info`), JSON lines if
/// `json`.
///
/// Does nothing if a subscriber is installed already.
pub fn init(default_filter: &str, json: bool) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default_filter));
    // Log files get plain text without colours.
    let ansi = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(ansi);
    let _ = if json { builder.json().try_init() } else { builder.with_target(false).try_init() };
}
