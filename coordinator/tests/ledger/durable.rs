//! What is granted is on disk, what fails grants nothing, and there is one writer.

use std::sync::Arc;

use vfl_coordinator::ledger::{Budgets, Ledger, LedgerConfig, LedgerError, summary};

use crate::site::{FINGERPRINT, Site, granted, is_storage, party, request, shares};

async fn many_at_once_are_all_recorded(site: &Site) {
    let ledger = Arc::new(site.open(Budgets::UNLIMITED).await);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..64 {
        let ledger = ledger.clone();
        tasks.spawn(async move {
            for turn in 0..5 {
                // Every task asks for the records 0 to 9, and for some of its own.
                let own = (0..7).map(|i| format!("{task}-{turn}-{i}"));
                let spend = shares(request((0..10).map(|i| i.to_string()).chain(own)), 1);
                granted(&ledger, party(spend, if task % 2 == 0 { "even" } else { "odd" })).await;
            }
        });
    }
    tasks.join_all().await;
    let described = ledger.describe(None).await.unwrap();
    for party in &described.parties {
        assert_eq!(
            (party.queries, party.records, party.refused),
            (32 * 5 * 17, 10 + 32 * 5 * 7, 0)
        );
    }
    site.settled().await;
    assert_eq!(site.number("SELECT CAST(sum(queries) AS BIGINT) FROM uses").await, 64 * 5 * 17);
    assert_eq!(
        site.number("SELECT CAST(min(queries) AS BIGINT) FROM uses WHERE length(record) = 1").await,
        32 * 5
    );
    Arc::into_inner(ledger).unwrap().close().await;
}

async fn another_secret_does_not_start(site: &Site) {
    site.open(Budgets::UNLIMITED).await.close().await;
    let other =
        Ledger::open(&site.config(Budgets { records: Some(1), ..Budgets::UNLIMITED }), "beef")
            .await
            .unwrap_err();
    assert_eq!(
        other,
        LedgerError::Fingerprint { ledger: FINGERPRINT.into(), server: "beef".into() }
    );
    assert!(other.to_string().contains("old secret"), "{other}");
    let ledger = site.open(Budgets::UNLIMITED).await;
    assert_eq!(
        ledger.describe(None).await.unwrap().budgets,
        Budgets::UNLIMITED,
        "the refused one changed nothing"
    );
    ledger.close().await;
}

async fn a_second_coordinator_is_refused(site: &Site) {
    let ledger = site.open(Budgets::UNLIMITED).await;
    let second = Ledger::open(&site.config(Budgets::UNLIMITED), FINGERPRINT).await.unwrap_err();
    assert_eq!(second, LedgerError::Locked);
    granted(&ledger, request(["a"])).await;
    ledger.close().await;
    site.open(Budgets::UNLIMITED).await.close().await;
}

async fn a_restart_keeps_everything(site: &Site) {
    let ledger = site.open(Budgets::UNLIMITED).await;
    granted(&ledger, shares(request(["a", "b"]), 1)).await;
    let before = ledger.describe(None).await.unwrap();
    ledger.close().await;
    let ledger = site.open(Budgets::UNLIMITED).await;
    assert_eq!(ledger.describe(None).await.unwrap(), before);
    assert_eq!(summary(&site.url, None).await.unwrap(), before);
    ledger.close().await;
}

/// The table that is written last is gone: what the transaction wrote before it must go too.
async fn a_failure_grants_nothing_and_the_next_request_connects_anew(site: &Site) {
    let ledger = site.open(Budgets { records: Some(2), ..Budgets::UNLIMITED }).await;
    granted(&ledger, request(["a"])).await;
    site.sql("ALTER TABLE totals RENAME TO gone").await;
    let mut named = request(["b"]);
    named.request_id = Some("one".into());
    for _ in 0..2 {
        let failed = ledger.spend(named.clone()).await.unwrap_err();
        assert!(is_storage(&failed), "{failed}");
    }
    site.sql("ALTER TABLE gone RENAME TO totals").await;
    assert_eq!(site.number("SELECT count(*) FROM uses").await, 1);
    assert_eq!(site.number("SELECT records FROM parties").await, 1);
    granted(&ledger, named).await;
    assert_eq!(site.number("SELECT CAST(sum(queries) AS BIGINT) FROM totals").await, 2);
    ledger.close().await;
}

crate::both_engines!(
    many_at_once_are_all_recorded,
    another_secret_does_not_start,
    a_second_coordinator_is_refused,
    a_restart_keeps_everything,
    a_failure_grants_nothing_and_the_next_request_connects_anew,
);

#[tokio::test]
async fn a_second_way_to_the_same_file_is_the_same_ledger() {
    let site = Site::sqlite();
    let ledger = site.open(Budgets::UNLIMITED).await;
    let link = site.path().with_file_name("link.db");
    std::os::unix::fs::symlink(site.path(), &link).unwrap();
    let config = LedgerConfig::new(format!("sqlite:{}", link.display()));
    assert_eq!(Ledger::open(&config, FINGERPRINT).await.unwrap_err(), LedgerError::Locked);
    ledger.close().await;
}

#[tokio::test]
async fn the_file_is_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::sqlite();
    let ledger = site.open(Budgets::UNLIMITED).await;
    granted(&ledger, request(["a"])).await;
    for name in ["ledger.db", "ledger.db-wal", "ledger.db.lock"] {
        let mode = site.path().with_file_name(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    ledger.close().await;
}

#[tokio::test]
async fn urls_are_checked_and_not_repeated() {
    let refused =
        async |url: &str| Ledger::open(&LedgerConfig::new(url), FINGERPRINT).await.unwrap_err();
    for url in [
        "",
        "ledger.db",
        "sqlite:",
        "sqlite::memory:",
        "sqlite:a?mode=memory",
        "mysql://u:hunter2@h/d",
    ] {
        let error = refused(url).await;
        assert!(matches!(error, LedgerError::Url(_)), "{url}: {error}");
    }
    let error = refused("postgres://u:hunter2@[bad").await;
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert!(!format!("{:?}", LedgerConfig::new("postgres://u:hunter2@h/d")).contains("hunter2"));
    assert_eq!(
        summary("sqlite:/nonexistent/ledger.db", None).await.unwrap_err(),
        LedgerError::Missing
    );
}

/// PostgreSQL finds out at the very commit.
#[tokio::test]
async fn a_commit_that_is_refused_grants_nothing() {
    let Some(site) = Site::postgres().await else { return };
    let ledger = site.open(Budgets::UNLIMITED).await;
    granted(&ledger, request(["a"])).await;
    site.sql("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'").await;
    let trigger = "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON uses DEFERRABLE INITIALLY DEFERRED \
        FOR EACH ROW EXECUTE FUNCTION refuse()";
    site.sql(trigger).await;
    assert!(is_storage(&ledger.spend(request(["b"])).await.unwrap_err()));
    site.sql("DROP TRIGGER refuse ON uses").await;
    assert_eq!(site.number("SELECT count(*) FROM uses").await, 1);
    granted(&ledger, request(["b"])).await;
    ledger.close().await;
    site.remove().await;
}

/// The server ends the connection, and with it the lock; the next request takes both anew.
#[tokio::test]
async fn a_connection_that_was_ended_is_made_again() {
    let Some(mut site) = Site::postgres().await else { return };
    site.url += "&application_name=ledger_test_ended";
    let ledger = site.open(Budgets::UNLIMITED).await;
    granted(&ledger, request(["a"])).await;
    let end = "SELECT CAST(count(pg_terminate_backend(pid)) AS BIGINT) FROM pg_stat_activity \
        WHERE application_name = 'ledger_test_ended' AND pid <> pg_backend_pid()";
    assert_eq!(site.number(end).await, 1);
    assert!(is_storage(&ledger.spend(request(["b"])).await.unwrap_err()));
    granted(&ledger, request(["b"])).await;
    assert_eq!(site.number("SELECT count(*) FROM uses").await, 2);
    assert_eq!(
        Ledger::open(&site.config(Budgets::UNLIMITED), FINGERPRINT).await.unwrap_err(),
        LedgerError::Locked
    );
    ledger.close().await;
    site.remove().await;
}
