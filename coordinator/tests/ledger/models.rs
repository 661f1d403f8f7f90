//! The models that several coordinators have in common, in PostgreSQL: one version in service, one training at a time.

use std::sync::Arc;

use nalgebra::DMatrix;
use vfl_coordinator::catalogue::Catalogue;
use vfl_coordinator::ledger::{Budgets, Ledger, LedgerConfig};
use vfl_coordinator::registry::{Manifest, PartyEntry, Registry, TrainingSummary};
use vfl_coordinator::replicas::Replicas;
use vfl_core::model::contract::start_of;
use vfl_core::model::{Combiner, ModelSpec, SubModelSpec, TrainingConfig, TrainingValues, heads};
use vfl_core::types::{ConfidenceScores, PartyName, RecordIds};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::journal::Proposal;

use crate::site::{FINGERPRINT, Site};

fn config(seed: u64) -> TrainingConfig {
    TrainingConfig::try_from(TrainingValues { seed, ..Default::default() }).unwrap()
}

fn entry(name: &str) -> PartyEntry {
    PartyEntry {
        name: PartyName::new(name).unwrap(),
        features: 2,
        share: "0".repeat(64),
        privacy: None,
    }
}

fn classes() -> Vec<String> {
    vec!["a".into(), "b".into()]
}

fn summary(seed: u64) -> TrainingSummary {
    TrainingSummary {
        config: config(seed),
        epochs: 1,
        best_epoch: 1,
        steps: 1,
        training_records: 2,
        validation_records: 0,
    }
}

fn manifest(seed: u64) -> Manifest {
    let ids = RecordIds::new(["r1", "r2"]).unwrap();
    let model = ModelSpec::softmax_regression(2, 1).unwrap();
    Manifest::new(model, classes(), entry("active"), vec![entry("p")], Some(summary(seed)), &ids)
        .unwrap()
}

/// One whose top model lies in the registry.
fn with_top(registry: &Registry) -> Manifest {
    let party = SubModelSpec::new("mlp", 3, Default::default()).unwrap();
    let top = SubModelSpec::new(
        "mlp",
        2,
        serde_json::json!({ "hidden": [] }).as_object().unwrap().clone(),
    )
    .unwrap();
    let model = ModelSpec::new(Combiner::Concat, party.clone(), vec![party], Some(top)).unwrap();
    let head = heads::start(&model, 2, start_of(1)).unwrap();
    let top = head.top().unwrap();
    let parameters = vfl_core::model::Parameters::of(top, top.snapshot());
    let names: Vec<String> = (1..=6).map(|n| format!("h{n}")).collect();
    let digest = registry.store_top(parameters, &names).unwrap();
    let ids = RecordIds::new(["r1", "r2"]).unwrap();
    let parties = (vec![entry("p")], Some(summary(1)));
    Manifest::with_top(model, Some(digest), classes(), entry("active"), parties, &ids).unwrap()
}

fn scores(of: f64) -> ConfidenceScores {
    ConfidenceScores::new(DMatrix::from_column_slice(2, 2, &[of, 1.0 - of, 0.5, 0.5])).unwrap()
}

/// A coordinator's registry and what it shares, in a state directory.
async fn catalogue(site: &Site, dir: &tempfile::TempDir) -> Catalogue {
    let registry = Arc::new(Registry::open(dir.path()).unwrap());
    Catalogue::shared(registry, Arc::new(Replicas::new(&site.url).unwrap())).await.unwrap()
}

fn version(catalogue: &Catalogue) -> Option<String> {
    catalogue.registry().current().map(|model| model.manifest.version.as_str().to_owned())
}

async fn ledger(site: &Site) -> Ledger {
    let config = LedgerConfig { shared: true, ..site.config(Budgets::UNLIMITED) };
    Ledger::open(&config, FINGERPRINT).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_publishes_the_others_serve() {
    let Some(site) = Site::postgres().await else { return };
    let ledger = ledger(&site).await;
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (a, b) = (catalogue(&site, &dirs[0]).await, catalogue(&site, &dirs[1]).await);
    assert_eq!((version(&a), version(&b)), (None, None));
    let mut turn = a.turn().await.unwrap();
    for other in [&a, &b] {
        assert_eq!(other.turn().await.err().unwrap().kind, RefusalKind::Aborted, "one at a time");
    }
    let proposal = Proposal {
        active_party: PartyName::new("active").unwrap(),
        config: config(1),
        class_names: classes(),
        ids: RecordIds::new(["t1", "t2"]).unwrap(),
    };
    assert_eq!(turn.begin_training(proposal).await.unwrap(), 1);
    let top = with_top(a.registry());
    turn.publish(top.clone(), Some(scores(0.9))).await.unwrap();
    assert_eq!(version(&a).as_deref(), Some(top.version.as_str()));
    b.refresh().await.unwrap();
    let served = b.registry().current().unwrap();
    assert_eq!(served.manifest.version, top.version);
    assert!(served.head.top().is_some());
    assert_eq!(b.registry().calibration(&top).unwrap(), a.registry().calibration(&top).unwrap());
    assert_eq!(
        b.registry().trained_on(&served, ["r1", "t2", "x"].into_iter()),
        [true, true, false]
    );
    turn.end().await;

    // The next through the other; the scores of the first version with these parameters stay.
    let (second, again) = (manifest(2), manifest(3));
    let mut turn = b.turn().await.unwrap();
    turn.publish(second.clone(), Some(scores(0.8))).await.unwrap();
    turn.publish(again.clone(), Some(scores(0.7))).await.unwrap();
    turn.end().await;
    a.refresh().await.unwrap();
    assert_eq!((version(&a), version(&a)), (version(&b), Some(again.version.as_str().to_owned())));
    for each in [&a, &b] {
        assert_eq!(each.registry().calibration(&again).unwrap().unwrap().matrix().max(), 0.8);
    }
    // A state directory that is lost is made again from the database.
    let empty = tempfile::tempdir().unwrap();
    let c = catalogue(&site, &empty).await;
    assert_eq!(version(&c), version(&a));
    assert!(c.registry().trained_on(&c.registry().current().unwrap(), ["t1"].into_iter())[0]);
    ledger.close().await;
    site.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_turn_publishes_nothing() {
    let Some(site) = Site::postgres().await else { return };
    let ledger = ledger(&site).await;
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (a, b) = (catalogue(&site, &dirs[0]).await, catalogue(&site, &dirs[1]).await);
    let mut lost = a.turn().await.unwrap();
    lost.check().await.unwrap();
    assert_eq!(lost.during(async { Ok(5) }).await.unwrap(), 5);
    // The server ends the connection of the one that trains: its lock goes to whoever asks next.
    let killed = "SELECT CAST(count(pg_terminate_backend(pid)) AS BIGINT) FROM pg_locks WHERE locktype = 'advisory' \
        AND CAST(classid AS BIGINT) = CAST(hashtext('cloison training') AS BIGINT) & 4294967295 \
        AND CAST(objid AS BIGINT) = CAST(hashtext(current_schema()) AS BIGINT) & 4294967295";
    assert_eq!(site.number(killed).await, 1);
    let mut turn = loop {
        match b.turn().await {
            Ok(turn) => break turn,
            Err(refusal) => assert_eq!(refusal.kind, RefusalKind::Aborted),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let refusal = lost.check().await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Unavailable);
    assert!(refusal.to_string().contains("has lost its turn"), "{refusal}");
    // Work that never ends by itself ends with the turn; work that has just ended counts for nothing without it.
    let endless = std::future::pending::<Result<(), Refusal>>();
    let ended =
        tokio::time::timeout(std::time::Duration::from_secs(60), lost.during(endless)).await;
    assert_eq!(ended.unwrap().unwrap_err().kind, RefusalKind::Unavailable);
    assert_eq!(lost.during(async { Ok(5) }).await.unwrap_err().kind, RefusalKind::Unavailable);
    assert_eq!(lost.publish(manifest(1), None).await.unwrap_err().kind, RefusalKind::Unavailable);
    turn.publish(manifest(2), None).await.unwrap();
    assert_eq!(lost.publish(manifest(1), None).await.unwrap_err().kind, RefusalKind::Unavailable);
    a.refresh().await.unwrap();
    assert_eq!(version(&a), Some(manifest(2).version.as_str().to_owned()));
    // And whoever holds the lock, but began before another version: nothing is put in its place.
    site.sql("UPDATE meta SET value = 'm-other' WHERE name = 'current' RETURNING name").await;
    assert_eq!(turn.publish(manifest(3), None).await.unwrap_err().kind, RefusalKind::Aborted);
    ledger.close().await;
    site.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_models_of_a_coordinator_alone_are_taken_over_once() {
    let Some(site) = Site::postgres().await else { return };
    let ledger = ledger(&site).await;
    let (old, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let registry = Registry::open(old.path()).unwrap();
    registry.commit(manifest(1), Some(&scores(0.6))).unwrap();
    let top = with_top(&registry);
    registry.commit(top.clone(), None).unwrap();
    Registry::open(other.path()).unwrap().commit(manifest(7), None).unwrap();
    let a = catalogue(&site, &old).await;
    assert_eq!(version(&a).as_deref(), Some(top.version.as_str()));
    // Whatever another one had by itself, it now follows.
    let b = catalogue(&site, &other).await;
    assert_eq!(version(&b), version(&a));
    // The old parameters come back with the scores that they had.
    let mut turn = b.turn().await.unwrap();
    turn.publish(manifest(2), Some(scores(0.7))).await.unwrap();
    assert_eq!(b.registry().calibration(&manifest(2)).unwrap().unwrap().matrix().max(), 0.6);
    turn.end().await;
    // What was changed in the database is not served.
    site.sql("UPDATE versions SET manifest = convert_to(replace(convert_from(manifest, 'UTF8'), '\"r1\"', '\"r9\"'), 'UTF8') RETURNING version").await;
    let third = tempfile::tempdir().unwrap();
    let registry = Arc::new(Registry::open(third.path()).unwrap());
    let refused = Catalogue::shared(registry, Arc::new(Replicas::new(&site.url).unwrap()))
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("contradict each other"), "{refused}");
    ledger.close().await;
    site.remove().await;
}
