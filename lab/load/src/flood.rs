//! Floods of a listener, on loopback: silent connections, idle TLS connections without a
//! certificate, messages that are never finished. Used to measure and test what other callers get
//! meanwhile.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http_body::Frame;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::codegen::Service;
use vfl_protocol::MAX_MESSAGE_BYTES;
use vfl_server::service::{Credentials, Peer, anonymous_connection, channel};

/// The silent connections that the attacker keeps open, whether or not the other side has closed
/// them.
const SILENT_HELD: usize = 1000;

/// Opens `per_second` TCP connections a second that never send a byte, until it is stopped. Returns
/// their number.
///
/// # Errors
/// If the address accepts no connections at all.
pub async fn silent(peer: Peer, per_second: u32, stop: CancellationToken) -> io::Result<usize> {
    let (burst, mut clock) =
        (per_second.div_ceil(50).max(1), tokio::time::interval(Duration::from_millis(20)));
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut held = std::collections::VecDeque::new();
    let mut opened = 0;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(opened),
            _ = clock.tick() => {}
        }
        for _ in 0..burst {
            match tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(&peer.address))
                .await
            {
                Ok(Ok(socket)) => {
                    opened += 1;
                    held.push_back(socket);
                }
                Ok(Err(error)) if opened == 0 => return Err(error),
                // The listener's queue or our own descriptors are exhausted, so this is the highest
                // rate.
                _ => break,
            }
            if held.len() > SILENT_HELD {
                held.pop_front();
            }
        }
    }
}

/// Keeps `count` TLS connections without a certificate open that send nothing after the handshake;
/// reopens a dropped one a second later. Returns how many were opened in all.
pub async fn idle_tls(
    credentials: Credentials,
    peer: Peer,
    count: usize,
    stop: CancellationToken,
) -> usize {
    let mut holders = JoinSet::new();
    for i in 0..count {
        let (credentials, peer, stop) = (credentials.clone(), peer.clone(), stop.clone());
        holders.spawn(async move {
            let mut opened = 0;
            let hold = async {
                // Not all at once: the attacking machine is also the attacked one.
                tokio::time::sleep(Duration::from_secs(1) * i as u32 / count as u32).await;
                loop {
                    let connecting = anonymous_connection(&credentials, &peer);
                    if let Ok(Ok(mut stream)) =
                        tokio::time::timeout(Duration::from_secs(5), connecting).await
                    {
                        opened += 1;
                        // Read until the server closes the connection.
                        let mut sink = [0; 256];
                        while matches!(stream.read(&mut sink).await, Ok(n) if n > 0) {}
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = hold => {}
            }
            opened
        });
    }
    holders.join_all().await.into_iter().sum()
}

/// The body of a message that declares a length and stops one byte short of it.
struct UnfinishedBody {
    header: Option<Bytes>,
    left: usize,
}

impl UnfinishedBody {
    fn new(bytes: usize) -> Self {
        let mut header = BytesMut::with_capacity(5);
        header.put_u8(0);
        header.put_u32(u32::try_from(bytes).unwrap_or(u32::MAX));
        Self { header: Some(header.freeze()), left: bytes.saturating_sub(1) }
    }
}

impl http_body::Body for UnfinishedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        static FILLING: [u8; 16 << 10] = [0; 16 << 10];
        if let Some(header) = self.header.take() {
            return Poll::Ready(Some(Ok(Frame::data(header))));
        }
        let now = self.left.min(FILLING.len());
        self.left -= now;
        // Never woken, as the message must never be finished.
        if now == 0 {
            Poll::Pending
        } else {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&FILLING[..now])))))
        }
    }
}

/// Makes `count` calls at once on one connection, each with a message of 16 MiB that is never
/// finished, and holds them until it is stopped or they are answered. Returns the status codes of
/// the answers.
///
/// # Errors
/// If the peer's address is malformed.
pub async fn half_sent(
    credentials: &Credentials,
    peer: &Peer,
    path: &'static str,
    count: usize,
    stop: CancellationToken,
) -> anyhow::Result<Vec<tonic::Code>> {
    let channel = channel(credentials, peer)?;
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let (mut channel, stop) = (channel.clone(), stop.clone());
        calls.spawn(async move {
            let call = async {
                std::future::poll_fn(|cx| Service::poll_ready(&mut channel, cx)).await.ok()?;
                let request = http::Request::post(path)
                    .header("content-type", "application/grpc")
                    .header("te", "trailers")
                    .body(tonic::body::Body::new(UnfinishedBody::new(MAX_MESSAGE_BYTES)))
                    .ok()?;
                let response = channel.call(request).await.ok()?;
                Status::from_header_map(response.headers()).map(|status| status.code())
            };
            tokio::select! {
                () = stop.cancelled() => None,
                code = call => code,
            }
        });
    }
    Ok(calls.join_all().await.into_iter().flatten().collect())
}
