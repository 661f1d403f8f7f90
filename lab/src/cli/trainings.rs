//! Shared code of the commands that train many models: a progress bar, and a report on the screen
//! and in a file.

use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use vfl_present::progress::{Progress, say};
use vfl_server::cli::CliError;
use vfl_state::files::write_atomic;

/// Runs `work` with a progress bar. `work` calls the function that it is given after each of
/// `models` trainings, from any thread. `ended` describes them in the last line.
///
/// # Errors
/// [`CliError::Failed`] with the whole error of `work`.
pub(super) fn with_bar<T>(
    models: usize,
    ended: &str,
    work: impl FnOnce(&(dyn Fn() + Sync)) -> anyhow::Result<T>,
) -> Result<T, CliError> {
    let bar = Mutex::new((0u64, Progress::start("training models", models as u64)));
    let done = || {
        if let Ok(mut held) = bar.lock() {
            let (done, bar) = &mut *held;
            *done += 1;
            bar.at(*done, "");
        }
    };
    let report = work(&done).map_err(|e| CliError::Failed(format!("{e:#}")))?;
    let (trained, bar) = bar.into_inner().unwrap_or_else(PoisonError::into_inner);
    bar.done(&format!("{trained} {ended}"));
    Ok(report)
}

/// Writes `report` to `path` as JSON, and prints the JSON or the text.
///
/// # Errors
/// [`CliError::Failed`] if the file cannot be written.
pub(super) fn deliver(
    report: &impl Serialize,
    text: &str,
    path: &Path,
    as_json: bool,
) -> Result<(), CliError> {
    let json = serde_json::to_string_pretty(report).map_err(CliError::failed)?;
    write_atomic(path, format!("{json}\n").as_bytes(), false)
        .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", path.display())))?;
    let shown = if as_json { &json } else { text };
    // A reader that stops early (`| head`) is not a failure.
    let _ = writeln!(std::io::stdout(), "{}", shown.trim_end());
    say(&format!("written: {}", path.display()));
    Ok(())
}
