//! Access control: the one table of RPC × role, checked before any service sees a request, and the
//! table of message sizes.

use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};
use tracing::Instrument;
use vfl_protocol::{MAX_MESSAGE_BYTES, Refusal, RefusalKind};

use super::connection::PeerInfo;
use super::identity::{PeerIdentity, Role};
use Role::{ActiveParty, Auditor, Coordinator, PassiveParty};

/// The roles that may call each RPC. An RPC that is not listed is not served.
pub const ACCESS_TABLE: &[(&str, &[Role])] = &[
    ("/vfl.v1.Coordinator/DescribeModel", &[ActiveParty, PassiveParty, Auditor]),
    ("/vfl.v1.Coordinator/Train", &[ActiveParty]),
    ("/vfl.v1.Coordinator/Publish", &[ActiveParty]),
    ("/vfl.v1.Coordinator/Align", &[ActiveParty]),
    ("/vfl.v1.Coordinator/ReleaseTopModel", &[ActiveParty]),
    ("/vfl.v1.Coordinator/Predict", &[ActiveParty]),
    ("/vfl.v1.Coordinator/PredictStream", &[ActiveParty]),
    ("/vfl.v1.Coordinator/ReleasePrivately", &[ActiveParty]),
    ("/vfl.v1.Coordinator/DescribeLedger", &[ActiveParty, PassiveParty, Auditor]),
    ("/vfl.v1.Coordinator/OpenAudit", &[Auditor]),
    ("/vfl.v1.Coordinator/CloseAudit", &[Auditor]),
    ("/vfl.v1.PassiveParty/DescribeFeatures", &[Coordinator, ActiveParty, Auditor]),
    ("/vfl.v1.PassiveParty/ComputeLogits", &[Coordinator]),
    ("/vfl.v1.PassiveParty/ComputeLogitsStream", &[Coordinator]),
    ("/vfl.v1.PassiveParty/ReleasePrivately", &[Coordinator]),
    ("/vfl.v1.PassiveParty/Train", &[Coordinator]),
    ("/vfl.v1.PassiveParty/Align", &[Coordinator]),
    ("/vfl.v1.PassiveParty/DescribeStaged", &[Coordinator]),
    ("/vfl.v1.PassiveParty/PublishStaged", &[Coordinator]),
    ("/vfl.v1.PassiveParty/ReleaseParameters", &[ActiveParty, Coordinator]),
    ("/vfl.v1.PassiveParty/LendShares", &[ActiveParty]),
    ("/vfl.v1.PassiveParty/EvaluateReconstruction", &[Auditor]),
    ("/vfl.v1.ActiveParty/Predict", &[ActiveParty]),
    ("/vfl.v1.ActiveParty/Train", &[ActiveParty]),
    ("/vfl.v1.ActiveParty/Align", &[ActiveParty]),
    ("/vfl.v1.ActiveParty/Publish", &[ActiveParty]),
    ("/vfl.v1.ActiveParty/Reconstruct", &[Auditor]),
    ("/inference.GRPCInferenceService/ServerLive", &[ActiveParty]),
    ("/inference.GRPCInferenceService/ServerReady", &[ActiveParty]),
    ("/inference.GRPCInferenceService/ModelReady", &[ActiveParty]),
    ("/inference.GRPCInferenceService/ServerMetadata", &[ActiveParty]),
    ("/inference.GRPCInferenceService/ModelMetadata", &[ActiveParty]),
    ("/inference.GRPCInferenceService/ModelInfer", &[ActiveParty]),
    ("/grpc.health.v1.Health/Check", &Role::ALL),
    ("/grpc.health.v1.Health/Watch", &Role::ALL),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", &Role::ALL),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &Role::ALL),
];

/// The largest message of a call whose request only names a few things and holds no records, in
/// bytes.
const SMALL_BYTES: usize = 64 << 10;

/// The calls with one request message, and its largest size in bytes. Any other call is a stream of
/// messages of up to [`MAX_MESSAGE_BYTES`], or of [`SMALL_BYTES`] if it is one of
/// [`SMALL_STREAMS`].
const SINGLE_MESSAGES: &[(&str, usize)] = &[
    ("/vfl.v1.Coordinator/DescribeModel", SMALL_BYTES),
    ("/vfl.v1.Coordinator/ReleaseTopModel", SMALL_BYTES),
    ("/vfl.v1.Coordinator/Predict", MAX_MESSAGE_BYTES),
    ("/vfl.v1.Coordinator/DescribeLedger", SMALL_BYTES),
    ("/vfl.v1.Coordinator/OpenAudit", MAX_MESSAGE_BYTES),
    ("/vfl.v1.Coordinator/CloseAudit", SMALL_BYTES),
    ("/vfl.v1.PassiveParty/DescribeFeatures", SMALL_BYTES),
    ("/vfl.v1.PassiveParty/ComputeLogits", MAX_MESSAGE_BYTES),
    ("/vfl.v1.PassiveParty/ReleaseParameters", SMALL_BYTES),
    ("/vfl.v1.PassiveParty/LendShares", MAX_MESSAGE_BYTES),
    // There may be many class names.
    ("/vfl.v1.PassiveParty/DescribeStaged", MAX_MESSAGE_BYTES),
    ("/vfl.v1.PassiveParty/PublishStaged", MAX_MESSAGE_BYTES),
    ("/vfl.v1.ActiveParty/Predict", MAX_MESSAGE_BYTES),
    ("/vfl.v1.ActiveParty/Train", MAX_MESSAGE_BYTES),
    ("/vfl.v1.ActiveParty/Reconstruct", MAX_MESSAGE_BYTES),
    ("/vfl.v1.ActiveParty/Publish", MAX_MESSAGE_BYTES),
    ("/inference.GRPCInferenceService/ServerLive", SMALL_BYTES),
    ("/inference.GRPCInferenceService/ServerReady", SMALL_BYTES),
    ("/inference.GRPCInferenceService/ModelReady", SMALL_BYTES),
    ("/inference.GRPCInferenceService/ServerMetadata", SMALL_BYTES),
    ("/inference.GRPCInferenceService/ModelMetadata", SMALL_BYTES),
    ("/inference.GRPCInferenceService/ModelInfer", MAX_MESSAGE_BYTES),
    ("/grpc.health.v1.Health/Check", SMALL_BYTES),
    ("/grpc.health.v1.Health/Watch", SMALL_BYTES),
];

/// Streams whose messages only name a thing and hold no records.
const SMALL_STREAMS: &[&str] = &[
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// The limits on the requests of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Upload {
    /// True for one message, false for any number.
    pub(super) single: bool,
    /// The maximum size of a message in bytes.
    pub(super) limit: usize,
}

/// Returns the limits of a call, by its path.
pub(super) fn upload(path: &str) -> Upload {
    match SINGLE_MESSAGES.iter().find(|(p, _)| *p == path) {
        Some(&(_, limit)) => Upload { single: true, limit },
        None if SMALL_STREAMS.contains(&path) => Upload { single: false, limit: SMALL_BYTES },
        None => Upload { single: false, limit: MAX_MESSAGE_BYTES },
    }
}

/// Returns the roles that may call an RPC, by its path; `None` for an RPC that is not in the table.
#[must_use]
pub fn allowed_roles(path: &str) -> Option<&'static [Role]> {
    ACCESS_TABLE.iter().find(|(p, _)| *p == path).map(|(_, roles)| *roles)
}

/// Returns an RPC of the table by its path, as `Service/Method`; `None` for another one. The number
/// of values is bounded by the table.
pub(super) fn served_method(path: &str) -> Option<&'static str> {
    let (path, _) = ACCESS_TABLE.iter().find(|(p, _)| *p == path)?;
    path.rsplit_once('.').map(|(_, method)| method)
}

/// Returns the identity of the caller, which the [`Authorize`] layer has put into the request.
///
/// # Errors
/// UNAUTHENTICATED if the layer did not run, which is a fault of the server's wiring.
pub fn caller<T>(request: &tonic::Request<T>) -> Result<PeerIdentity, Status> {
    request
        .extensions()
        .get::<PeerIdentity>()
        .cloned()
        .ok_or_else(|| Refusal::new(RefusalKind::Unauthenticated, "the caller is not known").into())
}

/// A layer that refuses callers without an identity (UNAUTHENTICATED) or without the role
/// (PERMISSION_DENIED), and opens one span per call with the method and the caller.
#[derive(Debug, Clone, Copy, Default)]
pub struct Authorize;

impl<S> Layer<S> for Authorize {
    type Service = Authorized<S>;

    fn layer(&self, inner: S) -> Authorized<S> {
        Authorized { inner }
    }
}

/// A service behind [`Authorize`].
#[derive(Debug, Clone)]
pub struct Authorized<S> {
    inner: S,
}

fn decide(path: &str, peer: Option<&PeerInfo>) -> Result<PeerIdentity, Refusal> {
    let unauthenticated = |reason: &str| Refusal::new(RefusalKind::Unauthenticated, reason);
    let peer = peer.ok_or_else(|| unauthenticated("the connection has no identity"))?;
    let identity = peer.identity.clone()?;
    match allowed_roles(path) {
        Some(roles) if roles.contains(&identity.role()) => Ok(identity),
        Some(roles) => {
            let may: Vec<&str> = roles.iter().map(|r| r.words()).collect();
            let message = format!(
                "{path} is for the {}, the caller is {}",
                may.join(", the "),
                identity.words()
            );
            Err(Refusal::new(RefusalKind::PermissionDenied, message))
        }
        None => Err(Refusal::new(RefusalKind::PermissionDenied, "no such call is served")),
    }
}

impl<S> Service<Request<Body>> for Authorized<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match decide(request.uri().path(), request.extensions().get::<PeerInfo>()) {
            Ok(identity) => {
                let span = tracing::debug_span!("rpc", method = request.uri().path(), caller = %identity, records = tracing::field::Empty);
                request.extensions_mut().insert(identity);
                Box::pin(self.inner.call(request).instrument(span))
            }
            Err(refusal) => {
                let peer = request.extensions().get::<PeerInfo>();
                let address = peer.map(|p| p.address);
                if let Some(stranger) = peer.filter(|p| p.identity.is_err())
                    && !stranger.answer_once()
                {
                    // The stranger has its answer, and its connection ends in a moment.
                    return Box::pin(std::future::pending());
                }
                tracing::info!(method = request.uri().path(), ?address, reason = %refusal, "call refused");
                Box::pin(std::future::ready(Ok(Status::from(refusal).into_http())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that no table serves bounds nothing.
    #[test]
    fn bounded_calls_are_served_calls() {
        for (path, limit) in SINGLE_MESSAGES {
            assert!(allowed_roles(path).is_some(), "{path}");
            assert_eq!(upload(path), Upload { single: true, limit: *limit });
        }
        for path in SMALL_STREAMS {
            assert!(allowed_roles(path).is_some(), "{path}");
            assert_eq!(upload(path), Upload { single: false, limit: SMALL_BYTES });
        }
        assert!(!upload("/vfl.v1.Coordinator/PredictStream").single);
    }
}
