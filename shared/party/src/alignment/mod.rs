//! A party's side of an alignment: which ids two parties have in common, and nothing else.

mod group;
mod messages;
mod own_ids;
mod party;
mod protocol;
mod runs;
#[cfg(test)]
mod tests;

pub use messages::LONGEST;
pub use own_ids::{OwnIds, OwnIdsError};
pub use party::{Aligner, RunPermit};
pub use runs::{RunEnd, RunEntry, common_ids, runs};
