//! A line to a server that ends after so many bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The limit of a line that carries all.
pub const WHOLE: u64 = u64::MAX;

/// A line to a server that carries so many bytes of both directions and no more.
pub struct LimitedLine {
    pub address: SocketAddr,
    carried: Arc<AtomicU64>,
    limit: watch::Sender<(u64, AtTheLimit)>,
}

/// The end of a line that has carried its bytes: connections are closed, or they stay open and
/// nothing is carried any more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AtTheLimit {
    Closed,
    Silent,
}

impl LimitedLine {
    /// Opens a line from `listener` to a server, with no limit.
    pub fn open(listener: std::net::TcpListener, server: SocketAddr) -> Self {
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let carried = Arc::new(AtomicU64::new(0));
        let (limit, watched) = watch::channel((WHOLE, AtTheLimit::Closed));
        let count = carried.clone();
        tokio::spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                let ((from, to), (back, forth)) = (client.into_split(), server.into_split());
                tokio::spawn(Self::carry(from, forth, count.clone(), watched.clone()));
                tokio::spawn(Self::carry(back, to, count.clone(), watched.clone()));
            }
        });
        Self { address, carried, limit }
    }

    /// Carries one direction until the limit; a silent connection ends when the limit changes.
    async fn carry(
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        carried: Arc<AtomicU64>,
        mut limit: watch::Receiver<(u64, AtTheLimit)>,
    ) {
        let mut piece = [0; 4096];
        while let Ok(bytes @ 1..) = from.read(&mut piece).await {
            let (most, end) = *limit.borrow_and_update();
            if carried.fetch_add(bytes as u64, Ordering::SeqCst) + bytes as u64 > most {
                if end == AtTheLimit::Silent {
                    let _ = limit.changed().await;
                }
                return;
            }
            if to.write_all(&piece[..bytes]).await.is_err() {
                return;
            }
        }
    }

    /// Returns the bytes that were carried so far.
    pub fn carried(&self) -> u64 {
        self.carried.load(Ordering::SeqCst)
    }

    pub fn set(&self, bytes: u64, end: AtTheLimit) {
        let most = self.carried.load(Ordering::SeqCst).saturating_add(bytes);
        self.limit.send((most, end)).unwrap();
    }
}
