//! A relay with a delay: it forwards bytes in order, some time after they arrive.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The chunks in flight in one direction. With 64 KiB each, they do not limit what the service may
/// have in flight.
const PIECES: usize = 4096;

/// A relay of connections to one address. It ends when this value is dropped.
pub(super) struct Relay {
    /// The address that it listens on.
    pub(super) address: String,
    task: AbortHandle,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    /// Starts a relay to `target` that adds `round_trip` to each round trip: half of it in each
    /// direction.
    ///
    /// # Errors
    /// If it cannot listen.
    pub(super) async fn start(target: &str, round_trip: Duration) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let target = target.to_owned();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let target = target.clone();
                tokio::spawn(async move {
                    if let Ok(far) = TcpStream::connect(&target).await {
                        // Both ends see when a connection ends.
                        let _ = (near.set_nodelay(true), far.set_nodelay(true));
                        let ((near_in, near_out), (far_in, far_out)) =
                            (near.into_split(), far.into_split());
                        tokio::join!(
                            carry(near_in, far_out, round_trip / 2),
                            carry(far_in, near_out, round_trip / 2)
                        );
                    }
                });
            }
        });
        Ok(Self { address, task: task.abort_handle() })
    }
}

async fn carry(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, delay: Duration) {
    let (put, mut take) = mpsc::channel::<(Instant, Bytes)>(PIECES);
    let reading = async move {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(1 << 16);
            match from.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    if put.send((Instant::now() + delay, buffer.split().freeze())).await.is_err() {
                        return;
                    }
                }
            }
        }
    };
    let writing = async move {
        while let Some((due, piece)) = take.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(reading, writing);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bytes arrive, in order, and not too early: load cannot break a lower bound.
    #[tokio::test]
    async fn bytes_come_in_order_and_late() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (mut from, mut to) = stream.into_split();
            tokio::io::copy(&mut from, &mut to).await.unwrap();
        });
        let delay = Duration::from_millis(40);
        let relay = Relay::start(&target, delay).await.unwrap();
        let (mut from, mut to) = TcpStream::connect(&relay.address).await.unwrap().into_split();
        let sent: Vec<u8> =
            (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let began = Instant::now();
        let (put, expected) = (sent.clone(), sent.len());
        tokio::spawn(async move {
            to.write_all(&put).await.unwrap();
            to.shutdown().await.unwrap();
        });
        let mut first = [0; 1];
        from.read_exact(&mut first).await.unwrap();
        assert!(began.elapsed() >= delay);
        let mut came = first.to_vec();
        from.read_to_end(&mut came).await.unwrap();
        assert_eq!(came.len(), expected);
        assert!(came == sent);
    }
}
