//! The metrics of a service's calls, by method and outcome, including refused callers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::authorize::served_method;
use crate::monitoring::{Calls, Monitor, OpenCall};

/// The label of all methods that are not served: a caller must not be able to add labels.
const OTHER: &str = "other";

/// A layer that counts calls.
#[derive(Debug, Clone)]
pub(super) struct CallMetricsLayer {
    calls: Calls,
}

impl CallMetricsLayer {
    pub(super) fn new(monitor: &Monitor) -> Self {
        Self { calls: monitor.calls().clone() }
    }
}

impl<S> Layer<S> for CallMetricsLayer {
    type Service = CallMetricsService<S>;

    fn layer(&self, inner: S) -> CallMetricsService<S> {
        CallMetricsService { inner, calls: self.calls.clone() }
    }
}

/// A service behind [`CallMetricsLayer`].
#[derive(Debug, Clone)]
pub(super) struct CallMetricsService<S> {
    inner: S,
    calls: Calls,
}

impl<S> Service<Request<Body>> for CallMetricsService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let open = self.calls.begin(served_method(request.uri().path()).unwrap_or(OTHER));
        let answered = self.inner.call(request);
        Box::pin(async move {
            let response = answered.await?;
            // A refusal before the first message has its code in the headers, and no body.
            if let Some(code) = code_of(response.headers()) {
                open.end(code);
                return Ok(response);
            }
            // A body that has ended would never be read.
            if http_body::Body::is_end_stream(response.body()) {
                open.end(Code::Unknown);
                return Ok(response);
            }
            Ok(response.map(|body| Body::new(WatchedBody { body, open: Some(open) })))
        })
    }
}

fn code_of(headers: &HeaderMap) -> Option<Code> {
    headers.get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()))
}

/// The body of an answer, which is watched for its final code.
struct WatchedBody {
    body: Body,
    open: Option<OpenCall>,
}

impl http_body::Body for WatchedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let code = match &polled {
            Poll::Ready(Some(Ok(frame))) => frame.trailers_ref().and_then(code_of),
            Poll::Ready(Some(Err(status))) => Some(status.code()),
            Poll::Ready(None) => Some(Code::Unknown),
            Poll::Pending => None,
        };
        if let Some((code, open)) = code.and_then(|code| self.open.take().map(|open| (code, open)))
        {
            open.end(code);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// Calls a service that gives this answer, or none before the caller gives up, and returns the
    /// metrics.
    async fn text_after(path: &str, answer: Option<Response<Body>>) -> String {
        let monitor = Monitor::new("coordinator", "c");
        let answers = answer.is_some();
        let answer = std::sync::Mutex::new(answer);
        let inner = tower::service_fn(move |_: Request<Body>| {
            let answer = answer.lock().unwrap().take();
            async move {
                match answer {
                    Some(answer) => Ok::<_, std::convert::Infallible>(answer),
                    None => std::future::pending().await,
                }
            }
        });
        let mut service = CallMetricsLayer::new(&monitor).layer(inner);
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let mut call = service.call(request);
        assert!(monitor.text().contains("} 1\n"), "a call is open");
        if answers {
            let _ = call.await.unwrap().into_body().collect().await;
        } else {
            assert!(futures_util::poll!(&mut call).is_pending());
            drop(call);
        }
        monitor.text()
    }

    fn ends_with(code: Code) -> Response<Body> {
        let mut trailers = HeaderMap::new();
        trailers.insert(Status::GRPC_STATUS, (code as i32).into());
        let frames =
            [Ok::<_, Status>(Frame::data(Bytes::from_static(b"x"))), Ok(Frame::trailers(trailers))];
        Response::new(Body::new(http_body_util::StreamBody::new(futures_util::stream::iter(
            frames,
        ))))
    }

    #[tokio::test]
    async fn a_call_counts_once_under_the_code_it_ends_with() {
        let counted = |method: &str, code: &str| {
            format!("cloison_calls_total{{method=\"{method}\",code=\"{code}\"}} 1\n")
        };
        let cases = [
            (Some(Status::permission_denied("x").into_http()), "PERMISSION_DENIED"),
            (Some(ends_with(Code::Ok)), "OK"),
            (Some(ends_with(Code::Unavailable)), "UNAVAILABLE"),
            (Some(Response::new(Body::empty())), "UNKNOWN"),
            (None, "CANCELLED"),
        ];
        for (answer, code) in cases {
            let text = text_after("/vfl.v1.Coordinator/PredictStream", answer).await;
            assert!(text.contains(&counted("Coordinator/PredictStream", code)), "{code}: {text}");
            assert!(
                text.contains("cloison_open_calls{method=\"Coordinator/PredictStream\"} 0\n"),
                "{text}"
            );
            assert_eq!(text.matches("cloison_calls_total{").count(), 1, "{text}");
        }
        // A name that nobody serves is not taken over.
        let text =
            text_after("/made.up/By-a-caller", Some(Status::permission_denied("x").into_http()))
                .await;
        assert!(
            text.contains(&counted("other", "PERMISSION_DENIED")) && !text.contains("made.up"),
            "{text}"
        );
    }
}
