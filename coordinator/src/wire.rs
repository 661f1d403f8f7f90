//! Conversions between the coordinator's messages and domain types.

use vfl_protocol::pb;

use crate::audit::{Cost, SessionSummary};
use crate::ledger::Summary;

/// Returns about how many bytes a message takes in memory, or its answer if that is more: a row of
/// scores, or of outputs of that many classes, for each record.
pub(crate) fn bytes_of(request: &pb::PredictRequest, classes: usize) -> usize {
    let pb::PredictRequest { model_version, ids, logit_shares, audit_session, request_id } =
        request;
    let records = ids.as_ref().map_or(0, |ids| ids.len());
    let ids = ids.as_ref().map_or(0, |ids| ids.text().len() + 4 * ids.len());
    let shares = logit_shares.as_ref().map_or(0, |shares| shares.values.len());
    let request = ids + shares + model_version.len() + audit_session.len() + request_id.len();
    request.max(records * (8 * classes + 1))
}

impl From<SessionSummary> for pb::CloseAuditResponse {
    fn from(closed: SessionSummary) -> Self {
        let SessionSummary { rows, records, cost } = closed;
        match cost {
            Ok(Cost { kl_divergence, total_variation, arg_max_kept }) => Self {
                rows,
                kl_divergence,
                total_variation,
                arg_max_kept,
                records,
                withheld: String::new(),
            },
            Err(withheld) => Self { rows, records, withheld, ..Self::default() },
        }
    }
}

/// Converts a summary of the ledger to its wire form.
#[must_use]
pub(crate) fn described(summary: Option<Summary>) -> pb::DescribeLedgerResponse {
    use pb::describe_ledger_response::{Budgets, Party, Use};
    let Some(summary) = summary else { return pb::DescribeLedgerResponse::default() };
    let party = |p: crate::ledger::PartySummary| Party {
        name: p.party,
        records: p.records,
        records_left: p.records_left,
        queries: p.queries,
        refused: p.refused,
        uses: p
            .uses
            .into_iter()
            .map(|u| Use {
                model_version: u.model,
                policy: u.policy,
                queries: u.queries,
                refused: u.refused,
                first_at: u.first_at,
                last_at: u.last_at,
                passive_fingerprint: u.passive,
                bits: u.bits,
            })
            .collect(),
    };
    pb::DescribeLedgerResponse {
        kept: true,
        budgets: Some(Budgets {
            records: summary.budgets.records,
            queries_per_record: summary.budgets.queries_per_record,
            rows_per_minute: summary.budgets.rows_per_minute,
            models_per_record: summary.budgets.models_per_record,
            bits_per_record: summary.budgets.bits_per_record,
        }),
        parties: summary.parties.into_iter().map(party).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fields_of_a_request_count() {
        let text = |bytes: usize| "x".repeat(bytes);
        let request = pb::PredictRequest {
            model_version: text(1),
            ids: Some(pb::RecordIds::new(text(20), vec![5, 20])),
            logit_shares: Some(pb::Matrix { rows: 0, columns: 0, values: vec![0; 300].into() }),
            audit_session: text(4000),
            request_id: text(50_000),
        };
        assert_eq!(bytes_of(&request, 6), 54_329);
        assert_eq!(bytes_of(&pb::PredictRequest::default(), 6), 0);
        // Two records of many classes: their answer is larger than the message.
        assert_eq!(bytes_of(&request, 65_536), 2 * (8 * 65_536 + 1));
    }
}
