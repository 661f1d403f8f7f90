//! Strangers and greedy callers against real processes: they lock nobody out, and hold little memory.
//! `lab/tests/security/strangers.rs` has the attacks on services in one process.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::Full;
use prost::Message as _;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::codegen::Service;
use tonic::{Code, Status};
use vfl_load::{Bench, flood};
use vfl_protocol::pb;
use vfl_protocol::pb::coordinator_client::CoordinatorClient;
use vfl_server::service::{channel, raise_descriptor_limit};

const DESCRIBE: &str = "/vfl.v1.Coordinator/DescribeModel";
/// No legitimate call may take longer: what the parties themselves wait for each other.
const DEADLINE: Duration = Duration::from_secs(5);

/// `cloison-load`, for real processes. `CLOISON_LOAD_UNDER_TEST` names another build: the attacks must
/// succeed against one from before the limits.
fn program() -> PathBuf {
    std::env::var_os("CLOISON_LOAD_UNDER_TEST")
        .map_or_else(|| env!("CARGO_BIN_EXE_cloison-load").into(), PathBuf::from)
}

async fn in_time<T>(what: &str, call: impl Future<Output = Result<T, Status>>) -> T {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(status)) => panic!("{what}: {status}"),
        Err(_) => panic!("{what}: nothing in {DEADLINE:?}"),
    }
}

fn framed(message: &[u8], says: usize) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(0);
    body.put_u32(says as u32);
    body.put_slice(message);
    body.freeze()
}

/// The attack of the review: a coordinator that may have 200 file descriptors, 181 TLS connections that stay idle and 500
/// connections a second that say nothing. Before there were limits, the first 181 held all that the process had, and every
/// party was locked out for as long as they were held.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_strangers_locks_nobody_out_of_a_process_with_200_descriptors() {
    raise_descriptor_limit();
    let bench = Bench::start(&program(), Some(200)).await.unwrap();
    let (peer, active) = (bench.coordinator().unwrap(), bench.credentials("active").unwrap());
    let quiet = bench.memory().unwrap();
    let stop = CancellationToken::new();
    let silent = tokio::spawn(flood::silent(peer.clone(), 500, stop.clone()));
    let idle = tokio::spawn(flood::idle_tls(active.clone(), peer.clone(), 181, stop.clone()));
    // A connection that was there before, and one that is new for each call.
    let mut standing = CoordinatorClient::new(channel(&active, &peer).unwrap());
    let (mut calls, until) = (0, Instant::now() + Duration::from_secs(8));
    while Instant::now() < until {
        let request = bench.request(calls % 256, calls % 256 + 1);
        let answer = in_time("a prediction", standing.predict(request)).await.into_inner();
        assert_eq!(answer.row_status, [pb::RowStatus::Ok as i32]);
        let mut fresh = CoordinatorClient::new(channel(&active, &peer).unwrap());
        in_time("a call on a new connection", fresh.describe_model(pb::DescribeModelRequest {}))
            .await;
        calls += 1;
    }
    stop.cancel();
    let (silent, idle) = (silent.await.unwrap().unwrap(), idle.await.unwrap());
    println!(
        "{silent} silent and {idle} idle TLS connections beside {calls} calls on as many new connections"
    );
    assert!(
        silent > 1000 && idle >= 181 && calls > 20,
        "the flood came: {silent}, {idle}, {calls}"
    );
    let grown = bench.memory().unwrap().saturating_sub(quiet);
    assert!(grown < 64 << 20, "the coordinator grew by {} MiB", grown >> 20);
}

/// The other attack: with any certificate, 40 messages of 16 MiB that are never finished, of a call that needs none, took
/// 640 MiB for as long as they were held.
#[tokio::test(flavor = "multi_thread")]
async fn unfinished_messages_hold_little_memory_and_not_for_long() {
    let bench = Bench::start(&program(), None).await.unwrap();
    let (peer, active, auditor) = (
        bench.coordinator().unwrap(),
        bench.credentials("active").unwrap(),
        bench.credentials("auditor").unwrap(),
    );
    let mut standing = CoordinatorClient::new(channel(&active, &peer).unwrap());
    in_time("a prediction", standing.predict(bench.request(0, 1))).await;
    let before = bench.memory().unwrap();

    let stop = CancellationToken::new();
    let needless = flood::half_sent(&auditor, &peer, DESCRIBE, 40, stop.clone());
    let codes = tokio::time::timeout(Duration::from_secs(20), needless)
        .await
        .expect("a needless message is refused")
        .unwrap();
    assert_eq!(codes, [Code::OutOfRange; 40]);

    // A call that takes 16 MiB: its caller may hold a quarter of the budget of 256 MiB, and the others go on.
    let peak = AtomicUsize::new(0);
    let calling = async {
        let until = Instant::now() + Duration::from_secs(4);
        while Instant::now() < until {
            in_time("a prediction", standing.predict(bench.request(0, 1))).await;
            peak.fetch_max(bench.memory().unwrap() as usize, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
    };
    let large =
        flood::half_sent(&auditor, &peer, "/vfl.v1.Coordinator/OpenAudit", 40, stop.clone());
    let (codes, ()) = tokio::join!(large, calling);
    let codes = codes.unwrap();
    assert!(codes.len() >= 30 && codes.iter().all(|c| *c == Code::ResourceExhausted), "{codes:?}");
    let grown = (peak.into_inner() as u64).saturating_sub(before);
    println!("{} MiB before, at most {} MiB more during", before >> 20, grown >> 20);
    // 64 MiB of the budget, what HTTP/2 may send ahead, and what the allocator keeps. Before: 640 MiB and more.
    assert!(grown < 160 << 20, "the coordinator grew by {} MiB", grown >> 20);
}

/// An active party that asks and does not read: its answers took 1275 MiB of the coordinator in 17 s, under one request id.
#[tokio::test(flavor = "multi_thread")]
async fn unread_answers_hold_little_memory() {
    let bench = Bench::start(&program(), None).await.unwrap();
    let (peer, active) = (bench.coordinator().unwrap(), bench.credentials("active").unwrap());
    let request = bench.request(0, 16_000);
    let answer = CoordinatorClient::new(channel(&active, &peer).unwrap())
        .predict(request.clone())
        .await
        .unwrap();
    let answer = answer.into_inner().encoded_len();
    let before = bench.memory().unwrap();
    let body = framed(&request.encode_to_vec(), request.encoded_len());
    let (mut unread, mut refused) = (Vec::new(), 0);
    // What one caller may leave unread, and as much again.
    let most = 128 << 20;
    for _ in 0..4 {
        let mut channel = channel(&active, &peer).unwrap();
        for _ in 0..(2 * most / answer).div_ceil(4) {
            std::future::poll_fn(|cx| Service::poll_ready(&mut channel, cx)).await.unwrap();
            let request = http::Request::post("/vfl.v1.Coordinator/Predict")
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(tonic::body::Body::new(Full::new(body.clone())));
            let response = channel.call(request.unwrap()).await.unwrap();
            match Status::from_header_map(response.headers()) {
                Some(status) => {
                    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                    assert!(status.message().contains("wait to be read"), "{status}");
                    refused += 1;
                }
                None => unread.push((channel.clone(), response)),
            }
        }
    }
    let grown = bench.memory().unwrap().saturating_sub(before);
    println!(
        "{} answers of {answer} bytes unread, {refused} refused, {} MiB more",
        unread.len(),
        grown >> 20
    );
    assert!(
        unread.len() >= most / answer / 2 && unread.len() <= most / answer * 5 / 4,
        "{} unread",
        unread.len()
    );
    assert!(grown < 200 << 20, "the coordinator grew by {} MiB", grown >> 20);
    // Whoever gives them up may ask again.
    drop(unread);
    let mut standing = CoordinatorClient::new(channel(&active, &peer).unwrap());
    in_time("a prediction after that", async {
        loop {
            match standing.predict(bench.request(0, 1)).await {
                Err(status) if status.code() == Code::ResourceExhausted => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                ended => return ended,
            }
        }
    })
    .await;
}

/// A stream of predictions that is cut short by a stop says so: an end without an error would read as all of the answers.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_a_stream_of_predictions_with_an_error() {
    let bench = Bench::start(&program(), None).await.unwrap();
    let (peer, active) = (bench.coordinator().unwrap(), bench.credentials("active").unwrap());
    let mut client = CoordinatorClient::new(channel(&active, &peer).unwrap());
    let (questions, outgoing) = tokio::sync::mpsc::channel(4);
    let mut answers =
        client.predict_stream(ReceiverStream::new(outgoing)).await.unwrap().into_inner();
    for i in 0..3 {
        questions.send(bench.request(i * 100, (i + 1) * 100)).await.unwrap();
        assert_eq!(answers.message().await.unwrap().unwrap().row_status.len(), 100);
    }
    bench.terminate().unwrap();
    let last = tokio::time::timeout(DEADLINE, answers.message()).await.expect("the stream ends");
    assert_eq!(last.unwrap_err().code(), Code::Unavailable);
    drop(questions);
}

/// SIGHUP has a service read its files again; without a handler it would end the process.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_does_not_end_a_service_or_its_streams() {
    let bench = Bench::start(&program(), None).await.unwrap();
    let (peer, active) = (bench.coordinator().unwrap(), bench.credentials("active").unwrap());
    let mut client = CoordinatorClient::new(channel(&active, &peer).unwrap());
    let (questions, outgoing) = tokio::sync::mpsc::channel(4);
    let mut answers =
        client.predict_stream(ReceiverStream::new(outgoing)).await.unwrap().into_inner();
    for i in 0..5 {
        questions.send(bench.request(i * 10, (i + 1) * 10)).await.unwrap();
        assert_eq!(answers.message().await.unwrap().unwrap().row_status.len(), 10);
        bench.hang_up().unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    drop(questions);
    assert!(answers.message().await.unwrap().is_none());
}
