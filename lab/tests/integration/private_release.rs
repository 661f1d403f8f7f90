//! Predictions on secret shares, over sockets: the coordinator sees no logit and no score.

use std::time::{Duration, Instant};

use vfl_active_party::scoring::Scorer;
use vfl_attack::Method;
use vfl_coordinator::config::Budgets;
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::types::{
    FeatureBlock, ModelVersion, PartyName, RecordIds, ReleasedScores, RowStatus,
};
use vfl_datasets as data;
use vfl_datasets::{DatasetName, DatasetSpec, SyntheticFields, SyntheticParameters};
use vfl_defense::DefenseConfig;
use vfl_party::computation::release::ServingMode;
use vfl_passive_party::config::ServingPolicy;
use vfl_protocol::private_release::{MaskedRequest, ReleaseReply, TAG_WORDS, write_numbers};
use vfl_protocol::training::computation::ComputationPiece;
use vfl_protocol::{RefusalKind, pb, read_scores};
use vfl_server::service::Role;
use vfl_state::ShareStore;
use vfl_testbed::deployment::{Deployment, DeploymentSpec};

use super::audits::{audit, errors};
use super::limited_line::{AtTheLimit, LimitedLine, WHOLE};
use super::support::{
    Trained, active_client, config, coordinator_client, score, spec, split, test_ids, trained,
    training_ids,
};

/// Lets the first passive party compute, as the coordinator chooses.
fn private() -> ServingPolicy {
    ServingPolicy {
        mode: ServingMode::Private,
        computing_party: Some(PartyName::new("passive-1").unwrap()),
        policies: None,
    }
}

fn defense(text: &str) -> Vec<DefenseConfig> {
    text.parse::<vfl_defense::Policy>().unwrap().defenses
}

fn read(answer: &pb::ScoreResponse) -> (Vec<RowStatus>, ReleasedScores) {
    let (records, classes) = (answer.row_status.len(), answer.class_names.len());
    read_scores(&answer.row_status, answer.release.as_ref(), records, classes).unwrap()
}

async fn released(
    here: &Trained,
    records: std::ops::Range<usize>,
) -> (Vec<RowStatus>, ReleasedScores) {
    let ids = test_ids(&here.dataset, records.start, records.end);
    read(&score(&here.deployment, &ids).await.unwrap())
}

fn numbers(released: &ReleasedScores) -> Vec<f64> {
    match released {
        ReleasedScores::Probabilities(m) | ReleasedScores::Numbers(m) => {
            m.iter().copied().collect()
        }
        ReleasedScores::Labels { labels, .. } => labels.iter().map(|l| f64::from(*l)).collect(),
        ReleasedScores::Ciphertexts(_) => unreachable!("no policy here encrypts"),
    }
}

/// With one, two and four passive parties, each policy releases on shares what it releases plainly.
#[tokio::test(flavor = "multi_thread")]
async fn shares_release_what_the_plain_service_releases() {
    for parties in [1, 2, 4] {
        let mut here = trained(parties, 2, 4).await;
        // Each policy is asked about records of its own: ten queries are a record's budget.
        for (at, policy) in [
            "none",
            "class_label",
            "class_label (softening = 0.1)",
            "ranking",
            "rounding (decimals = 3)",
            "rounding (decimals = 0)",
            "top_k (k = 1) then rounding (decimals = 2)",
            "codebook (size = 12)",
        ]
        .into_iter()
        .enumerate()
        {
            let records = 40 * at..40 * (at + 1);
            here = here.again(|spec| spec.defenses = defense(policy)).await;
            let (_, plain) = released(&here, records.clone()).await;
            here = here
                .again(|spec| (spec.defenses, spec.serving) = (defense(policy), private()))
                .await;
            let (status, shared) = released(&here, records.clone()).await;
            assert!(status.iter().all(|status| *status == RowStatus::Ok), "{policy}");
            let (plain_kind, kind) =
                (std::mem::discriminant(&plain), std::mem::discriminant(&shared));
            assert_eq!(plain_kind, kind, "{parties} parties, {policy}");
            let (plain, shared) = (numbers(&plain), numbers(&shared));
            assert_eq!(plain.len(), shared.len());
            let worst = plain.iter().zip(&shared).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst < 1e-9, "{parties} parties, {policy}: {worst:e}");
        }
        here.deployment.stop().await.unwrap();
    }
}

/// The table without some records, by their positions, or with other features in the first column.
fn changed(table: &FeatureTable, without: &[&str], other: Option<&str>) -> FeatureTable {
    let kept: Vec<usize> = (0..table.ids().len())
        .filter(|&at| !without.contains(&table.ids().get(at).unwrap()))
        .collect();
    let mut block = table.block().matrix().select_columns(&kept);
    let ids = table.ids().select(&kept);
    if let Some(at) = other.and_then(|id| ids.iter().position(|of| of == id)) {
        block[(0, at)] = 1.0 - block[(0, at)] + 1e-9;
        block[(0, at)] = block[(0, at)].clamp(0.0, 1.0);
    }
    let labels = table.labels().map(|all| kept.iter().map(|&at| all[at]).collect());
    let schema = table.schema().clone();
    FeatureTable::new(schema, ids, FeatureBlock::new(block).unwrap(), labels).unwrap()
}

/// Each record has a status of its own: of what a party lacks, of a share that has changed since it
/// was first asked for, of training records and spent budgets. The others are answered as before.
#[tokio::test(flavor = "multi_thread")]
async fn statuses_are_those_of_the_plain_service() {
    let budgets = Budgets { queries_per_record: Some(2), ..Budgets::UNLIMITED };
    let here = trained(2, 2, 2).await;
    let known = test_ids(&here.dataset, 0, 6);
    let id = |at: usize| known.get(at).unwrap();
    let trained_on = training_ids(&here.dataset);
    let asked = RecordIds::new([id(0), "nobody", id(1), id(2), trained_on.get(0).unwrap(), id(3)]);
    let asked = asked.unwrap();
    let lacking = |spec: &mut DeploymentSpec| {
        spec.serving = private();
        for ((_, table), without) in spec.tables.passive.iter_mut().zip([id(1), id(2)]) {
            *table = changed(table, &[without], None);
        }
    };
    let here = here.with_budgets(budgets, lacking).await;
    use RowStatus::{BudgetSpent, NotFound, Ok, ShareChanged, TrainingRecord};
    let (status, first) = read(&score(&here.deployment, &asked).await.unwrap());
    assert_eq!(status, [Ok, NotFound, NotFound, NotFound, TrainingRecord, Ok]);
    assert_eq!(first.records(), 2);
    // None of these records is computed.
    let none = RecordIds::new([id(1), id(2)]).unwrap();
    let (status, nothing) = read(&score(&here.deployment, &none).await.unwrap());
    assert_eq!((status, nothing.records()), (vec![NotFound; 2], 0));
    // The active party asks once more, about a record with another share.
    let here = here
        .with_budgets(budgets, |spec| {
            lacking(spec);
            spec.tables.active = changed(&spec.tables.active, &[], Some(id(0)));
        })
        .await;
    let both = RecordIds::new([id(0), id(3)]).unwrap();
    let (status, second) = read(&score(&here.deployment, &both).await.unwrap());
    assert_eq!(status, [ShareChanged, Ok]);
    assert_eq!(numbers(&second), numbers(&first.select(&[1])), "a repeated record is the same");
    let (status, third) = read(&score(&here.deployment, &both).await.unwrap());
    assert_eq!((status, third.records()), (vec![ShareChanged, BudgetSpent], 0));
    here.deployment.stop().await.unwrap();
}

/// Requests that come together are computed together, and each gets the answer to its own records.
/// A request with a name costs nothing when it is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_is_answered_and_a_retry_is_free() {
    let here = trained(1, 2, 2).await;
    let ids = test_ids(&here.dataset, 0, 300);
    let (_, plain) = released(&here, 0..300).await;
    let here = here.again(|spec| spec.serving = private()).await;
    let mut calls = tokio::task::JoinSet::new();
    for at in 0..60 {
        let (from, to) = (5 * at, 5 * at + 1 + at % 5);
        let (mut client, ids) = (active_client(&here.deployment), ids.slice(from, to));
        calls.spawn(async move {
            let request = pb::ScoreRequest { ids: Some(ids.into()), ..Default::default() };
            (from..to, client.predict(request).await.unwrap().into_inner())
        });
    }
    while let Some(answered) = calls.join_next().await {
        let (records, answer) = answered.unwrap();
        let (_, shared) = read(&answer);
        let expected = numbers(&plain.select(&records.collect::<Vec<_>>()));
        let shared = numbers(&shared);
        let worst = shared.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        assert!(worst.fold(0.0, f64::max) < 1e-9);
    }
    let used = || async {
        let mut client = coordinator_client(&here.deployment, Role::Auditor);
        let ledger = client.describe_ledger(pb::DescribeLedgerRequest::default()).await.unwrap();
        ledger.into_inner().parties[0].queries
    };
    let before = used().await;
    let request = pb::ScoreRequest { ids: Some(ids.slice(0, 4).into()), request_id: "r".into() };
    for _ in 0..3 {
        active_client(&here.deployment).predict(request.clone()).await.unwrap();
    }
    assert_eq!(used().await, before + 4);
    here.deployment.stop().await.unwrap();
}

/// Whoever does not consent says so by name, and nothing is answered in another mode instead.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_released_without_consent() {
    let here = trained(2, 2, 1).await;
    let asked = test_ids(&here.dataset, 0, 3);
    let refused = |here: &Trained| {
        let (mut client, ids) = (active_client(&here.deployment), asked.clone());
        async move {
            let request = pb::ScoreRequest { ids: Some(ids.into()), ..Default::default() };
            client.predict(request).await.unwrap_err().message().to_owned()
        }
    };
    // The passive parties give their logits to nobody, and the coordinator asks for them.
    let here = {
        here.deployment.stop().await.unwrap();
        let mut spec_ = spec(here.dir.path(), &here.dataset, &here.split);
        spec_.serving = private();
        let plain = Deployment::start_with(spec_, |_, settings| {
            settings.serving.mode = ServingMode::Plain;
            Ok(())
        });
        Trained { deployment: plain.await.unwrap(), ..here }
    };
    let said = refused(&here).await;
    assert!(said.contains("`passive-") && said.contains("shows its logits to nobody"), "{said}");
    // A passive party that does not let the other one compute.
    let alone = ServingPolicy { computing_party: None, ..private() };
    let here = here.again(|spec| spec.serving = alone).await;
    let said = refused(&here).await;
    assert!(said.contains("`passive-2` does not let `passive-1` compute"), "{said}");
    // Both take part in releases of labels alone.
    let labels = ServingPolicy { policies: Some(vec!["class_label".into()]), ..private() };
    let here = here.again(|spec| spec.serving = labels.clone()).await;
    let said = refused(&here).await;
    assert!(said.contains("takes no part in releases under `none`"), "{said}");
    let here =
        here.again(|spec| (spec.serving, spec.defenses) = (labels, defense("class_label"))).await;
    assert!(matches!(released(&here, 0..3).await.1, ReleasedScores::Labels { .. }));
    // A policy that is not computed on shares.
    let here = here
        .again(|spec| (spec.serving, spec.defenses) = (private(), defense("top_k (k = 1)")))
        .await;
    let said = refused(&here).await;
    assert!(said.contains("`top_k (k = 1)` is not computed on shares"), "{said}");
    here.deployment.stop().await.unwrap();
}

/// An audit on shares finds what a plain one finds, while nobody sees a score but the adversary.
#[tokio::test(flavor = "multi_thread")]
async fn audits_run_on_shares() {
    let here = trained(2, 2, 6).await;
    let attacks = [Method::LeastSquares, Method::ClampedLeastSquares, Method::Half];
    let plain = audit(&here, 150, &attacks).await;
    let here = here.again(|spec| spec.serving = private()).await;
    let shared = audit(&here, 150, &attacks).await;
    assert_eq!(plain.audits.len(), shared.audits.len());
    for (plain, shared) in plain.audits.iter().zip(&shared.audits) {
        assert_eq!(plain.utility.accuracy, shared.utility.accuracy);
        assert!(plain.utility.total_variation.is_some() || plain.utility.arg_max_kept.is_some());
        assert_eq!(shared.utility.arg_max_kept, None);
        for attack in attacks {
            let (a, b) = (errors(plain, attack).mse, errors(shared, attack).mse);
            assert!((a - b).abs() <= 1e-12 + 0.01 * a, "{attack}: {a:e} {b:e}");
        }
    }
    let why = "the coordinator sees no score of a private release";
    assert!(shared.audits.iter().any(|audit| audit.remarks.iter().any(|r| r.contains(why))));
    let exact = errors(&shared.audits[0], Method::LeastSquares).mse;
    assert!(exact < 1e-12, "undefended: {exact:e}");
    let top: vfl_defense::Policy = "top_k (k = 1)".parse().unwrap();
    let open = pb::OpenAuditRequest {
        model_version: here.version.clone(),
        policy: Some((&top).into()),
        ids: Some((&test_ids(&here.dataset, 0, 100)).into()),
        active_party: "active".into(),
    };
    let refused = coordinator_client(&here.deployment, Role::Auditor).open_audit(open).await;
    let said = refused.unwrap_err().message().to_owned();
    assert!(said.contains("`top_k (k = 1)` is not computed on shares"), "{said}");
    here.deployment.stop().await.unwrap();
}

/// A session of an audit that was closed answers nothing more, though its stream is open.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_audit_answers_nothing_more() {
    let here = trained(1, 2, 1).await.again(|spec| spec.serving = private()).await;
    let ids = test_ids(&here.dataset, 0, 100);
    let mut auditor = coordinator_client(&here.deployment, Role::Auditor);
    let open = pb::OpenAuditRequest {
        model_version: here.version.clone(),
        policy: Some((&"none".parse::<vfl_defense::Policy>().unwrap()).into()),
        ids: Some((&ids).into()),
        active_party: "active".into(),
    };
    let audit_session = auditor.open_audit(open).await.unwrap().into_inner().audit_session;
    let features = spec(here.dir.path(), &here.dataset, &here.split).tables.active.into();
    let store = ShareStore::open(&here.deployment.party_dir("active")).unwrap();
    let (credentials, peer) =
        (&here.deployment.active_credentials, here.deployment.coordinator_peer());
    let scorer = Scorer::new(credentials, peer, features, store, Duration::from_secs(20)).unwrap();
    let model = scorer.describe().await.unwrap();
    let asked = || scorer.score(&model, &ids, Some(&audit_session), "");
    assert_eq!(asked().await.unwrap().status, [RowStatus::Ok; 100]);
    let close =
        pb::CloseAuditRequest { audit_session: audit_session.clone(), without_summary: false };
    let closed = auditor.close_audit(close).await.unwrap().into_inner();
    assert_eq!((closed.rows, closed.records), (100, 100));
    assert_eq!(asked().await.unwrap_err().kind, RefusalKind::NotFound);
    here.deployment.stop().await.unwrap();
}

/// A message that is not due, or does not fit, ends its own session with an error that says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_not_due_ends_its_own_session_alone() {
    let unlimited = Budgets::UNLIMITED;
    let here = trained(1, 2, 1).await;
    let here = here.with_budgets(unlimited, |spec| spec.serving = private()).await;
    released(&here, 0..3).await;
    let k = here.dataset.class_names().len();
    let version = ModelVersion::new(here.version.clone()).unwrap();
    let open = || ReleaseReply::Open { version: version.clone(), audit_session: None };
    let ids = test_ids(&here.dataset, 0, 3);
    let request = |number, words: usize| {
        let (ids, masked) = (ids.clone(), write_numbers(&vec![7; words]));
        ReleaseReply::Request(MaskedRequest { number, ids, masked, request_id: String::new() })
    };
    let fits = (k + TAG_WORDS) * ids.len();
    let piece = |party: &str| {
        let party = Some(PartyName::new(party).unwrap());
        ReleaseReply::Piece(ComputationPiece { party, data: vec![1; 9].into() })
    };
    let unknown =
        || ReleaseReply::Open { version: ModelVersion::new("m-0").unwrap(), audit_session: None };
    let audit = || ReleaseReply::Open { version: version.clone(), audit_session: Some("x".into()) };
    for (replies, says) in [
        (vec![ReleaseReply::Consent], "begins with the version"),
        (vec![unknown()], "m-0"),
        (vec![audit()], "session"),
        (vec![open(), ReleaseReply::Consent], "not due"),
        (vec![open(), open()], "not due"),
        (vec![open(), request(2, fits)], "numbered one by one"),
        (vec![open(), request(1, fits - 1)], "masked_logits"),
        (vec![open(), ReleaseReply::Held { number: 1, rows: Ok(vec![]) }], "not due"),
        (vec![open(), piece("passive-9")], "not in this session"),
        (vec![open(), piece("active")], "not in this session"),
    ] {
        let mut client = coordinator_client(&here.deployment, Role::ActiveParty);
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        for reply in replies {
            sender.send(pb::PrivateReleaseReply::from(reply)).await.unwrap();
        }
        let receiver = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let ended = async {
            let mut commands = client.release_privately(receiver).await?.into_inner();
            while commands.message().await?.is_some() {}
            Ok::<_, tonic::Status>(())
        };
        let ended = tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
        let said = ended.unwrap_err().message().to_owned();
        assert!(said.contains(says), "{says}: {said}");
        // The session of the active party goes on.
        assert_eq!(released(&here, 3..6).await.0, [RowStatus::Ok; 3]);
    }
    here.deployment.stop().await.unwrap();
}

/// The line between coordinator and passive party, which the messages of all three pass, breaks or
/// falls silent at any byte of a session. Requests end in time, with an answer or an error that
/// names the party, and later ones are answered in another session.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_ends_at_any_byte_costs_no_later_answer() {
    let Trained { dir, dataset, split, deployment, .. } = trained(1, 2, 1).await;
    deployment.stop().await.unwrap();
    let mut spec_ = spec(dir.path(), &dataset, &split);
    (spec_.serving, spec_.defenses) = (private(), defense("class_label"));
    let mut lines = Vec::new();
    let patience = Duration::from_secs(2);
    let deployment = Deployment::start_with(spec_, |_, settings| {
        settings.peer_timeout = patience;
        settings.ledger.as_mut().unwrap().budgets = Budgets::UNLIMITED;
        let peer = &mut settings.passive_parties[0];
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let line = LimitedLine::open(listener, peer.address.parse()?);
        peer.address = line.address.to_string();
        lines.push(line);
        Ok(())
    });
    let deployment = deployment.await.unwrap();
    let line = lines.pop().unwrap();
    let asked = test_ids(&dataset, 0, 50);
    let expected = read(&score(&deployment, &asked).await.unwrap()).1;
    let before = line.carried();
    score(&deployment, &asked).await.unwrap();
    let all = line.carried() - before;
    let mut broken = 0;
    for (share, end) in [
        (0.0, AtTheLimit::Closed),
        (0.02, AtTheLimit::Silent),
        (0.3, AtTheLimit::Closed),
        (0.3, AtTheLimit::Silent),
        (0.6, AtTheLimit::Closed),
        (0.6, AtTheLimit::Silent),
        (0.9, AtTheLimit::Closed),
    ] {
        line.set((all as f64 * share) as u64, end);
        let began = Instant::now();
        let answered = score(&deployment, &asked).await;
        let took = began.elapsed();
        line.set(WHOLE, AtTheLimit::Closed);
        // Twice the patience: for the first session, and for the one in which it is asked again.
        let most = 2 * patience + Duration::from_secs(8);
        assert!(took < most, "{share} {end:?}: {took:?}");
        match answered {
            Ok(answer) => assert_eq!(read(&answer).1, expected),
            Err(refused) => {
                broken += 1;
                assert!(refused.message().contains("`passive-1`"), "{share} {end:?}: {refused}");
            }
        }
        let until = Instant::now() + 4 * patience;
        let answer = loop {
            match score(&deployment, &asked).await {
                Err(_) if Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(50)).await
                }
                answer => break answer.unwrap(),
            }
        };
        assert_eq!(read(&answer).1, expected, "{share} {end:?}");
    }
    assert!(broken >= 3, "{broken} of the lines broke a session");
    deployment.stop().await.unwrap();
}

/// The number of records whose labels are compared; `CLOISON_ROWS` sets another one.
fn rows() -> usize {
    std::env::var("CLOISON_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(20_000)
}

/// The labels of many distinct records are those of the plain service. They may differ where the two
/// largest scores of a record are within the rounding of logits, 2^-39.
#[tokio::test(flavor = "multi_thread")]
async fn many_labels_are_those_of_the_plain_service() {
    let rows = rows();
    let mut of = DatasetSpec::new(DatasetName::Synthetic, None, 3);
    let fields = of.synthetic.fields().clone();
    let fields = SyntheticFields { records: rows + 2000, features: 16, classes: 6, ..fields };
    of.synthetic = SyntheticParameters::new(fields).unwrap();
    let dataset = data::load(&of).unwrap();
    let split = split(&dataset, 1, 4);
    let dir = tempfile::tempdir().unwrap();
    let trained_on = dataset.ids().slice(0, 2000);
    let asked = dataset.ids().slice(2000, rows + 2000);
    let mut released: Vec<Vec<u32>> = Vec::new();
    for serving in [ServingPolicy::default(), private()] {
        let mode = serving.mode;
        let mut spec_ = spec(dir.path(), &dataset, &split);
        (spec_.serving, spec_.defenses) = (serving, defense("class_label"));
        let deployment = Deployment::start_with(spec_, |_, settings| {
            settings.ledger.as_mut().unwrap().budgets = Budgets::UNLIMITED;
            Ok(())
        });
        let deployment = deployment.await.unwrap();
        if mode == ServingMode::Plain {
            deployment.train(&config(2), &trained_on, |_| ()).await.unwrap();
        }
        let mut all = Vec::with_capacity(rows);
        for from in (0..rows).step_by(16_000) {
            let ids = asked.slice(from, rows.min(from + 16_000));
            let (status, labels) = read(&score(&deployment, &ids).await.unwrap());
            assert!(status.iter().all(|status| *status == RowStatus::Ok));
            all.extend(labels.predicted_labels());
        }
        deployment.stop().await.unwrap();
        released.push(all);
    }
    let differ = released[0].iter().zip(&released[1]).filter(|(a, b)| a != b).count();
    assert_eq!((differ, released[0].len()), (0, rows));
    let classes: std::collections::BTreeSet<_> = released[0].iter().collect();
    assert!(classes.len() > 3, "{classes:?}");
}
