//! The domain types that all parties use.
//!
//! # Layout of matrices
//!
//! Inside the program **one record is one column**: a block of `n` records with `d` features is a
//! `d × n` matrix and its logits a `k × n` matrix, as in the papers' `z = W x + b`. `nalgebra`
//! stores columns contiguously, so the memory of such a block is, byte for byte, the row-major
//! `n × d` matrix of the wire contract and of the files.
//!
//! Distinct types keep a logit share, a logit and a confidence score apart although all three are
//! `k × n`.

mod ids;
mod outgoing;
mod row_status;
mod scores;
mod version;

pub use ids::PackedIds;
pub use ids::unseen;
pub use ids::{IdError, MAX_ID_BYTES, RecordId, RecordIds, RecordIdsBuilder};
pub use outgoing::{Estimates, OutputGradient, ReleasedWeights};
pub use row_status::RowStatus;
pub use scores::all_finite;
pub use scores::{
    ConfidenceScores, FeatureBlock, LogitShare, Logits, ReleasedScores, ShapeError, SimplexError,
};
pub use version::{ModelVersion, NameError, PartyName};
