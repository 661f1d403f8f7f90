//! Links between two parties: messages arrive whole and in order.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A link to one other party. Messages arrive whole, in order, and are seen by nobody else: a
/// transport encrypts them.
pub trait Link: Send {
    /// Sends a message. It must not wait until the other party receives: all parties send before
    /// they receive.
    ///
    /// # Errors
    /// [`LinkError`] if the link is closed.
    fn send(&mut self, message: Vec<u8>) -> Result<(), LinkError>;

    /// Waits for the next message.
    ///
    /// # Errors
    /// [`LinkError`] if the link is closed, or nothing arrived within the link's deadline.
    fn receive(&mut self) -> Result<Vec<u8>, LinkError>;
}

/// The failures of a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The other party has closed the link, or the computation was stopped.
    #[error("the link is closed")]
    Closed,
    /// No message arrived in time.
    #[error("no message arrived in {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The transport reports a failure.
    #[error("{0}")]
    Transport(String),
}

/// The messages that a party has sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The bytes sent to both others.
    pub bytes: u64,
    /// The messages sent to both others.
    pub messages: u64,
}

/// A link between two threads of one process.
#[derive(Debug)]
pub struct MemoryLink {
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
    deadline: Duration,
}

impl MemoryLink {
    /// Creates both ends of a link whose parties wait for a message for at most `deadline`.
    #[must_use]
    pub fn pair(deadline: Duration) -> (Self, Self) {
        let (to_second, of_first) = channel();
        let (to_first, of_second) = channel();
        (
            Self { to: to_second, from: of_second, deadline },
            Self { to: to_first, from: of_first, deadline },
        )
    }
}

impl Link for MemoryLink {
    fn send(&mut self, message: Vec<u8>) -> Result<(), LinkError> {
        self.to.send(message).map_err(|_| LinkError::Closed)
    }

    fn receive(&mut self) -> Result<Vec<u8>, LinkError> {
        self.from.recv_timeout(self.deadline).map_err(|error| match error {
            RecvTimeoutError::Timeout => LinkError::Silent(self.deadline),
            RecvTimeoutError::Disconnected => LinkError::Closed,
        })
    }
}

/// Returns the links of three parties in one process: for each, in their order, the link to the
/// next party and the link to the previous one.
#[must_use]
pub fn connect_in_memory(deadline: Duration) -> [(MemoryLink, MemoryLink); 3] {
    let (first_to_second, second_to_first) = MemoryLink::pair(deadline);
    let (second_to_third, third_to_second) = MemoryLink::pair(deadline);
    let (third_to_first, first_to_third) = MemoryLink::pair(deadline);
    [
        (first_to_second, first_to_third),
        (second_to_third, second_to_first),
        (third_to_first, third_to_second),
    ]
}
