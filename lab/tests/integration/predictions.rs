//! Predictions over the sockets are those of the central model, defended as configured; peers that fail are named.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use tonic::Code;
use vfl_coordinator::config::Budgets;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::table::FeatureTable;
use vfl_core::model::train_central;
use vfl_core::types::{ConfidenceScores, LogitShare, Logits, PartyName, RecordIds};
use vfl_defense::DefenseConfig;
use vfl_features::features::Features;
use vfl_protocol::pb::active_party_client::ActivePartyClient;
use vfl_protocol::pb::coordinator_client::CoordinatorClient;
use vfl_protocol::pb::release::Kind;
use vfl_protocol::{decode_columns, pb};
use vfl_server::service::{Peer, Role};
use vfl_testbed::deployment::Deployment;

use super::support::{
    Trained, active_client, config, coordinator_client, score, spec, test_ids, trained,
    training_ids,
};

const EPOCHS: u32 = 3;

/// Scores of all records (k × n, in the order of the data set) by the model trained with all features in one place.
fn central_scores(here: &Trained) -> DMatrix<f64> {
    let (dataset, positions) = (&here.dataset, &here.dataset.split().train);
    let x = dataset.x().select_columns(positions);
    let labels: Vec<u32> = positions.iter().map(|&p| dataset.labels()[p]).collect();
    let fit = train_central(&config(EPOCHS), dataset.class_names().len(), &x, &labels);
    let mut z = &fit.weights * dataset.x();
    for mut column in z.column_iter_mut() {
        column += &fit.bias;
    }
    // The definition, with the maximum taken out so that it does not overflow.
    for mut column in z.column_iter_mut() {
        let max = column.max();
        column.apply(|v| *v = (*v - max).exp());
        let sum = column.sum();
        column /= sum;
    }
    z
}

fn position(here: &Trained, id: &str) -> Option<usize> {
    here.dataset.ids().iter().position(|other| other == id)
}

/// Test records in random order with ids that nobody holds mixed in.
fn mixed(here: &Trained, records: usize, unknown: usize) -> RecordIds {
    let test = &here.dataset.split().test;
    let mut ids: Vec<String> =
        test.iter().take(records).map(|&p| here.dataset.ids().get(p).unwrap().to_owned()).collect();
    ids.extend((0..unknown).map(|i| format!("nobody-{i}")));
    ids.shuffle(&mut rand_chacha::ChaCha20Rng::seed_from_u64(7));
    RecordIds::new(&ids).unwrap()
}

fn probabilities(release: Option<pb::Release>, rows: usize) -> DMatrix<f64> {
    match release.unwrap().kind.unwrap() {
        Kind::Probabilities(m) | Kind::Numbers(m) => {
            decode_columns("release", &m, rows, None).unwrap()
        }
        Kind::Labels(_) | Kind::Ciphertexts(_) => panic!("no vectors came"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn predictions_are_those_of_the_central_model() {
    for parties in [1, 3] {
        let here = trained(parties, 2, EPOCHS).await;
        let central = central_scores(&here);
        // The whole test set takes one message; with the training records, a stream of several.
        let most = here.dataset.split().test.len();
        for (records, unknown) in [(1, 0), (60, 7), (most, 40)] {
            let ids = mixed(&here, records, unknown);
            let answer = score(&here.deployment, &ids).await.unwrap();
            assert_eq!(answer.model_version, here.version);
            assert_eq!(answer.class_names, here.dataset.class_names());
            check(&here, &central, &ids, answer);
        }
        let all = here.dataset.ids();
        let answer = score(&here.deployment, all).await.unwrap();
        let trained_on = answer
            .row_status
            .iter()
            .filter(|&&s| s == pb::RowStatus::TrainingRecord as i32)
            .count();
        assert_eq!(
            trained_on,
            here.dataset.split().train.len(),
            "exactly the training records are not served"
        );
        assert!(all.len() > 2 * vfl_protocol::STREAM_CHUNK_RECORDS, "this was a stream");
        check(&here, &central, all, answer);
        here.deployment.stop().await.unwrap();
    }
}

fn check(here: &Trained, central: &DMatrix<f64>, ids: &RecordIds, answer: pb::ScoreResponse) {
    let mut wanted = Vec::new();
    for (id, &status) in ids.iter().zip(&answer.row_status) {
        let expected = match position(here, id) {
            None => pb::RowStatus::NotFound,
            Some(p) if here.dataset.split().train.contains(&p) => pb::RowStatus::TrainingRecord,
            Some(p) => {
                wanted.push(p);
                pb::RowStatus::Ok
            }
        };
        assert_eq!(status, expected as i32, "{id}");
    }
    let got = probabilities(answer.release, wanted.len());
    let worst = (got - central.select_columns(&wanted)).amax();
    assert!(worst < 1e-9, "scores differ by {worst:e}");
}

/// Each defense's release is what the definition gives on the central scores, and so is the kind of the answer, even when
/// no row of it is released.
#[tokio::test(flavor = "multi_thread")]
async fn defenses_release_what_they_define() {
    let mut here = trained(2, 2, EPOCHS).await;
    let central = central_scores(&here);
    let ids = mixed(&here, 200, 9);
    let positions: Vec<usize> = ids.iter().filter_map(|id| position(&here, id)).collect();
    let truth = central.select_columns(&positions);
    let nobody = RecordIds::new(["nobody-1", "nobody-2"]).unwrap();
    let trained_on = training_ids(&here.dataset).slice(0, 3);

    for decimals in [1, 4] {
        here = here.again(|spec| spec.defenses = vec![DefenseConfig::Rounding { decimals }]).await;
        let answer = score(&here.deployment, &ids).await.unwrap();
        assert!(matches!(answer.release.as_ref().unwrap().kind, Some(Kind::Numbers(_))));
        let got = probabilities(answer.release, positions.len());
        let step = 10f64.powi(-(decimals as i32));
        for (got, exact) in got.iter().zip(truth.iter()) {
            assert!(
                (got / step - (got / step).round()).abs() < 1e-6,
                "a value off the grid of 1e-{decimals}"
            );
            assert!((got - exact).abs() <= step / 2.0 + 1e-9, "further than half a step");
        }
    }
    here =
        here.again(|spec| spec.defenses = vec![DefenseConfig::ClassLabel { softening: 0.0 }]).await;
    let answer = score(&here.deployment, &ids).await.unwrap();
    let Some(Kind::Labels(released)) = answer.release.unwrap().kind else {
        panic!("no labels came")
    };
    assert_eq!(released.classes as usize, truth.nrows());
    for (column, &label) in truth.column_iter().zip(&released.labels) {
        assert!(column[label as usize] >= column.max() - 1e-9, "a label that is not the arg max");
    }
    for none in [&nobody, &trained_on] {
        let answer = score(&here.deployment, none).await.unwrap();
        assert!(answer.row_status.iter().all(|&s| s != pb::RowStatus::Ok as i32));
        if none.len() == 3 {
            let kind = answer.release.unwrap().kind;
            assert!(
                matches!(kind, Some(Kind::Labels(_))),
                "a release of no rows is of the policy's kind"
            );
        }
    }
    here.deployment.stop().await.unwrap();
}

/// One request of the coordinator's `Predict`, with the active party's shares left at 0.
fn request(here: &Trained, from: usize, to: usize) -> pb::PredictRequest {
    let ids = test_ids(&here.dataset, from, to);
    let shares = LogitShare::new(DMatrix::zeros(here.dataset.class_names().len(), ids.len()))
        .unwrap()
        .into();
    pb::PredictRequest {
        model_version: here.version.clone(),
        ids: Some(ids.into()),
        logit_shares: Some(shares),
        audit_session: String::new(),
        request_id: String::new(),
    }
}

/// No party answers there any more. Whatever took its port meanwhile may take connections and say nothing.
fn gone(status: &tonic::Status) -> bool {
    [Code::Unavailable, Code::DeadlineExceeded].contains(&status.code())
}

/// A passive party that is down is named on both ways of asking, and serving resumes when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_passive_party_that_is_down_is_named_and_serving_resumes() {
    let mut here = trained(2, 2, 1).await;
    let ids = test_ids(&here.dataset, 0, 20);
    score(&here.deployment, &ids).await.unwrap();
    // Other records: their shares are not those of the active party.
    let mut coordinator = coordinator_client(&here.deployment, Role::ActiveParty);

    // A stream under way when the party stops: answered before, an error that names it after.
    let (ask, asked) = tokio::sync::mpsc::channel(4);
    ask.send(request(&here, 20, 30)).await.unwrap();
    let stream = coordinator
        .predict_stream(tokio_stream::wrappers::ReceiverStream::new(asked))
        .await
        .unwrap();
    let mut stream = stream.into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().row_status, vec![1; 10]);
    here.deployment.stop_passive(1).await;
    ask.send(request(&here, 30, 40)).await.unwrap();
    let status = stream.message().await.unwrap_err();
    assert!(gone(&status), "{status}");
    assert!(status.message().contains("passive-2"), "{status}");
    // The first error ends the stream, whatever is asked afterwards.
    let _ = ask.send(request(&here, 20, 30)).await;
    assert!(!matches!(stream.message().await, Ok(Some(_))));

    let status = coordinator.predict(request(&here, 20, 30)).await.unwrap_err();
    assert!(gone(&status), "{status}");
    assert!(status.message().contains("passive-2"), "{status}");
    let status = score(&here.deployment, &ids).await.unwrap_err();
    assert!(gone(&status), "{status}");
    assert!(status.message().contains("passive-2"), "through the active party: {status}");

    here.deployment.restart_passive(1).await.unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    while let Err(status) = score(&here.deployment, &ids).await {
        assert!(Instant::now() < until, "serving does not resume: {status}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    here.deployment.stop().await.unwrap();
}

/// The role is not enough: another active party of the deployment gets neither scores nor training from this one's model.
#[tokio::test(flavor = "multi_thread")]
async fn another_active_party_is_refused() {
    let here = trained(1, 2, 1).await;
    let other = here.deployment.credentials(Role::ActiveParty, "other").unwrap();
    let channel = |peer| vfl_server::service::channel(&other, &peer).unwrap();
    let mut coordinator = CoordinatorClient::new(channel(here.deployment.coordinator_peer()));
    let mut active = ActivePartyClient::new(channel(here.deployment.active_peer()));
    let denied = |status: tonic::Status| {
        assert_eq!(status.code(), Code::PermissionDenied, "{status}");
        assert!(status.message().contains("`active`"), "{}", status.message());
    };
    denied(coordinator.predict(request(&here, 0, 5)).await.unwrap_err());
    let ids = test_ids(&here.dataset, 0, 5);
    denied(
        active
            .predict(pb::ScoreRequest { ids: Some((&ids).into()), ..Default::default() })
            .await
            .unwrap_err(),
    );
    let config = config(1);
    denied(
        active
            .train(pb::TrainJobRequest { config: Some((&config).into()), ids: None })
            .await
            .unwrap_err(),
    );
    let start = pb::TrainingReply { reply: None };
    let mut answers = coordinator.train(tokio_stream::iter([start])).await.unwrap().into_inner();
    denied(answers.message().await.unwrap_err());
    here.deployment.stop().await.unwrap();
}

/// More questions at once than any queue on the way holds: all are answered, none blocks the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_predictions_is_answered() {
    let here = trained(1, 2, 1).await;
    let coordinator = coordinator_client(&here.deployment, Role::ActiveParty);
    let rows = here.dataset.split().test.len().min(600);
    let request = request(&here, 0, rows);
    let calls = (0..900).map(|_| {
        let (mut coordinator, request) = (coordinator.clone(), request.clone());
        tokio::spawn(async move {
            coordinator.predict(request).await.map(|answer| answer.into_inner().row_status.len())
        })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap().unwrap(), rows);
    }
    here.deployment.stop().await.unwrap();
}

/// A peer that takes the connection and says nothing costs its timeout and no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_peer_costs_its_timeout() {
    const TIMEOUT: Duration = Duration::from_millis(400);
    let here = trained(2, 2, 1).await;
    here.deployment.stop().await.unwrap();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    // Holds every connection open without a byte.
    let holding = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((socket, _)) = silent.accept().await {
            held.push(socket);
        }
    });
    let spec = spec(here.dir.path(), &here.dataset, &here.split);
    let deployment = Deployment::start_with(spec, |_, settings| {
        settings.peer_timeout = TIMEOUT;
        settings.training.step_timeout_s = 1;
        settings.passive_parties[1].address = address;
        Ok(())
    })
    .await
    .unwrap();
    let here = Trained { deployment, ..here };
    let mut coordinator = coordinator_client(&here.deployment, Role::ActiveParty);
    let silence = |status: &tonic::Status, started: Instant, allowed: Duration| {
        assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Unavailable), "{status}");
        assert!(status.message().contains("passive-2"), "{status}");
        let took = started.elapsed();
        assert!(took < allowed + Duration::from_secs(2), "{took:?}");
    };
    for _ in 0..2 {
        let started = Instant::now();
        let status = coordinator.predict(request(&here, 0, 5)).await.unwrap_err();
        silence(&status, started, TIMEOUT);
    }
    let started = Instant::now();
    let mut stream = coordinator
        .predict_stream(tokio_stream::iter([request(&here, 0, 5)]))
        .await
        .unwrap()
        .into_inner();
    silence(&stream.message().await.unwrap_err(), started, TIMEOUT);
    let started = Instant::now();
    let refusal =
        here.deployment.train(&config(1), &training_ids(&here.dataset), |_| ()).await.unwrap_err();
    assert!(refusal.message.contains("passive-2"), "{refusal}");
    assert!(started.elapsed() < Duration::from_secs(4));
    // The caller's own deadline counts when it is shorter.
    let mut hasty = tonic::Request::new(request(&here, 0, 5));
    hasty.set_timeout(Duration::from_millis(50));
    let started = Instant::now();
    coordinator.predict(hasty).await.unwrap_err();
    assert!(started.elapsed() < TIMEOUT, "{:?}", started.elapsed());
    here.deployment.stop().await.unwrap();
    holding.abort();
}

/// All parties stopped and started again serve the same model with the same scores, from what they stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_serves_the_stored_model() {
    let here = trained(2, 2, EPOCHS).await;
    let ids = mixed(&here, 100, 3);
    let before = score(&here.deployment, &ids).await.unwrap();
    let here = here.again(|_| ()).await;
    let after = score(&here.deployment, &ids).await.unwrap();
    assert_eq!(before, after, "to the last bit");
    here.deployment.stop().await.unwrap();
}

/// Ranges that were changed under a model in service would change every score: that model is refused, and the operator is told why.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_other_ranges_is_not_served() {
    let here = trained(2, 2, 1).await;
    let ids = mixed(&here, 20, 3);
    let before = score(&here.deployment, &ids).await.unwrap();
    let wider = |table: &FeatureTable| {
        let before = Features::from(table.clone()).schema().clone();
        let mut features = before.features().to_vec();
        features[1].max *= 2.0;
        let schema = FeatureSchema::new(features, before.label().cloned()).unwrap();
        let labels = table.labels().map(<[u32]>::to_vec);
        FeatureTable::new(schema, table.ids().clone(), table.block().clone(), labels).unwrap()
    };
    let mut here = here;
    for party in ["passive-2", "active"] {
        here = here
            .again(|spec| match party {
                "active" => spec.tables.active = wider(&spec.tables.active),
                _ => spec.tables.passive[1].1 = wider(&spec.tables.passive[1].1),
            })
            .await;
        let status = score(&here.deployment, &ids).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{party}: {status}");
        let says = if party == "active" { "restore the schema" } else { "its log says more" };
        assert!(
            status.message().contains(says) && status.message().contains("model m-"),
            "{party}: {status}"
        );
    }
    let here = here.again(|_| ()).await;
    assert_eq!(score(&here.deployment, &ids).await.unwrap(), before);
    here.deployment.stop().await.unwrap();
}

/// A coordinator whose config no longer names the passive parties of the model must not sum what is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_other_parties_is_not_served() {
    let here = trained(2, 2, 1).await;
    here.deployment.stop().await.unwrap();
    for wrong in ["fewer", "more"] {
        let spec = spec(here.dir.path(), &here.dataset, &here.split);
        let deployment = Deployment::start_with(spec, |_, settings| {
            let first: Peer = settings.passive_parties[0].clone();
            match wrong {
                "fewer" => drop(settings.passive_parties.pop()),
                _ => settings
                    .passive_parties
                    .push(Peer { name: PartyName::new("passive-3").unwrap(), ..first }),
            }
            Ok(())
        })
        .await
        .unwrap();
        let status = score(&deployment, &test_ids(&here.dataset, 0, 5)).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{wrong}: {status}");
        assert!(status.message().contains("passive-2"), "{wrong}: {status}");
        deployment.stop().await.unwrap();
    }
}

/// The oracle above and the project's own softmax are the same function.
#[test]
fn the_oracle_is_softmax() {
    let z = DMatrix::from_fn(4, 5, |i, j| (i as f64 - 1.5) * (j as f64 + 1.0) * 3.0);
    let own = ConfidenceScores::softmax(Logits::new(z.clone()).unwrap()).into_matrix();
    for (z, c) in z.column_iter().zip(own.column_iter()) {
        let sum: f64 = z.iter().map(|v| v.exp()).sum();
        for (z, c) in z.iter().zip(c.iter()) {
            assert!((z.exp() / sum - c).abs() < 1e-14);
        }
    }
}

/// Clients ask without a pause while one training after the other puts another model in service: each of their requests is answered, by
/// one model each.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_lost_when_another_model_is_put_in_service() {
    let here = trained(2, 2, 1).await.with_budgets(Budgets::UNLIMITED, |_| ()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let (mut client, stop) = (active_client(&here.deployment), stop.clone());
            let ids = test_ids(&here.dataset, 10 * number, 10 * number + 5);
            tokio::spawn(async move {
                let mut answers: BTreeMap<String, DMatrix<f64>> = BTreeMap::new();
                while !stop.load(Ordering::Relaxed) {
                    let request =
                        pb::ScoreRequest { ids: Some((&ids).into()), ..Default::default() };
                    let answer = client.predict(request).await.unwrap().into_inner();
                    assert!(
                        answer.row_status.iter().all(|status| *status == pb::RowStatus::Ok as i32),
                        "{answer:?}"
                    );
                    let scores = probabilities(answer.release, ids.len());
                    let first =
                        answers.entry(answer.model_version).or_insert_with(|| scores.clone());
                    assert_eq!(*first, scores, "a version answers alike");
                }
                answers.len()
            })
        })
        .collect();
    let mut versions = BTreeSet::from([here.version.clone()]);
    for epochs in 2..6 {
        let trained = here
            .deployment
            .train(&config(epochs), &training_ids(&here.dataset), |_| ())
            .await
            .unwrap();
        versions.insert(trained.version.as_str().to_owned());
    }
    assert_eq!(versions.len(), 5);
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        let seen = client.await.unwrap();
        assert!((2..=5).contains(&seen), "a client saw {seen} models");
    }
    here.deployment.stop().await.unwrap();
}
