//! A proxy before a server that can fall silent: connections stay open, and nothing is carried any more.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of connections, those that are open as well as new ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Line {
    /// They are carried.
    Open,
    /// They stay open and are not carried.
    Silent,
    /// They are closed.
    Dead,
}

pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    line: watch::Sender<Line>,
}

impl Proxy {
    pub(super) async fn start(server: SocketAddr, line: Line) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (line, watched) = watch::channel(line);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(carry(stream, server, watched.clone()));
            }
        });
        Self { address, line }
    }

    pub(super) fn set(&self, line: Line) {
        self.line.send(line).unwrap();
    }
}

/// Carries a connection until the line changes. After a silence it is closed: what was said meanwhile is lost.
async fn carry(mut client: TcpStream, server: SocketAddr, mut line: watch::Receiver<Line>) {
    let mut state = *line.borrow_and_update();
    let mut server = TcpStream::connect(server).await.unwrap();
    if state == Line::Open {
        // A change comes first: what is said after it is not carried.
        tokio::select! {
            biased;
            _ = line.changed() => state = *line.borrow_and_update(),
            _ = copy_bidirectional(&mut client, &mut server) => return,
        }
    }
    if state == Line::Silent {
        let _ = line.changed().await;
    }
}
