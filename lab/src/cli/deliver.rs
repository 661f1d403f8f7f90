//! Delivers a report: on the screen and in files.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use vfl_auditor::report::{Report, not_met, render_summary, render_table, write};
use vfl_present::progress::say;
use vfl_server::cli::CliError;

/// The options for the output of a report.
#[derive(Debug, Clone, Args)]
pub(super) struct OutputArgs {
    /// Directory for report.html, report.json and report.csv.
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Print every table before the verdict.
    #[arg(long)]
    details: bool,
    /// Print the report as JSON instead of the verdict.
    #[arg(long, conflicts_with = "details")]
    json: bool,
}

impl Default for OutputArgs {
    fn default() -> Self {
        Self { out: "out".into(), details: false, json: false }
    }
}

impl OutputArgs {
    /// Returns the directory of the files.
    pub(super) fn folder(&self) -> &Path {
        &self.out
    }

    /// Writes the report's files and prints the verdict.
    ///
    /// # Errors
    /// [`CliError::Failed`] if the report cannot be written; [`CliError::Unmet`], after everything
    /// is written, if the policy in service does not meet a threshold.
    pub(super) fn deliver(&self, report: &Report) -> Result<(), CliError> {
        let written = write(report, &self.out).map_err(CliError::failed)?;
        let mut stdout = std::io::stdout();
        let text = if self.json {
            report.to_json().map_err(CliError::failed)?
        } else {
            let width = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).unwrap_or(100);
            let colour = stdout.is_terminal();
            let details = if self.details {
                render_table(report, width, colour) + "\n"
            } else {
                String::new()
            };
            details + &render_summary(report, width, colour)
        };
        // A reader that stops early (`| head`) is not a failure.
        let _ = writeln!(stdout, "{}", text.trim_end());
        say(&format!(
            "report: {}, {} and {}",
            written.html.display(),
            written.json.display(),
            written.csv.display()
        ));
        not_met(report).map_or(Ok(()), |what| Err(CliError::Unmet(what)))
    }
}
