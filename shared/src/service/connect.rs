//! Connects to one named peer.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

use super::connection::Guarded;
use super::identity::{PeerIdentity, Role};
use super::tls::{Credentials, TlsError};
use crate::types::PartyName;

/// How long a connection, handshake included, may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a connection is tried that the server drops before it has said anything. A server that is flooded makes room by
/// dropping connections in handshake, and one of them may be ours.
const ATTEMPTS: u32 = 6;
/// Before the second attempt; each later one waits twice as long as the one before it.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// A silent connection is probed this often, and given up after [`PROBE_TIMEOUT`] without an answer: a dead machine must not
/// hold a stream for ever.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// A peer to connect to: who it must prove to be, and where it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Peer {
    /// The role its certificate must show.
    pub role: Role,
    /// The name its certificate must show.
    pub name: PartyName,
    /// `host:port`.
    pub address: String,
}

impl Peer {
    /// Role and name, without the address: for messages that go on to other parties, whom the address does not concern.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{} `{}`", self.role.words(), self.name)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}` at {}", self.role.words(), self.name, self.address)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({self})")
    }
}

/// A channel to the peer. It connects on first use and again whenever the connection is lost, each time with the credentials
/// as they then are; a peer whose certificate is denied is cut off.
///
/// # Errors
/// [`TlsError`] if the address is not `host:port` or the credentials do not go together.
pub fn channel(credentials: &Credentials, peer: &Peer) -> Result<Channel, TlsError> {
    let expected = PeerIdentity::new(credentials.identity().trust_domain(), peer.role, peer.name.clone())?;
    open(credentials, peer, move |ours| ours.client_config(expected.clone()))
}

/// A channel that shows no certificate: for tests of what such a caller is told.
///
/// # Errors
/// As [`channel`].
#[cfg(feature = "test-util")]
pub fn anonymous_channel(credentials: &Credentials, peer: &Peer) -> Result<Channel, TlsError> {
    let expected = PeerIdentity::new(credentials.identity().trust_domain(), peer.role, peer.name.clone())?;
    open(credentials, peer, move |ours| ours.anonymous_client_config(expected.clone()))
}

/// A channel that takes the server for whoever `expected` says: for tests of what a server tells a caller of another trust
/// domain, which would not speak to it by itself.
///
/// # Errors
/// As [`channel`].
#[cfg(feature = "test-util")]
pub fn channel_expecting(credentials: &Credentials, peer: &Peer, expected: PeerIdentity) -> Result<Channel, TlsError> {
    open(credentials, peer, move |ours| ours.client_config(expected.clone()))
}

/// A connection that shows no certificate, its handshake done and nothing said on it: for measurements of what such
/// connections take from others. It is dropped within seconds.
///
/// # Errors
/// [`io::Error`] if the address is malformed, nobody is there, or it is not the peer meant.
pub async fn anonymous_connection(
    credentials: &Credentials,
    peer: &Peer,
) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>> {
    let domain = credentials.identity().trust_domain();
    let expected = PeerIdentity::new(domain, peer.role, peer.name.clone()).map_err(io::Error::other)?;
    let tls = credentials.anonymous_client_config(expected).map_err(io::Error::other)?;
    let server_name = server_name(peer).map_err(io::Error::other)?;
    let socket = TcpStream::connect(&peer.address).await?;
    TlsConnector::from(tls).connect(server_name, socket).await
}

/// The identity is checked, not the host name; rustls still wants a name to put into its greeting.
fn server_name(peer: &Peer) -> Result<ServerName<'static>, TlsError> {
    let malformed =
        |reason: String| TlsError::Mismatch(format!("address {:?} of {}: {reason}", peer.address, peer.name));
    let (host, port) = peer.address.rsplit_once(':').ok_or_else(|| malformed("expected host:port".into()))?;
    if port.parse::<u16>().is_err() || host.is_empty() {
        return Err(malformed("expected host:port".into()));
    }
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    ServerName::try_from(host).map_err(|e| malformed(e.to_string()))
}

fn open(
    credentials: &Credentials,
    peer: &Peer,
    config: impl Fn(&Credentials) -> Result<Arc<ClientConfig>, TlsError> + Clone + Send + Sync + 'static,
) -> Result<Channel, TlsError> {
    config(credentials)?;
    let server_name = server_name(peer)?;
    let endpoint = Endpoint::from_shared(format!("http://{}", peer.address))
        .map_err(|e| TlsError::Mismatch(format!("address {:?} of {}: {e}", peer.address, peer.name)))?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PROBE_INTERVAL)
        .keep_alive_timeout(PROBE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    let target = peer.address.clone();
    let credentials = credentials.clone();
    let connector = tower::service_fn(move |_: Uri| {
        let (target, server_name) = (target.clone(), server_name.clone());
        let (credentials, config) = (credentials.clone(), config.clone());
        async move {
            let tls = config(&credentials).map_err(io::Error::other)?;
            let stream = connect(&TlsConnector::from(tls), &target, &server_name).await?;
            let chain = stream.get_ref().get_ref().1.peer_certificates().unwrap_or_default();
            let link = credentials.admit(chain).map_err(io::Error::other)?;
            Ok::<_, io::Error>(TokioIo::new(Guarded::linked(stream, link)))
        }
    });
    Ok(endpoint.connect_with_connector_lazy(connector))
}

/// A connection on which the server has spoken. In TLS 1.3 the client's side of the handshake ends before the server has seen
/// our certificate: a call sent then would be lost with the connection, and nobody could say whether it was acted on.
async fn connect(
    tls: &TlsConnector,
    target: &str,
    server_name: &ServerName<'static>,
) -> io::Result<BufReader<TlsStream<TcpStream>>> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match attempt(tls, target, server_name).await {
            Err(error) if dropped(&error) => tokio::time::sleep(pause).await,
            done => return done,
        }
        pause *= 2;
    }
    attempt(tls, target, server_name).await
}

async fn attempt(
    tls: &TlsConnector,
    target: &str,
    server_name: &ServerName<'static>,
) -> io::Result<BufReader<TlsStream<TcpStream>>> {
    let socket = TcpStream::connect(target).await?;
    socket.set_nodelay(true)?;
    let stream = tls.connect(server_name.clone(), socket).await?;
    // The buffer is for the first bytes alone: larger reads go past it.
    let mut stream = BufReader::with_capacity(64, stream);
    // A server of HTTP/2 begins with its settings, whatever the client does.
    if stream.fill_buf().await?.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(stream)
}

/// Whether the other side hung up, as opposed to an address where nobody is or a handshake that failed.
fn dropped(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}
