//! What a party may ask.

use std::time::Duration;

use vfl_coordinator::ledger::{Budgets, LedgerError, RowVerdict};

use crate::site::{Site, at, granted, model, party, request};

async fn queries_of_a_record_count_across_models_and_policies(site: &Site) {
    let ledger = site.open(Budgets { queries_per_record: Some(3), ..Budgets::default() }).await;
    granted(&ledger, request(["a", "b"])).await;
    granted(&ledger, model(request(["a"]), "m-2")).await;
    let mut other = request(["a"]);
    other.policy = "rounding(2)".into();
    granted(&ledger, other).await;
    use RowVerdict::{Granted, RecordBudget};
    assert_eq!(ledger.spend(request(["b", "a", "c"])).await, Ok(vec![Granted, RecordBudget, Granted]));
    // Another party has a budget of its own.
    granted(&ledger, party(request(["a"]), "other")).await;
    // Refused rows cost too.
    let summary = ledger.describe(None).await.unwrap();
    let active = &summary.parties[0];
    assert_eq!((active.party.as_str(), active.records, active.queries, active.refused), ("active", 3, 7, 1));
    let uses: Vec<_> = active.uses.iter().map(|u| (&*u.model, &*u.policy, u.queries, u.refused)).collect();
    assert_eq!(uses, [("m-1", "none", 5, 1), ("m-1", "rounding(2)", 1, 0), ("m-2", "none", 1, 0)]);
    assert_eq!(summary.parties[1].party, "other");
    ledger.close().await;
    assert_eq!(site.number("SELECT CAST(sum(queries) AS BIGINT) FROM uses WHERE record = 'a' AND party = 1").await, 4);
}

async fn records_are_refused_as_a_whole(site: &Site) {
    let ledger = site.open(Budgets { records: Some(3), ..Budgets::default() }).await;
    granted(&ledger, request(["a", "b"])).await;
    let refused = ledger.spend(request(["a", "c", "d"])).await;
    assert_eq!(refused, Err(LedgerError::TotalBudget { left: 1, asked: 2 }));
    assert_eq!(site.number("SELECT CAST(sum(queries) AS BIGINT) FROM uses").await, 2, "nothing was spent");
    granted(&ledger, request(["a", "c"])).await;
    granted(&ledger, request(["a", "b", "c"])).await;
    assert_eq!(ledger.spend(request(["d"])).await, Err(LedgerError::TotalBudget { left: 0, asked: 1 }));
    granted(&ledger, party(request(["d"]), "other")).await;
    let summary = ledger.describe(Some(&request(["d"]).party)).await.unwrap();
    assert_eq!(summary.parties.len(), 1);
    assert_eq!((summary.parties[0].records, summary.parties[0].records_left), (3, Some(0)));
    ledger.close().await;
}

async fn rows_per_minute_are_refused_as_a_whole(site: &Site) {
    let ledger = site.open(Budgets { rows_per_minute: Some(60), ..Budgets::default() }).await;
    let rows = |n: usize, seconds| {
        let mut spend = request((0..n).map(|i| format!("r{i}")));
        spend.at = at(seconds);
        spend
    };
    granted(&ledger, rows(50, 0)).await;
    let wait = Some(Duration::from_secs(20));
    let refused = LedgerError::Rate { rows_per_minute: 60, rows: 30, retry_after: wait };
    assert!(refused.to_string().contains("try again in 20 s"), "{refused}");
    assert_eq!(ledger.spend(rows(30, 0)).await, Err(refused));
    granted(&ledger, rows(30, 20)).await;
    let never = LedgerError::Rate { rows_per_minute: 60, rows: 61, retry_after: None };
    assert_eq!(ledger.spend(rows(61, 10_000)).await, Err(never));
    assert_eq!(site.number("SELECT CAST(sum(queries) AS BIGINT) FROM uses").await, 80);
    ledger.close().await;
}

/// Rows that are undone by another budget take no tokens, and the other way round.
async fn a_request_refused_by_one_budget_spends_nothing_of_another(site: &Site) {
    let budgets = Budgets { records: Some(10), rows_per_minute: Some(60), ..Budgets::default() };
    let ledger = site.open(budgets).await;
    let many = request((0..40).map(|i| format!("r{i}")));
    assert_eq!(ledger.spend(many).await, Err(LedgerError::TotalBudget { left: 10, asked: 40 }));
    let ten = || request((0..10).map(|i| format!("r{i}")));
    for _ in 0..6 {
        granted(&ledger, ten()).await;
    }
    assert!(matches!(ledger.spend(ten()).await, Err(LedgerError::Rate { .. })));
    ledger.close().await;
}

async fn ids_are_any_text(site: &Site) {
    let ledger = site.open(Budgets { queries_per_record: Some(2), ..Budgets::default() }).await;
    let long = "ü".repeat(64);
    let odd =
        ["é", "e\u{301}", "1", "01", "1.0", "null", "[]", "a\"b\\c'd;e,f g", "日本語", "\u{1f9ff}", " ", "%_", &long];
    granted(&ledger, request(odd)).await;
    granted(&ledger, request(odd)).await;
    assert_eq!(ledger.spend(request(odd)).await, Ok(vec![RowVerdict::RecordBudget; odd.len()]));
    let stored = site.sql("SELECT record FROM uses WHERE queries = 3").await;
    let mut stored: Vec<&str> = stored.iter().map(|row| row[0].as_str()).collect();
    let mut odd = odd.to_vec();
    stored.sort_unstable();
    odd.sort_unstable();
    assert_eq!(stored, odd);
    ledger.close().await;
}

async fn the_largest_request(site: &Site) {
    let ledger = site.open(Budgets { queries_per_record: Some(2), ..Budgets::default() }).await;
    let all = || crate::site::shares(request((0..16_384).map(|i| format!("customer-{i}"))), 7);
    granted(&ledger, all()).await;
    granted(&ledger, all()).await;
    assert_eq!(ledger.spend(all()).await, Ok(vec![RowVerdict::RecordBudget; 16_384]));
    assert_eq!(site.number("SELECT CAST(sum(queries) AS BIGINT) FROM uses").await, 3 * 16_384);
    assert_eq!(site.number("SELECT count(share) FROM uses").await, 16_384);
    ledger.close().await;
}

crate::both_engines!(
    queries_of_a_record_count_across_models_and_policies,
    records_are_refused_as_a_whole,
    rows_per_minute_are_refused_as_a_whole,
    a_request_refused_by_one_budget_spends_nothing_of_another,
    ids_are_any_text,
    the_largest_request,
);
