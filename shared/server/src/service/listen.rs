//! The listener: accepts connections, runs TLS handshakes beside the accept loop, and identifies
//! the peers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use vfl_protocol::{Refusal, RefusalKind};

use super::connection::{PeerInfo, TlsConnection};
use super::connection_table::{ConnectionSlot, ConnectionTable};
use super::deny::DeniedCertificate;
use super::identity::PeerIdentity;
use super::limits::Limits;
use super::tls::Credentials;

/// The time limit of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// The connections after their handshakes, as a stream that ends with the listener's task.
pub(super) type Connections = ReceiverStream<Result<TlsConnection, io::Error>>;

/// The connections of a listener.
pub(super) struct Incoming {
    /// The connections of identified peers. [`super::Authorize`] decides what they may do.
    pub(super) known: Connections,
    /// The connections of callers that get one refusal and no service.
    pub(super) strangers: Connections,
}

type Sender = mpsc::Sender<Result<TlsConnection, io::Error>>;

/// The state that the accept loop and the handshakes share.
#[derive(Clone)]
struct ListenerState {
    credentials: Credentials,
    known: Sender,
    strangers: Sender,
}

/// Returns the connections of identified peers after their handshakes. Dropping the stream ends the
/// listener. The service on them must decide what a caller may do; [`super::serve`] does so by the
/// table of RPC × role. All other connections are dropped.
pub fn connections(
    listener: TcpListener,
    credentials: &Credentials,
    limits: &Limits,
) -> ReceiverStream<Result<TlsConnection, io::Error>> {
    incoming(listener, credentials, limits).known
}

/// Returns all connections of a listener, within the limits. Neither a handshake nor a lack of room
/// delays the next connection.
pub(super) fn incoming(
    listener: TcpListener,
    credentials: &Credentials,
    limits: &Limits,
) -> Incoming {
    let bounds = limits.bounds();
    tracing::debug!(?bounds, "room for connections");
    let door = ConnectionTable::new(bounds);
    let (known, of_known) = mpsc::channel(16);
    let (strangers, of_strangers) = mpsc::channel(16);
    let reception = ListenerState { credentials: credentials.clone(), known, strangers };
    tokio::spawn(accept(listener, door, reception));
    Incoming { known: ReceiverStream::new(of_known), strangers: ReceiverStream::new(of_strangers) }
}

async fn accept(listener: TcpListener, door: Arc<ConnectionTable>, reception: ListenerState) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = reception.known.closed() => return,
        };
        let (socket, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, or a connection reset before it was accepted: make room,
                // without a busy loop and without stopping.
                tracing::warn!(%error, "cannot accept a connection");
                door.relieve();
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        match door.enter(address.ip()) {
            Some(place) => drop(tokio::spawn(receive(socket, address, place, reception.clone()))),
            None => tracing::debug!(%address, "too many connections are still closing"),
        }
        // The newcomer's task runs before the next connection comes, which might evict it while it
        // seems to be silent.
        tokio::task::yield_now().await;
    }
}

/// Receives one connection until its peer is identified, or known to be a stranger.
async fn receive(
    socket: TcpStream,
    address: SocketAddr,
    place: ConnectionSlot,
    reception: ListenerState,
) {
    let since = Instant::now();
    let _ = socket.set_nodelay(true);
    let acceptor = TlsAcceptor::from(reception.credentials.server_config());
    let handshake = async {
        socket.readable().await?;
        place.spoke();
        acceptor.accept(socket).await
    };
    let stream = tokio::select! {
        // Floods come by the thousand: each eviction is logged at debug level only.
        () = place.cut().cancelled() => return tracing::debug!(%address, "dropped in its handshake to make room"),
        shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%address, %error, "TLS handshake refused"),
            Err(_) => return tracing::debug!(%address, "TLS handshake timed out"),
        },
    };
    introduce(stream, address, place, since, &reception).await;
}

async fn introduce(
    stream: TlsStream<TcpStream>,
    address: SocketAddr,
    mut place: ConnectionSlot,
    since: Instant,
    reception: &ListenerState,
) {
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let admitted =
        identify(&stream, reception.credentials.identity().trust_domain()).and_then(|identity| {
            let denied = |e: DeniedCertificate| {
                unauthenticated(format!("the caller's certificate is refused: {e}"))
            };
            let link = reception.credentials.admit(chain).map_err(denied)?;
            place.known(&identity).map(|()| (identity, link))
        });
    match admitted {
        Ok((identity, link)) => {
            let peer = PeerInfo::new(address, Ok(identity));
            let _ = reception.known.send(Ok(TlsConnection::known(stream, peer, link, place))).await;
        }
        Err(refusal) => {
            tracing::debug!(%address, reason = %refusal, "a stranger");
            place.stranger();
            let peer = PeerInfo::new(address, Err(refusal));
            let _ = reception
                .strangers
                .send(Ok(TlsConnection::stranger(stream, peer, place, since)))
                .await;
        }
    }
}

fn unauthenticated(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::Unauthenticated, message)
}

fn identify(stream: &TlsStream<TcpStream>, trust_domain: &str) -> Result<PeerIdentity, Refusal> {
    let (_, session) = stream.get_ref();
    let Some(certificate) = session.peer_certificates().and_then(|chain| chain.first()) else {
        let message =
            "the caller showed no certificate; every call needs one (make it with `cloison certs`)";
        return Err(unauthenticated(message));
    };
    let identity =
        PeerIdentity::from_certificate(certificate).map_err(|e| unauthenticated(e.to_string()))?;
    if identity.trust_domain() == trust_domain {
        Ok(identity)
    } else {
        let message = format!(
            "the caller's trust domain is {:?}, ours is {trust_domain:?}",
            identity.trust_domain()
        );
        Err(unauthenticated(message))
    }
}
