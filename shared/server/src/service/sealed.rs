//! A TLS session of two parties through bytes that a third one carries: mutual TLS 1.3 with the
//! parties' own certificates. The carrier sees only the number of bytes and their times.

use std::io;
use std::sync::Arc;

use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use vfl_protocol::{Refusal, RefusalKind};

use super::connection::GuardedStream;
use super::identity::PeerIdentity;
use super::tls::Credentials;

/// The label under which the secret of a session is derived (RFC 8446, section 7.5).
const LABEL: &[u8] = b"EXPORTER-Cloison-alignment-1";
/// The server name that TLS requires in its greeting. The certificate, not this name, identifies
/// the server.
const NAME: &str = "alignment.invalid";

/// The use of a session. Sessions of different uses do not open with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionUse {
    /// An alignment of records.
    Alignment,
    /// A private computation.
    Computation,
}

impl SessionUse {
    /// Returns the application protocol inside the session. Listeners of gRPC accept `h2` alone and
    /// this session does not accept `h2`, so that the carrier cannot redirect either handshake to
    /// the other.
    const fn protocol(self) -> &'static [u8] {
        match self {
            Self::Alignment => b"cloison-alignment/1",
            Self::Computation => b"cloison-computation/1",
        }
    }
}

/// A session, as a stream of bytes to read and write.
pub type Sealed = Box<dyn Duplex>;

/// A stream that can be read and written.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// The role of a party in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// The party that speaks first.
    Client,
    /// The party that answers.
    Server,
}

/// Opens a session for one use with exactly this peer over `carried`, and returns 32 bytes that
/// only the two ends know. They depend on the session and on both identities. The session ends when
/// the peer's certificate is denied.
///
/// # Errors
/// UNAUTHENTICATED if the peer does not prove to be `peer`, or the carried bytes were changed.
pub async fn seal<S>(
    credentials: &Credentials,
    peer: &PeerIdentity,
    end: SessionEnd,
    of: SessionUse,
    carried: S,
) -> Result<(Sealed, [u8; 32]), Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let ours = credentials.identity();
    let (client, server) = match end {
        SessionEnd::Client => (ours, peer),
        SessionEnd::Server => (peer, ours),
    };
    // Identities contain no space.
    let context = format!("{} {}", client.uri(), server.uri());
    let failed = |error: io::Error| unauthenticated(peer, &error);
    let exported =
        |error: rustls::Error| Refusal::internal(format!("the session has no secret: {error}"));
    let mut session = [0; 32];
    match end {
        SessionEnd::Client => {
            let config = credentials
                .client_config(peer.clone())
                .map_err(|e| Refusal::internal(e.to_string()))?;
            let mut config = Arc::unwrap_or_clone(config);
            config.alpn_protocols = vec![of.protocol().to_vec()];
            let name = ServerName::try_from(NAME).map_err(|e| Refusal::internal(e.to_string()))?;
            let stream = TlsConnector::from(Arc::new(config))
                .connect(name, carried)
                .await
                .map_err(failed)?;
            let tls = stream.get_ref().1;
            check(peer, of, tls.alpn_protocol(), tls.peer_certificates())?;
            let link = admit(credentials, peer, tls.peer_certificates())?;
            tls.export_keying_material(&mut session, LABEL, Some(context.as_bytes()))
                .map_err(exported)?;
            Ok((Box::new(GuardedStream::linked(stream, link)), session))
        }
        SessionEnd::Server => {
            let mut config = Arc::unwrap_or_clone(credentials.server_config());
            config.alpn_protocols = vec![of.protocol().to_vec()];
            let stream =
                TlsAcceptor::from(Arc::new(config)).accept(carried).await.map_err(failed)?;
            let tls = stream.get_ref().1;
            check(peer, of, tls.alpn_protocol(), tls.peer_certificates())?;
            let link = admit(credentials, peer, tls.peer_certificates())?;
            tls.export_keying_material(&mut session, LABEL, Some(context.as_bytes()))
                .map_err(exported)?;
            Ok((Box::new(GuardedStream::linked(stream, link)), session))
        }
    }
}

fn unauthenticated(peer: &PeerIdentity, why: &dyn std::fmt::Display) -> Refusal {
    let message = format!("no session of our own with {}: {why}", peer.words());
    Refusal::new(RefusalKind::Unauthenticated, message)
}

/// Checks the protocol and the peer's identity. The certificates are verified by now, but a
/// server's TLS configuration accepts callers without any, and accepts every role.
fn check(
    peer: &PeerIdentity,
    of: SessionUse,
    protocol: Option<&[u8]>,
    chain: Option<&[CertificateDer<'_>]>,
) -> Result<(), Refusal> {
    if protocol != Some(of.protocol()) {
        return Err(unauthenticated(peer, &"it speaks another protocol"));
    }
    let certificate = chain
        .and_then(<[_]>::first)
        .ok_or_else(|| unauthenticated(peer, &"it showed no certificate"))?;
    let found =
        PeerIdentity::from_certificate(certificate).map_err(|e| unauthenticated(peer, &e))?;
    if found == *peer {
        Ok(())
    } else {
        Err(unauthenticated(peer, &format!("its certificate says {found:?}")))
    }
}

fn admit(
    credentials: &Credentials,
    peer: &PeerIdentity,
    chain: Option<&[CertificateDer<'_>]>,
) -> Result<super::deny::Link, Refusal> {
    credentials.admit(chain.unwrap_or_default()).map_err(|denied| unauthenticated(peer, &denied))
}
