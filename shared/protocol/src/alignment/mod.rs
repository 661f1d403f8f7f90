//! Alignment: two parties find the record ids that both hold. Each learns no other id, only how
//! many the other holds.
//!
//! The protocol is a private set intersection by Diffie-Hellman over ristretto255 (J section 6.1.1
//! presupposes alignment; section 2 names such protocols). docs/alignment.md has the protocol and
//! the information that each party learns. Here are its messages, and `tunnel`, the path through
//! the coordinator, which carries a TLS session of the two parties that it cannot read.

mod tunnel;
mod wire;

pub use tunnel::{FrameSender, Frames, Tunnel};

use std::path::PathBuf;

use vfl_core::types::{PartyName, RecordIds};

pub use wire::MAX_PIECE_BYTES;

/// The role of a party in an alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The party that requests the alignment, and answers first.
    Active,
    /// The party that consents, and has the result first.
    Passive,
}

/// The limits that a party's operator sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The maximum number of runs with one other party over the life of the state directory. Each
    /// run tells whether the ids of a list are held, and the other party chooses the list.
    pub max_runs: u32,
    /// The maximum number of ids of either party.
    pub max_records: u64,
    /// A rule of the passive party: with fewer ids in common than this, the active party does not
    /// learn them.
    pub least_common: u64,
    /// A file to which the common ids are also written, besides the state directory. The run is
    /// valid even if the file cannot be written.
    pub out: Option<PathBuf>,
}

/// The default maximum number of ids of a party.
pub const MAX_RECORDS: u64 = 10_000_000;

impl Rules {
    /// Checks that the numbers are in range.
    ///
    /// # Errors
    /// A message that says what is wrong and how to fix it.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=u64::from(u32::MAX)).contains(&self.max_records) {
            return Err(format!(
                "`max_records` is {}, it must be from 1 to {}",
                self.max_records,
                u32::MAX
            ));
        }
        Ok(())
    }
}

/// The numbers of ids that the two parties hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdCounts {
    /// The number of this party's ids.
    pub own: u64,
    /// The number of the other party's ids.
    pub theirs: u64,
}

/// The result of an alignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommonIds {
    /// The ids that both parties hold, sorted by their bytes.
    pub ids: RecordIds,
    /// The number of ids that each party holds.
    pub sizes: IdCounts,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The name of the stage, for display.
    pub stage: &'static str,
    /// The number of ids done in this stage.
    pub done: u64,
    /// The number of ids of this stage.
    pub total: u64,
}

/// A run that both parties have completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedRun {
    /// The common ids.
    pub common: CommonIds,
    /// The figures of the run.
    pub summary: Summary,
}

/// The figures of a completed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// The number of ids that each party holds.
    pub sizes: IdCounts,
    /// The number of common ids.
    pub common: u64,
    /// The duration of the run in milliseconds.
    pub milliseconds: u64,
    /// The bytes of the parties' session that this party sent.
    pub sent_bytes: u64,
    /// The bytes that this party received.
    pub received_bytes: u64,
    /// The number of the run at this party, from 1.
    pub run: u32,
    /// The number of runs left with this other party.
    pub runs_left: u32,
}

/// A message between a party and the coordinator.
#[derive(Clone, PartialEq, Eq)]
pub enum Frame {
    /// The party with which the receiver aligns, or which it is to call.
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
