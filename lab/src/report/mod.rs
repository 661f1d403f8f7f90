//! The audit report: one JSON document, and the table and the page rendered from it.
//!
//! [`Report`] is the source. `report.json` is the document itself, [`render_table`] prints it for a terminal and
//! [`render_html`] makes a page that needs no network and no script. Nothing is computed from private data here: the
//! figures come from the passive party's scorer, and the renderers only compare and format them.
//!
//! The document holds nothing that differs between two runs with the same seed (no clock, no host, no path), so the
//! same seed gives the same bytes of `report.json` and `report.html`.

pub(crate) mod added;
mod build;
mod check;
mod document;
mod facts;
mod html;
mod level;
mod noised;
pub(crate) mod number;
pub(crate) mod plot;
mod surface;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod threat;
mod verdict;
mod write;

use std::io;
use std::path::PathBuf;

pub use document::{
    AddedRisk, AttackResult, Audit, Baselines, DataFacts, Deployment, Errors, Generated, HeldOut, MetricFacts,
    MetricFigure, Outcome, Party, PartyError, PartyFigure, Policy, Refused, Report, Role, SCHEMA_VERSION, ScoringFacts,
    ScoringMode, Status, Sweep, SweepError, SweepPoint, Tool, TrainingFacts, Utility,
};
pub use html::render_html;
pub use level::{EXACT_MSE, Level, Verdict};
pub use surface::{Surface, SurfaceKind, TRAINING_DISCLOSURE};
pub use table::render_table;
pub use threat::{DefenseKnowledge, Observations, ParameterKnowledge, Shares, ThreatModel};
pub use verdict::verdict;
pub use write::{Written, write};

/// Why a report could not be read, rendered or written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file or directory could not be made, written or moved into place.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: "create", "write", "replace".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The JSON is not a report of this schema.
    #[error("not a report of schema version {SCHEMA_VERSION}: {0}")]
    Json(#[from] serde_json::Error),
    /// A report of another schema version.
    #[error("the report has schema version {got}, this program reads version {SCHEMA_VERSION}")]
    Version {
        /// The version found.
        got: u64,
    },
    /// A field holds what it must not.
    #[error("the report's {field} {problem}")]
    Invalid {
        /// Path of the field in the document.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A plot could not be drawn.
    #[error("cannot draw the plot of {plot}: {reason}")]
    Plot {
        /// Which plot.
        plot: &'static str,
        /// What the drawing backend said.
        reason: String,
    },
}
