//! The wire contract: generated code, checked conversions to domain types, and the one table of
//! status codes.
//!
//! Generated structs ([`pb`]) stop at the edge: services convert them here on arrival, so that
//! inner code never re-checks lengths, finiteness, ids or duplicates.

pub mod alignment;
mod attribute;
pub mod audit;
mod codec;
mod convert;
mod estimates;
mod feature;
mod flat;
pub mod ledger;
mod model;
pub(crate) mod packed;
mod policy;
mod prediction;
pub mod private_release;
pub mod reconstruct;
mod refusal;
mod releasable;
mod released_parameters;
pub(crate) mod rows;
pub mod scoring;
mod shown_model;
pub mod training;
mod transform;

pub use released_parameters::{ReleasedParameters, ReleasedSubModel, ShownParameters, Statement};
pub use shown_model::ShownModel;

pub use codec::{Codec, Reader, Writer};
pub use convert::{
    MAX_PREDICTION_ROWS, WireError, check_share_size, decode_columns, encode_columns, read_logits,
    read_release, read_share, require,
};
pub use estimates::{EncodedEstimates, EstimateRows};
pub use flat::{FlatCodec, FlatReader};
pub use prediction::{
    PredictionRequest, PredictionResponse, ShareAnswer, ShareRequest, decode_statuses,
    encode_statuses, read_scores, stream_answer, stream_refusal,
};
pub use refusal::{
    MAX_REASON_BYTES, Refusal, RefusalKind, broken, is_worth_again, peer_failure, rough,
};
pub use releasable::Releasable;

/// Code generated from `proto/vfl/v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::unwrap_used)]
pub mod pb {
    tonic::include_proto!("vfl.v1");
    pub use super::packed::RecordIds;
    pub use super::rows::{ComputeLogitsResponse, PredictResponse};

    /// Code generated from `proto/inference`: the Open Inference Protocol.
    pub mod inference {
        tonic::include_proto!("inference");
    }
}

/// The files of `proto/` as an encoded `FileDescriptorSet`, for the reflection service.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The largest message that a service receives or sends, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// The number of records that a client puts into one message of a bulk stream: large enough that
/// the cost of a message is small compared with its rows, small enough that the stages of the
/// pipeline overlap.
pub const STREAM_CHUNK_RECORDS: usize = 1024;

/// The number of records in one chunk of a record list (training, evaluation): below
/// [`MAX_MESSAGE_BYTES`] for the longest ids.
pub const LIST_CHUNK_RECORDS: usize = 65_536;
