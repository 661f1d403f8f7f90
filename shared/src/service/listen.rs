//! Accepts connections, does the TLS handshake beside the accept loop, and remembers who the peer is.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use super::identity::PeerIdentity;
use super::tls::Credentials;

/// A peer that does not finish its handshake in this time is dropped.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Handshakes under way at once; further connections wait in the kernel's queue.
const MAX_HANDSHAKES: usize = 512;

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// The peer's address.
    pub address: SocketAddr,
    /// Its identity, or why it has none.
    pub identity: Result<PeerIdentity, Arc<str>>,
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct TlsConnection {
    stream: TlsStream<TcpStream>,
    peer: PeerInfo,
}

impl Connected for TlsConnection {
    type ConnectInfo = PeerInfo;

    fn connect_info(&self) -> PeerInfo {
        self.peer.clone()
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The connections of a listener after their handshakes, as a stream that ends when the receiver is dropped. Whoever serves
/// on them decides what a caller may do; [`super::serve`] does so by the table of RPC × role.
pub fn connections(
    listener: TcpListener,
    credentials: &Credentials,
) -> ReceiverStream<Result<TlsConnection, io::Error>> {
    let acceptor = TlsAcceptor::from(credentials.server_config());
    let trust_domain: Arc<str> = credentials.identity().trust_domain().into();
    let (ready, connections) = mpsc::channel(16);
    tokio::spawn(async move {
        let handshakes = Arc::new(Semaphore::new(MAX_HANDSHAKES));
        loop {
            let Ok(permit) = handshakes.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = ready.closed() => return,
            };
            let (socket, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, or a connection reset before it was accepted: wait, do not spin or die.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (acceptor, ready, trust_domain) = (acceptor.clone(), ready.clone(), trust_domain.clone());
            tokio::spawn(async move {
                let _permit = permit;
                let _ = socket.set_nodelay(true);
                match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(socket)).await {
                    Ok(Ok(stream)) => {
                        let identity = identify(&stream, &trust_domain);
                        let peer = PeerInfo { address, identity };
                        let _ = ready.send(Ok(TlsConnection { stream, peer })).await;
                    }
                    Ok(Err(error)) => tracing::info!(%address, %error, "TLS handshake refused"),
                    Err(_) => tracing::info!(%address, "TLS handshake timed out"),
                }
            });
        }
    });
    ReceiverStream::new(connections)
}

fn identify(stream: &TlsStream<TcpStream>, trust_domain: &str) -> Result<PeerIdentity, Arc<str>> {
    let (_, session) = stream.get_ref();
    let Some(certificate) = session.peer_certificates().and_then(|chain| chain.first()) else {
        return Err("the caller showed no certificate; every call needs one (make it with `cloison certs`)".into());
    };
    let identity = PeerIdentity::from_certificate(certificate).map_err(|e| Arc::from(e.to_string()))?;
    if identity.trust_domain() == trust_domain {
        Ok(identity)
    } else {
        Err(format!("the caller's trust domain is {:?}, ours is {trust_domain:?}", identity.trust_domain()).into())
    }
}
