//! A byte stream through frames: bytes written at one end leave as frames, and incoming frames
//! become bytes to read.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::{Stream, StreamExt};

use super::Frame;
use super::wire::MAX_PIECE_BYTES;
use crate::Refusal;

/// The bytes that may be buffered in either direction before the writer has to wait.
const BUFFER: usize = 4 * MAX_PIECE_BYTES;
/// The time limit for sending the remaining bytes at the end.
const LAST: Duration = Duration::from_secs(10);

/// Frames from the coordinator.
pub type Frames = Pin<Box<dyn Stream<Item = Result<Frame, Refusal>> + Send>>;
/// Frames to the coordinator.
pub type FrameSender = mpsc::Sender<Result<Frame, Refusal>>;

/// The two tasks that pump frames behind a stream. They end when it is dropped.
pub struct Tunnel {
    upstream: JoinHandle<()>,
    downstream: JoinHandle<()>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    received: AtomicU64,
    /// The reason why the frames ended, if one was given.
    why: Mutex<Option<Refusal>>,
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.upstream.abort();
        self.downstream.abort();
    }
}

impl Tunnel {
    /// Opens a byte stream over frames in both directions.
    pub fn open(frames: Frames, out: FrameSender) -> (DuplexStream, Self) {
        let (near, far) = tokio::io::duplex(BUFFER);
        let (read, write) = tokio::io::split(far);
        let shared = Arc::new(Shared::default());
        let upstream = tokio::spawn(pump_out(read, out, shared.clone()));
        let downstream = tokio::spawn(pump_in(frames, write, shared.clone()));
        (near, Self { upstream, downstream, shared })
    }

    /// Returns the numbers of bytes sent and received.
    pub fn bytes(&self) -> (u64, u64) {
        (self.shared.sent.load(Ordering::Relaxed), self.shared.received.load(Ordering::Relaxed))
    }

    /// Returns the reason why the frames ended, if their carrier gave one.
    pub fn why(&self) -> Option<Refusal> {
        self.shared.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the written bytes are sent. The stream must have been dropped.
    pub async fn finish(&mut self) {
        let _ = tokio::time::timeout(LAST, &mut self.upstream).await;
    }
}

async fn pump_out(mut read: ReadHalf<DuplexStream>, out: FrameSender, shared: Arc<Shared>) {
    let mut piece = vec![0; MAX_PIECE_BYTES];
    while let Ok(length @ 1..) = read.read(&mut piece).await {
        if out.send(Ok(Frame::Sealed(Bytes::copy_from_slice(&piece[..length])))).await.is_err() {
            return;
        }
        shared.sent.fetch_add(length as u64, Ordering::Relaxed);
    }
}

async fn pump_in(mut frames: Frames, mut write: WriteHalf<DuplexStream>, shared: Arc<Shared>) {
    let why = loop {
        match frames.next().await {
            Some(Ok(Frame::Sealed(bytes))) => {
                shared.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                if write.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Some(Ok(Frame::Start(_))) => {
                break Some(Refusal::invalid("an alignment has begun; it is not begun twice"));
            }
            Some(Err(refusal)) => break Some(refusal),
            None => break None,
        }
    };
    *shared.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
    // The reader reaches the end, and asks for the reason.
    let _ = write.shutdown().await;
}
