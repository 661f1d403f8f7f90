//! A request to the ledger, and its verdict on each row.

use std::time::{Duration, SystemTime};

use vfl_core::types::{ModelVersion, PartyName, RecordIds};

/// The longest request id, in characters.
pub const MAX_REQUEST_ID_CHARS: usize = 128;

/// One request, to be recorded before anything is computed for it.
#[derive(Clone)]
pub struct SpendRequest {
    /// The active party that asks.
    pub party: PartyName,
    /// The model that is asked.
    pub model: ModelVersion,
    /// The fingerprint of its passive parties' parameters: shares are bound and models counted by
    /// it, not by the version.
    pub passive: String,
    /// The policy that the answer is released under, as it is displayed.
    pub policy: String,
    /// Upper bound on the bits that an answer tells of its record under this model and policy;
    /// `None` if no finite bound is known.
    pub bits: Option<f64>,
    /// The client's name for the request, 1 to [`MAX_REQUEST_ID_CHARS`] characters; with it, a
    /// retry costs nothing.
    pub request_id: Option<String>,
    /// A hash of the whole request but its id.
    pub body_hash: [u8; 32],
    /// The ids of the records.
    pub ids: RecordIds,
    /// A hash of each record's logit share, to be bound to it; empty where shares are not bound.
    pub share_hashes: Vec<[u8; 16]>,
    /// The time of the request.
    pub at: SystemTime,
    /// The time of the request by the clock of the process, which nobody sets: the rate limit uses
    /// it.
    pub uptime: Duration,
}

impl std::fmt::Debug for SpendRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Spend({}, {}, {:?})", self.party, self.model, self.ids)
    }
}

/// The verdict on one row. A granted row costs a query of its record, whatever becomes of it later;
/// a refused one is counted in the party's sums, and takes of the rate, but writes nothing of its
/// own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowVerdict {
    /// The row may be answered.
    Granted,
    /// Another logit share is bound to this record and model.
    ShareChanged,
    /// The record's budget is spent.
    RecordBudget,
    /// The record was answered under as many models as allowed, and this is a further one.
    ModelBudget,
    /// The answer would tell more bits of the record than are left of its budget.
    BitsBudget,
}

impl RowVerdict {
    pub(super) const ALL: [Self; 5] = [
        Self::Granted,
        Self::ShareChanged,
        Self::RecordBudget,
        Self::ModelBudget,
        Self::BitsBudget,
    ];

    pub(super) const fn letter(self) -> char {
        match self {
            Self::Granted => 'G',
            Self::ShareChanged => 'S',
            Self::RecordBudget => 'R',
            Self::ModelBudget => 'M',
            Self::BitsBudget => 'B',
        }
    }
}
