//! The query ledger as its readers see it: sums by party, model and policy, and the uses of one
//! record. Times are whole Unix seconds.

mod budgets;

use serde::Serialize;

use super::pb::{self, describe_ledger_response as wire};
pub use budgets::Budgets;

/// The budgets that are spent, and what is left of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The budgets in force.
    pub budgets: Budgets,
    /// The active parties, by name.
    pub parties: Vec<PartySummary>,
    /// The log of what operators have done to the ledger as a whole, in order. It is not sent.
    pub events: Vec<Event>,
}

/// An action of an operator: the ledger was begun anew, a version was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The time, in Unix seconds.
    pub at: i64,
    /// The description of the action.
    pub what: String,
}

/// The part of one active party.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartySummary {
    /// The name of the party.
    pub party: String,
    /// Number of distinct records asked for.
    pub records: u64,
    /// Further records that it may ask for; `None` is unlimited.
    pub records_left: Option<u64>,
    /// Rows asked for, refused ones included.
    pub queries: u64,
    /// Rows refused: a changed share, a record asked for too often, or under too many models.
    pub refused: u64,
    /// The time of the first request.
    pub first_at: Option<i64>,
    /// The time of the last request.
    pub last_at: Option<i64>,
    /// The sums by model and policy, the most recent last.
    pub uses: Vec<UseSummary>,
}

/// The sums of one party's rows under one model and policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UseSummary {
    /// The version of the model.
    pub model: String,
    /// The fingerprint of its passive parties' parameters.
    pub passive: String,
    /// The text of the policy.
    pub policy: String,
    /// Upper bound on the bits that an answer tells of its record; `None` if no finite bound is
    /// known.
    pub bits: Option<f64>,
    /// Rows asked for, refused ones included.
    pub queries: u64,
    /// Rows that were refused.
    pub refused: u64,
    /// The time of the first request.
    pub first_at: i64,
    /// The time of the last request.
    pub last_at: i64,
}

/// The use of one record by a party under one model and policy. It is not sent: only who can read
/// the ledger itself sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordUse {
    /// The name of the party.
    pub party: String,
    /// The version of the model.
    pub model: String,
    /// The text of the policy.
    pub policy: String,
    /// The fingerprint of the model's passive parameters: rows with the same ones and the same
    /// policy tell the same.
    pub passive: String,
    /// Upper bound on the bits that an answer tells of the record; `None` if no finite bound is
    /// known.
    pub bits: Option<f64>,
    /// Rows that were granted.
    pub queries: u64,
    /// The time of the first row; `None` where retention or erasure has forgotten it.
    pub first_at: Option<i64>,
    /// The time of the last row; `None` likewise.
    pub last_at: Option<i64>,
    /// True if the first share of the record and model was bound here.
    pub bound: bool,
    /// True if the record was erased: the count is kept under a keyed hash of the id.
    pub erased: bool,
}

impl From<Option<Summary>> for pb::DescribeLedgerResponse {
    /// Converts the summary; `None` says that no ledger is kept.
    fn from(summary: Option<Summary>) -> Self {
        let Some(Summary { budgets, parties, events: _ }) = summary else { return Self::default() };
        Self {
            kept: true,
            budgets: Some(budgets.into()),
            parties: parties.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<pb::DescribeLedgerResponse> for Option<Summary> {
    fn from(described: pb::DescribeLedgerResponse) -> Self {
        let pb::DescribeLedgerResponse { kept, budgets, parties } = described;
        kept.then(|| Summary {
            budgets: budgets.unwrap_or_default().into(),
            parties: parties.into_iter().map(Into::into).collect(),
            events: Vec::new(),
        })
    }
}

impl From<Budgets> for wire::Budgets {
    fn from(budgets: Budgets) -> Self {
        let Budgets {
            records,
            queries_per_record,
            models_per_record,
            bits_per_record,
            rows_per_minute,
        } = budgets;
        Self { records, queries_per_record, rows_per_minute, models_per_record, bits_per_record }
    }
}

impl From<wire::Budgets> for Budgets {
    fn from(budgets: wire::Budgets) -> Self {
        let wire::Budgets {
            records,
            queries_per_record,
            rows_per_minute,
            models_per_record,
            bits_per_record,
        } = budgets;
        Self { records, queries_per_record, models_per_record, bits_per_record, rows_per_minute }
    }
}

impl From<PartySummary> for wire::Party {
    fn from(party: PartySummary) -> Self {
        Self {
            name: party.party,
            records: party.records,
            records_left: party.records_left,
            queries: party.queries,
            refused: party.refused,
            uses: party.uses.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<wire::Party> for PartySummary {
    fn from(party: wire::Party) -> Self {
        Self {
            first_at: party.uses.iter().map(|of| of.first_at).min(),
            last_at: party.uses.iter().map(|of| of.last_at).max(),
            party: party.name,
            records: party.records,
            records_left: party.records_left,
            queries: party.queries,
            refused: party.refused,
            uses: party.uses.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<UseSummary> for wire::Use {
    fn from(of: UseSummary) -> Self {
        let UseSummary { model, passive, policy, bits, queries, refused, first_at, last_at } = of;
        Self {
            model_version: model,
            policy,
            queries,
            refused,
            first_at,
            last_at,
            passive_fingerprint: passive,
            bits,
        }
    }
}

impl From<wire::Use> for UseSummary {
    fn from(of: wire::Use) -> Self {
        Self {
            model: of.model_version,
            passive: of.passive_fingerprint,
            policy: of.policy,
            bits: of.bits,
            queries: of.queries,
            refused: of.refused,
            first_at: of.first_at,
            last_at: of.last_at,
        }
    }
}
