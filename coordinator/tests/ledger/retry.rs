//! A retry costs nothing twice.

use std::time::Duration;

use vfl_coordinator::ledger::{
    Budgets, Ledger, LedgerConfig, LedgerError, RowVerdict, SpendRequest,
};

use crate::site::{FINGERPRINT, Site, later, party, request, shares};

fn named(id: &str, body: u8, seconds: u64) -> SpendRequest {
    let request_id = Some(id.to_owned());
    SpendRequest {
        request_id,
        body_hash: [body; 32],
        ..later(shares(request(["a", "b"]), body), seconds)
    }
}

const BUDGETS: Budgets = Budgets {
    records: Some(2),
    queries_per_record: Some(3),
    models_per_record: Some(1),
    bits_per_record: None,
    rows_per_minute: Some(6),
};

async fn a_retry_gets_the_same_and_costs_nothing(site: &Site) {
    use RowVerdict::{Granted, ShareChanged};
    let ledger = site.open(BUDGETS).await;
    assert_eq!(ledger.spend(named("one", 1, 0)).await, Ok(vec![Granted; 2]));
    assert_eq!(ledger.spend(named("two", 2, 0)).await, Ok(vec![ShareChanged; 2]));
    for _ in 0..5 {
        assert_eq!(ledger.spend(named("one", 1, 0)).await, Ok(vec![Granted; 2]));
        assert_eq!(ledger.spend(named("two", 2, 0)).await, Ok(vec![ShareChanged; 2]));
    }
    ledger.close().await;
    let ledger = site.open(BUDGETS).await;
    assert_eq!(ledger.spend(named("two", 2, 0)).await, Ok(vec![ShareChanged; 2]));
    assert_eq!(site.number("SELECT CAST(sum(queries) AS BIGINT) FROM uses").await, 2);
    assert_eq!(site.sql("SELECT queries, refused FROM totals").await, [["4", "2"]]);
    ledger.close().await;
}

async fn another_body_is_refused_and_another_party_is_not(site: &Site) {
    let ledger = site.open(Budgets::UNLIMITED).await;
    ledger.spend(named("one", 1, 0)).await.unwrap();
    assert_eq!(ledger.spend(named("one", 2, 0)).await, Err(LedgerError::RequestIdReused));
    assert_eq!(
        ledger.spend(party(named("one", 2, 0), "other")).await,
        Ok(vec![RowVerdict::Granted; 2])
    );
    assert_eq!(site.number("SELECT CAST(sum(queries) AS BIGINT) FROM uses").await, 4);
    ledger.close().await;
}

async fn a_refused_request_may_come_again_under_its_id(site: &Site) {
    let ledger = site.open(Budgets { rows_per_minute: Some(2), ..Budgets::UNLIMITED }).await;
    ledger.spend(named("one", 1, 0)).await.unwrap();
    assert!(matches!(ledger.spend(named("two", 1, 0)).await, Err(LedgerError::Rate { .. })));
    assert_eq!(ledger.spend(named("two", 1, 60)).await, Ok(vec![RowVerdict::Granted; 2]));
    ledger.close().await;
}

async fn an_id_is_forgotten_in_time(site: &Site) {
    let memory = Duration::from_secs(100);
    let config = LedgerConfig { request_memory: memory, ..site.config(Budgets::UNLIMITED) };
    let ledger = Ledger::open(&config, FINGERPRINT).await.unwrap();
    ledger.spend(named("one", 1, 0)).await.unwrap();
    ledger.spend(named("one", 1, 99)).await.unwrap();
    assert_eq!(ledger.spend(named("one", 2, 99)).await, Err(LedgerError::RequestIdReused));
    assert_eq!(ledger.spend(named("one", 2, 100)).await, Ok(vec![RowVerdict::ShareChanged; 2]));
    assert_eq!(site.number("SELECT count(*) FROM requests").await, 1);
    ledger.spend(named("two", 1, 300)).await.unwrap();
    assert_eq!(site.sql("SELECT request_id FROM requests").await, [["two"]]);
    assert_eq!(site.number("SELECT CAST(sum(queries) AS BIGINT) FROM totals").await, 6);
    ledger.close().await;
}

/// The clock is set back by two days, by more than an id is remembered, and is right again: also if the ledger was opened in between. A clock that
/// was wrong by years is no reason to date everything by it.
async fn an_id_is_remembered_when_the_clock_was_set_back(site: &Site) {
    let (now, day) = (400 * 86_400, 86_400);
    let ledger = site.open(Budgets::UNLIMITED).await;
    ledger.spend(shares(later(request(["c"]), now), 1)).await.unwrap();
    ledger.close().await;
    let ledger = site.open(Budgets::UNLIMITED).await;
    ledger.spend(named("one", 1, now - 2 * day)).await.unwrap();
    ledger.spend(named("two", 1, now - 2 * day + 5)).await.unwrap();
    for id in ["one", "two"] {
        assert_eq!(ledger.spend(named(id, 2, now + 5)).await, Err(LedgerError::RequestIdReused));
        assert_eq!(
            ledger.spend(named(id, 2, now - 2 * day)).await,
            Err(LedgerError::RequestIdReused)
        );
    }
    assert_eq!(
        ledger.spend(named("one", 2, now + day)).await,
        Ok(vec![RowVerdict::ShareChanged; 2])
    );
    ledger.spend(named("far", 1, now + 40 * day)).await.unwrap();
    ledger.spend(named("near", 1, now + 2 * day)).await.unwrap();
    assert_eq!(
        ledger.spend(named("near", 2, now + 2 * day + 5)).await,
        Err(LedgerError::RequestIdReused)
    );
    assert_eq!(
        ledger.spend(named("near", 2, now + 3 * day)).await,
        Ok(vec![RowVerdict::ShareChanged; 2])
    );
    ledger.close().await;
}

async fn the_same_request_at_once_is_spent_once(site: &Site) {
    let ledger = std::sync::Arc::new(site.open(Budgets::UNLIMITED).await);
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..64u8 {
        let ledger = ledger.clone();
        tasks.spawn(
            async move { (i % 4, ledger.spend(named(&format!("id-{}", i % 4), 9, 0)).await) },
        );
    }
    while let Some(done) = tasks.join_next().await {
        assert_eq!(done.unwrap().1, Ok(vec![RowVerdict::Granted; 2]));
    }
    assert_eq!(site.number("SELECT CAST(sum(queries) AS BIGINT) FROM uses").await, 8);
    std::sync::Arc::into_inner(ledger).unwrap().close().await;
}

async fn request_ids_are_short_texts(site: &Site) {
    let ledger = site.open(Budgets::UNLIMITED).await;
    for bad in [String::new(), "x".repeat(129), "a\0".into(), "a\n".into()] {
        assert_eq!(ledger.spend(named(&bad, 1, 0)).await, Err(LedgerError::RequestId), "{bad:?}");
    }
    for good in ["x".repeat(128), "ü".repeat(128), "a'b\"c\\".into()] {
        ledger.spend(named(&good, 1, 0)).await.unwrap();
        ledger.spend(named(&good, 1, 0)).await.unwrap();
    }
    assert_eq!(site.number("SELECT CAST(sum(queries) AS BIGINT) FROM uses").await, 6);
    ledger.close().await;
}

crate::both_engines!(
    a_retry_gets_the_same_and_costs_nothing,
    another_body_is_refused_and_another_party_is_not,
    a_refused_request_may_come_again_under_its_id,
    an_id_is_forgotten_in_time,
    an_id_is_remembered_when_the_clock_was_set_back,
    the_same_request_at_once_is_spent_once,
    request_ids_are_short_texts,
);
