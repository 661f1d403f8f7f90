//! The HTTP endpoint of one party's metrics. Anybody who can reach the address can read them, so
//! they contain nothing about records.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::monitor::Monitor;

/// The maximum number of concurrent readers; further ones wait.
const READERS: usize = 8;
/// The time limit of one reader, from its connection to the last byte of its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The text format of Prometheus and other readers.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Errors from opening the endpoint.
#[derive(Debug, thiserror::Error)]
#[error("[metrics]: cannot listen on {address}: {source}")]
pub struct EndpointError {
    address: SocketAddr,
    source: std::io::Error,
}

/// The metrics endpoint, which serves until it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

impl Endpoint {
    /// Serves the metrics of `monitor` at an address; for `None` it serves nothing.
    ///
    /// # Errors
    /// [`EndpointError`] if the address cannot be bound.
    pub async fn open(
        address: Option<SocketAddr>,
        monitor: &Monitor,
    ) -> Result<Option<Self>, EndpointError> {
        let Some(address) = address else { return Ok(None) };
        let failed = |source| EndpointError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(%address, "metrics are served over plain HTTP at /metrics");
        let task = AbortOnDropHandle::new(tokio::spawn(accept(listener, monitor.clone())));
        Ok(Some(Self { address, _task: task }))
    }

    /// Returns the address that serves the metrics.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: TcpListener, monitor: Monitor) {
    let readers = Arc::new(Semaphore::new(READERS));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = readers.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((socket, _)) => {
                let monitor = monitor.clone();
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(PATIENCE, answer(socket, monitor)).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a reader of metrics");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Answers one request of a connection: readers come every few seconds.
async fn answer(socket: TcpStream, monitor: Monitor) {
    let is_here =
        socket.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let service = service_fn(move |request| {
        let monitor = monitor.clone();
        async move { Ok::<_, Infallible>(respond(&request, &monitor, is_here)) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(socket), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a reader of metrics went away");
    }
}

/// Returns true if a request names this machine. A page in the operator's browser whose host name
/// resolves to a loopback address sends that name.
fn names_this_machine(request: &Request<Incoming>) -> bool {
    let Some(host) = request.headers().get(header::HOST) else { return true };
    let authority = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    authority.is_some_and(|authority| {
        let host =
            authority.host().trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
    })
}

fn respond(request: &Request<Incoming>, monitor: &Monitor, is_here: bool) -> Response<Full<Bytes>> {
    let (status, kind, text) = match (request.method(), request.uri().path()) {
        _ if is_here && !names_this_machine(request) => (
            StatusCode::MISDIRECTED_REQUEST,
            "text/plain",
            "ask for localhost or for a loopback address\n".to_owned(),
        ),
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, FORMAT, monitor.text()),
        (_, "/metrics") => {
            (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "metrics are read with GET\n".to_owned())
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", "metrics are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
