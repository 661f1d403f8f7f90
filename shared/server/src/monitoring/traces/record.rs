//! The data of a finished span: a closed list of fields.

use tonic::Code;
use vfl_core::types::{ModelVersion, PartyName};

use super::context::{Context, SpanId};

/// The operations that have spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpanName {
    /// A request for predictions, at the active party and at the coordinator.
    Predict,
    /// The active party looks its features up and computes its share.
    OwnShare,
    /// The active party asks for the model in service.
    DescribeModel,
    /// The active party asks the coordinator for predictions.
    CoordinatorCall,
    /// A request is committed to the ledger.
    LedgerCommit,
    /// The coordinator asks a passive party for its share.
    Ask,
    /// A passive party computes its share.
    ComputeShares,
    /// Features are looked up.
    StoreLookUp,
    /// The policy is applied to the logits.
    Release,
}

/// The role of a span in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Internal,
    Server,
    Client,
}

impl SpanName {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Predict | Self::ComputeShares => Kind::Server,
            Self::DescribeModel | Self::CoordinatorCall | Self::Ask => Kind::Client,
            Self::OwnShare | Self::LedgerCommit | Self::StoreLookUp | Self::Release => {
                Kind::Internal
            }
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Predict => "Predict",
            Self::OwnShare => "own share",
            Self::DescribeModel => "describe model",
            Self::CoordinatorCall => "coordinator call",
            Self::LedgerCommit => "ledger commit",
            Self::Ask => "ask",
            Self::ComputeShares => "compute shares",
            Self::StoreLookUp => "store look-up",
            Self::Release => "release",
        }
    }
}

/// The attributes of a span besides its name and times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SpanAttributes {
    pub(super) rows: Option<usize>,
    /// A model version that this party holds.
    pub(super) version: Option<ModelVersion>,
    /// The peer that a call is made to.
    pub(super) peer: Option<PartyName>,
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpanRecord {
    pub(super) context: Context,
    /// The parent span, and true if it belongs to another party.
    pub(super) parent: Option<(SpanId, bool)>,
    pub(super) name: SpanName,
    /// The start, in nanoseconds since 1970.
    pub(super) began: u64,
    /// The end, in nanoseconds since 1970, not before `began`.
    pub(super) ended: u64,
    pub(super) code: Code,
    pub(super) notes: SpanAttributes,
}
