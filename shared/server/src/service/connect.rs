//! Connections to one named peer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fmt, io};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};
use vfl_core::types::PartyName;

use super::connection::GuardedStream;
use super::identity::{PeerIdentity, Role};
use super::tls::{Credentials, TlsError};

/// The time limit of a connection attempt, including the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of attempts to connect if the server drops the connection before it has sent
/// anything. A flooded server makes room by dropping connections in handshake, and ours may be one
/// of them.
const ATTEMPTS: u32 = 6;
/// The pause before the second attempt; each later pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The time for which further names are waited for once one name of the peer is resolved. The
/// system's resolver may take 10 s and more to give up on the name of a lost process, which is
/// longer than [`CONNECT_TIMEOUT`].
const SLOW_NAME: Duration = Duration::from_millis(250);
/// The interval at which a silent connection is probed. It is given up after [`PROBE_TIMEOUT`]
/// without an answer: a dead machine must not hold a stream forever.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// A peer to connect to: the identity that it must prove, and its address.
#[derive(Clone, PartialEq, Eq)]
pub struct Peer {
    /// The role its certificate must show.
    pub role: Role,
    /// The name its certificate must show.
    pub name: PartyName,
    /// `host:port`, or several of them separated by commas: the processes of one name. A call goes
    /// to one that answers.
    pub address: String,
}

impl Peer {
    /// Returns each `host:port`.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.address.split(',').map(str::trim)
    }

    /// Returns role and name, without the address: for messages that go on to other parties, which
    /// must not see the address.
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

/// Opens a channel to the peer. It connects on first use and again whenever the connection is lost,
/// each time with the current credentials; a peer whose certificate is denied is cut off.
///
/// # Errors
/// [`TlsError`] if the address is not `host:port` or the credentials do not match each other.
pub fn channel(credentials: &Credentials, peer: &Peer) -> Result<Channel, TlsError> {
    let expected =
        PeerIdentity::new(credentials.identity().trust_domain(), peer.role, peer.name.clone())?;
    open(credentials, peer, move |ours| ours.client_config(expected.clone()))
}

/// Opens a channel that shows no certificate, to test the answer that such a caller gets.
///
/// # Errors
/// As [`channel`].
#[cfg(feature = "test-util")]
pub fn anonymous_channel(credentials: &Credentials, peer: &Peer) -> Result<Channel, TlsError> {
    let expected =
        PeerIdentity::new(credentials.identity().trust_domain(), peer.role, peer.name.clone())?;
    open(credentials, peer, move |ours| ours.anonymous_client_config(expected.clone()))
}

/// Opens a channel that accepts the server as `expected`, to test the answer of a server to a
/// caller of another trust domain, which would reject the server otherwise.
///
/// # Errors
/// As [`channel`].
#[cfg(feature = "test-util")]
pub fn channel_expecting(
    credentials: &Credentials,
    peer: &Peer,
    expected: PeerIdentity,
) -> Result<Channel, TlsError> {
    open(credentials, peer, move |ours| ours.client_config(expected.clone()))
}

/// Opens a connection that shows no certificate, with its handshake complete and nothing sent on
/// it, to measure the resources that such connections take. The server drops it within seconds.
///
/// # Errors
/// [`io::Error`] if the address is malformed, nobody listens there, or it is not the expected peer.
pub async fn anonymous_connection(
    credentials: &Credentials,
    peer: &Peer,
) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>> {
    let domain = credentials.identity().trust_domain();
    let expected =
        PeerIdentity::new(domain, peer.role, peer.name.clone()).map_err(io::Error::other)?;
    let tls = credentials.anonymous_client_config(expected).map_err(io::Error::other)?;
    let address = peer.addresses().next().unwrap_or_default();
    let server_name = server_name(peer, address).map_err(io::Error::other)?;
    let socket = TcpStream::connect(address).await?;
    TlsConnector::from(tls).connect(server_name, socket).await
}

/// Returns the server name that rustls requires for its greeting. The check uses the identity, not
/// this name.
fn server_name(peer: &Peer, address: &str) -> Result<ServerName<'static>, TlsError> {
    let malformed = |reason: String| {
        TlsError::Mismatch(format!("address {address:?} of {}: {reason}", peer.name))
    };
    let (host, port) =
        address.rsplit_once(':').ok_or_else(|| malformed("expected host:port".into()))?;
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
    let targets = Arc::new(Targets::of(peer)?);
    let address = peer.addresses().next().unwrap_or_default();
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|e| TlsError::Mismatch(format!("address {address:?} of {}: {e}", peer.name)))?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PROBE_INTERVAL)
        .keep_alive_timeout(PROBE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    let credentials = credentials.clone();
    let connector = tower::service_fn(move |_: Uri| {
        let targets = targets.clone();
        let (credentials, config) = (credentials.clone(), config.clone());
        async move {
            let tls = config(&credentials).map_err(io::Error::other)?;
            let stream = targets.connect(&TlsConnector::from(tls)).await?;
            let chain = stream.get_ref().get_ref().1.peer_certificates().unwrap_or_default();
            let link = credentials.admit(chain).map_err(io::Error::other)?;
            Ok::<_, io::Error>(TokioIo::new(GuardedStream::linked(stream, link)))
        }
    });
    Ok(endpoint.connect_with_connector_lazy(connector))
}

/// The index of a name of a peer, and its addresses.
type Resolved = (usize, io::Result<Vec<SocketAddr>>);

/// The addresses of a peer, used in turn: after a connection is lost, the next one goes to another
/// address, if there is one.
struct Targets {
    addresses: Vec<(String, ServerName<'static>)>,
    /// The position at which the next connection is tried first; it starts at random, so that many
    /// clients spread the load.
    next: AtomicUsize,
}

impl Targets {
    fn of(peer: &Peer) -> Result<Self, TlsError> {
        let named = |address: &str| Ok((address.to_owned(), server_name(peer, address)?));
        let addresses = peer.addresses().map(named).collect::<Result<Vec<_>, TlsError>>()?;
        Ok(Self { addresses, next: AtomicUsize::new(rand::random_range(0..1 << 16)) })
    }

    /// Connects, and waits until the server has sent something. In TLS 1.3 the client's side of the
    /// handshake ends before the server has seen our certificate: a call sent then would be lost
    /// with the connection, and it would be unknown whether it was acted on.
    async fn connect(&self, tls: &TlsConnector) -> io::Result<BufReader<TlsStream<TcpStream>>> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPTS {
            match self.round(tls).await {
                Err(error) if dropped(&error) => tokio::time::sleep(pause).await,
                done => return done,
            }
            pause *= 2;
        }
        self.round(tls).await
    }

    /// Tries every address once; those of names that are slow to resolve after the others. Of
    /// several failures, returns that of a server that was reached, which is the most informative.
    async fn round(&self, tls: &TlsConnector) -> io::Result<BufReader<TlsStream<TcpStream>>> {
        let mut names = self.look_up();
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let (mut spoke, mut failed) = (None, io::ErrorKind::NotFound.into());
        loop {
            // A server that hung up is tried again without waiting for a slow name.
            let found = if spoke.as_ref().is_some_and(dropped) {
                vec![]
            } else {
                known(&mut names, &mut failed).await
            };
            let places = found.len();
            if places == 0 {
                return Err(spoke.unwrap_or(failed));
            }
            // A machine that does not answer must leave time for the others.
            let share = CONNECT_TIMEOUT.mul_f64(0.9)
                / u32::try_from(places + names.len()).unwrap_or(u32::MAX);
            for (name, address) in found.into_iter().cycle().skip(start % places).take(places) {
                let server_name = self.addresses[name].1.clone();
                match tokio::time::timeout(share, TcpStream::connect(address)).await {
                    Ok(Ok(socket)) => {
                        match tokio::time::timeout(share, greet(tls, socket, server_name)).await {
                            Ok(Ok(stream)) => return Ok(stream),
                            Ok(Err(error)) => spoke = Some(error),
                            Err(_) => failed = io::ErrorKind::TimedOut.into(),
                        }
                    }
                    Ok(Err(error)) => failed = error,
                    Err(_) => failed = io::ErrorKind::TimedOut.into(),
                }
            }
        }
    }

    /// Starts the look-ups of all names concurrently.
    fn look_up(&self) -> FuturesUnordered<impl Future<Output = Resolved>> {
        let one = |(name, (address, _)): (usize, &(String, _))| {
            let address = address.clone();
            async move { (name, tokio::net::lookup_host(address).await.map(Iterator::collect)) }
        };
        self.addresses.iter().enumerate().map(one).collect()
    }
}

/// Returns the addresses of the names resolved so far, with the index of their name, in the order
/// of the names. It waits until one is resolved, and [`SLOW_NAME`] longer for the others, which
/// stay in `names`. If none is left, returns nothing and writes the reason to `failed`.
async fn known(
    names: &mut FuturesUnordered<impl Future<Output = Resolved>>,
    failed: &mut io::Error,
) -> Vec<(usize, SocketAddr)> {
    let mut found = Vec::new();
    loop {
        let next = if found.is_empty() {
            names.next().await
        } else {
            tokio::time::timeout(SLOW_NAME, names.next()).await.unwrap_or(None)
        };
        match next {
            Some((name, Ok(addresses))) => {
                found.extend(addresses.into_iter().map(|address| (name, address)))
            }
            Some((_, Err(error))) => *failed = error,
            None => break,
        }
    }
    // In the order of arrival, two connections in a row could go to the same address.
    found.sort_by_key(|(name, _)| *name);
    found
}

async fn greet(
    tls: &TlsConnector,
    socket: TcpStream,
    server_name: ServerName<'static>,
) -> io::Result<BufReader<TlsStream<TcpStream>>> {
    socket.set_nodelay(true)?;
    let stream = tls.connect(server_name, socket).await?;
    // The buffer is for the first bytes alone: larger reads bypass it.
    let mut stream = BufReader::with_capacity(64, stream);
    // An HTTP/2 server begins with its settings, whatever the client sends.
    if stream.fill_buf().await?.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(stream)
}

/// Returns true if the other side hung up, rather than being absent or failing the handshake.
fn dropped(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures_util::future::{BoxFuture, FutureExt, pending, ready};

    use super::*;

    type Names = FuturesUnordered<BoxFuture<'static, Resolved>>;

    fn at(host: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], 7100))
    }

    /// The clock is the test's own: it moves when nothing else is left to do.
    #[tokio::test(start_paused = true)]
    async fn a_name_that_does_not_resolve_does_not_hold_up_the_others() {
        let mut failed = io::ErrorKind::NotFound.into();
        let mut names: Names = [
            pending().boxed(),
            ready((2, Ok(vec![at(2)]))).boxed(),
            ready((1, Ok(vec![at(1), at(11)]))).boxed(),
            ready((3, Err(io::ErrorKind::PermissionDenied.into()))).boxed(),
        ]
        .into_iter()
        .collect();
        let found = known(&mut names, &mut failed).await;
        assert_eq!(found, [(1, at(1)), (1, at(11)), (2, at(2))]);
        assert_eq!((failed.kind(), names.len()), (io::ErrorKind::PermissionDenied, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_name_is_known_later() {
        let mut failed = io::ErrorKind::NotFound.into();
        let slow = async {
            tokio::time::sleep(4 * SLOW_NAME).await;
            (0, Ok(vec![at(0)]))
        };
        let mut names: Names =
            [ready((1, Ok(vec![at(1)]))).boxed(), slow.boxed()].into_iter().collect();
        assert_eq!(known(&mut names, &mut failed).await, [(1, at(1))]);
        assert_eq!(known(&mut names, &mut failed).await, [(0, at(0))]);
        assert!(known(&mut names, &mut failed).await.is_empty(), "none is left");
    }
}
