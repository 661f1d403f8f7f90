//! A request on its way into a session.

use tokio::sync::oneshot;
use vfl_core::types::{LogitShare, ModelVersion, RecordIds, ReleasedScores, RowStatus};
use vfl_protocol::Refusal;

/// The requests that wait for a place in a session.
pub(super) const WAITING: usize = 64;

/// A request to a session.
pub(super) struct Question {
    pub(super) ids: RecordIds,
    pub(super) logits: LogitShare,
    pub(super) request_id: String,
    pub(super) answer: oneshot::Sender<Result<(Vec<RowStatus>, ReleasedScores), Refusal>>,
}

/// The subject of a session: a version, and an audit session or the live service.
pub(super) type Subject = (ModelVersion, Option<String>);
