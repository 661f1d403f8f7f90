//! Conversions of the prediction messages between coordinator and passive parties.

use vfl_core::types::{RecordIds, RowStatus, ShareAnswer, ShareRequest};

use super::convert::{MAX_PREDICTION_ROWS, WireError, read_share, require};
use super::pb;
use super::refusal::{Refusal, RefusalKind};

/// Reads the ids of a message, after checking their number.
///
/// # Errors
/// [`WireError::Rows`] unless there are 1 to [`MAX_PREDICTION_ROWS`].
pub fn prediction_ids(ids: Option<pb::RecordIds>) -> Result<RecordIds, WireError> {
    let ids = require("ids", ids)?;
    match ids.len() {
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

/// Encodes statuses, one per record.
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
        return Err(WireError::Size {
            field,
            unit: "entries",
            expected: records,
            got: statuses.len(),
        });
    }
    let known = |&status: &i32| match pb::RowStatus::try_from(status) {
        Ok(pb::RowStatus::Ok) => Ok(RowStatus::Ok),
        Ok(pb::RowStatus::NotFound) => Ok(RowStatus::NotFound),
        Ok(pb::RowStatus::TrainingRecord) => Ok(RowStatus::TrainingRecord),
        Ok(pb::RowStatus::NotInSession) => Ok(RowStatus::NotInSession),
        Ok(pb::RowStatus::ShareChanged) => Ok(RowStatus::ShareChanged),
        Ok(pb::RowStatus::BudgetSpent) => Ok(RowStatus::BudgetSpent),
        Ok(pb::RowStatus::ModelBudgetSpent) => Ok(RowStatus::ModelBudgetSpent),
        Ok(pb::RowStatus::Unspecified) | Err(_) => {
            Err(WireError::Range { field, reason: "an unknown row status" })
        }
    };
    statuses.iter().map(known).collect()
}

/// Returns the positions of the rows whose status is OK.
///
/// # Errors
/// As [`decode_statuses`].
pub fn select_ok(row_status: &[i32], records: usize) -> Result<Vec<usize>, WireError> {
    Ok(RowStatus::positions_ok(&decode_statuses(row_status, records)?))
}

impl TryFrom<pb::ComputeLogitsRequest> for ShareRequest {
    type Error = WireError;

    fn try_from(request: pb::ComputeLogitsRequest) -> Result<Self, WireError> {
        // The stream's carrier handles the number of a question, and the trace context is not part
        // of the question.
        let pb::ComputeLogitsRequest { model_version, ids, question: _, trace_context: _ } =
            request;
        Ok(Self { version: WireError::model_version(model_version)?, ids: prediction_ids(ids)? })
    }
}

impl From<ShareRequest> for pb::ComputeLogitsRequest {
    fn from(request: ShareRequest) -> Self {
        let (model_version, ids) = (request.version.as_str().to_owned(), Some(request.ids.into()));
        Self { model_version, ids, ..Self::default() }
    }
}

impl From<ShareAnswer> for pb::ComputeLogitsResponse {
    fn from(answer: ShareAnswer) -> Self {
        let logit_shares = Some(answer.share.into());
        Self {
            row_status: encode_statuses(&answer.status),
            logit_shares,
            question: 0,
            refused: None,
        }
    }
}

/// Creates the answer to a question of a stream: shares, or a refusal.
#[must_use]
pub fn stream_answer(
    question: u64,
    answer: Result<ShareAnswer, Refusal>,
) -> pb::ComputeLogitsResponse {
    let answer = answer.map(pb::ComputeLogitsResponse::from).unwrap_or_else(|refusal| {
        let (code, message) = (refusal.kind.code() as u32, refusal.reason().to_owned());
        pb::ComputeLogitsResponse {
            refused: Some(pb::ShareRefusal { code, message }),
            ..Default::default()
        }
    });
    pb::ComputeLogitsResponse { question, ..answer }
}

/// Returns the refusal in an answer of a stream, if it is one.
///
/// # Errors
/// [`WireError`] for a code that no refusal has, and for a refusal that comes with statuses or
/// shares.
pub fn stream_refusal(answer: &pb::ComputeLogitsResponse) -> Result<Option<Refusal>, WireError> {
    let Some(pb::ShareRefusal { code, message }) = &answer.refused else { return Ok(None) };
    let field = "refused";
    if !answer.row_status.is_empty() || answer.logit_shares.is_some() {
        return Err(WireError::Range { field, reason: "a refusal comes without shares" });
    }
    match RefusalKind::ALL.iter().find(|kind| kind.code() as u32 == *code) {
        Some(kind) => Ok(Some(Refusal::said(*kind, message))),
        None => Err(WireError::Range { field, reason: "an unknown code" }),
    }
}

/// Reads the answer to a question about `records` records, with shares of the party's output
/// width. Call [`stream_refusal`] first, to handle a refusal.
///
/// # Errors
/// [`WireError`] for unknown statuses, or a share for another number of records or of another
/// width.
pub fn read_share_answer(
    answer: &pb::ComputeLogitsResponse,
    records: usize,
    width: usize,
) -> Result<ShareAnswer, WireError> {
    let status = decode_statuses(&answer.row_status, records)?;
    let held = status.iter().filter(|status| **status == RowStatus::Ok).count();
    let share = read_share("logit_shares", answer.logit_shares.as_ref(), held, Some(width))?;
    Ok(ShareAnswer { status, share })
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

    #[test]
    fn a_refusal_is_an_answer_of_a_known_code_and_bounded_text() {
        for kind in RefusalKind::ALL {
            let refusal = Refusal::new(kind, "é".repeat(2000));
            let answer = stream_answer(7, Err(refusal.clone()));
            assert_eq!(answer.question, 7);
            let read = stream_refusal(&answer).unwrap().unwrap();
            assert_eq!((read.kind, read.message.as_str()), (kind, refusal.reason()));
            // It is no answer with shares.
            assert!(crate::read_share_answer(&answer, 1, 2).is_err());
        }
        let said = |code: u32, message: &str| pb::ComputeLogitsResponse {
            refused: Some(pb::ShareRefusal { code, message: message.into() }),
            ..Default::default()
        };
        // OK, CANCELLED, UNKNOWN, OUT_OF_RANGE, UNIMPLEMENTED, DATA_LOSS, and what is no code:
        // nothing that a service refuses with.
        for code in [0, 1, 2, 11, 12, 15, 17, u32::MAX] {
            assert!(stream_refusal(&said(code, "x")).is_err(), "{code}");
        }
        let long = stream_refusal(&said(14, &"\n".repeat(5000))).unwrap().unwrap();
        assert_eq!(long.message, "?".repeat(1000));
        let both = pb::ComputeLogitsResponse { row_status: vec![1], ..said(14, "x") };
        assert!(stream_refusal(&both).is_err());
        let both = pb::ComputeLogitsResponse {
            logit_shares: Some(pb::Matrix::default()),
            ..said(14, "x")
        };
        assert!(stream_refusal(&both).is_err());
        assert_eq!(stream_refusal(&pb::ComputeLogitsResponse::default()), Ok(None));
    }
}
