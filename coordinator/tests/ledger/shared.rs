//! Several coordinators on one ledger, which only PostgreSQL takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sqlx::Connection;
use vfl_coordinator::ledger::{
    self, Budgets, Ledger, LedgerConfig, LedgerError, RowVerdict, SpendRequest,
};

use crate::site::{FINGERPRINT, Site, at, granted, model, request, shares, version};

fn shared(site: &Site, budgets: Budgets) -> LedgerConfig {
    LedgerConfig { shared: true, ..site.config(budgets) }
}

async fn open(site: &Site, budgets: Budgets) -> Ledger {
    Ledger::open(&shared(site, budgets), FINGERPRINT).await.unwrap()
}

async fn refused(config: &LedgerConfig) -> String {
    Ledger::open(config, FINGERPRINT).await.unwrap_err().to_string()
}

fn named(id: &str, records: &[&str]) -> SpendRequest {
    SpendRequest { request_id: Some(id.to_owned()), ..shares(request(records), 1) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_not_shared() {
    let site = Site::sqlite();
    assert_eq!(
        Ledger::open(&shared(&site, Budgets::UNLIMITED), FINGERPRINT).await.unwrap_err(),
        LedgerError::SharedFile
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_alone_and_several_keep_each_other_off() {
    let Some(site) = Site::postgres().await else { return };
    let alone = site.open(Budgets::UNLIMITED).await;
    let error = refused(&shared(&site, Budgets::UNLIMITED)).await;
    assert!(error.contains("without `shared = true`"), "{error}");
    let error = refused(&site.config(Budgets::UNLIMITED)).await;
    assert!(error.contains("another coordinator uses this ledger"), "{error}");
    alone.close().await;
    let (first, second) =
        (open(&site, Budgets::UNLIMITED).await, open(&site, Budgets::UNLIMITED).await);
    first.close().await;
    let error = refused(&site.config(Budgets::UNLIMITED)).await;
    assert!(error.contains("coordinators with `shared = true`"), "{error}");
    second.close().await;
    site.open(Budgets::UNLIMITED).await.close().await;
    site.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_configuration_is_refused_and_named() {
    let Some(site) = Site::postgres().await else { return };
    let budgets = Budgets { records: Some(5), ..Budgets::UNLIMITED };
    let first = open(&site, budgets).await;
    let error = refused(&shared(&site, Budgets { records: Some(6), ..budgets })).await;
    assert!(error.contains("`[budget] records` is 6 here and 5 at those that run"), "{error}");
    let error = refused(&shared(&site, Budgets { rows_per_minute: Some(60), ..budgets })).await;
    assert!(error.contains("`[budget] rows_per_minute` is 60 here and unlimited"), "{error}");
    let terms = BTreeMap::from([("[defense]".to_owned(), "rounding (decimals = 2)".to_owned())]);
    let error = refused(&LedgerConfig { terms, ..shared(&site, budgets) }).await;
    assert!(error.contains("`[defense]` is rounding (decimals = 2) here and not set"), "{error}");
    let error = Ledger::open(&shared(&site, budgets), "another").await.unwrap_err();
    assert!(matches!(error, LedgerError::Fingerprint { .. }), "{error}");
    granted(&first, request(["a"])).await;
    first.close().await;
    // Nobody is there any more: the next one decides.
    let next = open(&site, Budgets { records: Some(6), ..budgets }).await;
    granted(&next, request(["a"])).await;
    // As if it had come in while nobody held the lock: whoever was there before grants nothing any more.
    site.sql("UPDATE meta SET value = replace(value, '\"6\"', '\"7\"') WHERE name = 'terms' RETURNING name").await;
    let error = next.spend(request(["a"])).await.unwrap_err();
    assert!(
        matches!(&error, LedgerError::Terms { ours, theirs, .. } if (&**ours, &**theirs) == ("6", "7")),
        "{error}"
    );
    next.close().await;
    site.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_writes_the_other_goes_by() {
    let Some(site) = Site::postgres().await else { return };
    let budgets =
        Budgets { models_per_record: Some(1), queries_per_record: Some(4), ..Budgets::UNLIMITED };
    let (a, b) = (open(&site, budgets).await, open(&site, budgets).await);
    use RowVerdict::{Granted, ModelBudget, RecordBudget, ShareChanged};
    granted(&a, shares(request(["a"]), 1)).await;
    assert_eq!(b.spend(shares(request(["a", "b"]), 2)).await, Ok(vec![ShareChanged, Granted]));
    // Models that the other one has named, and another version of the same parameters.
    assert_eq!(b.spend(model(request(["a"]), "m-2")).await, Ok(vec![ModelBudget]));
    assert_eq!(a.spend(version(shares(request(["a"]), 2), "m-3")).await, Ok(vec![ShareChanged]));
    granted(&b, version(shares(request(["a"]), 1), "m-3")).await;
    let approved = model(request(["a"]), "m-2");
    assert!(ledger::approve(&site.url, &approved.model, &approved.passive, at(0)).await.unwrap());
    granted(&a, approved.clone()).await;
    granted(&b, approved.clone()).await;
    assert_eq!(a.spend(approved.clone()).await, Ok(vec![RecordBudget]));
    assert_eq!(ledger::erase(&site.url, "a", at(0)).await.unwrap().queries, 4);
    for ledger in [&a, &b] {
        assert_eq!(ledger.spend(approved.clone()).await, Ok(vec![RecordBudget]));
    }
    assert_eq!(site.number("SELECT count(*) FROM uses WHERE record = 'a'").await, 0);
    a.close().await;
    b.close().await;
    site.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_through_another_coordinator_is_free_and_gets_the_same() {
    let Some(site) = Site::postgres().await else { return };
    let budgets = Budgets { queries_per_record: Some(1), records: Some(3), ..Budgets::UNLIMITED };
    let (a, b) = (open(&site, budgets).await, open(&site, budgets).await);
    use RowVerdict::{Granted, RecordBudget};
    for (id, records, verdicts) in [
        ("one", vec!["a", "b"], vec![Granted; 2]),
        ("two", vec!["b", "c"], vec![RecordBudget, Granted]),
    ] {
        for ledger in [&a, &b, &a, &b] {
            assert_eq!(ledger.spend(named(id, &records)).await, Ok(verdicts.clone()));
        }
    }
    let other = SpendRequest { body_hash: [9; 32], ..named("one", &["a"]) };
    assert_eq!(b.spend(other).await, Err(LedgerError::RequestIdReused));
    assert_eq!(site.sql("SELECT queries, refused FROM totals").await, [["4", "1"]]);
    a.close().await;
    b.close().await;
    site.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_is_of_all_together_and_by_the_clock_of_the_database() {
    let Some(site) = Site::postgres().await else { return };
    let budgets = Budgets { rows_per_minute: Some(600), ..Budgets::UNLIMITED };
    let (a, b) = (open(&site, budgets).await, open(&site, budgets).await);
    let rows = |from: usize, n: usize| request((from..from + n).map(|i| format!("r{i}")));
    granted(&a, rows(0, 300)).await;
    granted(&b, rows(300, 295)).await;
    for ledger in [&a, &b] {
        // Ten rows a second come back meanwhile.
        let error = ledger.spend(rows(0, 200)).await.unwrap_err();
        assert!(
            matches!(error, LedgerError::Rate { rows: 200, retry_after: Some(_), .. }),
            "{error}"
        );
    }
    // A restart gives nothing back.
    a.close().await;
    let a = open(&site, budgets).await;
    assert!(matches!(a.spend(rows(0, 200)).await, Err(LedgerError::Rate { .. })));
    // A minute ago by the database's clock, as far as the table knows.
    site.sql("UPDATE rates SET filled_at = filled_at - 60000000 RETURNING party").await;
    granted(&a, rows(0, 300)).await;
    granted(&b, rows(0, 300)).await;
    assert!(matches!(b.spend(rows(0, 200)).await, Err(LedgerError::Rate { .. })));
    a.close().await;
    b.close().await;
    site.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mark_of_each_follows_what_all_have_committed() {
    let Some(site) = Site::postgres().await else { return };
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config =
        |dir: &tempfile::TempDir| LedgerConfig { shared: true, ..site.remembered(dir.path()) };
    let a = Ledger::open(&config(&one), FINGERPRINT).await.unwrap();
    let b = Ledger::open(&config(&two), FINGERPRINT).await.unwrap();
    for _ in 0..5 {
        granted(&a, request(["a"])).await;
    }
    granted(&b, request(["a"])).await;
    a.close().await;
    b.close().await;
    let mark =
        |dir: &tempfile::TempDir| std::fs::read_to_string(dir.path().join("ledger.mark")).unwrap();
    assert!(mark(&one).contains("\"mark\":5"), "{}", mark(&one));
    assert!(mark(&two).contains("\"mark\":6"), "{}", mark(&two));
    // A server that took over without the last commits.
    site.sql("UPDATE meta SET value = '5' WHERE name = 'mark' RETURNING name").await;
    Ledger::open(&config(&one), FINGERPRINT).await.unwrap().close().await;
    assert!(matches!(
        Ledger::open(&config(&two), FINGERPRINT).await,
        Err(LedgerError::OldCopy { has: 5, mark: 6, .. })
    ));
    site.remove().await;
}

fn known(dir: &tempfile::TempDir) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(dir.path().join("ledger.mark")).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_joins_keeps_the_id_of_the_ledger_and_another_ledger_is_refused() {
    let (Some(site), Some(other)) = (Site::postgres().await, Site::postgres().await) else {
        return;
    };
    let dirs =
        [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let config = |site: &Site, dir: &tempfile::TempDir| LedgerConfig {
        shared: true,
        ..site.remembered(dir.path())
    };
    let [serving, fresh, moved] = &dirs;
    let a = Ledger::open(&config(&site, serving), FINGERPRINT).await.unwrap();
    granted(&a, request(["a"])).await;
    let id = known(serving)["ledger"].clone();
    // One that knew no ledger takes the one that is there.
    let b = Ledger::open(&config(&site, fresh), FINGERPRINT).await.unwrap();
    granted(&b, request(["a"])).await;
    b.close().await;
    assert_eq!(known(fresh)["ledger"], id);
    // One that knew another ledger is refused, and changes nothing.
    let before = Ledger::open(&config(&other, moved), FINGERPRINT).await.unwrap();
    granted(&before, request(["x"])).await;
    before.close().await;
    let others = known(moved)["ledger"].clone();
    assert_ne!(others, id);
    let error = Ledger::open(&config(&site, moved), FINGERPRINT).await.unwrap_err();
    assert!(
        matches!(&error, LedgerError::Another { ledger, known } if *ledger == id && *known == others),
        "{error}"
    );
    assert_eq!(known(moved)["ledger"], others);
    // So is one that has served here, at the other ledger.
    let error = Ledger::open(&config(&other, fresh), FINGERPRINT).await.unwrap_err();
    assert!(matches!(&error, LedgerError::Another { ledger, .. } if *ledger == others), "{error}");
    // As the operator asks it joins: under the id that the ledger has, which those that serve go by.
    let joins = LedgerConfig { begin_new: true, ..config(&site, moved) };
    let c = Ledger::open(&joins, FINGERPRINT).await.unwrap();
    assert_eq!(known(moved)["ledger"], id);
    let told = "SELECT count(*) FROM events WHERE what LIKE 'joined, as the operator asked%'";
    assert_eq!(site.number(told).await, 1);
    granted(&c, request(["a"])).await;
    // Those that serve look again when they connect anew.
    let writers = "SELECT CAST(count(pg_terminate_backend(pid)) AS BIGINT) FROM pg_locks WHERE locktype = 'advisory' AND granted \
        AND CAST(classid AS BIGINT) = CAST(hashtext('cloison ledger') AS BIGINT) & 4294967295 \
        AND CAST(objid AS BIGINT) = CAST(hashtext(current_schema()) AS BIGINT) & 4294967295";
    assert!(site.number(writers).await >= 2);
    for ledger in [a, c] {
        granted(&ledger, request(["a"])).await;
        ledger.close().await;
    }
    assert_eq!((&known(serving)["mark"], &known(moved)["mark"]), (&4.into(), &5.into()));
    site.remove().await;
    other.remove().await;
}

/// The database is restored to a point before the last commits: nobody goes on with it by itself. The operator says so at one
/// coordinator, and the others follow.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_restore_one_begins_anew_and_the_others_follow() {
    let Some(site) = Site::postgres().await else { return };
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, two] =
        dirs.each_ref().map(|dir| LedgerConfig { shared: true, ..site.remembered(dir.path()) });
    for config in [&one, &two] {
        let ledger = Ledger::open(config, FINGERPRINT).await.unwrap();
        granted(&ledger, request(["a"])).await;
        ledger.close().await;
    }
    let id = known(&dirs[0])["ledger"].clone();
    site.sql("UPDATE meta SET value = '0' WHERE name = 'mark' RETURNING name").await;
    for config in [&one, &two] {
        let error = Ledger::open(config, FINGERPRINT).await.unwrap_err();
        assert!(matches!(error, LedgerError::OldCopy { has: 0, .. }), "{error}");
    }
    let anew = LedgerConfig { begin_new: true, ..one.clone() };
    let a = Ledger::open(&anew, FINGERPRINT).await.unwrap();
    let b = Ledger::open(&two, FINGERPRINT).await.unwrap();
    for ledger in [a, b] {
        granted(&ledger, request(["a"])).await;
        ledger.close().await;
    }
    let ids = dirs.each_ref().map(|dir| known(dir)["ledger"].clone());
    assert!(ids[0] == ids[1] && ids[0] != id, "{ids:?}");
    // The option is of no use any more at either.
    for config in [one, two] {
        let again = LedgerConfig { begin_new: true, ..config };
        assert_eq!(
            Ledger::open(&again, FINGERPRINT).await.unwrap_err(),
            LedgerError::NothingToBegin
        );
    }
    site.remove().await;
}

/// Whatever lock somebody else holds, whoever would join says so in time, and joins when it is free.
#[tokio::test(flavor = "multi_thread")]
async fn joining_waits_for_no_lock_without_end() {
    let waits = async |lock: &'static str, says: &'static str| {
        let Some(site) = Site::postgres().await else { return };
        open(&site, Budgets::UNLIMITED).await.close().await;
        let mut holder = sqlx::PgConnection::connect(&site.url).await.unwrap();
        let hold =
            format!("SELECT pg_advisory_lock(hashtext('{lock}'), hashtext(current_schema()))");
        sqlx::query(sqlx::AssertSqlSafe(hold)).execute(&mut holder).await.unwrap();
        let config = shared(&site, Budgets::UNLIMITED);
        let opened = tokio::time::timeout(
            std::time::Duration::from_secs(90),
            Ledger::open(&config, FINGERPRINT),
        )
        .await;
        let error = opened.expect(lock).unwrap_err().to_string();
        assert!(error.contains(says), "{lock}: {error}");
        holder.close().await.unwrap();
        let ledger = open(&site, Budgets::UNLIMITED).await;
        granted(&ledger, request(["a"])).await;
        ledger.close().await;
        site.remove().await;
    };
    tokio::join!(
        waits("cloison ledger", "a coordinator without `shared = true`"),
        waits("cloison ledger write", "lock timeout"),
        waits("cloison terms", "lock timeout"),
    );
}

/// What 12 tasks ask at once through two coordinators: records, and how often each asks.
type Load = Vec<(Vec<usize>, u8)>;

/// Whatever the order in which two coordinators come to write, no budget is passed by one, none is left that could have been used,
/// and the sums say what was answered.
async fn race(site: &Site, budgets: Budgets, load: Load) {
    let ledgers = [Arc::new(open(site, budgets).await), Arc::new(open(site, budgets).await)];
    let (records, per_record) = (budgets.records.unwrap(), budgets.queries_per_record.unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for (at, (records, times)) in load.into_iter().enumerate() {
        let ledgers = ledgers.clone();
        tasks.spawn(async move {
            let mut answers = Vec::new();
            for time in 0..times {
                let name = format!("{at}/{time}");
                let spend = SpendRequest {
                    request_id: Some(name),
                    body_hash: [at as u8; 32],
                    ..request(records.iter().map(|r| format!("record-{r}")))
                };
                let way = (at + usize::from(time)) % 2;
                let answer = ledgers[way].spend(spend.clone()).await;
                // The other one says the same, without taking anything.
                if answer.is_ok() {
                    assert_eq!(ledgers[1 - way].spend(spend).await, answer);
                }
                answers.push((records.clone(), answer));
            }
            answers
        });
    }
    let (mut granted, mut asked, mut refused) =
        (BTreeMap::<usize, u64>::new(), BTreeMap::<usize, u64>::new(), 0);
    for (records, answer) in tasks.join_all().await.into_iter().flatten() {
        match answer {
            Ok(verdicts) => {
                for (&record, verdict) in records.iter().zip(&verdicts) {
                    *asked.entry(record).or_default() += 1;
                    *granted.entry(record).or_default() +=
                        u64::from(*verdict == RowVerdict::Granted);
                    refused += u64::from(*verdict != RowVerdict::Granted);
                }
            }
            Err(LedgerError::TotalBudget { left, asked }) => {
                assert!(left < asked && asked <= records.len() as u64)
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(granted.len() as u64 <= records);
    for (record, asked) in &asked {
        assert_eq!(granted[record], (*asked).min(per_record), "record {record}");
    }
    for ledger in ledgers {
        Arc::into_inner(ledger).unwrap().close().await;
    }
    let recorded = site
        .sql(
            "SELECT record, CAST(sum(queries) AS BIGINT) FROM uses GROUP BY record ORDER BY record",
        )
        .await;
    let mut expected: Vec<_> =
        granted.iter().map(|(r, n)| vec![format!("record-{r}"), n.to_string()]).collect();
    expected.sort();
    assert_eq!(recorded, expected);
    let rows: u64 = asked.values().sum();
    let sums = site
        .sql("SELECT CAST(coalesce(sum(queries), 0) AS BIGINT), CAST(coalesce(sum(refused), 0) AS BIGINT) FROM totals");
    assert_eq!(sums.await, [[rows.to_string(), refused.to_string()]]);
    assert_eq!(
        site.number("SELECT CAST(coalesce(sum(records), 0) AS BIGINT) FROM parties").await,
        granted.len() as i64,
        "distinct records"
    );
}

#[test]
fn two_at_once_pass_no_budget() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let config =
        Config { cases: 8, failure_persistence: None, max_shrink_iters: 50, ..Config::default() };
    let ask = (proptest::collection::btree_set(0usize..10, 1..6), 1u8..4);
    let load = proptest::collection::vec(
        ask.prop_map(|(r, n)| (r.into_iter().collect::<Vec<usize>>(), n)),
        12,
    );
    let run =
        TestRunner::new(config).run(&(4u64..12, 1u64..8, load), |(records, per_record, load)| {
            runtime.block_on(async {
                let Some(site) = Site::postgres().await else { return };
                let budgets = Budgets {
                    records: Some(records),
                    queries_per_record: Some(per_record),
                    ..Budgets::UNLIMITED
                };
                race(&site, budgets, load).await;
                site.remove().await;
            });
            Ok(())
        });
    run.unwrap();
}
