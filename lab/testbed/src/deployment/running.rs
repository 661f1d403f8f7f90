//! Parties that run in this process, each on its own port.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

type Task = JoinHandle<Result<(), String>>;

/// A running party.
pub(super) struct RunningParty {
    pub(super) address: SocketAddr,
    pub(super) stop: CancellationToken,
    pub(super) task: Task,
}

/// A free port of loopback.
pub(super) const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Listens at an address, and returns the actual one.
pub(super) async fn listen(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Starts a party that stops when its token is cancelled.
pub(super) fn run<F>(
    address: SocketAddr,
    start: impl FnOnce(CancellationToken) -> F,
) -> RunningParty
where
    F: Future<Output = Result<(), String>> + Send + 'static,
{
    let stop = CancellationToken::new();
    let task = tokio::spawn(start(stop.clone()));
    RunningParty { address, stop, task }
}
