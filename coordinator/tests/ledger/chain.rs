//! The chain of releases: what changes the ledger behind a coordinator's back does not go unnoticed.

use vfl_coordinator::ledger::{
    self, Budgets, ChainReport, Ledger, LedgerConfig, LedgerError, RowVerdict,
};

use crate::site::{FINGERPRINT, Site, at, granted, later, model, party, request, shares};

/// A ledger with a few requests of two parties under two models, one row of which is refused.
async fn kept(site: &Site, config: &LedgerConfig) {
    let ledger = Ledger::open(config, FINGERPRINT).await.unwrap();
    granted(&ledger, shares(request(["a", "b", "c"]), 1)).await;
    granted(&ledger, later(party(request(["a"]), "other"), 5)).await;
    granted(&ledger, later(model(request(["b", "d"]), "m-2"), 9)).await;
    let refused = ledger.spend(shares(request(["a"]), 2)).await;
    assert_eq!(refused, Ok(vec![RowVerdict::ShareChanged]));
    ledger.close().await;
    assert_eq!(
        site.number("SELECT count(*) FROM chain").await,
        5,
        "the beginning, and a link for each commit"
    );
}

async fn verified(site: &Site, config: &LedgerConfig) -> ChainReport {
    ledger::verify(&site.url, config.state_dir.as_deref(), &[]).await.unwrap()
}

/// Nothing does not hold.
async fn holds(site: &Site, config: &LedgerConfig) -> ChainReport {
    let verified = verified(site, config).await;
    assert_eq!(verified.findings, Vec::<String>::new());
    verified
}

async fn a_ledger_that_nobody_touched_holds(site: &Site) {
    let state = tempfile::tempdir().unwrap();
    let config = site.remembered(state.path());
    kept(site, &config).await;
    let found = holds(site, &config).await;
    assert_eq!((found.first, found.last, found.queries, found.refused), (1, 5, 7, 1));
    assert!(found.head_known && found.unsigned.is_empty());
    assert_eq!((found.signed.len(), found.signed[0].links, found.signed[0].trusted), (1, 5, true));
    // While a coordinator runs, after a restart, an erasure, and with a record that is asked for under its keyed hash.
    let running = Ledger::open(&config, FINGERPRINT).await.unwrap();
    granted(&running, request(["e"])).await;
    ledger::erase(&site.url, "a", at(10)).await.unwrap();
    granted(&running, later(request(["a"]), 20)).await;
    assert_eq!(holds(site, &config).await.last, 8);
    running.close().await;
    // Without the state directory it holds too, and nobody vouches for the key.
    let stranger = ledger::verify(&site.url, None, &[]).await.unwrap();
    assert!(stranger.findings.is_empty() && !stranger.head_known && !stranger.signed[0].trusted);
    let of_others = ledger::verify(&site.url, None, &["00".repeat(32)]).await.unwrap();
    assert!(
        of_others.findings[0].contains("not named as one to trust"),
        "{:?}",
        of_others.findings
    );
    let named =
        ledger::verify(&site.url, None, &[stranger.signed[0].key.to_uppercase()]).await.unwrap();
    assert!(named.findings.is_empty() && named.signed[0].trusted);
}

/// Whatever one takes away or adds, by SQL alone.
async fn what_is_changed_behind_the_coordinator_is_found(site: &Site) {
    let state = tempfile::tempdir().unwrap();
    let config = site.remembered(state.path());
    kept(site, &config).await;
    holds(site, &config).await;
    let cases = [
        ("UPDATE totals SET queries = queries - 1 WHERE party = 2", "rows asked by the chain"),
        ("UPDATE totals SET refused = 0", "rows refused by the chain"),
        (
            "UPDATE uses SET queries = 0 WHERE record = 'b' AND model = 2",
            "rows granted by the chain",
        ),
        ("DELETE FROM uses WHERE record = 'c'", "3 rows granted by the chain, 2 in `uses`"),
        (
            "UPDATE parties SET records = records - 1 WHERE id = 1",
            "4 records by the chain, 3 in `parties`",
        ),
        (
            "UPDATE meta SET value = '1' WHERE name = 'mark'",
            "the chain has 4 commits, the ledger counts 1",
        ),
        ("DELETE FROM chain WHERE number = 3", "links 3 to 3 are missing"),
        ("DELETE FROM chain WHERE number > 3", "the chain was rewritten"),
        ("DELETE FROM chain WHERE number < 3", "those before it were taken away"),
        ("DELETE FROM chain", "there is no chain"),
        ("UPDATE chain SET at = at + 1 WHERE number = 4", "link 4 is not what its hash is of"),
        (
            "UPDATE chain SET content = replace(content, '\"mark\":2', '\"mark\":1') WHERE number = 3",
            "link 3 is not what",
        ),
        (
            "UPDATE chain SET signature = (SELECT signature FROM chain WHERE number = 2) WHERE number = 3",
            "the signature of link 3",
        ),
    ];
    // One after the other on a copy of all tables: each is undone by putting the rows back.
    let tables = ["totals", "uses", "parties", "meta", "chain"];
    for table in tables {
        site.run(&format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}")).await;
    }
    for (change, says) in cases {
        site.run(change).await;
        let findings = verified(site, &config).await.findings;
        assert!(findings.iter().any(|finding| finding.contains(says)), "{change}: {findings:?}");
        for table in ["chain", "uses", "totals", "meta"] {
            site.run(&format!("DELETE FROM {table}")).await;
        }
        site.run("UPDATE parties SET records = (SELECT k.records FROM kept_parties k WHERE k.id = parties.id)").await;
        for table in ["totals", "uses", "meta", "chain"] {
            site.run(&format!("INSERT INTO {table} SELECT * FROM kept_{table}")).await;
        }
        holds(site, &config).await;
    }
}

/// Somebody who may write the database makes a whole new chain, of a key of his own, that agrees with the sums he wants.
async fn a_chain_of_another_key_is_found(site: &Site) {
    let (state, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = site.remembered(state.path());
    kept(site, &config).await;
    site.run("DELETE FROM chain").await;
    site.run("UPDATE totals SET queries = queries - 1 WHERE party = 2").await;
    Ledger::open(&site.remembered(theirs.path()), FINGERPRINT).await.unwrap().close().await;
    let findings = verified(site, &config).await.findings;
    assert!(findings.iter().any(|f| f.contains("a key that was not named")), "{findings:?}");
    assert!(
        findings.iter().any(|f| f.contains("link 4 is not the one that the state directory saw")),
        "{findings:?}"
    );
    // To its own key everything is as it should be; to the coordinator it is another chain, which it does not go on with.
    holds(site, &site.remembered(theirs.path())).await;
    let refused = Ledger::open(&config, FINGERPRINT).await.unwrap_err();
    assert!(matches!(refused, LedgerError::Rewritten { link: 4 }), "{refused}");
    let anew = LedgerConfig { begin_new: true, ..config.clone() };
    Ledger::open(&anew, FINGERPRINT).await.unwrap().close().await;
    granted(&Ledger::open(&config, FINGERPRINT).await.unwrap(), request(["z"])).await;
}

/// A running coordinator does not add to a chain that somebody has changed.
async fn a_running_coordinator_notices_a_link_of_a_stranger(site: &Site) {
    let ledger = site.open(Budgets::UNLIMITED).await;
    granted(&ledger, request(["a"])).await;
    let copy = "INSERT INTO chain SELECT number + 1, at, author, content, hash, signature, whole FROM chain WHERE number = 2";
    site.run(copy).await;
    let refused = ledger.spend(request(["b"])).await.unwrap_err();
    assert!(matches!(refused, LedgerError::Chain { link: 3 }), "{refused}");
    site.run("DELETE FROM chain WHERE number = 3").await;
    // It asks again with the next request.
    granted(&ledger, request(["b"])).await;
    ledger.close().await;
}

/// The commits of one second are one link, which holds all of them.
async fn commits_of_a_second_are_one_link(site: &Site) {
    let state = tempfile::tempdir().unwrap();
    let config = site.remembered(state.path());
    let ledger = Ledger::open(&config, FINGERPRINT).await.unwrap();
    for number in 0..30 {
        granted(&ledger, later(request([format!("r{number}")]), number / 10)).await;
    }
    let found = holds(site, &config).await;
    assert_eq!((found.last, found.queries), (4, 30));
    // The link to note down is one that stays, while the last one is written anew.
    assert_eq!(found.fixed.as_ref().map(|fixed| fixed.link), Some(3));
    let last = site.sql("SELECT hash FROM chain WHERE number = 4").await;
    granted(&ledger, later(request(["r30"]), 2)).await;
    let anew = holds(site, &config).await;
    assert_eq!((anew.last, anew.queries, &anew.fixed), (4, 31, &found.fixed));
    assert_ne!(site.sql("SELECT hash FROM chain WHERE number = 4").await, last);
    ledger.close().await;
    assert_eq!(site.number("SELECT value FROM meta WHERE name = 'mark'").await, 31);
    // Nobody else's link is written anew, and none of before.
    let first = site.sql("SELECT hash FROM chain WHERE number < 4 ORDER BY number").await;
    let ledger = Ledger::open(&config, FINGERPRINT).await.unwrap();
    granted(&ledger, later(request(["s"]), 2)).await;
    assert_eq!(site.sql("SELECT hash FROM chain WHERE number < 4 ORDER BY number").await, first);
    assert_eq!(holds(site, &config).await.last, 6);
    ledger.close().await;
}

/// Retention takes old links away, up to one that has the sums; what it frees is a link that nobody signed.
async fn retention_shortens_the_chain_and_notes_what_it_frees(site: &Site) {
    let state = tempfile::tempdir().unwrap();
    let config = site.remembered(state.path());
    let ledger = Ledger::open(&config, FINGERPRINT).await.unwrap();
    for number in 0..1100 {
        granted(&ledger, later(request([format!("r{}", number % 7)]), number)).await;
    }
    let links = site.number("SELECT count(*) FROM chain").await;
    assert_eq!(links, 1102, "the beginning, a link a second, and one with the sums");
    let forgot = ledger::retain(&site.url, 1, false, at(0)).await.unwrap();
    assert_eq!(forgot.links, 0, "nothing is older");
    let forgot = ledger::retain(&site.url, 1, false, at(3 * 86_400)).await.unwrap();
    assert_eq!(forgot.links, 1001);
    let found = holds(site, &config).await;
    assert_eq!((found.first, found.last, found.queries), (1002, 1102, 1100));
    let forgot = ledger::retain(&site.url, 1, true, at(3 * 86_400)).await.unwrap();
    assert_eq!(forgot.freed_records, 7);
    let found = holds(site, &config).await;
    assert_eq!(found.unsigned.len(), 1);
    assert!(found.unsigned[0].what.contains("7 records"), "{:?}", found.unsigned);
    granted(&ledger, later(request(["r1"]), 4 * 86_400)).await;
    holds(site, &config).await;
    ledger.close().await;
}

/// Two coordinators on one ledger write one chain, each with its own key.
#[tokio::test(flavor = "multi_thread")]
async fn coordinators_that_share_a_ledger_write_one_chain() {
    let Some(site) = Site::postgres().await else { return };
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let configs =
        [0, 1].map(|at: usize| LedgerConfig { shared: true, ..site.remembered(dirs[at].path()) });
    let one = Ledger::open(&configs[0], FINGERPRINT).await.unwrap();
    let two = Ledger::open(&configs[1], FINGERPRINT).await.unwrap();
    for round in 0..20 {
        let ask = |name: &str| later(request([format!("{name}{round}")]), round);
        let (a, b) = tokio::join!(one.spend(ask("a")), two.spend(ask("b")));
        assert_eq!((a, b), (Ok(vec![RowVerdict::Granted]), Ok(vec![RowVerdict::Granted])));
    }
    let stranger = ledger::verify(&site.url, None, &[]).await.unwrap();
    assert!(stranger.findings.is_empty(), "{:?}", stranger.findings);
    let links: Vec<u64> = stranger.signed.iter().map(|signed| signed.links).collect();
    assert_eq!(links, [21, 21]);
    // Each knows its own key, and is told of the other's.
    one.close().await;
    two.close().await;
    for (config, other) in [(&configs[0], &configs[1]), (&configs[1], &configs[0])] {
        let alone = verified(&site, config).await;
        assert_eq!(alone.findings.len(), 1, "{:?}", alone.findings);
        let key = &alone.signed.iter().find(|signed| !signed.trusted).unwrap().key;
        let both =
            ledger::verify(&site.url, config.state_dir.as_deref(), std::slice::from_ref(key))
                .await
                .unwrap();
        assert_eq!(both.findings, Vec::<String>::new());
        let theirs = ledger::verify(&site.url, other.state_dir.as_deref(), &[]).await.unwrap();
        assert!(theirs.signed.iter().any(|signed| signed.trusted && signed.key == *key));
    }
    site.remove().await;
}

crate::both_engines!(
    a_ledger_that_nobody_touched_holds,
    what_is_changed_behind_the_coordinator_is_found,
    a_chain_of_another_key_is_found,
    a_running_coordinator_notices_a_link_of_a_stranger,
    commits_of_a_second_are_one_link,
    retention_shortens_the_chain_and_notes_what_it_frees,
);
