//! Connects to one named peer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

use super::identity::{PeerIdentity, Role};
use super::tls::{Credentials, TlsError};
use crate::types::PartyName;

/// How long a connection, handshake included, may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
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

/// A channel to the peer. It connects on first use and again whenever the connection is lost.
///
/// # Errors
/// [`TlsError`] if the address is not `host:port` or the credentials do not go together.
pub fn channel(credentials: &Credentials, peer: &Peer) -> Result<Channel, TlsError> {
    let expected = PeerIdentity::new(credentials.identity().trust_domain(), peer.role, peer.name.clone())?;
    open(peer, credentials.client_config(expected)?)
}

/// A channel that shows no certificate: for tests of what such a caller is told.
///
/// # Errors
/// As [`channel`].
#[cfg(feature = "test-util")]
pub fn anonymous_channel(credentials: &Credentials, peer: &Peer) -> Result<Channel, TlsError> {
    let expected = PeerIdentity::new(credentials.identity().trust_domain(), peer.role, peer.name.clone())?;
    open(peer, credentials.anonymous_client_config(expected)?)
}

/// A channel that takes the server for whoever `expected` says: for tests of what a server tells a caller of another trust
/// domain, which would not speak to it by itself.
///
/// # Errors
/// As [`channel`].
#[cfg(feature = "test-util")]
pub fn channel_expecting(credentials: &Credentials, peer: &Peer, expected: PeerIdentity) -> Result<Channel, TlsError> {
    open(peer, credentials.client_config(expected)?)
}

fn open(peer: &Peer, tls: Arc<ClientConfig>) -> Result<Channel, TlsError> {
    let address = peer.address.clone();
    let malformed = |reason: String| TlsError::Mismatch(format!("address {address:?} of {}: {reason}", peer.name));
    let (host, port) = address.rsplit_once(':').ok_or_else(|| malformed("expected host:port".into()))?;
    if port.parse::<u16>().is_err() || host.is_empty() {
        return Err(malformed("expected host:port".into()));
    }
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    // The identity is checked, not the host name; rustls still wants a name to put into its greeting.
    let server_name = ServerName::try_from(host).map_err(|e| malformed(e.to_string()))?;
    let endpoint = Endpoint::from_shared(format!("http://{}", peer.address))
        .map_err(|e| malformed(e.to_string()))?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PROBE_INTERVAL)
        .keep_alive_timeout(PROBE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    let target = peer.address.clone();
    let connector = tower::service_fn(move |_: Uri| {
        let (target, tls, server_name) = (target.clone(), tls.clone(), server_name.clone());
        async move {
            let socket = TcpStream::connect(&target).await?;
            socket.set_nodelay(true)?;
            let stream = TlsConnector::from(tls).connect(server_name, socket).await?;
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    });
    Ok(endpoint.connect_with_connector_lazy(connector))
}
