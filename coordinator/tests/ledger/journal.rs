//! The journal of the embedded ledger: what it holds counts wherever the tables do, and nobody finds it by half.

use std::time::Duration;

use vfl_coordinator::ledger::{
    self, Budgets, JournalLimits, Ledger, LedgerConfig, LedgerError, RowVerdict, record_uses,
    verify,
};

use crate::site::{FINGERPRINT, Site, at, granted, is_storage, later, model, request, shares};

/// Everything goes by the journal, and stays there for as long as nobody needs the tables.
const ALL: JournalLimits = JournalLimits {
    rows: 1,
    records: usize::MAX,
    bytes: usize::MAX,
    idle: Duration::from_secs(3600),
};
const UNLIMITED: Budgets = Budgets::UNLIMITED;

async fn open(site: &Site, budgets: Budgets) -> Ledger {
    Ledger::open(&LedgerConfig { journal: ALL, ..site.config(budgets) }, FINGERPRINT).await.unwrap()
}

async fn journaled(site: &Site) -> i64 {
    site.number("SELECT count(*) FROM journal").await
}

async fn granted_in_uses(site: &Site) -> i64 {
    site.number("SELECT coalesce(sum(queries), 0) FROM uses").await
}

#[tokio::test]
async fn what_it_holds_counts_everywhere() {
    let site = Site::sqlite();
    let ledger = open(&site, Budgets { queries_per_record: Some(3), ..UNLIMITED }).await;
    granted(&ledger, shares(request(["a", "b"]), 1)).await;
    granted(&ledger, later(shares(request(["b", "c"]), 1), 5)).await;
    granted(&ledger, later(model(request(["b"]), "m-2"), 9)).await;
    assert_eq!((journaled(&site).await, granted_in_uses(&site).await), (3, 0));
    // Budgets and bindings go by it.
    assert_eq!(ledger.spend(request(["b"])).await, Ok(vec![RowVerdict::RecordBudget]));
    assert_eq!(ledger.spend(shares(request(["a"]), 2)).await, Ok(vec![RowVerdict::ShareChanged]));
    // Readers count it in.
    let uses = record_uses(&site.url, "b", None).await.unwrap();
    let seen: Vec<_> = uses
        .iter()
        .map(|u| (u.model.as_str(), u.queries, u.first_at, u.last_at, u.bound, u.erased))
        .collect();
    let time = |s: u64| Some(1_800_000_000 + s as i64);
    assert_eq!(
        seen,
        [("m-1", 2, time(0), time(5), true, false), ("m-2", 1, time(9), time(9), false, false)]
    );
    let verified = verify(&site.url, None, &[]).await.unwrap();
    assert_eq!(verified.findings, Vec::<String>::new());
    assert_eq!((verified.queries, verified.refused), (7, 2));
    ledger.close().await;
    assert_eq!((journaled(&site).await, granted_in_uses(&site).await), (0, 5));
    assert_eq!(record_uses(&site.url, "b", None).await.unwrap(), uses);
    assert_eq!(verify(&site.url, None, &[]).await.unwrap().findings, Vec::<String>::new());
}

#[tokio::test]
async fn a_journal_that_was_left_behind_is_added_when_the_ledger_is_opened() {
    let site = Site::sqlite();
    let ledger = open(&site, UNLIMITED).await;
    granted(&ledger, shares(request(["a", "b"]), 1)).await;
    granted(&ledger, request(["a"])).await;
    // What a machine that lost its power finds.
    let copy = Site::sqlite();
    for suffix in ["", "-wal"] {
        let name = format!("ledger.db{suffix}");
        std::fs::copy(site.path().with_file_name(&name), copy.path().with_file_name(&name))
            .unwrap();
    }
    ledger.close().await;
    let budgets = Budgets { queries_per_record: Some(2), ..UNLIMITED };
    let ledger = open(&copy, budgets).await;
    assert_eq!(
        ledger.spend(shares(request(["a", "b"]), 1)).await,
        Ok(vec![RowVerdict::RecordBudget, RowVerdict::Granted])
    );
    assert_eq!(granted_in_uses(&copy).await, 3, "of before");
    assert_eq!(
        ledger.spend(shares(request(["b", "c"]), 2)).await,
        Ok(vec![RowVerdict::RecordBudget, RowVerdict::Granted])
    );
    ledger.close().await;
    assert_eq!((journaled(&copy).await, granted_in_uses(&copy).await), (0, 5));
}

#[tokio::test]
async fn it_is_added_to_the_tables_when_there_is_nothing_to_do() {
    let site = Site::sqlite();
    let journal = JournalLimits { rows: 1, ..JournalLimits::default() };
    let ledger = Ledger::open(&LedgerConfig { journal, ..site.config(UNLIMITED) }, FINGERPRINT)
        .await
        .unwrap();
    granted(&ledger, request(["a", "b"])).await;
    site.settled().await;
    assert_eq!(granted_in_uses(&site).await, 2);
    // And the numbers of its records begin anew.
    granted(&ledger, request(["b", "c"])).await;
    ledger.close().await;
    let rows = site.sql("SELECT record, queries FROM uses ORDER BY record").await;
    assert_eq!(rows, [["a", "1"], ["b", "2"], ["c", "1"]]);
}

/// Whether a text stands in the files.
fn holds(site: &Site, text: &str) -> bool {
    ["ledger.db", "ledger.db-wal"].iter().any(|name| {
        let bytes = std::fs::read(site.path().with_file_name(name)).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

/// Pages that the journal had and gave back hold nothing of it.
#[tokio::test]
async fn an_erased_id_is_not_left_behind_in_pages_of_before() {
    let site = Site::sqlite();
    let journal = JournalLimits { rows: 1, ..JournalLimits::default() };
    let ledger = Ledger::open(&LedgerConfig { journal, ..site.config(UNLIMITED) }, FINGERPRINT)
        .await
        .unwrap();
    let customers = (0..20_000).map(|i| format!("customer-{i}"));
    granted(&ledger, shares(request(customers), 1)).await;
    site.settled().await;
    assert!(holds(&site, "customer-11117"));
    ledger::erase(&site.url, "customer-11117", at(1)).await.unwrap();
    assert!(!holds(&site, "customer-11117"));
    ledger.close().await;
    assert!(
        !std::fs::read(site.path()).unwrap().windows(14).any(|window| window == b"customer-11117")
    );
}

/// An erased id stands nowhere in the files, and its counts go on.
#[tokio::test]
async fn erasure_and_retention_reach_it() {
    let site = Site::sqlite();
    let ledger = open(&site, Budgets { queries_per_record: Some(2), ..UNLIMITED }).await;
    granted(&ledger, request(["somebody-of-note", "b"])).await;
    let erased = ledger::erase(&site.url, "somebody-of-note", at(1)).await.unwrap();
    assert_eq!((erased.rows, erased.queries), (1, 1));
    assert!(!holds(&site, "somebody-of-note"));
    granted(&ledger, later(request(["somebody-of-note", "b"]), 2)).await;
    assert_eq!(
        ledger.spend(later(request(["somebody-of-note", "c"]), 3)).await,
        Ok(vec![RowVerdict::RecordBudget, RowVerdict::Granted])
    );
    // Retention of everything before second 3 keeps what the journal has of `c`.
    let retained = ledger::retain(&site.url, 0, true, at(3)).await.unwrap();
    assert_eq!(retained.freed_records, 2, "b and the erased one");
    assert_eq!(ledger.spend(later(request(["b", "c"]), 4)).await, Ok(vec![RowVerdict::Granted; 2]));
    assert_eq!(
        ledger.spend(later(request(["b", "c"]), 5)).await,
        Ok(vec![RowVerdict::Granted, RowVerdict::RecordBudget])
    );
    ledger.close().await;
    assert_eq!(verify(&site.url, None, &[]).await.unwrap().findings, Vec::<String>::new());
}

/// What is known of records is not gone by when somebody else has changed the file.
#[tokio::test]
async fn changes_by_hand_count_at_once() {
    let site = Site::sqlite();
    let ledger = open(&site, Budgets { queries_per_record: Some(5), ..UNLIMITED }).await;
    granted(&ledger, request(["a"])).await;
    granted(&ledger, request(["a"])).await;
    site.run("UPDATE policies SET name = 'another' WHERE name = 'nobody'; INSERT INTO meta VALUES ('x', 'y')").await;
    granted(&ledger, request(["a"])).await;
    assert_eq!(granted_in_uses(&site).await, 2, "the journal went to the table first");
    site.run("UPDATE uses SET queries = 4").await;
    assert_eq!(ledger.spend(request(["a"])).await, Ok(vec![RowVerdict::RecordBudget]));
    ledger.close().await;
}

#[tokio::test]
async fn a_damaged_journal_grants_nothing() {
    let site = Site::sqlite();
    let ledger = open(&site, UNLIMITED).await;
    granted(&ledger, request(["a", "b"])).await;
    site.run("UPDATE journal SET content = substr(content, 1, length(content) - 1)").await;
    let refused = ledger.spend(request(["c"])).await.unwrap_err();
    assert!(is_storage(&refused) && refused.to_string().contains("contradict"), "{refused}");
    let found: LedgerError = verify(&site.url, None, &[]).await.unwrap_err();
    assert!(found.to_string().contains("contradict"), "{found}");
    ledger.close().await;
    site.run("DELETE FROM journal").await;
    let findings = verify(&site.url, None, &[]).await.unwrap().findings;
    assert!(
        findings.iter().any(|f| f.contains("2 rows granted by the chain, 0 in `uses`")),
        "{findings:?}"
    );
}
