//! The command `alignments`: prints the alignments that a state directory records, for the two
//! parties that align.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use vfl_server::cli::{CliError, PartySettings};

use crate::alignment::{RunEnd, RunEntry, runs};

/// The options of `alignments`.
#[derive(Debug, clap::Args)]
pub struct AlignmentsArgs {
    /// The config file (TOML), which names the state directory.
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// Print JSON in place of the table.
    #[arg(long)]
    json: bool,
}

impl AlignmentsArgs {
    /// Prints the runs that count. The service may be running.
    ///
    /// # Errors
    /// [`CliError`] if the config is invalid, or the record cannot be read.
    pub fn run<S: PartySettings>(&self) -> Result<(), CliError> {
        let (_, settings) = S::read(&self.config).map_err(CliError::input)?;
        let found = runs(settings.state_dir()).map_err(CliError::failed)?;
        let text = match self.json {
            true => serde_json::to_string(&found).map_err(CliError::failed)? + "\n",
            false => table(&found),
        };
        std::io::stdout().write_all(text.as_bytes()).map_err(CliError::failed)
    }
}

/// Returns a table with one line for each run.
fn table(runs: &[RunEntry]) -> String {
    if runs.is_empty() {
        return "No alignment has begun.\n".into();
    }
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{:>4} {:<20} {:<16} {:>10} {:>10} {:<10}  outcome",
        "", "began (UTC)", "with", "ids here", "ids there", "set here"
    );
    for run in runs {
        let outcome = match &run.ended {
            Some(RunEnd { common, out_failed: None, .. }) => format!("{common} in common"),
            Some(RunEnd { common, out_failed: Some(why), .. }) => {
                format!("{common} in common; `out` in [alignment] has them not: {why}")
            }
            None => "under way, refused or cut off".into(),
        };
        let began = vfl_core::clock::utc(u64::try_from(run.begun_at).unwrap_or(0));
        let (peer, set) = (run.peer.as_str(), run.set.get(..8).unwrap_or_default());
        let _ = writeln!(
            out,
            "{:>4} {began:<20} {peer:<16} {:>10} {:>10} {set:<10}  {outcome}",
            run.number, run.own, run.theirs
        );
    }
    out.push_str(
        "set here: the beginning of a hash of this party's ids, the same for the same ids. Every run listed counts.\n",
    );
    out
}
