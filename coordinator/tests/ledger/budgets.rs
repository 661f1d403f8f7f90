//! What a party may ask.

use std::time::Duration;

use vfl_coordinator::ledger::{self, Budgets, LedgerError, RowVerdict, SpendRequest};

use crate::site::{Site, at, granted, later, model, party, request, shares, version};

async fn queries_of_a_record_count_across_models_and_policies(site: &Site) {
    let ledger = site.open(Budgets { queries_per_record: Some(3), ..Budgets::UNLIMITED }).await;
    granted(&ledger, request(["a", "b"])).await;
    granted(&ledger, model(request(["a"]), "m-2")).await;
    let mut other = request(["a"]);
    other.policy = "rounding(2)".into();
    granted(&ledger, other).await;
    use RowVerdict::{Granted, RecordBudget};
    assert_eq!(
        ledger.spend(request(["b", "a", "c"])).await,
        Ok(vec![Granted, RecordBudget, Granted])
    );
    // Another party has a budget of its own.
    granted(&ledger, party(request(["a"]), "other")).await;
    // Refused rows are counted too, in the sums alone.
    let summary = ledger.describe(None).await.unwrap();
    let active = &summary.parties[0];
    assert_eq!(
        (active.party.as_str(), active.records, active.queries, active.refused),
        ("active", 3, 7, 1)
    );
    let uses: Vec<_> =
        active.uses.iter().map(|u| (&*u.model, &*u.policy, u.queries, u.refused)).collect();
    assert_eq!(uses, [("m-1", "none", 5, 1), ("m-1", "rounding(2)", 1, 0), ("m-2", "none", 1, 0)]);
    assert_eq!(summary.parties[1].party, "other");
    ledger.close().await;
    assert_eq!(
        site.number(
            "SELECT CAST(sum(queries) AS BIGINT) FROM uses WHERE record = 'a' AND party = 1"
        )
        .await,
        3
    );
}

async fn records_are_refused_as_a_whole(site: &Site) {
    let ledger = site.open(Budgets { records: Some(3), ..Budgets::UNLIMITED }).await;
    granted(&ledger, request(["a", "b"])).await;
    let refused = ledger.spend(request(["a", "c", "d"])).await;
    assert_eq!(refused, Err(LedgerError::TotalBudget { left: 1, asked: 2 }));
    assert_eq!(
        site.number("SELECT CAST(sum(queries) AS BIGINT) FROM uses").await,
        2,
        "nothing was spent"
    );
    granted(&ledger, request(["a", "c"])).await;
    granted(&ledger, request(["a", "b", "c"])).await;
    assert_eq!(
        ledger.spend(request(["d"])).await,
        Err(LedgerError::TotalBudget { left: 0, asked: 1 })
    );
    granted(&ledger, party(request(["d"]), "other")).await;
    let summary = ledger.describe(Some(&request(["d"]).party)).await.unwrap();
    assert_eq!(summary.parties.len(), 1);
    assert_eq!((summary.parties[0].records, summary.parties[0].records_left), (3, Some(0)));
    ledger.close().await;
}

async fn rows_per_minute_are_refused_as_a_whole(site: &Site) {
    let ledger = site.open(Budgets { rows_per_minute: Some(60), ..Budgets::UNLIMITED }).await;
    let rows = |n: usize, seconds| later(request((0..n).map(|i| format!("r{i}"))), seconds);
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

/// The wall clock is set back an hour and forward again: the hour is not credited twice, and not even once.
async fn a_wall_clock_that_is_set_credits_nothing(site: &Site) {
    let ledger = site.open(Budgets { rows_per_minute: Some(60), ..Budgets::UNLIMITED }).await;
    let rows = |n: usize, wall: u64, uptime: u64| {
        let spend = later(request((0..n).map(|i| format!("r{i}"))), wall);
        SpendRequest { uptime: Duration::from_secs(uptime), ..spend }
    };
    granted(&ledger, rows(60, 7200, 100)).await;
    for wall in [3600, 7200, 0, 90_000] {
        let refused = ledger.spend(rows(1, wall, 100)).await;
        assert!(matches!(refused, Err(LedgerError::Rate { .. })), "{refused:?}");
    }
    granted(&ledger, rows(10, 3600, 110)).await;
    assert!(ledger.spend(rows(1, 7200, 110)).await.is_err());
    ledger.close().await;
}

async fn models_of_a_record_are_counted_and_approved(site: &Site) {
    use RowVerdict::{Granted, ModelBudget, ShareChanged};
    let budgets = Budgets { models_per_record: Some(2), ..Budgets::UNLIMITED };
    let ledger = site.open(budgets).await;
    granted(&ledger, request(["a", "b"])).await;
    granted(&ledger, model(request(["a"]), "m-2")).await;
    // Versions of passive parameters that are counted are not counted again.
    granted(&ledger, version(request(["a"]), "m-1-renamed")).await;
    let third = || shares(model(request(["a", "b", "c"]), "m-3"), 1);
    assert_eq!(ledger.spend(third()).await, Ok(vec![ModelBudget, Granted, Granted]));
    assert_eq!(
        ledger.spend(model(request(["a", "b"]), "m-4")).await,
        Ok(vec![ModelBudget, ModelBudget])
    );
    // Another party has a count of its own; what was answered before still is.
    granted(&ledger, party(third(), "other")).await;
    granted(&ledger, request(["a", "b"])).await;
    // The operator approves version m-3, for the running coordinator and for the next.
    let m3 = third().model;
    assert!(ledger::approve(&site.url, &m3, "passive of m-3", at(9)).await.unwrap());
    assert!(
        !ledger::approve(&site.url, &m3, "passive of m-3", at(10)).await.unwrap(),
        "once is enough"
    );
    granted(&ledger, third()).await;
    assert_eq!(
        ledger.spend(shares(third(), 2)).await,
        Ok(vec![ShareChanged; 3]),
        "a share is bound as ever"
    );
    assert_eq!(ledger.spend(model(request(["a"]), "m-4")).await, Ok(vec![ModelBudget]));
    ledger.close().await;
    let ledger = site.open(budgets).await;
    granted(&ledger, version(third(), "m-3-renamed")).await;
    assert_eq!(ledger.spend(model(request(["b"]), "m-4")).await, Ok(vec![ModelBudget]));
    let events = ledger.describe(None).await.unwrap().events;
    assert_eq!(events.len(), 1);
    assert!(
        events[0].what.contains("approved version m-3") && events[0].at == 1_800_000_009,
        "{events:?}"
    );
    ledger.close().await;
}

/// Bits add up over passive parameters and policies; an answer that comes again tells nothing new.
async fn bits_of_a_record_add_up(site: &Site) {
    use RowVerdict::{BitsBudget, Granted};
    let budgets = Budgets { bits_per_record: Some(3.0), ..Budgets::UNLIMITED };
    let under = |policy: &str, bits, spend: SpendRequest| SpendRequest {
        policy: policy.into(),
        bits,
        ..spend
    };
    let label = |spend| under("class_label", Some(1.0), spend);
    let rounded = |spend| under("rounding (decimals = 1)", Some(1.5), spend);
    // An answer that has no finite bound, from a time without a budget.
    let ledger = site.open(Budgets::UNLIMITED).await;
    granted(&ledger, under("top_k", None, request(["old"]))).await;
    ledger.close().await;
    let ledger = site.open(budgets).await;
    granted(&ledger, label(request(["a", "b"]))).await;
    for _ in 0..5 {
        granted(&ledger, label(request(["a"]))).await;
    }
    granted(&ledger, rounded(request(["a"]))).await;
    // 2.5 of 3 bits are told of a, 1 of b, any number of the old one.
    let second = || label(model(request(["a", "b", "c", "old"]), "m-2"));
    assert_eq!(ledger.spend(second()).await, Ok(vec![BitsBudget, Granted, Granted, BitsBudget]));
    granted(&ledger, party(second(), "other")).await;
    // Another version of the same passive parameters gives the same answer.
    granted(&ledger, version(label(request(["a"])), "m-1-renamed")).await;
    // What has no bound is never within a budget.
    assert_eq!(ledger.spend(under("none", None, request(["d"]))).await, Ok(vec![BitsBudget]));
    let third = |n: usize| under(&format!("third-{n}"), Some(1.0), request(["e"]));
    for n in 0..3 {
        granted(&ledger, third(n)).await;
    }
    assert_eq!(
        ledger.spend(third(3)).await,
        Ok(vec![BitsBudget]),
        "the budget is spent to the last bit"
    );
    ledger.close().await;
    let ledger = site.open(budgets).await;
    assert_eq!(
        ledger.spend(second()).await,
        Ok(vec![BitsBudget, Granted, Granted, BitsBudget]),
        "after a start"
    );
    let described = ledger.describe(None).await.unwrap();
    assert_eq!(described.budgets, budgets);
    let uses =
        |policy: &str| described.parties[0].uses.iter().find(|u| u.policy == policy).unwrap().bits;
    assert_eq!((uses("class_label"), uses("none")), (Some(1.0), None));
    ledger.close().await;
    let of_a = ledger::record_uses(&site.url, "a", Some("active")).await.unwrap();
    let told: Vec<_> =
        of_a.iter().map(|u| (u.model.as_str(), u.passive.as_str(), u.bits)).collect();
    let first = "passive of m-1";
    assert_eq!(
        told,
        [("m-1", first, Some(1.0)), ("m-1", first, Some(1.5)), ("m-1-renamed", first, Some(1.0))]
    );
}

/// What is refused leaves one sum behind, however many rows it has, and a request refused as a whole nothing at all.
async fn refused_rows_are_cheap(site: &Site) {
    let budgets = Budgets {
        records: Some(1000),
        queries_per_record: Some(1),
        models_per_record: Some(1),
        ..Budgets::UNLIMITED
    };
    let ledger = site.open(budgets).await;
    let all = || shares(request((0..1000).map(|i| format!("r{i}"))), 1);
    granted(&ledger, all()).await;
    let rows = || async { site.number("SELECT count(*) FROM uses").await };
    site.settled().await;
    let before = site.sql("SELECT * FROM uses").await;
    let mark = || site.number("SELECT CAST(value AS BIGINT) FROM meta WHERE name = 'mark'");
    for round in 0..5 {
        assert_eq!(ledger.spend(all()).await, Ok(vec![RowVerdict::RecordBudget; 1000]));
        let other = model(shares(all(), 2), &format!("m-{}", 2 + round));
        assert_eq!(ledger.spend(other).await, Ok(vec![RowVerdict::RecordBudget; 1000]));
    }
    assert_eq!(site.sql("SELECT * FROM uses").await, before);
    assert_eq!(rows().await, 1000);
    let spent = mark().await;
    let unknown = request((0..1000).map(|i| format!("nobody-{i}")));
    assert_eq!(ledger.spend(unknown).await, Err(LedgerError::TotalBudget { left: 0, asked: 1000 }));
    assert_eq!(mark().await, spent, "nothing was written");
    let refused = ledger.describe(None).await.unwrap().parties[0].refused;
    assert_eq!(refused, 10_000);
    ledger.close().await;
    let wider = Budgets { queries_per_record: Some(9), ..budgets };
    let ledger = site.open(wider).await;
    assert_eq!(ledger.spend(shares(all(), 2)).await, Ok(vec![RowVerdict::ShareChanged; 1000]));
    assert_eq!(ledger.spend(model(all(), "m-9")).await, Ok(vec![RowVerdict::ModelBudget; 1000]));
    assert_eq!(site.sql("SELECT * FROM uses").await, before);
    ledger.close().await;
}

/// What a config without `[budget]` gives.
async fn the_defaults_let_a_nightly_run_through(site: &Site) {
    let ledger = site.open(Budgets::default()).await;
    let rows = |part: usize| request((0..16_384).map(|i| format!("{part}-{i}")));
    for part in 0..18 {
        granted(&ledger, rows(part)).await;
    }
    for _ in 1..10 {
        granted(&ledger, request(["0-1"])).await;
    }
    assert_eq!(ledger.spend(request(["0-1", "0-2"])).await.unwrap()[0], RowVerdict::RecordBudget);
    granted(&ledger, model(request(["0-3"]), "m-2")).await;
    assert_eq!(
        ledger.spend(model(request(["0-3"]), "m-3")).await,
        Ok(vec![RowVerdict::ModelBudget])
    );
    ledger.close().await;
}

/// Rows that are undone by another budget take no tokens, and the other way round.
async fn a_request_refused_by_one_budget_spends_nothing_of_another(site: &Site) {
    let budgets = Budgets { records: Some(10), rows_per_minute: Some(60), ..Budgets::UNLIMITED };
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
    let ledger = site.open(Budgets { queries_per_record: Some(2), ..Budgets::UNLIMITED }).await;
    let long = "ü".repeat(64);
    let odd = [
        "é",
        "e\u{301}",
        "1",
        "01",
        "1.0",
        "null",
        "[]",
        "a\"b\\c'd;e,f g",
        "日本語",
        "\u{1f9ff}",
        " ",
        "%_",
        &long,
    ];
    granted(&ledger, request(odd)).await;
    granted(&ledger, request(odd)).await;
    assert_eq!(ledger.spend(request(odd)).await, Ok(vec![RowVerdict::RecordBudget; odd.len()]));
    let stored = site.sql("SELECT record FROM uses WHERE queries = 2").await;
    let mut stored: Vec<&str> = stored.iter().map(|row| row[0].as_str()).collect();
    let mut odd = odd.to_vec();
    stored.sort_unstable();
    odd.sort_unstable();
    assert_eq!(stored, odd);
    ledger.close().await;
}

async fn the_largest_request(site: &Site) {
    let ledger = site.open(Budgets { queries_per_record: Some(2), ..Budgets::UNLIMITED }).await;
    let all = || shares(request((0..16_384).map(|i| format!("customer-{i}"))), 7);
    granted(&ledger, all()).await;
    granted(&ledger, all()).await;
    assert_eq!(ledger.spend(all()).await, Ok(vec![RowVerdict::RecordBudget; 16_384]));
    site.settled().await;
    assert_eq!(site.number("SELECT CAST(sum(queries) AS BIGINT) FROM uses").await, 2 * 16_384);
    assert_eq!(site.number("SELECT count(share) FROM uses").await, 16_384);
    ledger.close().await;
}

crate::both_engines!(
    queries_of_a_record_count_across_models_and_policies,
    records_are_refused_as_a_whole,
    rows_per_minute_are_refused_as_a_whole,
    a_wall_clock_that_is_set_credits_nothing,
    models_of_a_record_are_counted_and_approved,
    bits_of_a_record_add_up,
    refused_rows_are_cheap,
    the_defaults_let_a_nightly_run_through,
    a_request_refused_by_one_budget_spends_nothing_of_another,
    ids_are_any_text,
    the_largest_request,
);
