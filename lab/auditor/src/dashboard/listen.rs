//! Accepts connections: few at once, on loopback only, with a time limit for each.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The number of connections at once; further ones wait.
const CONNECTIONS: usize = 32;
/// The time limit for the headers of a request.
const HEADERS: Duration = Duration::from_secs(10);
/// The time limit for a connection, from its first byte to the last one of its answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Listens on an address.
///
/// # Errors
/// A sentence if other machines could reach the address, or if it is not available.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    if !address.ip().to_canonical().is_loopback() {
        return Err(format!(
            "{address} is an address that other machines reach, and the dashboard has no TLS: listen on 127.0.0.1, and reach it from \
             elsewhere through an SSH tunnel (ssh -L 8470:127.0.0.1:8470 HOST)"
        ));
    }
    TcpListener::bind(address).await.map_err(|e| format!("cannot listen on {address}: {e}"))
}

/// Accepts connections and answers them; never returns.
pub(super) async fn accept<F, A>(listener: TcpListener, answer: F)
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((socket, _)) => {
                let answer = answer.clone();
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(PATIENCE, converse(socket, answer)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of the dashboard");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Answers one request of a connection and closes it: an open connection would take the place of
/// another.
async fn converse<F, A>(socket: TcpStream, answer: F)
where
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Response<Body>>,
{
    let service = service_fn(|request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .keep_alive(false)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(socket), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a reader of the dashboard went away");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn other_machines_are_refused() {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
            let refused = listen(address.parse().unwrap()).await.unwrap_err();
            assert!(refused.contains("other machines"), "{address}: {refused}");
        }
        assert!(listen("127.0.0.1:0".parse().unwrap()).await.is_ok());
    }
}
