//! Refusals, and the one table of their gRPC status codes.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use vfl_core::types::unseen;

use super::WireError;
use super::codec::Undecodable;

/// Rounds a number of records for a refusal: "some", or "100 or more". With exact numbers, lists
/// that differ in one record would reveal the status of each record.
#[must_use]
pub fn rough(records: usize) -> &'static str {
    if records >= 100 { "100 or more" } else { "some" }
}

/// The maximum length of a refusal's text in a message of its own, in bytes.
pub const MAX_REASON_BYTES: usize = 1000;

/// The kinds of refusal, each with its gRPC code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// Malformed, misshapen, non-finite or duplicate input.
    InvalidArgument,
    /// A named thing does not exist.
    NotFound,
    /// The state does not allow the call: no model, another model version, a training record.
    FailedPrecondition,
    /// A budget, a limit on size or the number of concurrent calls is exhausted.
    ResourceExhausted,
    /// The caller showed no certificate.
    Unauthenticated,
    /// The caller's role or a policy does not allow the call.
    PermissionDenied,
    /// The peer is down.
    Unavailable,
    /// A peer did not answer in time.
    DeadlineExceeded,
    /// Another call of the same kind is under way.
    Aborted,
    /// An internal fault, or a failure of this party's own disk.
    Internal,
}

impl RefusalKind {
    /// All kinds of refusal.
    pub const ALL: [Self; 10] = [
        Self::InvalidArgument,
        Self::NotFound,
        Self::FailedPrecondition,
        Self::ResourceExhausted,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::Unavailable,
        Self::DeadlineExceeded,
        Self::Aborted,
        Self::Internal,
    ];

    /// Returns the gRPC code of the kind.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::InvalidArgument => Code::InvalidArgument,
            Self::NotFound => Code::NotFound,
            Self::FailedPrecondition => Code::FailedPrecondition,
            Self::ResourceExhausted => Code::ResourceExhausted,
            Self::Unauthenticated => Code::Unauthenticated,
            Self::PermissionDenied => Code::PermissionDenied,
            Self::Unavailable => Code::Unavailable,
            Self::DeadlineExceeded => Code::DeadlineExceeded,
            Self::Aborted => Code::Aborted,
            Self::Internal => Code::Internal,
        }
    }

    /// Returns the kind for the status code of a peer.
    #[must_use]
    pub fn from_code(code: Code) -> Self {
        match code {
            Code::InvalidArgument | Code::OutOfRange => Self::InvalidArgument,
            Code::NotFound => Self::NotFound,
            Code::FailedPrecondition => Self::FailedPrecondition,
            Code::ResourceExhausted => Self::ResourceExhausted,
            Code::Unauthenticated => Self::Unauthenticated,
            Code::PermissionDenied => Self::PermissionDenied,
            // tonic reports a connection that broke during a call as Unknown or Cancelled.
            Code::Unavailable | Code::Unknown => Self::Unavailable,
            Code::DeadlineExceeded | Code::Cancelled => Self::DeadlineExceeded,
            Code::Aborted => Self::Aborted,
            _ => Self::Internal,
        }
    }
}

/// An error with which a service answers: a kind and a sentence that names the problem and the fix.
/// It never contains a feature, a parameter or a score.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The kind of refusal.
    pub kind: RefusalKind,
    /// The message: what is wrong and how to fix it.
    pub message: String,
    /// True if another call may succeed; see [`Refusal::worth_again`].
    again: bool,
}

/// The metadata key of a refusal that is worth another call.
const AGAIN: &str = "cloison-again";

impl Refusal {
    /// Creates a refusal. Its message goes to logs and terminals, and may come from a peer:
    /// characters that could forge a line or reverse the text are replaced by `?`.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        let message = message.into();
        let message = match message.contains(unseen) {
            true => message.replace(unseen, "?"),
            false => message,
        };
        Self { kind, message, again: false }
    }

    /// Marks the refusal as worth another call: another process of this party, or this one a moment
    /// later, may answer it, because it is stopping or has lost its database. A caller repeats the
    /// call if that does no harm.
    #[must_use]
    pub fn worth_again(self) -> Self {
        Self { again: true, ..self }
    }

    /// Returns the message for a field of a message: at most [`MAX_REASON_BYTES`], cut at a
    /// character boundary.
    #[must_use]
    pub fn reason(&self) -> &str {
        let end = self.message.floor_char_boundary(MAX_REASON_BYTES);
        &self.message[..end]
    }

    /// Creates a refusal from a peer's words: at most [`MAX_REASON_BYTES`] of them.
    #[must_use]
    pub fn said(kind: RefusalKind, reason: &str) -> Self {
        Self::new(kind, &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)])
    }

    /// Creates a refusal of [`RefusalKind::InvalidArgument`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::InvalidArgument, message)
    }

    /// Creates a refusal of [`RefusalKind::FailedPrecondition`].
    pub fn precondition(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::FailedPrecondition, message)
    }

    /// Creates a refusal of [`RefusalKind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Internal, message)
    }

    /// Creates the refusal for a failure of this party's own state: [`RefusalKind::Unavailable`] if
    /// the database is away, and may be back when the caller asks again, else
    /// [`RefusalKind::Internal`].
    pub fn own_state(away: bool, message: impl Into<String>) -> Self {
        Self::new(if away { RefusalKind::Unavailable } else { RefusalKind::Internal }, message)
    }

    /// Creates a refusal of [`RefusalKind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Unavailable, message)
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let mut status = Status::new(refusal.kind.code(), refusal.message);
        if refusal.again {
            status.metadata_mut().insert(AGAIN, MetadataValue::from_static("yes"));
        }
        status
    }
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<WireError> for Status {
    fn from(error: WireError) -> Self {
        Refusal::from(error).into()
    }
}

/// The message of our own side of a call when its time is up.
const TIME_IS_UP: &str = "Timeout expired";

/// Converts a peer's status, or the status of its silence, into a refusal that names the peer.
///
/// `peer` is a phrase such as "passive party `bank-a` at 10.0.0.2:7101".
#[must_use]
pub fn peer_failure(peer: &str, status: &Status) -> Refusal {
    if std::error::Error::source(status).is_some_and(|source| source.is::<Undecodable>()) {
        // Our own decoder rejected the peer's answer. A status that the peer sent has no source.
        return Refusal::internal(format!("{peer} answered with a message that cannot be read"));
    }
    // A broken connection has whatever code its last bytes suggest, or Cancelled, like the end of
    // our own time limit.
    let lost = match status.code() {
        Code::Unknown | Code::Internal => broken(status),
        Code::Cancelled => broken(status) && status.message() != TIME_IS_UP,
        _ => false,
    };
    let kind = if lost { RefusalKind::Unavailable } else { RefusalKind::from_code(status.code()) };
    let said = status.message();
    // Only our own side's message of a timeout counts: a peer that answers may report another's
    // silence.
    let silent =
        std::error::Error::source(status).is_some() || said.is_empty() || said == TIME_IS_UP;
    let message = match kind {
        RefusalKind::Unavailable => format!("{peer} is not reachable ({})", root_cause(status)),
        RefusalKind::DeadlineExceeded if silent => format!("{peer} did not answer in time"),
        _ => format!("{peer} refused: {said}"),
    };
    Refusal::new(kind, message)
}

/// Returns true if a peer marks the call as worth another one, see [`Refusal::worth_again`].
#[must_use]
pub fn is_worth_again(status: &Status) -> bool {
    status.metadata().contains_key(AGAIN)
}

/// Returns true if a call ended because its connection broke: there is no answer, and it is unknown
/// whether the call was acted on.
#[must_use]
pub fn broken(status: &Status) -> bool {
    let ours = |source: &(dyn std::error::Error + 'static)| source.is::<Undecodable>();
    status.code() != Code::DeadlineExceeded
        && std::error::Error::source(status).is_some_and(|source| !ours(source))
}

/// Returns the innermost cause that tonic reports; its outermost one is only "transport error".
fn root_cause(status: &Status) -> String {
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(status);
    let mut last = None;
    while let Some(e) = cause {
        last = Some(e.to_string());
        cause = e.source();
    }
    match last {
        Some(text) if !text.is_empty() => text,
        _ if status.message().is_empty() => "connection lost".to_owned(),
        _ => status.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer's words forge no line of a log, and no escape code reaches a terminal.
    #[test]
    fn a_peers_words_are_words() {
        let forged = "gone\n2026-01-01 INFO all is well\u{1b}[2J\u{202e}txt\u{200b}";
        for refusal in [
            peer_failure("passive party `p`", &Status::internal(forged)),
            peer_failure("passive party `p`", &Status::unavailable(forged)),
            Refusal::said(RefusalKind::Internal, forged),
            Refusal::precondition(forged),
        ] {
            assert!(!refusal.message.contains(unseen), "{:?}", refusal.message);
            assert!(
                refusal.message.contains("gone?2026-01-01 INFO all is well?[2J?txt?"),
                "{:?}",
                refusal.message
            );
        }
    }

    /// A process that is killed as a call sets out: the connection is gone, and nobody was silent.
    #[test]
    fn a_call_that_its_connection_cancelled_is_lost_and_one_without_time_is_late() {
        let from = |message: &str| {
            let mut status = Status::cancelled(message);
            status.set_source(std::sync::Arc::new(std::io::Error::other(message.to_owned())));
            peer_failure("passive party `p`", &status)
        };
        let lost = from("operation was canceled");
        assert_eq!(lost.kind, RefusalKind::Unavailable);
        assert_eq!(lost.message, "passive party `p` is not reachable (operation was canceled)");
        let late = from(TIME_IS_UP);
        assert_eq!(late.kind, RefusalKind::DeadlineExceeded);
        assert_eq!(late.message, "passive party `p` did not answer in time");
    }

    #[test]
    fn kinds_and_codes_are_inverse() {
        for kind in RefusalKind::ALL {
            assert_eq!(RefusalKind::from_code(kind.code()), kind);
        }
    }

    #[test]
    fn what_a_peer_says_is_bounded_and_shows_nothing_but_text() {
        let said = Refusal::said(RefusalKind::NotFound, &format!("a\x1b[31m\n{}", "é".repeat(900)));
        assert!(
            said.message.starts_with("a?[31m?éé") && said.message.len() <= MAX_REASON_BYTES,
            "{said}"
        );
        let long = Refusal::internal("é".repeat(900));
        assert_eq!(long.reason(), "é".repeat(500));
        assert_eq!(Refusal::internal("short").reason(), "short");
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_the_peers_fault_and_a_question_that_cannot_is_the_callers()
    {
        let mut ours = Status::invalid_argument("the message cannot be decoded: x");
        assert_eq!(peer_failure("p", &ours).kind, RefusalKind::InvalidArgument);
        ours.set_source(std::sync::Arc::new(Undecodable));
        assert_eq!(peer_failure("p", &ours).kind, RefusalKind::Internal);
    }

    #[test]
    fn a_peer_failure_names_the_peer() {
        let refusal = peer_failure("passive party `p1`", &Status::unavailable("tcp connect error"));
        assert_eq!(refusal.kind, RefusalKind::Unavailable);
        assert!(refusal.message.contains("passive party `p1`"), "{refusal}");
    }

    #[test]
    fn whose_silence_it_is_is_told() {
        let own = peer_failure("active party `a`", &Status::cancelled("Timeout expired"));
        assert_eq!(own.message, "active party `a` did not answer in time");
        let said = "passive party `p` did not answer in time";
        let told = peer_failure("active party `a`", &Status::deadline_exceeded(said));
        assert_eq!(told.kind, RefusalKind::DeadlineExceeded);
        assert_eq!(told.message, format!("active party `a` refused: {said}"));
    }

    #[test]
    fn a_connection_that_broke_is_no_internal_error() {
        let mut status =
            Status::internal("h2 protocol error: error reading a body from connection");
        assert_eq!(peer_failure("p", &status).kind, RefusalKind::Internal);
        status.set_source(std::sync::Arc::new(std::io::Error::other("connection reset")));
        let refusal = peer_failure("p", &status);
        assert_eq!(refusal.kind, RefusalKind::Unavailable);
        assert_eq!(refusal.message, "p is not reachable (connection reset)");
    }
}
