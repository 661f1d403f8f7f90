//! The gRPC server on a bound listener, which runs until it is stopped.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::{Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use vfl_protocol::{Refusal, peer_failure};

use super::authorize::Authorize;
use super::call_metrics::CallMetricsLayer;
use super::connect::{Peer, channel};
use super::health::Health;
use super::limits::Limits;
use super::listen::{Incoming, incoming};
use super::reflection::with_reflection;
use super::reload::watch;
use super::retry::twice;
use super::tls::Credentials;
use super::upload_limits::UploadLimits;
use crate::monitoring::{GaugeReading, Monitor};

/// The time in which calls under way must end after the stop signal.
const GRACE: Duration = Duration::from_secs(3);
/// The bytes that a connection without an identity may send ahead: enough for the call that is
/// refused.
const STRANGER_WINDOW: u32 = 64 << 10;

/// Errors from running a server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The transport failed.
    #[error("the server failed: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// The compiled-in contract cannot be read.
    #[error("the contract that this program holds cannot be shown: {0}; build it again")]
    Contract(#[from] tonic_reflection::server::Error),
}

/// Serves the routes, with the health and reflection services, until `shutdown` completes. Then it
/// waits a few seconds at most for the calls under way. Meanwhile it reloads the credentials when
/// their files change. `monitor` counts the calls.
///
/// `routes` receives the token that is cancelled when the service stops, for handlers of long
/// streams (see [`until_stopped`]).
///
/// # Errors
/// [`ServeError`] if the transport fails.
pub async fn serve(
    listener: TcpListener,
    credentials: &Credentials,
    limits: &Limits,
    monitor: &Monitor,
    routes: impl FnOnce(CancellationToken) -> Routes,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    serve_with_health(listener, credentials, limits, monitor, |stop, _| routes(stop), shutdown)
        .await
}

/// Like [`serve`], for routes that report their own health.
///
/// # Errors
/// As [`serve`].
pub async fn serve_with_health(
    listener: TcpListener,
    credentials: &Credentials,
    limits: &Limits,
    monitor: &Monitor,
    routes: impl FnOnce(CancellationToken, Health) -> Routes,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    keep_freed_memory();
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
    let stop = CancellationToken::new();
    // The token is cancelled also if the transport fails, for everything that watches it.
    let _ended = stop.clone().drop_guard();
    let routes = with_reflection(
        routes(stop.clone(), Health::new(reporter)),
        credentials.identity().role(),
    )?;
    let Incoming { known, strangers } = incoming(listener, credentials, limits);
    let measure = CallMetricsLayer::new(monitor);
    let own = credentials.clone();
    let help = "When the certificate of this party ends, in seconds since 1970";
    monitor.reading("certificate_expiry_timestamp_seconds", help, move || {
        own.expires().map(|at| GaugeReading::from(at as f64)).into_iter().collect()
    });
    let service = Server::builder()
        .layer(measure.clone())
        .layer(Authorize)
        .layer(UploadLimits::new(limits))
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .max_concurrent_streams(limits.max_streams_per_connection)
        .add_routes(routes)
        .add_service(health)
        .serve_with_incoming_shutdown(known, stop.clone().cancelled_owned());
    // Strangers have a server of their own without any service: they share no setting and no queue
    // with peers.
    let refusal = Server::builder()
        .layer(measure)
        .layer(Authorize)
        .initial_stream_window_size(STRANGER_WINDOW)
        .initial_connection_window_size(STRANGER_WINDOW)
        .max_concurrent_streams(1)
        .add_routes(Routes::default())
        .serve_with_incoming_shutdown(strangers, stop.clone().cancelled_owned());
    let mut server = pin!(async { tokio::try_join!(service, refusal).map(|((), ())| ()) });
    tokio::select! {
        ended = &mut server => return ended.map_err(ServeError::Transport),
        () = shutdown => stop.cancel(),
        () = async { watch(credentials.clone()).await; std::future::pending().await } => {}
    }
    match tokio::time::timeout(GRACE, server).await {
        Ok(ended) => ended.map_err(ServeError::Transport),
        Err(_) => {
            tracing::warn!(
                "calls were still under way after {} s and were cut off",
                GRACE.as_secs()
            );
            Ok(())
        }
    }
}

/// Makes glibc keep freed memory. It returns the end of its heap to the system whenever 128 KiB of
/// it are free, which in bulk predictions is after most messages, and taking it again costs a page
/// fault for every 4 KiB. Once a block that had a mapping of its own was freed, glibc waits for
/// twice that block's size; this function frees one. From then on blocks below a MiB come from the
/// heap, and up to 2 MiB of each heap's end stay with the process. Other allocators are not
/// affected.
fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 20)));
}

/// Returns the questions of a stream until the service stops, then UNAVAILABLE in place of the next
/// one. A handler that answers in order thus answers the questions it has received, and then
/// reports that more is missing: an end without an error would look complete.
pub fn until_stopped<T>(
    questions: Streaming<T>,
    stop: CancellationToken,
    who: &'static str,
) -> impl Stream<Item = Result<T, Status>> + Send
where
    T: Send + 'static,
{
    let mut questions = Some(questions);
    let mut stopped = Box::pin(stop.cancelled_owned());
    stream::poll_fn(move |cx| {
        let Some(open) = questions.as_mut() else { return Poll::Ready(None) };
        // The end of the questions comes first: a finished stream needs no error.
        let next = match Pin::new(open).poll_next(cx) {
            Poll::Ready(None) => None,
            _ if stopped.as_mut().poll(cx).is_ready() => {
                Some(Err(Refusal::unavailable(format!("{who} is stopping")).worth_again().into()))
            }
            Poll::Ready(next) => return Poll::Ready(next),
            Poll::Pending => return Poll::Pending,
        };
        questions = None;
        Poll::Ready(next)
    })
}

/// Completes on SIGINT or SIGTERM.
pub async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            },
            Err(error) => {
                tracing::warn!(%error, "cannot listen for SIGTERM");
                let _ = tokio::signal::ctrl_c().await;
            }
        }
    }
    #[cfg(not(unix))]
    let _ = tokio::signal::ctrl_c().await;
    tracing::info!("told to stop");
}

/// Checks through a peer's health service that it serves.
///
/// # Errors
/// [`Refusal`] that names the peer if it is not reachable, refuses, or does not serve.
pub async fn check_health(
    credentials: &Credentials,
    peer: &Peer,
    timeout: Duration,
) -> Result<(), Refusal> {
    let client =
        HealthClient::new(channel(credentials, peer).map_err(|e| Refusal::invalid(e.to_string()))?);
    let check = || {
        let (mut client, mut request) =
            (client.clone(), tonic::Request::new(HealthCheckRequest { service: String::new() }));
        request.set_timeout(timeout);
        async move { client.check(request).await }
    };
    let asked = tokio::time::timeout(timeout, twice(check)).await;
    let answer =
        asked.map_err(|_| Refusal::unavailable(format!("{peer} did not answer in time")))?;
    let answer = answer.map_err(|status| peer_failure(&peer.to_string(), &status))?;
    match answer.into_inner().status() {
        ServingStatus::Serving => Ok(()),
        _ => Err(Refusal::unavailable(format!("{peer} is up but does not serve"))),
    }
}
