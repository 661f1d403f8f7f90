//! The one table between what went wrong and the gRPC status that says so.

use tonic::{Code, Status};

use super::WireError;
use super::codec::Undecodable;

/// A number of records as a refusal tells it: "some", or "100 or more". An exact one would answer a question about every record of
/// the list, asked in lists that differ in one.
#[must_use]
pub fn rough(records: usize) -> &'static str {
    if records >= 100 { "100 or more" } else { "some" }
}

/// The kinds of refusal a service knows, and their codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// Malformed, misshapen, non-finite or duplicate input.
    InvalidArgument,
    /// Something named does not exist.
    NotFound,
    /// Not in the state the call needs: no model, another model version, a training record.
    FailedPrecondition,
    /// A budget, a limit on size or the number of calls under way.
    ResourceExhausted,
    /// The caller showed no certificate.
    Unauthenticated,
    /// The caller's role, or a policy, does not allow it.
    PermissionDenied,
    /// A peer is down.
    Unavailable,
    /// A peer did not answer in time.
    DeadlineExceeded,
    /// Another call of the same kind is under way.
    Aborted,
    /// Our own fault, or our own disk's.
    Internal,
}

impl RefusalKind {
    /// The gRPC code.
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

    /// The kind that a status from a peer stands for.
    #[must_use]
    pub fn from_code(code: Code) -> Self {
        match code {
            Code::InvalidArgument | Code::OutOfRange => Self::InvalidArgument,
            Code::NotFound => Self::NotFound,
            Code::FailedPrecondition => Self::FailedPrecondition,
            Code::ResourceExhausted => Self::ResourceExhausted,
            Code::Unauthenticated => Self::Unauthenticated,
            Code::PermissionDenied => Self::PermissionDenied,
            // tonic reports a connection that broke under a call as Unknown or Cancelled.
            Code::Unavailable | Code::Unknown => Self::Unavailable,
            Code::DeadlineExceeded | Code::Cancelled => Self::DeadlineExceeded,
            Code::Aborted => Self::Aborted,
            _ => Self::Internal,
        }
    }
}

/// An error that a service answers with: a kind and a sentence that names the thing and the fix. It never holds a feature,
/// a parameter or a score.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What kind of refusal.
    pub kind: RefusalKind,
    /// What is wrong and what to do.
    pub message: String,
}

impl Refusal {
    /// A refusal of a kind.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// [`RefusalKind::InvalidArgument`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::InvalidArgument, message)
    }

    /// [`RefusalKind::FailedPrecondition`].
    pub fn precondition(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::FailedPrecondition, message)
    }

    /// [`RefusalKind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Internal, message)
    }

    /// [`RefusalKind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Unavailable, message)
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Status::new(refusal.kind.code(), refusal.message)
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

/// Turns a status that a peer answered with, or that stands for its silence, into a refusal that names the peer.
///
/// `peer` is a phrase such as "passive party `bank-a` at 10.0.0.2:7101".
#[must_use]
pub fn peer_failure(peer: &str, status: &Status) -> Refusal {
    if std::error::Error::source(status).is_some_and(|source| source.is::<Undecodable>()) {
        // Our own reader says so of the peer's answer; what the peer says of our question comes without a source.
        return Refusal::internal(format!("{peer} answered with a message that cannot be read"));
    }
    let kind = RefusalKind::from_code(status.code());
    let said = status.message();
    let message = match kind {
        RefusalKind::Unavailable => format!("{peer} is not reachable ({})", root_cause(status)),
        RefusalKind::DeadlineExceeded => format!("{peer} did not answer in time"),
        _ => format!("{peer} refused: {said}"),
    };
    Refusal::new(kind, message)
}

/// The innermost cause tonic knows; its outermost is only "transport error".
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

    #[test]
    fn kinds_and_codes_are_inverse() {
        use RefusalKind::*;
        for kind in [
            InvalidArgument,
            NotFound,
            FailedPrecondition,
            ResourceExhausted,
            Unauthenticated,
            PermissionDenied,
            Unavailable,
            DeadlineExceeded,
            Aborted,
            Internal,
        ] {
            assert_eq!(RefusalKind::from_code(kind.code()), kind);
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_the_peers_fault_and_a_question_that_cannot_is_the_callers() {
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
}
