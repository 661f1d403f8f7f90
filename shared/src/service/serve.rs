//! Serves gRPC on a bound listener until told to stop.

use std::time::Duration;

use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};

use super::authorize::Authorize;
use super::connect::{Peer, channel};
use super::listen::connections;
use super::tls::Credentials;
use crate::rpc::{Refusal, peer_failure};

/// How long calls under way may take to end after the signal to stop.
const GRACE: Duration = Duration::from_secs(3);
/// Calls of one connection under way at once.
const MAX_CONCURRENT_STREAMS: u32 = 1024;

/// Why a server stopped against its will.
#[derive(Debug, thiserror::Error)]
#[error("the server failed: {0}")]
pub struct ServeError(#[from] tonic::transport::Error);

/// Serves the routes, the health service beside them, until `shutdown` completes; then lets calls under way end, for a few
/// seconds at most.
///
/// # Errors
/// [`ServeError`] if the transport fails.
pub async fn serve(
    listener: TcpListener,
    credentials: &Credentials,
    routes: Routes,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("", tonic_health::ServingStatus::Serving).await;
    let stop = tokio_util::sync::CancellationToken::new();
    let server = Server::builder()
        .layer(Authorize)
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .add_routes(routes)
        .add_service(health)
        .serve_with_incoming_shutdown(connections(listener, credentials), stop.clone().cancelled_owned());
    tokio::pin!(server);
    tokio::select! {
        ended = &mut server => return ended.map_err(ServeError),
        () = shutdown => stop.cancel(),
    }
    match tokio::time::timeout(GRACE, server).await {
        Ok(ended) => ended.map_err(ServeError),
        Err(_) => {
            tracing::warn!("calls were still under way after {} s and were cut off", GRACE.as_secs());
            Ok(())
        }
    }
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

/// Asks a peer's health service whether it serves.
///
/// # Errors
/// [`Refusal`] naming the peer when it is not reachable, refuses, or does not serve.
pub async fn check_health(credentials: &Credentials, peer: &Peer, timeout: Duration) -> Result<(), Refusal> {
    let channel = channel(credentials, peer).map_err(|e| Refusal::invalid(e.to_string()))?;
    let mut request = tonic::Request::new(HealthCheckRequest { service: String::new() });
    request.set_timeout(timeout);
    let asked = tokio::time::timeout(timeout, HealthClient::new(channel).check(request)).await;
    let answer = asked.map_err(|_| Refusal::unavailable(format!("{peer} did not answer in time")))?;
    let answer = answer.map_err(|status| peer_failure(&peer.to_string(), &status))?;
    match answer.into_inner().status() {
        ServingStatus::Serving => Ok(()),
        _ => Err(Refusal::unavailable(format!("{peer} is up but does not serve"))),
    }
}
