//! The events of a training at a party, and what both modes share.

use vfl_core::types::ModelVersion;
use vfl_protocol::training::messages::{Command, Progress, PublishedVersion};
use vfl_protocol::{MAX_MESSAGE_BYTES, Refusal};

/// An event of a running training, for the participant's user.
#[derive(Debug, Clone, PartialEq)]
pub enum TrainingEvent {
    /// The coordinator's report on an epoch (active party alone).
    Progress(Progress),
    /// The coordinator's last report: the version is in service (active party alone).
    Published(PublishedVersion),
}

/// The result of a training at this party.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingOutcome {
    /// The version that this party can now serve.
    pub version: ModelVersion,
    /// The coordinator's summary (active party alone).
    pub published: Option<PublishedVersion>,
}

/// Returns the maximum number of records whose logit shares, of `width` numbers each, fit into one
/// message.
#[must_use]
pub fn max_batch(width: usize) -> usize {
    // The rest is for the fields around the matrix.
    (MAX_MESSAGE_BYTES - 4096) / (8 * width.max(1))
}

/// Returns the refusal of a command that is not due.
pub(super) fn unexpected(wanted: &str, got: &Command) -> Refusal {
    Refusal::invalid(format!("training protocol: expected {wanted}, got {}", got.words()))
}
