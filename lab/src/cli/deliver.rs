//! A report on the screen and in files.

use std::io::{IsTerminal, Write};
use std::path::Path;

use vfl_shared::cli::CliError;

use crate::progress::say;
use crate::report::{Report, render_table, write};

/// Prints the table and writes the report's files.
pub(super) fn deliver(report: &Report, out: &Path, json: bool) -> Result<(), CliError> {
    let written = write(report, out).map_err(CliError::failed)?;
    let mut stdout = std::io::stdout();
    let text = if json {
        report.to_json().map_err(CliError::failed)?
    } else {
        let width = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).unwrap_or(100);
        render_table(report, width, stdout.is_terminal())
    };
    // A reader that has seen enough (`| head`) is no failure.
    let _ = writeln!(stdout, "{}", text.trim_end());
    say(&format!("report: {} and {}", written.html.display(), written.json.display()));
    Ok(())
}
