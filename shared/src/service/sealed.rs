//! A TLS session of two parties inside bytes that a third one carries: mutual TLS 1.3 with the parties' own certificates. Who carries
//! the bytes sees their number and their times.

use std::io;
use std::sync::Arc;

use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::connection::Guarded;
use super::identity::PeerIdentity;
use super::tls::Credentials;
use crate::rpc::{Refusal, RefusalKind};

/// What is spoken inside. Listeners of gRPC take `h2` alone and this takes no `h2`, so that neither handshake can be led to the other
/// by whoever carries it.
const PROTOCOL: &[u8] = b"cloison-alignment/1";
/// What the secret of a session is derived under (RFC 8446, section 7.5).
const LABEL: &[u8] = b"EXPORTER-Cloison-alignment-1";
/// TLS wants a name in its greeting; who the server is is told by its certificate.
const NAME: &str = "alignment.invalid";

/// A session, as bytes to read and write.
pub type Sealed = Box<dyn Duplex>;

/// What can be read from and written to.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// A party at one end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It speaks first.
    Client,
    /// It answers.
    Server,
}

/// Opens a session with exactly this peer over `carried`, and gives 32 bytes that both ends have and nobody else. They depend on the
/// session and on both identities. The session ends when the peer's certificate is denied.
///
/// # Errors
/// UNAUTHENTICATED if the peer does not prove to be `peer`, or the bytes on the way were changed.
pub async fn seal<S>(
    credentials: &Credentials,
    peer: &PeerIdentity,
    end: End,
    carried: S,
) -> Result<(Sealed, [u8; 32]), Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let ours = credentials.identity();
    let (client, server) = match end {
        End::Client => (ours, peer),
        End::Server => (peer, ours),
    };
    // No identity holds a space.
    let context = format!("{} {}", client.uri(), server.uri());
    let failed = |error: io::Error| unauthenticated(peer, &error);
    let exported = |error: rustls::Error| Refusal::internal(format!("the session has no secret: {error}"));
    let mut session = [0; 32];
    match end {
        End::Client => {
            let config = credentials.client_config(peer.clone()).map_err(|e| Refusal::internal(e.to_string()))?;
            let mut config = Arc::unwrap_or_clone(config);
            config.alpn_protocols = vec![PROTOCOL.to_vec()];
            let name = ServerName::try_from(NAME).map_err(|e| Refusal::internal(e.to_string()))?;
            let stream = TlsConnector::from(Arc::new(config)).connect(name, carried).await.map_err(failed)?;
            let tls = stream.get_ref().1;
            check(peer, tls.alpn_protocol(), tls.peer_certificates())?;
            let link = admit(credentials, peer, tls.peer_certificates())?;
            tls.export_keying_material(&mut session, LABEL, Some(context.as_bytes())).map_err(exported)?;
            Ok((Box::new(Guarded::linked(stream, link)), session))
        }
        End::Server => {
            let mut config = Arc::unwrap_or_clone(credentials.server_config());
            config.alpn_protocols = vec![PROTOCOL.to_vec()];
            let stream = TlsAcceptor::from(Arc::new(config)).accept(carried).await.map_err(failed)?;
            let tls = stream.get_ref().1;
            check(peer, tls.alpn_protocol(), tls.peer_certificates())?;
            let link = admit(credentials, peer, tls.peer_certificates())?;
            tls.export_keying_material(&mut session, LABEL, Some(context.as_bytes())).map_err(exported)?;
            Ok((Box::new(Guarded::linked(stream, link)), session))
        }
    }
}

fn unauthenticated(peer: &PeerIdentity, why: &dyn std::fmt::Display) -> Refusal {
    let message = format!("no session of our own with {}: {why}", peer.words());
    Refusal::new(RefusalKind::Unauthenticated, message)
}

/// The certificates are verified by now; a server's listeners let callers without any through, and take every role.
fn check(peer: &PeerIdentity, protocol: Option<&[u8]>, chain: Option<&[CertificateDer<'_>]>) -> Result<(), Refusal> {
    if protocol != Some(PROTOCOL) {
        return Err(unauthenticated(peer, &"it speaks another protocol"));
    }
    let certificate = chain.and_then(<[_]>::first).ok_or_else(|| unauthenticated(peer, &"it showed no certificate"))?;
    let found = PeerIdentity::from_certificate(certificate).map_err(|e| unauthenticated(peer, &e))?;
    if found == *peer { Ok(()) } else { Err(unauthenticated(peer, &format!("its certificate says {found:?}"))) }
}

fn admit(
    credentials: &Credentials,
    peer: &PeerIdentity,
    chain: Option<&[CertificateDer<'_>]>,
) -> Result<super::deny::Link, Refusal> {
    credentials.admit(chain.unwrap_or_default()).map_err(|denied| unauthenticated(peer, &denied))
}
