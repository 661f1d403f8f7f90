//! What a span tells when it has ended: a closed list of things.

use tonic::Code;

use super::context::{Context, SpanId};
use crate::types::{ModelVersion, PartyName};

/// What a span is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Name {
    /// A request for predictions, at the active party and at the coordinator.
    Predict,
    /// The active party's part: its features are looked up, and its share computed.
    OwnShare,
    /// The active party asks which model is in service.
    DescribeModel,
    /// The active party asks the coordinator for predictions.
    CoordinatorCall,
    /// A request is put into the ledger.
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

/// A span's part in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Internal,
    Server,
    Client,
}

impl Name {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Predict | Self::ComputeShares => Kind::Server,
            Self::DescribeModel | Self::CoordinatorCall | Self::Ask => Kind::Client,
            Self::OwnShare | Self::LedgerCommit | Self::StoreLookUp | Self::Release => Kind::Internal,
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

/// What may be said of a span beside its name and times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Notes {
    pub(super) rows: Option<usize>,
    /// A version that this party has.
    pub(super) version: Option<ModelVersion>,
    /// Whom a call is made of.
    pub(super) peer: Option<PartyName>,
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) context: Context,
    /// The span above, and whether it is another party's.
    pub(super) parent: Option<(SpanId, bool)>,
    pub(super) name: Name,
    /// Nanoseconds since 1970.
    pub(super) began: u64,
    /// Nanoseconds since 1970, not before `began`.
    pub(super) ended: u64,
    pub(super) code: Code,
    pub(super) notes: Notes,
}
