//! Alignment: two parties find out which record ids both of them hold, and tell each other nothing else but how many they hold.
//!
//! A private set intersection by Diffie-Hellman over ristretto255 (J section 6.1.1 takes alignment for granted; section 2 names such
//! protocols). docs/alignment.md has the protocol and what each party learns; `protocol` has the steps, `group` the arithmetic, and
//! `tunnel` the way through the coordinator, which carries a TLS session of the two parties that it cannot read.

mod group;
mod messages;
mod own;
mod party;
mod protocol;
mod runs;
#[cfg(test)]
mod tests;
mod tunnel;
mod wire;

use std::path::PathBuf;

use crate::types::{PartyName, RecordIds};

pub use messages::LONGEST;
pub use own::{OwnIds, OwnIdsError};
pub use party::{Aligner, Frames, Out, Turn};
pub use runs::{Ended, RunEntry, common_ids, runs};
pub use wire::MAX_PIECE_BYTES;

/// Which of the two parties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It asks for the alignment, and answers first.
    Active,
    /// It consents, and has the result first.
    Passive,
}

/// What a party's operator allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Runs with one other party over the life of the state directory. Each tells whether the ids of a list are held, and the other
    /// party chooses the list.
    pub max_runs: u32,
    /// The most ids of either party.
    pub max_records: u64,
    /// The passive party's: with fewer ids in common, the active party is not told which.
    pub least_common: u64,
    /// Where the ids in common are written too, beside the state directory. The run stands if they cannot be.
    pub out: Option<PathBuf>,
}

/// The most ids of a party unless its operator sets another number.
pub const MAX_RECORDS: u64 = 10_000_000;

impl Rules {
    /// Checks the numbers.
    ///
    /// # Errors
    /// What is wrong and how to mend it.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=u64::from(u32::MAX)).contains(&self.max_records) {
            return Err(format!("`max_records` is {}, it must be from 1 to {}", self.max_records, u32::MAX));
        }
        Ok(())
    }
}

/// How many ids the two parties have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// This party.
    pub own: u64,
    /// The other one.
    pub theirs: u64,
}

/// What a party has of an alignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Common {
    /// The ids that both hold, sorted by their bytes.
    pub ids: RecordIds,
    /// How many each party holds.
    pub sizes: Sizes,
}

/// What is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// For a reader.
    pub stage: &'static str,
    /// Ids that are done in this stage.
    pub done: u64,
    /// All of them.
    pub total: u64,
}

/// A run that both parties have completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// The result.
    pub common: Common,
    /// The figures of it.
    pub summary: Summary,
}

/// Figures of a completed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// How many ids each party holds.
    pub sizes: Sizes,
    /// How many are common.
    pub common: u64,
    /// How long it took.
    pub milliseconds: u64,
    /// Bytes of the parties' session that this party sent.
    pub sent_bytes: u64,
    /// Bytes that it received.
    pub received_bytes: u64,
    /// The number of the run at this party, from 1.
    pub run: u32,
    /// Runs that are left with this other party.
    pub runs_left: u32,
}

/// What travels between a party and the coordinator.
#[derive(Clone, PartialEq, Eq)]
pub enum Frame {
    /// Whom the receiver aligns with, or is to call.
    Start(PartyName),
    /// A piece of the parties' session.
    Sealed(bytes::Bytes),
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Start(party) => write!(f, "Start({party})"),
            Self::Sealed(bytes) => write!(f, "Sealed({} bytes)", bytes.len()),
        }
    }
}
