//! The wire contract: generated code, checked conversions to domain types, and the one table of status codes.
//!
//! Generated structs ([`pb`]) stop at the edge: services convert them here on arrival, so that inner code never re-checks
//! lengths, finiteness, ids or duplicates.

mod codec;
mod convert;
mod prediction;
mod refusal;
mod releasable;

pub use codec::{Codec, Reader};
pub use convert::MAX_PREDICTION_ROWS;
pub use convert::{WireError, decode_columns, decode_optional_columns, encode_columns, require};
pub use prediction::{decode_statuses, encode_statuses, prediction_ids, select_ok};
pub use refusal::{Refusal, RefusalKind, peer_failure, rough};
pub use releasable::Releasable;

/// Code generated from `proto/vfl/v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used)]
pub mod pb {
    tonic::include_proto!("vfl.v1");
}

/// The largest message a service takes or sends, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// How many records a client puts into one message of a bulk stream: large enough that the cost of a message is small
/// beside its rows, small enough that the stages of the pipeline overlap.
pub const STREAM_CHUNK_RECORDS: usize = 1024;

/// How many records one chunk of a record list (training, evaluation) holds: below [`MAX_MESSAGE_BYTES`] for the longest ids.
pub const LIST_CHUNK_RECORDS: usize = 65_536;
