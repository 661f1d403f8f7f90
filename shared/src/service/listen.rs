//! Accepts connections, does the TLS handshake beside the accept loop, and remembers who the peer is.

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

use super::connection::{PeerInfo, TlsConnection};
use super::deny::Denied;
use super::door::{Door, Place};
use super::identity::PeerIdentity;
use super::limits::Limits;
use super::tls::Credentials;
use crate::rpc::{Refusal, RefusalKind};

/// A peer that does not finish its handshake in this time is dropped.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// Connections after their handshakes, as a stream that ends when the listener's task does.
pub(super) type Connections = ReceiverStream<Result<TlsConnection, io::Error>>;

/// The connections of a listener.
pub(super) struct Incoming {
    /// Of peers whose identity is known. What they may do is for [`super::Authorize`] to say.
    pub(super) known: Connections,
    /// Of callers that may get one answer, and no service.
    pub(super) strangers: Connections,
}

type Sender = mpsc::Sender<Result<TlsConnection, io::Error>>;

/// What the accept loop and the handshakes share.
#[derive(Clone)]
struct Reception {
    credentials: Credentials,
    known: Sender,
    strangers: Sender,
}

/// The connections of identified peers after their handshakes, as a stream that ends when the receiver is dropped. Whoever
/// serves on them decides what a caller may do; [`super::serve`] does so by the table of RPC × role. Everybody else is
/// dropped.
pub fn connections(
    listener: TcpListener,
    credentials: &Credentials,
    limits: &Limits,
) -> ReceiverStream<Result<TlsConnection, io::Error>> {
    incoming(listener, credentials, limits).known
}

/// All connections of a listener, within the limits. Nobody is waited for: neither a handshake nor a lack of room holds the
/// next connection up.
pub(super) fn incoming(listener: TcpListener, credentials: &Credentials, limits: &Limits) -> Incoming {
    let bounds = limits.bounds();
    tracing::debug!(?bounds, "room for connections");
    let door = Door::new(bounds);
    let (known, of_known) = mpsc::channel(16);
    let (strangers, of_strangers) = mpsc::channel(16);
    let reception = Reception { credentials: credentials.clone(), known, strangers };
    tokio::spawn(accept(listener, door, reception));
    Incoming { known: ReceiverStream::new(of_known), strangers: ReceiverStream::new(of_strangers) }
}

async fn accept(listener: TcpListener, door: Arc<Door>, reception: Reception) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = reception.known.closed() => return,
        };
        let (socket, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, or a connection reset before it was accepted: make room, do not spin or die.
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
        // The newcomer is looked at before the next one comes, which may push it out while it seems to be silent.
        tokio::task::yield_now().await;
    }
}

/// One connection up to the point where its peer is known, or known to be a stranger.
async fn receive(socket: TcpStream, address: SocketAddr, place: Place, reception: Reception) {
    let since = Instant::now();
    let _ = socket.set_nodelay(true);
    let acceptor = TlsAcceptor::from(reception.credentials.server_config());
    let handshake = async {
        socket.readable().await?;
        place.spoke();
        acceptor.accept(socket).await
    };
    let stream = tokio::select! {
        // Floods come by the thousand: what is said of each is for who looks for it.
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
    mut place: Place,
    since: Instant,
    reception: &Reception,
) {
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let admitted = identify(&stream, reception.credentials.identity().trust_domain()).and_then(|identity| {
        let denied = |e: Denied| unauthenticated(format!("the caller's certificate is refused: {e}"));
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
            let _ = reception.strangers.send(Ok(TlsConnection::stranger(stream, peer, place, since))).await;
        }
    }
}

fn unauthenticated(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::Unauthenticated, message)
}

fn identify(stream: &TlsStream<TcpStream>, trust_domain: &str) -> Result<PeerIdentity, Refusal> {
    let (_, session) = stream.get_ref();
    let Some(certificate) = session.peer_certificates().and_then(|chain| chain.first()) else {
        let message = "the caller showed no certificate; every call needs one (make it with `cloison certs`)";
        return Err(unauthenticated(message));
    };
    let identity = PeerIdentity::from_certificate(certificate).map_err(|e| unauthenticated(e.to_string()))?;
    if identity.trust_domain() == trust_domain {
        Ok(identity)
    } else {
        let message = format!("the caller's trust domain is {:?}, ours is {trust_domain:?}", identity.trust_domain());
        Err(unauthenticated(message))
    }
}
