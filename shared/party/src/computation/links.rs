//! Links of a private computation: whole messages of two parties over a stream of bytes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter, ReadBuf, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::PollSender;
use tonic::Status;
use vfl_mpc::{Link, LinkError};
use vfl_protocol::alignment::MAX_PIECE_BYTES;

/// The pieces that wait in either direction.
const WAITING: usize = 8;
/// The bytes that another party may be ahead beyond its data: small computations have it to spare.
const ROOM: u64 = 64 << 20;
/// The bytes that memory is taken for before they have arrived.
const FIRST: u64 = 1 << 20;
/// The time limit for sending what is left at the end.
const LAST: Duration = Duration::from_secs(10);

/// A stream of bytes over the pieces of a computation: what is written leaves with a flush, as
/// pieces in the messages of a stream.
pub(super) struct PieceStream<M> {
    arrivals: mpsc::Receiver<Bytes>,
    /// The bytes that have arrived and are not yet read.
    rest: Bytes,
    out: PollSender<Result<M, Status>>,
    wrap: Box<dyn Fn(Bytes) -> M + Send>,
    /// The bytes that are written and have not left.
    written: BytesMut,
}

/// The entry for pieces that came from the other party.
pub(super) type PieceSender = mpsc::Sender<Bytes>;

/// Opens a stream of bytes over pieces. `wrap` makes a message for `out` of each piece that is
/// written; pieces that arrive go to the returned sender.
pub(super) fn carry<M: Send + 'static>(
    out: mpsc::Sender<Result<M, Status>>,
    wrap: impl Fn(Bytes) -> M + Send + 'static,
) -> (PieceStream<M>, PieceSender) {
    let (sender, arrivals) = mpsc::channel(WAITING);
    let stream = PieceStream {
        arrivals,
        rest: Bytes::new(),
        out: PollSender::new(out),
        wrap: Box::new(wrap),
        written: BytesMut::new(),
    };
    (stream, sender)
}

impl<M: Send + 'static> AsyncRead for PieceStream<M> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            match ready!(self.arrivals.poll_recv(cx)) {
                Some(piece) => self.rest = piece,
                None => return Poll::Ready(Ok(())),
            }
        }
        let length = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl<M: Send + 'static> AsyncWrite for PieceStream<M> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.written.len() >= MAX_PIECE_BYTES {
            ready!(self.as_mut().poll_flush(cx))?;
        }
        let length = data.len().min(MAX_PIECE_BYTES - self.written.len());
        self.written.extend_from_slice(&data[..length]);
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.written.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        ready!(self.out.poll_reserve(cx)).map_err(closed)?;
        let written = self.written.split().freeze();
        let piece = (self.wrap)(written);
        Poll::Ready(self.out.send_item(Ok(piece)).map_err(closed))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// The end of a link that a computation's thread uses.
pub(super) struct StreamLink {
    to: mpsc::UnboundedSender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
    /// The bytes that have arrived and are not yet received.
    waiting: Arc<AtomicU64>,
    deadline: Duration,
}

/// The tasks between a stream and a link.
pub(super) struct LinkTasks {
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
}

/// Opens a link over a stream. A message is its length (8 bytes, little-endian) and its bytes. The
/// other party may be ahead by `most` bytes, beyond which the link closes.
pub(super) fn open<S>(stream: S, most: u64, deadline: Duration) -> (StreamLink, LinkTasks)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (read, write) = tokio::io::split(stream);
    let (to, queue) = mpsc::unbounded_channel();
    let (arrivals, from) = channel();
    let waiting = Arc::new(AtomicU64::new(0));
    let writer = tokio::spawn(write_messages(write, queue));
    let reader = tokio::spawn(read_messages(read, arrivals, waiting.clone(), most + ROOM));
    (StreamLink { to, from, waiting, deadline }, LinkTasks { writer, reader })
}

impl LinkTasks {
    /// Waits until all messages are written, and closes the stream. The link must have been
    /// dropped.
    pub(super) async fn finish(self) {
        let _ = tokio::time::timeout(LAST, self.writer).await;
        self.reader.abort();
        let _ = self.reader.await;
    }
}

impl Link for StreamLink {
    fn send(&mut self, message: Vec<u8>) -> Result<(), LinkError> {
        self.to.send(message).map_err(|_| LinkError::Closed)
    }

    fn receive(&mut self) -> Result<Vec<u8>, LinkError> {
        let message = self.from.recv_timeout(self.deadline).map_err(|error| match error {
            RecvTimeoutError::Timeout => LinkError::Silent(self.deadline),
            RecvTimeoutError::Disconnected => LinkError::Closed,
        })?;
        self.waiting.fetch_sub(message.len() as u64, Ordering::Relaxed);
        Ok(message)
    }
}

async fn write_messages<S: AsyncWrite>(
    write: WriteHalf<S>,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
) {
    let mut write = BufWriter::new(write);
    while let Some(message) = queue.recv().await {
        let length = (message.len() as u64).to_le_bytes();
        let written = async {
            write.write_all(&length).await?;
            write.write_all(&message).await?;
            write.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
    let _ = write.shutdown().await;
}

async fn read_messages<S: AsyncRead>(
    mut read: ReadHalf<S>,
    arrivals: Sender<Vec<u8>>,
    waiting: Arc<AtomicU64>,
    most: u64,
) {
    let mut length = [0; 8];
    while read.read_exact(&mut length).await.is_ok() {
        let length = u64::from_le_bytes(length);
        // A message is counted before memory for it is taken.
        if waiting.fetch_add(length, Ordering::Relaxed).saturating_add(length) > most {
            return;
        }
        let mut message = Vec::with_capacity(length.min(FIRST) as usize);
        match (&mut read).take(length).read_to_end(&mut message).await {
            Ok(got) if got as u64 == length && arrivals.send(message).is_ok() => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const DEADLINE: Duration = Duration::from_millis(200);

    async fn receive(mut link: StreamLink) -> (Result<Vec<u8>, LinkError>, StreamLink) {
        tokio::task::spawn_blocking(move || (link.receive(), link)).await.unwrap()
    }

    /// Bytes of any number arrive over pieces of at most their largest size.
    #[tokio::test]
    async fn bytes_arrive_over_pieces() {
        let (out, mut pieces) = mpsc::channel::<Result<Bytes, Status>>(1);
        let (mut from, _nothing) = carry(out, |piece| piece);
        let (back, _none) = mpsc::channel::<Result<Bytes, Status>>(1);
        let (mut to, arrivals) = carry(back, |piece| piece);
        let sent: Vec<u8> = (0..3 * MAX_PIECE_BYTES + 5).map(|at| (at % 251) as u8).collect();
        let written = sent.clone();
        tokio::spawn(async move {
            from.write_all(&written).await.unwrap();
            from.shutdown().await.unwrap();
        });
        tokio::spawn(async move {
            while let Some(Ok(piece)) = pieces.recv().await {
                assert!((1..=MAX_PIECE_BYTES).contains(&piece.len()));
                arrivals.send(piece).await.unwrap();
            }
        });
        let mut received = Vec::new();
        to.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, sent);
    }

    /// A party that is gone is an error of the writer.
    #[tokio::test]
    async fn a_stream_without_a_receiver_is_broken() {
        let (out, pieces) = mpsc::channel::<Result<Bytes, Status>>(1);
        let (mut from, _arrivals) = carry(out, |piece| piece);
        drop(pieces);
        from.write_all(&[1]).await.unwrap();
        assert_eq!(from.flush().await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn messages_arrive_whole_and_in_order() {
        let (here, there) = tokio::io::duplex(7);
        let ((mut from, tasks), (mut to, _others)) =
            (open(here, 0, DEADLINE), open(there, 0, DEADLINE));
        for message in [vec![], vec![1; 3], vec![2; 100_000]] {
            from.send(message.clone()).unwrap();
            let (received, link) = receive(to).await;
            assert_eq!(received, Ok(message));
            to = link;
        }
        let (silent, link) = receive(to).await;
        assert_eq!(silent, Err(LinkError::Silent(DEADLINE)));
        // What was sent before the end arrives, and then the end.
        from.send(vec![3]).unwrap();
        drop(from);
        tasks.finish().await;
        let (last, link) = receive(link).await;
        assert_eq!(last, Ok(vec![3]));
        assert_eq!(receive(link).await.0, Err(LinkError::Closed));
    }

    /// A peer that is too far ahead, or announces more than it sends, closes its own link, and no
    /// memory is taken for what has not come.
    #[tokio::test]
    async fn a_peer_that_floods_or_lies_about_lengths_is_cut_off() {
        for length in [ROOM + 1, u64::MAX] {
            let (here, mut there) = tokio::io::duplex(64);
            let (link, _tasks) = open(here, 0, DEADLINE);
            there.write_all(&length.to_le_bytes()).await.unwrap();
            assert_eq!(receive(link).await.0, Err(LinkError::Closed), "{length}");
        }
        let (here, mut there) = tokio::io::duplex(64);
        let (link, _tasks) = open(here, 0, DEADLINE);
        there.write_all(&10u64.to_le_bytes()).await.unwrap();
        there.write_all(&[1; 9]).await.unwrap();
        drop(there);
        assert_eq!(receive(link).await.0, Err(LinkError::Closed));
    }
}
