//! A proxy between a store and its server that can fall silent or die.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Line {
    Open,
    Silent,
    /// What the client says arrives, and it hears nothing.
    Deaf,
    Dead,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    line: watch::Sender<Line>,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (line, watched) = watch::channel(Line::Open);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(carry(stream, server, watched.clone()));
            }
        });
        Self { port, line }
    }

    pub(crate) fn set(&self, line: Line) {
        self.line.send(line).unwrap();
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr, mut line: watch::Receiver<Line>) {
    let state = *line.borrow_and_update();
    if state == Line::Open {
        let mut server = TcpStream::connect(server).await.unwrap();
        // A change is seen before anything more is carried: an answer may come in the same turn.
        tokio::select! {
            biased;
            _ = line.changed() => {}
            _ = copy_bidirectional(&mut client, &mut server) => return,
        }
        let state = *line.borrow_and_update();
        if state == Line::Deaf {
            let ((mut said, _hears), (_silent, mut heard)) = (client.split(), server.split());
            tokio::select! {
                biased;
                _ = line.changed() => {}
                _ = tokio::io::copy(&mut said, &mut heard) => {}
            }
        } else if state == Line::Silent {
            // Both ends stay open, and nothing is carried until the line is another.
            let _ = line.changed().await;
        }
    } else if state == Line::Silent {
        let _ = line.changed().await;
    }
}
