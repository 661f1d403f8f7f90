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
        // The times of the first and the last request are those of the uses.
        let PartySummary {
            party: name,
            records,
            records_left,
            queries,
            refused,
            first_at: _,
            last_at: _,
            uses,
        } = party;
        let uses = uses.into_iter().map(Into::into).collect();
        Self { name, records, records_left, queries, refused, uses }
    }
}

impl From<wire::Party> for PartySummary {
    fn from(party: wire::Party) -> Self {
        let wire::Party { name, records, records_left, queries, refused, uses } = party;
        Self {
            party: name,
            records,
            records_left,
            queries,
            refused,
            first_at: uses.iter().map(|of| of.first_at).min(),
            last_at: uses.iter().map(|of| of.last_at).max(),
            uses: uses.into_iter().map(Into::into).collect(),
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
        let wire::Use {
            model_version: model,
            policy,
            queries,
            refused,
            first_at,
            last_at,
            passive_fingerprint: passive,
            bits,
        } = of;
        Self { model, passive, policy, bits, queries, refused, first_at, last_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::tests::comes_back;

    #[test]
    fn every_field_of_a_ledger_comes_back() {
        let of = |name: &str, from: u64| wire::Use {
            model_version: format!("m-{name}"),
            policy: format!("policy {name}"),
            queries: from + 1,
            refused: from + 2,
            first_at: from as i64 + 3,
            last_at: from as i64 + 4,
            passive_fingerprint: format!("passive {name}"),
            bits: Some(from as f64 + 5.5),
        };
        let party = wire::Party {
            name: "clinic".into(),
            records: 6,
            records_left: Some(7),
            queries: 8,
            refused: 9,
            uses: vec![of("a", 100), of("b", 200)],
        };
        let budgets = wire::Budgets {
            records: Some(10),
            queries_per_record: Some(11),
            rows_per_minute: Some(12),
            models_per_record: Some(13),
            bits_per_record: Some(14.5),
        };
        let parties = vec![party];
        let kept = pb::DescribeLedgerResponse { kept: true, budgets: Some(budgets), parties };
        let times = Option::<Summary>::from(kept.clone())
            .map(|read| read.parties.iter().map(|of| (of.first_at, of.last_at)).collect());
        assert_eq!(times, Some(vec![(Some(103), Some(204))]));
        comes_back::<_, Option<Summary>>(kept);
        comes_back::<_, Option<Summary>>(pb::DescribeLedgerResponse::default());
    }
}
