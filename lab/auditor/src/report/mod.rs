//! The audit report: one JSON document, and the files rendered from it.
//!
//! [`Report`] is the source. `report.json` is the document itself. [`render_summary`] prints the
//! verdict for a terminal and [`render_table`] every table, [`render_html`] makes a page that needs
//! no network and no script, and [`render_csv`] a table of all figures for other programs. Nothing
//! is computed from private data here: the figures come from the passive party's scorer, and the
//! renderers only compare and format them.
//!
//! The document holds nothing that differs between two runs with the same seed (no clock, no host,
//! no path), so the same seed gives the same bytes of all files.

pub mod added_risk;
mod attack_result;
mod attribute_verdict;
mod attributes;
mod brief;
mod build;
mod certificate;
mod chairs;
mod check;
mod defense;
mod deployment_facts;
mod digest;
mod document;
mod errors;
mod facts;
mod html;
mod inference;
mod inference_rows;
mod judge;
mod level;
mod long_table;
mod noisy_verdict;
pub(crate) mod plot;
mod policy_verdict;
mod private_training;
mod recommendation;
mod stronger_attack;
mod summary;
mod surface;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod threat;
mod thresholds;
mod verdict;
mod verdicts;
mod worst_attribute;
mod write;

pub use deployment_facts::{
    deployment_facts, draws_from_the_os, privacy_notes, surfaces, surfaces_of,
};

use std::io;
use std::path::PathBuf;

pub use attack_result::{AddedRisk, AttackResult, AttributeResult, Outcome, Status};
pub use certificate::factor as certificate_factor;
pub use defense::points;
pub(crate) use digest::{Digest, Line, Sheet, digest, sheets};
pub use document::{
    Audit, DataFacts, Deployment, Generated, MetricFacts, Party, Policy, PrivateTraining, Report,
    Role, SCHEMA_VERSION, ScoringFacts, ScoringMode, Sweep, SweepError, SweepPoint, Tool,
    TrainingFacts, Utility,
};
pub use errors::{Baselines, Errors, MetricFigure, PartyError, PartyFigure};
pub use html::render_html;
pub(crate) use html::{badge, compliance, scroll};
pub use inference_rows::{Inference, InferredProperty};
pub(crate) use judge::together;
pub use level::{EXACT_MSE, Level, Verdict};
pub use long_table::render_csv;
pub use policy_verdict::PolicyVerdict;
pub use recommendation::not_met;
pub use summary::render_summary;
pub use surface::{Surface, SurfaceKind, TRAINING_DISCLOSURE};
pub use table::render_table;
pub use threat::{DefenseKnowledge, Observations, ParameterKnowledge, Shares, ThreatModel};
pub use thresholds::{Compliance, MAX_EXACT, Threshold, ThresholdResult, Thresholds};
pub use verdict::verdict;
pub use vfl_protocol::reconstruct::Refused;
pub use vfl_transform::scoring::Halves;
pub use worst_attribute::{WorstAttribute, worst};
pub use write::{ReportPaths, write};

/// Errors from reading, rendering or writing a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file or directory could not be made, written or moved into place.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action that failed, as a verb: "create", "write", "replace".
        action: &'static str,
        /// The path of the file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The JSON is not a report of this schema.
    #[error("not a report of schema version {SCHEMA_VERSION}: {0}")]
    Json(#[from] serde_json::Error),
    /// A report of another schema version.
    #[error(
        "the report has schema version {got}, this program reads versions 9 to {SCHEMA_VERSION}"
    )]
    Version {
        /// The version found.
        got: u64,
    },
    /// A field has an invalid value.
    #[error("the report's {field} {problem}")]
    Invalid {
        /// The path of the field in the document.
        field: String,
        /// The fault in the field.
        problem: String,
    },
    /// The table of all figures could not be written.
    #[error("cannot write the table of all figures: {reason}")]
    Csv {
        /// The error of the writer.
        reason: String,
    },
    /// A plot could not be drawn.
    #[error(transparent)]
    Plot(#[from] vfl_present::plot::PlotError),
}
