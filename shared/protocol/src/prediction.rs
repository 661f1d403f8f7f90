//! The messages of a prediction: between active party and coordinator (`Predict`), and between
//! coordinator and passive parties (`ComputeLogits`).

use std::fmt;

use vfl_core::types::{LogitShare, ModelVersion, RecordIds, ReleasedScores, RowStatus};

use super::convert::{MAX_PREDICTION_ROWS, WireError, read_release, read_share, require};
use super::pb;
use super::refusal::{Refusal, RefusalKind};

/// The longest id of a request, in bytes.
const MAX_REQUEST_ID: usize = 128;

/// The active party's request to the coordinator: the scores of records under a model version.
#[derive(Clone)]
pub struct PredictionRequest {
    /// The version that the active party expects.
    pub version: ModelVersion,
    /// The ids of the records, 1 to [`MAX_PREDICTION_ROWS`].
    pub ids: RecordIds,
    /// The active party's share of each record, `w × n`.
    pub share: LogitShare,
    /// The audit session, which is a secret; `None` for the live service.
    pub audit_session: Option<String>,
    /// The active party's name for this request, up to 128 bytes; empty if it has none.
    pub request_id: String,
}

/// Withholds the session, and of ids and shares all but their sizes.
impl fmt::Debug for PredictionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, ids, share, audit_session, request_id } = self;
        f.debug_struct("PredictionRequest")
            .field("version", version)
            .field("ids", ids)
            .field("share", share)
            .field("audit_session", &audit_session.as_ref().map(|_| "withheld"))
            .field("request_id", request_id)
            .finish()
    }
}

/// The coordinator's answer to a [`PredictionRequest`].
#[derive(Debug, Clone, PartialEq)]
pub struct PredictionResponse {
    /// The version of the model that answers.
    pub version: ModelVersion,
    /// The status of each requested record.
    pub status: Vec<RowStatus>,
    /// A row, or a label, for every record whose status is [`RowStatus::Ok`], in order.
    pub released: ReleasedScores,
}

/// The coordinator's question to a passive party: the logit shares of records under a model
/// version.
#[derive(Debug, Clone)]
pub struct ShareRequest {
    /// The version of the model.
    pub version: ModelVersion,
    /// The ids of the records, 1 to [`MAX_PREDICTION_ROWS`].
    pub ids: RecordIds,
}

/// A passive party's answer to a [`ShareRequest`].
#[derive(Debug, Clone)]
pub struct ShareAnswer {
    /// The status of each requested record: [`RowStatus::Ok`] if the party holds it.
    pub status: Vec<RowStatus>,
    /// The shares of the `m` records it holds, `w × m`, in the order of the request.
    pub share: LogitShare,
}

/// Checks the caller's name for a request.
///
/// # Errors
/// [`WireError::Range`] for a name that is too long or has control characters.
pub(crate) fn check_request_id(request_id: &str) -> Result<(), WireError> {
    if request_id.len() > MAX_REQUEST_ID || request_id.contains(char::is_control) {
        let reason = "at most 128 bytes without control characters";
        return Err(WireError::Range { field: "request_id", reason });
    }
    Ok(())
}

/// Reads the ids of a message, after checking their number.
pub(crate) fn prediction_ids(ids: Option<pb::RecordIds>) -> Result<RecordIds, WireError> {
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
            RowStatus::Fallback => Self::Fallback,
        }
    }
}

/// Encodes statuses, one per record.
#[must_use]
pub fn encode_statuses(statuses: &[RowStatus]) -> Vec<i32> {
    statuses.iter().map(|&status| pb::RowStatus::from(status) as i32).collect()
}

/// Reads the statuses of `records` records from another party, whose answers have no fallback.
///
/// # Errors
/// [`WireError`] if there is not one status per record or a status is unknown.
pub fn decode_statuses(statuses: &[i32], records: usize) -> Result<Vec<RowStatus>, WireError> {
    check_count(statuses, records)?;
    statuses_of(statuses)
}

fn check_count(statuses: &[i32], records: usize) -> Result<(), WireError> {
    if statuses.len() != records {
        return Err(WireError::Size {
            field: "row_status",
            unit: "entries",
            expected: records,
            got: statuses.len(),
        });
    }
    Ok(())
}

/// Reads statuses of another party, however many there are.
///
/// # Errors
/// [`WireError::Range`] for an unknown status.
pub(crate) fn statuses_of(statuses: &[i32]) -> Result<Vec<RowStatus>, WireError> {
    let of_fallback = (
        pb::RowStatus::Fallback as i32,
        "a fallback, which only a service of the active party gives",
    );
    if statuses.contains(&of_fallback.0) {
        return Err(WireError::Range { field: "row_status", reason: of_fallback.1 });
    }
    known_statuses(statuses)
}

fn known_statuses(statuses: &[i32]) -> Result<Vec<RowStatus>, WireError> {
    let known = |&status: &i32| match pb::RowStatus::try_from(status) {
        Ok(pb::RowStatus::Ok) => Ok(RowStatus::Ok),
        Ok(pb::RowStatus::NotFound) => Ok(RowStatus::NotFound),
        Ok(pb::RowStatus::TrainingRecord) => Ok(RowStatus::TrainingRecord),
        Ok(pb::RowStatus::NotInSession) => Ok(RowStatus::NotInSession),
        Ok(pb::RowStatus::ShareChanged) => Ok(RowStatus::ShareChanged),
        Ok(pb::RowStatus::BudgetSpent) => Ok(RowStatus::BudgetSpent),
        Ok(pb::RowStatus::ModelBudgetSpent) => Ok(RowStatus::ModelBudgetSpent),
        Ok(pb::RowStatus::Fallback) => Ok(RowStatus::Fallback),
        Ok(pb::RowStatus::Unspecified) | Err(_) => {
            Err(WireError::Range { field: "row_status", reason: "an unknown row status" })
        }
    };
    statuses.iter().map(known).collect()
}

/// Reads an answer of the active party's service: the statuses of `records` records, and the
/// release of those that are scored, a row of `classes` scores, or a label, for each.
///
/// # Errors
/// As [`decode_statuses`] and [`read_release`].
pub fn read_scores(
    row_status: &[i32],
    release: Option<&pb::Release>,
    records: usize,
    classes: usize,
) -> Result<(Vec<RowStatus>, ReleasedScores), WireError> {
    check_count(row_status, records)?;
    let status = known_statuses(row_status)?;
    let scored = status.iter().filter(|status| status.is_scored()).count();
    Ok((status, read_release(release, scored, classes)?))
}

fn count_ok(statuses: &[RowStatus]) -> usize {
    statuses.iter().filter(|status| **status == RowStatus::Ok).count()
}

impl TryFrom<pb::PredictRequest> for PredictionRequest {
    type Error = WireError;

    fn try_from(request: pb::PredictRequest) -> Result<Self, WireError> {
        let pb::PredictRequest { model_version, ids, logit_shares, audit_session, request_id } =
            request;
        check_request_id(&request_id)?;
        let version = WireError::model_version(model_version)?;
        let ids = prediction_ids(ids)?;
        let share = read_share("logit_shares", logit_shares.as_ref(), ids.len(), None)?;
        let audit_session = Some(audit_session).filter(|name| !name.is_empty());
        Ok(Self { version, ids, share, audit_session, request_id })
    }
}

impl From<PredictionRequest> for pb::PredictRequest {
    fn from(request: PredictionRequest) -> Self {
        Self {
            model_version: request.version.as_str().to_owned(),
            ids: Some(request.ids.into()),
            logit_shares: Some(request.share.into()),
            audit_session: request.audit_session.unwrap_or_default(),
            request_id: request.request_id,
        }
    }
}

impl From<PredictionResponse> for pb::PredictResponse {
    fn from(response: PredictionResponse) -> Self {
        Self {
            model_version: response.version.as_str().to_owned(),
            row_status: encode_statuses(&response.status),
            release: Some(response.released.into()),
        }
    }
}

impl PredictionResponse {
    /// Reads the answer to a request for `records` records, of a model of `classes` classes.
    ///
    /// # Errors
    /// [`WireError`] for a malformed version, unknown statuses, or a release for another number of
    /// records or of classes.
    pub fn from_wire(
        response: pb::PredictResponse,
        records: usize,
        classes: usize,
    ) -> Result<Self, WireError> {
        let pb::PredictResponse { model_version, row_status, release } = response;
        let status = decode_statuses(&row_status, records)?;
        let released = read_release(release.as_ref(), count_ok(&status), classes)?;
        Ok(Self { version: WireError::model_version(model_version)?, status, released })
    }
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

impl ShareAnswer {
    /// Reads the answer to a question about `records` records, with shares of the party's output
    /// width. Call [`stream_refusal`] first, to handle a refusal.
    ///
    /// # Errors
    /// [`WireError`] for unknown statuses, or a share for another number of records or of another
    /// width.
    pub fn from_wire(
        answer: &pb::ComputeLogitsResponse,
        records: usize,
        width: usize,
    ) -> Result<Self, WireError> {
        let status = decode_statuses(&answer.row_status, records)?;
        let held = count_ok(&status);
        let share = read_share("logit_shares", answer.logit_shares.as_ref(), held, Some(width))?;
        Ok(Self { status, share })
    }
}

/// Creates the answer to a question of a stream: shares, or a refusal.
#[must_use]
pub fn stream_answer(
    question: u64,
    answer: Result<ShareAnswer, Refusal>,
) -> pb::ComputeLogitsResponse {
    let answer = answer.map(pb::ComputeLogitsResponse::from).unwrap_or_else(|refusal| {
        let refused = Some(refusal_message(&refusal));
        pb::ComputeLogitsResponse { refused, ..Default::default() }
    });
    pb::ComputeLogitsResponse { question, ..answer }
}

/// Returns the message of a refusal within a stream that goes on.
pub(crate) fn refusal_message(refusal: &Refusal) -> pb::ShareRefusal {
    pb::ShareRefusal { code: refusal.kind.code() as u32, message: refusal.reason().to_owned() }
}

/// Reads a refusal within a stream.
///
/// # Errors
/// [`WireError::Range`] for a code that no refusal has.
pub(crate) fn read_refusal(message: &pb::ShareRefusal) -> Result<Refusal, WireError> {
    let pb::ShareRefusal { code, message } = message;
    match RefusalKind::ALL.iter().find(|kind| kind.code() as u32 == *code) {
        Some(kind) => Ok(Refusal::said(*kind, message)),
        None => Err(WireError::Range { field: "refused", reason: "an unknown code" }),
    }
}

/// Returns the refusal in an answer of a stream, if it is one.
///
/// # Errors
/// [`WireError`] for a code that no refusal has, and for a refusal that comes with statuses or
/// shares.
pub fn stream_refusal(answer: &pb::ComputeLogitsResponse) -> Result<Option<Refusal>, WireError> {
    let Some(refused) = &answer.refused else { return Ok(None) };
    if !answer.row_status.is_empty() || answer.logit_shares.is_some() {
        let (field, reason) = ("refused", "a refusal comes without shares");
        return Err(WireError::Range { field, reason });
    }
    read_refusal(refused).map(Some)
}

#[cfg(test)]
mod tests {
    use nalgebra::DMatrix;

    use super::*;

    #[test]
    fn row_status_must_be_known_and_complete() {
        use RowStatus::{NotFound, Ok};
        assert_eq!(decode_statuses(&[1, 2, 1], 3).unwrap(), [Ok, NotFound, Ok]);
        assert!(decode_statuses(&[1, 2], 3).is_err());
        assert!(decode_statuses(&[0], 1).is_err());
        assert!(decode_statuses(&[99], 1).is_err());
    }

    #[test]
    fn a_request_is_read_as_it_was_written_and_checked() {
        let request = |audit_session: Option<&str>| PredictionRequest {
            version: ModelVersion::new("m-1").unwrap(),
            ids: RecordIds::new(["a", "b"]).unwrap(),
            share: LogitShare::new(DMatrix::from_column_slice(2, 2, &[0.1, 1.0, 2.0, -3.0]))
                .unwrap(),
            audit_session: audit_session.map(str::to_owned),
            request_id: "x".repeat(128),
        };
        for session in [None, Some("secret")] {
            let wire = pb::PredictRequest::from(request(session));
            let read = PredictionRequest::try_from(wire.clone()).unwrap();
            assert_eq!(read.audit_session.as_deref(), session);
            assert_eq!(pb::PredictRequest::from(read), wire);
        }
        let good = pb::PredictRequest::from(request(None));
        let bad = [
            pb::PredictRequest { request_id: "x".repeat(129), ..good.clone() },
            pb::PredictRequest { request_id: "x\n".into(), ..good.clone() },
            pb::PredictRequest { model_version: String::new(), ..good.clone() },
            pb::PredictRequest { ids: None, ..good.clone() },
            pb::PredictRequest { ids: Some(pb::RecordIds::default()), ..good.clone() },
            pb::PredictRequest { ids: Some(RecordIds::new(["a"]).unwrap().into()), ..good.clone() },
            pb::PredictRequest { logit_shares: None, ..good },
        ];
        bad.into_iter().for_each(|wire| assert!(PredictionRequest::try_from(wire).is_err()));
    }

    #[test]
    fn a_request_is_shown_without_session_ids_and_shares() {
        let request = |audit_session: Option<&str>| PredictionRequest {
            version: ModelVersion::new("m-1").unwrap(),
            ids: RecordIds::new(["alice", "bob"]).unwrap(),
            share: LogitShare::new(DMatrix::from_element(2, 2, 0.1234)).unwrap(),
            audit_session: audit_session.map(str::to_owned),
            request_id: "r-7".into(),
        };
        let shown = format!("{:?}", request(Some("5ec2e7")));
        for hidden in ["5ec2e7", "alice", "bob", "0.1234"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
        for told in ["m-1", "RecordIds(2)", "2 × 2", "Some(\"withheld\")", "r-7"] {
            assert!(shown.contains(told), "{shown}");
        }
        assert!(format!("{:?}", request(None)).contains("audit_session: None"));
    }

    #[test]
    fn a_response_has_scores_of_the_records_that_are_ok() {
        let response = PredictionResponse {
            version: ModelVersion::new("m-1").unwrap(),
            status: vec![RowStatus::Ok, RowStatus::BudgetSpent, RowStatus::Ok],
            released: ReleasedScores::Labels { classes: 3, labels: vec![2, 0] },
        };
        let wire = pb::PredictResponse::from(response.clone());
        let read = |records, classes| PredictionResponse::from_wire(wire.clone(), records, classes);
        assert_eq!(read(3, 3), Ok(response));
        assert!(read(2, 3).is_err() && read(3, 4).is_err());
        let nameless = pb::PredictResponse { model_version: String::new(), ..wire.clone() };
        assert!(PredictionResponse::from_wire(nameless, 3, 3).is_err());
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
            assert!(ShareAnswer::from_wire(&answer, 1, 2).is_err());
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
