//! A ledger that is lost, emptied, another one or an old copy is noticed.

use std::path::{Path, PathBuf};

use vfl_coordinator::ledger::{self, Ledger, LedgerConfig, LedgerError, RowVerdict};

use crate::site::{FINGERPRINT, Site, granted, request, shares};

async fn open(config: &LedgerConfig) -> Result<Ledger, LedgerError> {
    Ledger::open(config, FINGERPRINT).await
}

async fn refused(config: &LedgerConfig) -> LedgerError {
    let error = open(config).await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("--begin-new-ledger"), "the fix is named: {said}");
    error
}

fn anew(config: &LedgerConfig) -> LedgerConfig {
    LedgerConfig { begin_new: true, ..config.clone() }
}

fn mark(state: &Path) -> String {
    std::fs::read_to_string(state.join("ledger.mark")).unwrap()
}

/// Without the last link of the chain, which says too how often the ledger was opened.
fn known(mark: &str) -> serde_json::Value {
    let mut known: serde_json::Value = serde_json::from_str(mark).unwrap();
    known.as_object_mut().unwrap().remove("head");
    known
}

/// Begins a ledger with a share bound to record `a`.
async fn begun(config: &LedgerConfig) {
    let ledger = open(config).await.unwrap();
    granted(&ledger, shares(request(["a"]), 1)).await;
    ledger.close().await;
}

/// A ledger that has made one commit since its backup.
async fn backed_up(site: &Site, config: &LedgerConfig, dir: &Path) -> (PathBuf, Ledger) {
    begun(config).await;
    let backup = dir.join("backup.db");
    ledger::backup(&site.url, &backup).await.unwrap();
    let ledger = open(config).await.unwrap();
    granted(&ledger, shares(request(["b"]), 1)).await;
    (backup, ledger)
}

/// Takes all tables away, as somebody does who drops a schema, or whose volume is not mounted.
async fn lose(site: &Site) {
    if site.is_sqlite() {
        for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
            let _ = std::fs::remove_file(site.path().with_file_name(name));
        }
    } else {
        for table in [
            "chain",
            "rates",
            "versions",
            "tops",
            "calibrations",
            "trained",
            "audit_sessions",
            "audit_released",
            "audit_costs",
            "audit_bound",
            "audit_sets",
            "meta",
            "uses",
            "totals",
            "requests",
            "erased",
            "approvals",
            "events",
            "bits",
            "models",
            "policies",
            "parties",
            "_sqlx_migrations",
        ] {
            site.sql(&format!("DROP TABLE {table} CASCADE")).await;
        }
    }
}

async fn a_ledger_that_is_gone_is_not_begun_anew_unless_asked(site: &Site) {
    let state = tempfile::tempdir().unwrap();
    let config = site.remembered(state.path());
    begun(&config).await;
    begun(&config).await;
    lose(site).await;
    for _ in 0..2 {
        assert!(matches!(refused(&config).await, LedgerError::Lost { .. }));
        if site.is_sqlite() {
            assert!(!site.path().exists(), "nothing was made");
        }
    }
    let before = mark(state.path());
    let ledger = open(&anew(&config)).await.unwrap();
    granted(&ledger, shares(request(["a"]), 2)).await;
    let events = ledger.describe(None).await.unwrap().events;
    assert!(
        events.len() == 1 && events[0].what.contains("begun anew by the operator"),
        "{events:?}"
    );
    ledger.close().await;
    assert_ne!(mark(state.path()), before);
    assert_eq!(
        open(&anew(&config)).await.unwrap_err(),
        LedgerError::NothingToBegin,
        "once is enough"
    );
    let ledger = open(&config).await.unwrap();
    assert_eq!(ledger.spend(shares(request(["a"]), 1)).await, Ok(vec![RowVerdict::ShareChanged]));
    ledger.close().await;
}

async fn a_ledger_that_was_emptied_is_noticed(site: &Site) {
    let state = tempfile::tempdir().unwrap();
    let config = site.remembered(state.path());
    begun(&config).await;
    for table in ["uses", "totals", "requests", "parties"] {
        site.sql(&format!("DELETE FROM {table}")).await;
    }
    assert!(matches!(refused(&config).await, LedgerError::Lost { .. }));
    site.sql("DELETE FROM meta").await;
    assert!(matches!(refused(&config).await, LedgerError::Lost { .. }));
    open(&anew(&config)).await.unwrap().close().await;
    open(&config).await.unwrap().close().await;
}

async fn another_ledger_is_noticed(site: &Site) {
    let (state, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let elsewhere = Site::sqlite();
    begun(&elsewhere.remembered(state.path())).await;
    begun(&site.remembered(other.path())).await;
    let config = site.remembered(state.path());
    assert!(matches!(refused(&config).await, LedgerError::Another { .. }));
    // Begun in the place of the other one, and stopped before that was noted: it is known again without the option.
    let before = mark(state.path());
    open(&anew(&config)).await.unwrap().close().await;
    let after = mark(state.path());
    std::fs::write(state.path().join("ledger.mark"), before).unwrap();
    open(&config).await.unwrap().close().await;
    assert_eq!(known(&mark(state.path())), known(&after));
    // The one that was left may not come back as if nothing had been.
    assert!(matches!(
        refused(&elsewhere.remembered(state.path())).await,
        LedgerError::Another { .. }
    ));
    // A state directory that knows none takes the ledger that is there; a damaged mark is not overlooked.
    std::fs::remove_file(state.path().join("ledger.mark")).unwrap();
    open(&config).await.unwrap().close().await;
    std::fs::write(state.path().join("ledger.mark"), b"{\"ledger\":").unwrap();
    assert!(matches!(refused(&config).await, LedgerError::DamagedMark { .. }));
    open(&anew(&config)).await.unwrap().close().await;
    open(&config).await.unwrap().close().await;
}

/// Nothing is to begin where nothing was.
async fn the_first_ledger_needs_no_option(site: &Site) {
    let state = tempfile::tempdir().unwrap();
    let config = site.remembered(state.path());
    assert_eq!(ledger::secret_fingerprint(&config).await, Ok(None));
    assert_eq!(open(&anew(&config)).await.unwrap_err(), LedgerError::NothingToBegin);
    begun(&config).await;
    assert_eq!(ledger::secret_fingerprint(&config).await, Ok(Some(FINGERPRINT.into())));
    lose(site).await;
    assert_eq!(
        ledger::secret_fingerprint(&config).await,
        Ok(Some(FINGERPRINT.into())),
        "the state directory knows"
    );
    assert_eq!(ledger::secret_fingerprint(&anew(&config)).await, Ok(None));
}

crate::both_engines!(
    a_ledger_that_is_gone_is_not_begun_anew_unless_asked,
    a_ledger_that_was_emptied_is_noticed,
    another_ledger_is_noticed,
    the_first_ledger_needs_no_option,
);

/// Every backup that lacks a commit is noticed, after a clean stop to the last one; going on with it is a decision.
#[tokio::test]
async fn a_restored_backup_is_noticed() {
    let site = Site::sqlite();
    let state = tempfile::tempdir().unwrap();
    let config = site.remembered(state.path());
    let (backup, ledger) = backed_up(&site, &config, state.path()).await;
    ledger.close().await;
    let restore = || {
        for name in ["ledger.db-wal", "ledger.db-shm"] {
            let _ = std::fs::remove_file(site.path().with_file_name(name));
        }
        std::fs::copy(&backup, site.path()).unwrap();
    };
    let kept = std::fs::read(site.path()).unwrap();
    restore();
    assert!(matches!(refused(&config).await, LedgerError::OldCopy { .. }));
    // The latest one is back: all is well.
    std::fs::write(site.path(), kept).unwrap();
    open(&config).await.unwrap().close().await;
    restore();
    let ledger = open(&anew(&config)).await.unwrap();
    assert_eq!(
        ledger.spend(shares(request(["a"]), 2)).await,
        Ok(vec![RowVerdict::ShareChanged]),
        "what it holds counts"
    );
    granted(&ledger, shares(request(["b"]), 2)).await;
    ledger.close().await;
    open(&config).await.unwrap().close().await;
    // The same backup a second time is not the ledger that was gone on with.
    restore();
    assert!(matches!(refused(&config).await, LedgerError::Another { .. }));
}

/// Under a running coordinator too: a file put in the place of the ledger is not written to.
#[tokio::test]
async fn a_ledger_exchanged_under_a_running_coordinator_is_noticed() {
    let site = Site::sqlite();
    let state = tempfile::tempdir().unwrap();
    let config = site.remembered(state.path());
    let (backup, ledger) = backed_up(&site, &config, state.path()).await;
    // A failure makes the writer connect anew, and what it finds is the old copy.
    site.sql("ALTER TABLE totals RENAME TO gone").await;
    ledger.spend(request(["c"])).await.unwrap_err();
    for name in ["ledger.db-wal", "ledger.db-shm"] {
        let _ = std::fs::remove_file(site.path().with_file_name(name));
    }
    std::fs::copy(&backup, site.path()).unwrap();
    let error = ledger.spend(request(["c"])).await.unwrap_err();
    assert!(matches!(error, LedgerError::OldCopy { .. }), "{error}");
    ledger.close().await;
}
