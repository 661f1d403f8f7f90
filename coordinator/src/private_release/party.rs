//! The other parties of a session, as the coordinator sees them.

use std::time::Duration;

use vfl_core::types::PartyName;
use vfl_protocol::private_release::{CommandSender, ReleaseCommand};
use vfl_protocol::{Refusal, RefusalKind};

/// A party of a session: its name, and the channel for commands to it.
pub(super) struct Party {
    pub(super) name: PartyName,
    /// The party in words, such as "passive party `p`".
    pub(super) who: String,
    pub(super) commands: CommandSender,
    /// The time in which it must read a command.
    pub(super) timeout: Duration,
}

impl Party {
    /// Sends a command.
    ///
    /// # Errors
    /// UNAVAILABLE if the party no longer listens, DEADLINE_EXCEEDED if it does not read.
    pub(super) async fn send(&self, command: ReleaseCommand) -> Result<(), Refusal> {
        let sent = self.commands.send(Ok(command.into()));
        let sent = tokio::time::timeout(self.timeout, sent).await;
        sent.map_err(|_| late(&self.who, self.timeout))?
            .map_err(|_| Refusal::unavailable(format!("{} went away", self.who)))
    }
}

/// Returns the refusal for a party that did not answer in time.
pub(super) fn late(who: &str, timeout: Duration) -> Refusal {
    let message = format!("{who} did not answer in {} ms", timeout.as_millis());
    Refusal::new(RefusalKind::DeadlineExceeded, message)
}
