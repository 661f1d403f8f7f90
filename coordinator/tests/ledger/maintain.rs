//! Backup, retention and erasure.

use std::time::Duration;

use vfl_coordinator::ledger::{self, Budgets, LedgerError, RetentionCounts, RowVerdict};

use crate::site::{Site, at, granted, party, request, shares};

const DAY: u64 = 86_400;

async fn erasure_hides_the_id_and_keeps_the_budget(site: &Site) {
    use RowVerdict::{Granted, RecordBudget, ShareChanged};
    let budgets = Budgets { records: Some(2), queries_per_record: Some(3), ..Budgets::UNLIMITED };
    let ledger = site.open(budgets).await;
    granted(&ledger, shares(request(["ann", "bob"]), 1)).await;
    granted(&ledger, party(request(["ann"]), "other")).await;
    let erased = ledger::erase(&site.url, "ann", at(5)).await.unwrap();
    assert_eq!((erased.rows, erased.queries), (2, 2));
    assert_eq!(ledger::erase(&site.url, "ann", at(6)).await.unwrap().rows, 0, "once is enough");
    // The running coordinator goes on counting, and refuses as before.
    granted(&ledger, shares(request(["ann"]), 1)).await;
    assert_eq!(
        ledger.spend(shares(request(["bob", "ann"]), 2)).await,
        Ok(vec![ShareChanged, ShareChanged])
    );
    granted(&ledger, shares(request(["ann"]), 1)).await;
    assert_eq!(ledger.spend(shares(request(["ann"]), 1)).await, Ok(vec![RecordBudget]));
    assert_eq!(
        ledger.spend(request(["cy"])).await,
        Err(LedgerError::TotalBudget { left: 0, asked: 1 })
    );
    ledger.close().await;
    let ledger = site.open(budgets).await;
    assert_eq!(
        ledger.spend(shares(request(["bob", "ann"]), 1)).await,
        Ok(vec![Granted, RecordBudget])
    );
    ledger.close().await;
    let everything =
        ["uses", "erased", "requests", "meta"].map(|table| format!("SELECT * FROM {table}"));
    for table in everything {
        let rows = site.sql(&table).await;
        assert!(rows.iter().flatten().all(|cell| !cell.contains("ann")), "{table}");
    }
    if site.is_sqlite() {
        for name in ["ledger.db", "ledger.db-wal"] {
            let bytes = std::fs::read(site.path().with_file_name(name)).unwrap_or_default();
            assert!(!bytes.windows(3).any(|w| w == b"ann"), "{name} still holds the id");
        }
    }
    let uses = ledger::record_uses(&site.url, "ann", Some("active")).await.unwrap();
    assert_eq!((uses.len(), uses[0].queries, uses[0].erased, uses[0].bound), (1, 3, true, true));
}

/// A reader keeps the log file from being cut: the command says so, and works when called again.
#[tokio::test]
async fn erasure_says_when_the_log_still_holds_the_id() {
    use sqlx::Connection;
    let site = Site::sqlite();
    let ledger = site.open(Budgets::UNLIMITED).await;
    granted(&ledger, shares(request(["ann"]), 1)).await;
    let mut reader = sqlx::SqliteConnection::connect(&site.url).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT * FROM uses").execute(&mut reader).await.unwrap();
    let said = ledger::erase(&site.url, "ann", at(5)).await.unwrap_err().to_string();
    assert!(said.contains("run the same command again"), "{said}");
    sqlx::raw_sql("COMMIT").execute(&mut reader).await.unwrap();
    reader.close().await.unwrap();
    assert_eq!(ledger::erase(&site.url, "ann", at(6)).await.unwrap().rows, 0);
    ledger.close().await;
    let log = std::fs::read(site.path().with_file_name("ledger.db-wal")).unwrap_or_default();
    assert!(!log.windows(3).any(|w| w == b"ann"));
}

async fn retention_forgets_times_and_request_ids_but_no_count(site: &Site) {
    let ledger = site.open(Budgets { queries_per_record: Some(2), ..Budgets::UNLIMITED }).await;
    let named = |records: &[&str], id: &str, day: u64| {
        let mut spend = shares(request(records), 1);
        (spend.request_id, spend.at) = (Some(id.into()), at(day * DAY));
        spend
    };
    granted(&ledger, named(&["old", "both"], "one", 0)).await;
    granted(&ledger, named(&["new", "both"], "two", 20)).await;
    let retained = ledger::retain(&site.url, 10, false, at(20 * DAY)).await.unwrap();
    // The writer has forgotten request `one` by itself: it is older than a day.
    assert_eq!(retained, RetentionCounts { request_ids: 0, times: 2, freed_records: 0, links: 0 });
    let (day20, null) = ((1_800_000_000 + 20 * DAY).to_string(), "NULL".to_owned());
    let rows =
        site.sql("SELECT record, queries, first_at, last_at FROM uses ORDER BY record").await;
    let row = |record: &str, queries: &str, first: &str, last: &str| {
        [record, queries, first, last].map(str::to_owned).to_vec()
    };
    assert_eq!(
        rows,
        [
            row("both", "2", &null, &day20),
            row("new", "1", &day20, &day20),
            row("old", "1", &null, &null)
        ]
    );
    assert_eq!(
        ledger.spend(named(&["both"], "three", 20)).await,
        Ok(vec![RowVerdict::RecordBudget])
    );
    assert_eq!(ledger.spend(shares(request(["old"]), 2)).await, Ok(vec![RowVerdict::ShareChanged]));
    let retained = ledger::retain(&site.url, 0, false, at(21 * DAY)).await.unwrap();
    assert_eq!(retained.request_ids, 2);
    ledger.close().await;
}

async fn budgets_are_freed_only_when_asked(site: &Site) {
    let ledger = site
        .open(Budgets { records: Some(3), queries_per_record: Some(2), ..Budgets::UNLIMITED })
        .await;
    let on = |records: &[&str], day: u64| {
        let mut spend = shares(request(records), 1);
        spend.at = at(day * DAY);
        spend
    };
    granted(&ledger, on(&["old", "both", "other"], 0)).await;
    granted(&ledger, on(&["both"], 20)).await;
    ledger::erase(&site.url, "other", at(20 * DAY)).await.unwrap();
    let retained = ledger::retain(&site.url, 10, true, at(20 * DAY)).await.unwrap();
    assert_eq!(retained.freed_records, 1, "what was erased a moment ago is not old");
    let retained = ledger::retain(&site.url, 10, true, at(40 * DAY)).await.unwrap();
    assert_eq!(retained.freed_records, 2);
    granted(&ledger, on(&["both"], 20)).await;
    granted(&ledger, on(&["both"], 20)).await;
    let party = ledger.describe(None).await.unwrap().parties.remove(0);
    assert_eq!((party.records, party.records_left), (1, Some(2)));
    assert_eq!(ledger.spend(on(&["both"], 20)).await, Ok(vec![RowVerdict::RecordBudget]));
    granted(&ledger, shares(request(["old", "fresh"]), 2)).await;
    ledger.close().await;
}

async fn retention_goes_through_many_records(site: &Site) {
    let ledger = site.open(Budgets::UNLIMITED).await;
    for part in 0..4 {
        granted(&ledger, request((0..12_000).map(|i| format!("{part}-{i}")))).await;
    }
    let retained =
        ledger::retain(&site.url, 1, true, at(3 * DAY) + Duration::from_secs(1)).await.unwrap();
    assert_eq!((retained.times, retained.freed_records), (48_000, 48_000));
    assert_eq!(site.number("SELECT count(*) FROM uses").await, 0);
    ledger.close().await;
}

crate::both_engines!(
    erasure_hides_the_id_and_keeps_the_budget,
    retention_forgets_times_and_request_ids_but_no_count,
    budgets_are_freed_only_when_asked,
    retention_goes_through_many_records,
);

#[tokio::test]
async fn a_backup_is_a_ledger() {
    let site = Site::sqlite();
    let ledger = site.open(Budgets::UNLIMITED).await;
    granted(&ledger, shares(request(["a", "b"]), 1)).await;
    let out = site.path().with_file_name("backup.db");
    ledger::backup(&site.url, &out).await.unwrap();
    let described = ledger.describe(None).await.unwrap();
    granted(&ledger, request(["c"])).await;
    ledger.close().await;
    assert_eq!(
        ledger::summary(&format!("sqlite:{}", out.display()), None).await.unwrap(),
        described
    );
    let again = ledger::backup(&site.url, &out).await.unwrap_err();
    assert!(again.to_string().contains("backup.db"), "{again}");
    assert!(!out.with_file_name("backup.db.partial").exists());
    let mut restored = Site::sqlite();
    restored.url = format!("sqlite:{}", out.display());
    let ledger = restored.open(Budgets::UNLIMITED).await;
    assert_eq!(ledger.spend(shares(request(["a"]), 2)).await, Ok(vec![RowVerdict::ShareChanged]));
    ledger.close().await;
    let elsewhere = ledger::backup("postgres://nobody@127.0.0.1:1/none", &out).await.unwrap_err();
    assert!(elsewhere.to_string().contains("pg_dump"), "{elsewhere}");
}
