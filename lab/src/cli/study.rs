//! Shared code of the studies' commands: options, a progress bar, and a report on the screen and in
//! a file.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use vfl_core::model::TrainingValues;
use vfl_core::model::privacy::PrivacyConfig;
use vfl_present::progress::{Progress, say};
use vfl_server::cli::CliError;
use vfl_state::files::write_atomic;
use vfl_studies::{Event, Listener, Report, Study};

/// The options for the steps of a training.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct StepArgs {
    /// Records per step.
    #[arg(long, value_name = "N", default_value_t = TrainingValues::default().batch_size)]
    batch_size: u32,
    /// Step size of Adam.
    #[arg(long, value_name = "X", default_value_t = TrainingValues::default().learning_rate)]
    learning_rate: f64,
    /// Weight of the squared norm of all weights.
    #[arg(long, value_name = "X", default_value_t = TrainingValues::default().l2)]
    l2: f64,
}

impl StepArgs {
    /// Returns the settings of a training with these steps.
    pub(super) fn values(self) -> TrainingValues {
        let Self { batch_size, learning_rate, l2 } = self;
        TrainingValues { batch_size, learning_rate, l2, ..TrainingValues::default() }
    }
}

/// Returns the differential privacy that `--privacy-noise` and `--privacy-clip` ask for.
///
/// # Errors
/// [`CliError::Input`] for a number out of its range.
pub(super) fn privacy(
    noise: Option<f64>,
    clip: Option<f64>,
) -> Result<Option<PrivacyConfig>, CliError> {
    let privacy = noise.map(|noise| PrivacyConfig::new(clip.unwrap_or(1.0), noise));
    privacy.transpose().map_err(|e| CliError::Input(format!("--privacy-noise: {e}")))
}

/// Prepares and runs a study with a progress bar, writes its report to `file` as JSON, and prints
/// the JSON or the text.
///
/// # Errors
/// [`CliError::Input`] if the study cannot be prepared; [`CliError::Failed`] if it cannot be run,
/// or its report not be written.
pub(super) async fn conduct<S: Study>(
    prepare: impl FnOnce() -> anyhow::Result<S> + Send + 'static,
    file: Option<PathBuf>,
    as_json: bool,
) -> Result<(), CliError> {
    let work = move || {
        let study = prepare().map_err(|e| CliError::Input(format!("{e:#}")))?;
        let report = with_bar(S::TITLE, study.parts(), &study.ending(), |tell| study.run(tell))?;
        let json = serde_json::to_string_pretty(&report).map_err(CliError::failed)?;
        if let Some(path) = &file {
            write_atomic(path, format!("{json}\n").as_bytes(), false)
                .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", path.display())))?;
        }
        let shown = if as_json { json } else { report.text() };
        // A reader that stops early (`| head`) is not a failure.
        let _ = writeln!(std::io::stdout(), "{}", shown.trim_end());
        if let Some(path) = &file {
            say(&format!("written: {}", path.display()));
        }
        Ok(())
    };
    // Minutes of computation must not block the runtime's threads.
    tokio::task::spawn_blocking(work).await.map_err(CliError::failed)?
}

/// Runs `work` of so many parts with a progress bar, or without one if there are none. `work` calls
/// the function that it is given at the start and the end of each part, from any thread. `ending`
/// is the last line.
///
/// # Errors
/// [`CliError::Failed`] with the whole error of `work`.
pub(super) fn with_bar<T>(
    title: &str,
    parts: usize,
    ending: &str,
    work: impl FnOnce(&Listener<'_>) -> anyhow::Result<T>,
) -> Result<T, CliError> {
    let failed = |e: anyhow::Error| CliError::Failed(format!("{e:#}"));
    if parts == 0 {
        return work(&|_| ()).map_err(failed);
    }
    let bar = Mutex::new((0u64, Progress::start(title, parts as u64)));
    let tell = |event: Event<'_>| {
        let Ok(mut held) = bar.lock() else { return };
        let (done, bar) = &mut *held;
        match event {
            Event::Start(part) => bar.at(*done, part),
            Event::End(result) => {
                *done += 1;
                bar.at(*done, "");
                if !result.is_empty() {
                    say(result);
                }
            }
        }
    };
    let result = work(&tell).map_err(failed)?;
    let (_, bar) = bar.into_inner().unwrap_or_else(PoisonError::into_inner);
    bar.done(ending);
    Ok(result)
}
