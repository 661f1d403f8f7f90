//! What the three parties tell a Prometheus server, read as it reads it. `scripts/prometheus-test.sh` has a real one read it.

use std::net::SocketAddr;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::Code;
use vfl_coordinator::config::Budgets;
use vfl_core::types::{PartyName, RecordIds};
use vfl_protocol::pb;
use vfl_protocol::pb::coordinator_client::CoordinatorClient;
use vfl_server::monitoring::Monitoring;
use vfl_server::service::{Role, anonymous_channel};
use vfl_testbed::deployment::Deployment;

use super::support::{
    config, coordinator_client, credentials, dataset, free_address, score, spec, split, test_ids,
    training_ids,
};

const PARTIES: [&str; 3] = ["coordinator", "passive-1", "active"];

/// A deployment with a model in service, and where each of [`PARTIES`] serves its metrics.
struct Watched {
    /// Removed when the test ends.
    _dir: TempDir,
    deployment: Deployment,
    metrics: [SocketAddr; 3],
    ids: RecordIds,
}

/// Three parties whose active party may ask for each of 40 records twice.
async fn watched() -> Watched {
    let dir = tempfile::tempdir().unwrap();
    let (dataset, metrics) = (dataset(), [free_address(), free_address(), free_address()]);
    let mut spec = spec(dir.path(), &dataset, &split(&dataset, 1, 2));
    for (name, address) in PARTIES.into_iter().zip(metrics) {
        spec.monitoring.insert(
            PartyName::new(name).unwrap(),
            Monitoring { metrics: Some(address), traces: None },
        );
    }
    let deployment = Deployment::start_with(spec, |_, settings| {
        let budgets =
            Budgets { records: Some(50), queries_per_record: Some(2), ..Budgets::default() };
        settings.ledger.as_mut().unwrap().budgets = budgets;
        Ok(())
    });
    let deployment = deployment.await.unwrap();
    let [coordinator, ..] = metrics;
    for address in metrics {
        started(address).await;
    }
    assert_eq!(value(&read(coordinator).await, "cloison_model_in_service"), Some(0.0));
    deployment.train(&config(1), &training_ids(&dataset), |_| ()).await.unwrap();
    let ids = test_ids(&dataset, 0, 40);
    Watched { _dir: dir, deployment, metrics, ids }
}

/// Waits until a party that is starting serves its metrics.
pub async fn started(address: SocketAddr) {
    let until = tokio::time::Instant::now() + Duration::from_secs(10);
    while let Err(error) = TcpStream::connect(address).await {
        assert!(tokio::time::Instant::now() < until, "{error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

/// All metrics of a party.
pub async fn read(address: SocketAddr) -> String {
    let answer = exchange(address, "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("openmetrics-text"), "{head}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    text.to_owned()
}

/// The value of a series, by its name and labels as they are written.
pub fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

fn assert_values(text: &str, expected: &[(&str, f64)]) {
    for (series, expected) in expected {
        assert_eq!(value(text, series), Some(*expected), "{series} in\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_parties_count_rows_calls_and_budgets_and_name_no_record() {
    let here = watched().await;
    let scored = async |from, to| score(&here.deployment, &here.ids.slice(from, to)).await;
    scored(0, 40).await.unwrap();
    scored(0, 10).await.unwrap();
    // The ten are spent now; ten others are not, and a stranger is one that nobody holds.
    scored(0, 20).await.unwrap();
    let stranger = RecordIds::new(["nobody-has-this-record"]).unwrap();
    score(&here.deployment, &stranger).await.unwrap();
    let [coordinator, passive, active] = here.metrics;
    let (coordinator, passive, active) =
        (read(coordinator).await, read(passive).await, read(active).await);
    assert_values(
        &coordinator,
        &[
            ("cloison_rows_total{status=\"ok\"}", 60.0),
            ("cloison_rows_total{status=\"budget_spent\"}", 10.0),
            ("cloison_prediction_seconds_count", 3.0),
            ("cloison_calls_total{method=\"Coordinator/Predict\",code=\"OK\"}", 3.0),
            ("cloison_open_calls{method=\"Coordinator/Predict\"}", 0.0),
            (
                "cloison_peer_call_seconds_count{peer=\"passive-1\",method=\"PassiveParty/ComputeLogitsStream\"}",
                3.0,
            ),
            ("cloison_budget_refused_rows_total{budget=\"queries_per_record\"}", 10.0),
            ("cloison_budget_refused_rows_total{budget=\"records\"}", 0.0),
            ("cloison_budget_exhausted_records_total", 20.0),
            ("cloison_budget_records_spent{active_party=\"active\"}", 40.0),
            ("cloison_budget_records_left{active_party=\"active\"}", 10.0),
            ("cloison_ledger_commit_seconds_count", 3.0),
            ("cloison_ledger_commit_rows_sum", 70.0),
            ("cloison_ledger_failed_commits_total", 0.0),
            ("cloison_model_in_service", 1.0),
        ],
    );
    assert!(coordinator.contains("cloison_model_info{version=\""), "{coordinator}");
    assert!(
        coordinator.contains("cloison_build_info{identity=\"coordinator/coordinator\""),
        "{coordinator}"
    );
    // The passive party is not asked for spent records.
    assert_values(
        &passive,
        &[
            ("cloison_rows_total{status=\"ok\"}", 60.0),
            ("cloison_open_calls{method=\"PassiveParty/ComputeLogitsStream\"}", 1.0),
        ],
    );
    assert_values(
        &active,
        &[
            ("cloison_rows_total{status=\"ok\"}", 60.0),
            ("cloison_rows_total{status=\"budget_spent\"}", 10.0),
            ("cloison_rows_total{status=\"not_found\"}", 1.0),
            ("cloison_calls_total{method=\"ActiveParty/Predict\",code=\"OK\"}", 4.0),
            (
                "cloison_peer_call_seconds_count{peer=\"coordinator\",method=\"Coordinator/Predict\"}",
                3.0,
            ),
        ],
    );
    for text in [&coordinator, &passive, &active] {
        let names = here.ids.iter().chain(stranger.iter());
        names.for_each(|id| assert!(!text.contains(id), "{id} is in\n{text}"));
        let ends = value(text, "cloison_certificate_expiry_timestamp_seconds").unwrap();
        assert!(
            (29.0..31.0).contains(&((ends - vfl_core::clock::now() as f64) / 86_400.0)),
            "{ends}"
        );
        // Every figure has a text that says what it is.
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = line.split(' ').next().unwrap();
            assert!(
                name.starts_with("cloison_") && text.contains(&format!("# HELP {name} ")),
                "{line}"
            );
        }
    }
    here.deployment.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_beyond_a_budget_counts_all_its_rows_and_spends_none() {
    let here = watched().await;
    score(&here.deployment, &here.ids).await.unwrap();
    let others = test_ids(&dataset(), 40, 60);
    assert_eq!(score(&here.deployment, &others).await.unwrap_err().code(), Code::ResourceExhausted);
    let (coordinator, active) = (read(here.metrics[0]).await, read(here.metrics[2]).await);
    assert_values(
        &coordinator,
        &[
            ("cloison_budget_refused_rows_total{budget=\"records\"}", 20.0),
            ("cloison_budget_records_left{active_party=\"active\"}", 10.0),
            (
                "cloison_calls_total{method=\"Coordinator/Predict\",code=\"RESOURCE_EXHAUSTED\"}",
                1.0,
            ),
            ("cloison_rows_total{status=\"ok\"}", 40.0),
        ],
    );
    let failed = "method=\"Coordinator/Predict\",code=\"RESOURCE_EXHAUSTED\"}";
    assert_values(
        &active,
        &[(&format!("cloison_peer_call_failures_total{{peer=\"coordinator\",{failed}"), 1.0)],
    );
    here.deployment.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_a_lost_party_are_counted_by_method_and_code() {
    let mut here = watched().await;
    let predict = || pb::PredictRequest::default();
    let auditor =
        coordinator_client(&here.deployment, Role::Auditor).predict(predict()).await.unwrap_err();
    assert_eq!(auditor.code(), Code::PermissionDenied);
    let active = coordinator_client(&here.deployment, Role::ActiveParty)
        .predict(predict())
        .await
        .unwrap_err();
    assert_eq!(active.code(), Code::InvalidArgument);
    let credentials = credentials(&here.deployment, Role::ActiveParty);
    let anonymous = anonymous_channel(&credentials, &here.deployment.coordinator_peer()).unwrap();
    let anonymous = CoordinatorClient::new(anonymous).predict(predict()).await.unwrap_err();
    assert_eq!(anonymous.code(), Code::Unauthenticated);
    let failed = |code: &str| {
        let call = "peer=\"passive-1\",method=\"PassiveParty/ComputeLogitsStream\"";
        format!("cloison_peer_call_failures_total{{{call},code=\"{code}\"}}")
    };
    let before = read(here.metrics[0]).await;
    assert_values(&before, &[(&failed("UNAVAILABLE"), 0.0), (&failed("DEADLINE_EXCEEDED"), 0.0)]);
    here.deployment.stop_passive(0).await;
    assert_eq!(score(&here.deployment, &here.ids).await.unwrap_err().code(), Code::Unavailable);
    let after = read(here.metrics[0]).await;
    let refused = |code: &str| {
        format!("cloison_calls_total{{method=\"Coordinator/Predict\",code=\"{code}\"}}")
    };
    let counted =
        ["PERMISSION_DENIED", "INVALID_ARGUMENT", "UNAUTHENTICATED", "UNAVAILABLE"].map(refused);
    let counted: Vec<(&str, f64)> = counted.iter().map(|series| (series.as_str(), 1.0)).collect();
    assert_values(&after, &counted);
    assert_values(&after, &[(&failed("UNAVAILABLE"), 1.0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_read_and_nothing_else() {
    let here = watched().await;
    let [address, ..] = here.metrics;
    for (request, says) in [
        ("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", "404"),
        // A page in a browser, whose name was made to mean this machine.
        ("GET /metrics HTTP/1.1\r\nhost: rebound.example\r\n\r\n", "421"),
        ("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1.example:9\r\n\r\n", "421"),
        ("GET /metrics HTTP/1.1\r\nhost: [::1]:9\r\n\r\n", "200"),
        ("GET /metrics/../state HTTP/1.1\r\nhost: localhost\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = exchange(address, request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {says} ")), "{request}: {answer}");
    }
    // Who says nothing keeps nobody away.
    let silent = TcpStream::connect(address).await.unwrap();
    read(address).await;
    drop(silent);
    here.deployment.stop().await.unwrap();
    // The address is free again: nothing goes on behind a party that has stopped.
    let until = tokio::time::Instant::now() + Duration::from_secs(5);
    while let Err(error) = TcpListener::bind(address).await {
        assert!(tokio::time::Instant::now() < until, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
