//! Messages of a prediction between coordinator and passive parties, to domain types and back.

use super::convert::{MAX_PREDICTION_ROWS, WireError, require};
use super::pb;
use crate::types::{LogitShare, RecordIds, RowStatus, ShareAnswer, ShareRequest};

/// Checks the number of records of a message before its ids are looked at.
///
/// # Errors
/// [`WireError::Rows`] unless there are 1 to [`MAX_PREDICTION_ROWS`].
pub fn prediction_ids(ids: Option<pb::RecordIds>) -> Result<RecordIds, WireError> {
    let ids = require("ids", ids)?;
    match ids.ends.len() {
        1..=MAX_PREDICTION_ROWS => RecordIds::try_from(ids),
        got => Err(WireError::Rows { got }),
    }
}

impl From<RowStatus> for pb::RowStatus {
    fn from(status: RowStatus) -> Self {
        match status {
            RowStatus::Ok => Self::Ok,
            RowStatus::NotFound => Self::NotFound,
            RowStatus::TrainingRecord => Self::TrainingRecord,
            RowStatus::NotInSession => Self::NotInSession,
            RowStatus::ShareChanged => Self::ShareChanged,
            RowStatus::BudgetSpent => Self::BudgetSpent,
            RowStatus::ModelBudgetSpent => Self::ModelBudgetSpent,
        }
    }
}

/// The wire form of statuses, one per record.
#[must_use]
pub fn encode_statuses(statuses: &[RowStatus]) -> Vec<i32> {
    statuses.iter().map(|&status| pb::RowStatus::from(status) as i32).collect()
}

/// Reads the statuses of `records` records.
///
/// # Errors
/// [`WireError`] if there is not one status per record or a status is unknown.
pub fn decode_statuses(statuses: &[i32], records: usize) -> Result<Vec<RowStatus>, WireError> {
    let field = "row_status";
    if statuses.len() != records {
        return Err(WireError::Size { field, unit: "entries", expected: records, got: statuses.len() });
    }
    let known = |&status: &i32| match pb::RowStatus::try_from(status) {
        Ok(pb::RowStatus::Ok) => Ok(RowStatus::Ok),
        Ok(pb::RowStatus::NotFound) => Ok(RowStatus::NotFound),
        Ok(pb::RowStatus::TrainingRecord) => Ok(RowStatus::TrainingRecord),
        Ok(pb::RowStatus::NotInSession) => Ok(RowStatus::NotInSession),
        Ok(pb::RowStatus::ShareChanged) => Ok(RowStatus::ShareChanged),
        Ok(pb::RowStatus::BudgetSpent) => Ok(RowStatus::BudgetSpent),
        Ok(pb::RowStatus::ModelBudgetSpent) => Ok(RowStatus::ModelBudgetSpent),
        Ok(pb::RowStatus::Unspecified) | Err(_) => Err(WireError::Range { field, reason: "an unknown row status" }),
    };
    statuses.iter().map(known).collect()
}

/// The positions of the rows whose status is OK.
///
/// # Errors
/// As [`decode_statuses`].
pub fn select_ok(row_status: &[i32], records: usize) -> Result<Vec<usize>, WireError> {
    Ok(RowStatus::positions_ok(&decode_statuses(row_status, records)?))
}

impl TryFrom<pb::ComputeLogitsRequest> for ShareRequest {
    type Error = WireError;

    fn try_from(request: pb::ComputeLogitsRequest) -> Result<Self, WireError> {
        let pb::ComputeLogitsRequest { model_version, ids } = request;
        Ok(Self { version: WireError::model_version(model_version)?, ids: prediction_ids(ids)? })
    }
}

impl From<ShareRequest> for pb::ComputeLogitsRequest {
    fn from(request: ShareRequest) -> Self {
        Self { model_version: request.version.as_str().to_owned(), ids: Some(request.ids.into()) }
    }
}

impl From<ShareAnswer> for pb::ComputeLogitsResponse {
    fn from(answer: ShareAnswer) -> Self {
        Self { row_status: encode_statuses(&answer.status), logit_shares: Some(answer.share.to_wire()) }
    }
}

impl ShareAnswer {
    /// Reads the answer to a question about `records` records, with shares of the party's output width.
    ///
    /// # Errors
    /// [`WireError`] for unknown statuses, or a share for another number of records or of another width.
    pub fn from_wire(answer: &pb::ComputeLogitsResponse, records: usize, width: usize) -> Result<Self, WireError> {
        let status = decode_statuses(&answer.row_status, records)?;
        let held = status.iter().filter(|status| **status == RowStatus::Ok).count();
        let share = LogitShare::from_wire("logit_shares", answer.logit_shares.as_ref(), held, Some(width))?;
        Ok(Self { status, share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_status_must_be_known_and_complete() {
        assert_eq!(select_ok(&[1, 2, 1], 3).unwrap(), vec![0, 2]);
        assert!(select_ok(&[1, 2], 3).is_err());
        assert!(select_ok(&[0], 1).is_err());
        assert!(select_ok(&[99], 1).is_err());
    }
}
