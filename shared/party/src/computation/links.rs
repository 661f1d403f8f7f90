//! Links of a private computation: whole messages of two parties over a stream of bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter, DuplexStream, ReadHalf,
    WriteHalf,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use vfl_mpc::{Link, LinkError};
use vfl_protocol::Refusal;
use vfl_protocol::alignment::{Frame, Tunnel};

/// The pieces that wait in either direction.
const WAITING: usize = 8;
/// The bytes that another party may be ahead beyond its data: small computations have it to spare.
const ROOM: u64 = 64 << 20;
/// The bytes that memory is taken for before they have arrived.
const FIRST: u64 = 1 << 20;
/// The time limit for sending what is left at the end.
const LAST: Duration = Duration::from_secs(10);

/// The carrier of one pair's bytes: pieces in the messages of a training's stream.
pub(super) struct Carrier {
    tunnel: Tunnel,
    forward: JoinHandle<()>,
}

/// The entry for pieces that came from the other party.
pub(super) type PieceSender = mpsc::Sender<Result<Frame, Refusal>>;

/// Opens a stream of bytes over pieces. `wrap` makes a message for `out` of each piece that is
/// written; pieces that arrive go to the returned sender.
pub(super) fn carry<M: Send + 'static>(
    out: mpsc::Sender<Result<M, Status>>,
    wrap: impl Fn(Bytes) -> M + Send + 'static,
) -> (DuplexStream, PieceSender, Carrier) {
    let (arrivals, frames) = mpsc::channel(WAITING);
    let (leaving, mut queue) = mpsc::channel::<Result<Frame, Refusal>>(WAITING);
    let (stream, tunnel) = Tunnel::open(Box::pin(ReceiverStream::new(frames)), leaving);
    let forward = tokio::spawn(async move {
        while let Some(Ok(Frame::Sealed(data))) = queue.recv().await {
            if out.send(Ok(wrap(data))).await.is_err() {
                return;
            }
        }
    });
    (stream, arrivals, Carrier { tunnel, forward })
}

impl Carrier {
    /// Waits until all that was written is handed on. The stream must have been dropped.
    pub(super) async fn finish(mut self) {
        self.tunnel.finish().await;
        drop(self.tunnel);
        let _ = tokio::time::timeout(LAST, self.forward).await;
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
