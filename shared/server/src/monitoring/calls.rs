//! Metrics of the calls that a party answers, by method and outcome.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tonic::Code;

type AnsweredCalls = Family<[(&'static str, &'static str); 2], Counter>;
type OpenCalls = Family<[(&'static str, &'static str); 1], Gauge>;

/// The calls of one party's service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls {
    answered: AnsweredCalls,
    open: OpenCalls,
}

impl Calls {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Calls that ended, by method and gRPC code: a refusal is a call with another code than OK";
        registry.register("calls", help, self.answered.clone());
        registry.register("open_calls", "Calls under way, streams among them", self.open.clone());
    }

    /// Counts a call that begins; `method` must be one of a bounded list.
    pub(crate) fn begin(&self, method: &'static str) -> OpenCall {
        self.open.get_or_create(&[("method", method)]).inc();
        OpenCall { calls: self.clone(), method, code: None }
    }
}

/// A call under way. Dropping it ends it: as cancelled, unless [`end`](Self::end) gave a code.
#[derive(Debug)]
pub(crate) struct OpenCall {
    calls: Calls,
    method: &'static str,
    code: Option<Code>,
}

impl OpenCall {
    /// Ends the call with a code.
    pub(crate) fn end(mut self, code: Code) {
        self.code = Some(code);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let code = code_name(self.code.unwrap_or(Code::Cancelled));
        self.calls.open.get_or_create(&[("method", self.method)]).dec();
        self.calls.answered.get_or_create(&[("method", self.method), ("code", code)]).inc();
    }
}

/// Returns the gRPC name of a code.
pub(super) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
