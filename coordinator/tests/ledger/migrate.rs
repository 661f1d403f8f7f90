//! A ledger that the version before this one kept.

use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use vfl_coordinator::ledger::{
    self, Budgets, FingerprintLookup, Ledger, LedgerConfig, LedgerError, RowVerdict,
};
use vfl_coordinator::share::ShareHashKind;

use crate::site::{FINGERPRINT, Site, granted, model, request, shares, version};

/// The tables and the migrator's notes as they were, and what two versions left in them.
async fn old_ledger(site: &Site) {
    let tables = include_str!("../../migrations/0001_ledger.sql");
    let rows = format!(
        "INSERT INTO meta VALUES ('secret_fingerprint', '{FINGERPRINT}'), ('erasure_key', 'k'), ('erasures', '0'), \
         ('budgets', '{{\"records\":null,\"queries_per_record\":5,\"rows_per_minute\":null}}'); \
         INSERT INTO parties VALUES (1, 'active', 2); \
         INSERT INTO models VALUES (1, 'm-1'), (2, 'm-2'), (3, 'm-3'); INSERT INTO policies VALUES (1, 'none'); \
         INSERT INTO uses VALUES (1, 'a', 1, 1, 1, 7, 7, '{}'), (1, 'a', 2, 1, 1, 8, 8, '{}'), (1, 'b', 3, 1, 1, 9, 9, '{}'); \
         INSERT INTO totals VALUES (1, 1, 1, 1, 0, 7, 7), (1, 2, 1, 1, 0, 8, 8), (1, 3, 1, 1, 0, 9, 9)",
        "01".repeat(16),
        "02".repeat(16),
        "03".repeat(16)
    );
    // Migration 1, applied by the migrator itself, so that its own table is as it was.
    let dir = tempfile::tempdir().unwrap();
    let text = match site.is_sqlite() {
        true => tables.replace("/* clustered */", "WITHOUT ROWID"),
        false => tables.to_owned(),
    };
    std::fs::write(dir.path().join("0001_ledger.sql"), text).unwrap();
    let migrator = sqlx::migrate::Migrator::new(dir.path()).await.unwrap();
    if site.is_sqlite() {
        let url = format!("{}?mode=rwc", site.url);
        let mut old = SqliteConnection::connect(&url).await.unwrap();
        migrator.run_direct(None, &mut old, false).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(rows)).execute(&mut old).await.unwrap();
        old.close().await.unwrap();
    } else {
        let mut old = PgConnection::connect(&site.url).await.unwrap();
        migrator.run_direct(None, &mut old, false).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(rows)).execute(&mut old).await.unwrap();
        old.close().await.unwrap();
    }
}

async fn an_old_ledger_is_brought_up_to_date(site: &Site) {
    use RowVerdict::{Granted, ModelBudget, ShareChanged};
    old_ledger(site).await;
    let error = ledger::summary(&site.url, None).await.unwrap_err();
    assert!(matches!(error, LedgerError::Unsupported(_)), "{error}");
    // The manifests of m-1 and m-2 are there: the same passive parameters. That of m-3 is not.
    let derive =
        FingerprintLookup::new(|version| (version != "m-3").then(|| "passive of m-1".to_owned()));
    let budgets = Budgets { models_per_record: Some(1), ..Budgets::UNLIMITED };
    let state = tempfile::tempdir().unwrap();
    let config = LedgerConfig { budgets, derive: Some(derive), ..site.remembered(state.path()) };
    let open = async || Ledger::open(&config, FINGERPRINT).await.unwrap();
    let ledger = open().await;
    assert_eq!(ledger.share_hash(), ShareHashKind::HmacSha256, "its shares were hashed so");
    let described = ledger.describe(None).await.unwrap();
    let passive: Vec<_> =
        described.parties[0].uses.iter().map(|u| (u.model.as_str(), u.passive.as_str())).collect();
    assert_eq!(
        passive,
        [("m-1", "passive of m-1"), ("m-2", "passive of m-1"), ("m-3", "version m-3")]
    );
    // Of the two shares that were bound to record a, the first counts, under both versions.
    for name in ["m-1", "m-2"] {
        granted(&ledger, version(shares(request(["a"]), 1), name)).await;
        assert_eq!(
            ledger.spend(version(shares(request(["a"]), 2), name)).await,
            Ok(vec![ShareChanged])
        );
    }
    // A version whose manifest is gone is a model of its own, until it is asked under its fingerprint.
    assert_eq!(ledger.spend(request(["b"])).await, Ok(vec![ModelBudget]));
    let third = |share| model(shares(request(["b"]), share), "m-3");
    assert_eq!(ledger.spend(third(3)).await, Ok(vec![Granted]));
    assert_eq!(ledger.spend(third(4)).await, Ok(vec![ShareChanged]));
    ledger.close().await;
    let ledger = open().await;
    assert_eq!(ledger.spend(third(4)).await, Ok(vec![ShareChanged]));
    ledger.close().await;
}

async fn a_new_ledger_keeps_its_kind_of_hash(site: &Site) {
    for _ in 0..2 {
        let ledger = site.open(Budgets::UNLIMITED).await;
        assert_eq!(ledger.share_hash(), ShareHashKind::Blake3);
        ledger.close().await;
    }
}

crate::both_engines!(an_old_ledger_is_brought_up_to_date, a_new_ledger_keeps_its_kind_of_hash);
