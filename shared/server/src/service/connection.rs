//! Connections that end when they are cut or when their time is up.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;
use vfl_protocol::Refusal;

use super::connection_table::ConnectionSlot;
use super::deny::Link;
use super::identity::PeerIdentity;
use super::unread::Backlog;

/// The length of the HTTP/2 connection preface of a client (RFC 9113, section 3.4). After it, pings
/// detect a dead peer.
const PREFACE_BYTES: usize = 24;
/// The time in which an identified peer must send the preface.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit of a stranger's connection, from the moment it was accepted.
pub(super) const STRANGER_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that a stranger has, once it has its answer, to read it and leave.
const FAREWELL: Duration = Duration::from_millis(250);

/// The peer at the other end of a connection.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// The peer's address.
    pub address: SocketAddr,
    /// The peer's identity, or the reason why it has none that is accepted here.
    pub identity: Result<PeerIdentity, Refusal>,
    answered: Arc<AtomicBool>,
    backlog: Backlog,
}

impl PeerInfo {
    pub(super) fn new(address: SocketAddr, identity: Result<PeerIdentity, Refusal>) -> Self {
        Self { address, identity, answered: Arc::default(), backlog: Backlog::default() }
    }

    /// Returns the answers that wait for this connection.
    pub(super) fn backlog(&self) -> Backlog {
        self.backlog.clone()
    }

    /// Marks the stranger's one answer as given. Returns false if it was given before.
    pub(super) fn answer_once(&self) -> bool {
        !self.answered.swap(true, Ordering::AcqRel)
    }
}

/// The deadline of a connection.
#[derive(Debug)]
enum Deadline {
    None,
    /// Lifted once this many bytes have arrived.
    Preface(Pin<Box<Sleep>>, usize),
    /// Brought forward once, when the answer is given.
    Stranger {
        sleep: Pin<Box<Sleep>>,
        answered: Arc<AtomicBool>,
        leaving: bool,
    },
}

/// A stream that is cut off when a token is cancelled or its time is up: reading and writing fail
/// from then on, so that the connection is dropped.
#[derive(Debug)]
pub(super) struct GuardedStream<S> {
    stream: S,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    deadline: Deadline,
    backlog: Backlog,
    /// The connection's entry among those of its peer's certificate.
    _link: Option<Link>,
}

impl<S> GuardedStream<S> {
    fn new(stream: S, cut: &CancellationToken, deadline: Deadline, link: Option<Link>) -> Self {
        let cut = Box::pin(cut.clone().cancelled_owned());
        Self { stream, cut, deadline, backlog: Backlog::default(), _link: link }
    }

    /// Wraps a connection to a peer, which ends when its certificate is denied.
    pub(super) fn linked(stream: S, link: Link) -> Self {
        let cut = link.cut().clone();
        Self::new(stream, &cut, Deadline::None, Some(link))
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.cut.as_mut().poll(cx).is_ready() {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the connection was told to go",
            ));
        }
        if self.backlog.stalled() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the peer reads none of its answers",
            ));
        }
        let sleep = match &mut self.deadline {
            Deadline::None | Deadline::Preface(_, 0) => return Ok(()),
            Deadline::Preface(sleep, _) => sleep,
            Deadline::Stranger { sleep, answered, leaving } => {
                if !*leaving && answered.load(Ordering::Acquire) {
                    *leaving = true;
                    let end = (Instant::now() + FAREWELL).min(sleep.deadline());
                    sleep.as_mut().reset(end);
                }
                sleep
            }
        };
        if sleep.as_mut().poll(cx).is_ready() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the connection's time is up"));
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Deadline::Preface(_, left) = &mut self.deadline {
            *left = left.saturating_sub(buf.filled().len() - before);
            if *left == 0 {
                self.deadline = Deadline::None;
            }
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct TlsConnection {
    stream: GuardedStream<TlsStream<TcpStream>>,
    peer: PeerInfo,
    /// The entry in the connection table, for as long as the socket is open.
    _place: ConnectionSlot,
}

impl TlsConnection {
    /// Wraps a connection of a peer that has proved its identity.
    pub(super) fn known(
        stream: TlsStream<TcpStream>,
        peer: PeerInfo,
        link: Link,
        place: ConnectionSlot,
    ) -> Self {
        let deadline =
            Deadline::Preface(Box::pin(tokio::time::sleep(PREFACE_TIMEOUT)), PREFACE_BYTES);
        let cut = link.cut().clone();
        let mut stream = GuardedStream::new(stream, &cut, deadline, Some(link));
        stream.backlog = peer.backlog();
        Self { stream, peer, _place: place }
    }

    /// Wraps a connection of a peer without an accepted identity; it was accepted at `since`.
    pub(super) fn stranger(
        stream: TlsStream<TcpStream>,
        peer: PeerInfo,
        place: ConnectionSlot,
        since: Instant,
    ) -> Self {
        let sleep = Box::pin(tokio::time::sleep_until(since + STRANGER_TIMEOUT));
        let deadline =
            Deadline::Stranger { sleep, answered: peer.answered.clone(), leaving: false };
        Self {
            stream: GuardedStream::new(stream, place.cut(), deadline, None),
            peer,
            _place: place,
        }
    }
}

impl Connected for TlsConnection {
    type ConnectInfo = PeerInfo;

    fn connect_info(&self) -> PeerInfo {
        self.peer.clone()
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
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
