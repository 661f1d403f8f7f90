//! A party's side of an alignment: the ids that two parties have in common, and nothing else.
//! `protocol` has the steps, `group` the arithmetic.

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
