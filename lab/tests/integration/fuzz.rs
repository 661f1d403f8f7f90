//! No bytes sent to any service make it panic, hang or stop serving.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tonic::transport::Channel;
use vfl_protocol::pb::RowStatus;
use vfl_server::service::{ACCESS_TABLE, channel};

use super::raw;
use super::refusals::good_messages;
use super::support::{credentials, score, server_of, test_ids, trained};

/// How long the bytes keep coming.
const DURATION: Duration = Duration::from_secs(8);

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// What is done to a valid message.
#[derive(Debug, Clone)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Swap(prop::sample::Index, prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (index(), any::<u8>()).prop_map(|(at, byte)| Damage::Flip(at, byte)),
        1 => index().prop_map(Damage::Cut),
        1 => (index(), prop::collection::vec(any::<u8>(), 1..12)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => (index(), index()).prop_map(|(a, b)| Damage::Swap(a, b)),
    ]
}

fn apply(message: &mut Vec<u8>, damage: &Damage) {
    if message.is_empty() {
        return;
    }
    let n = message.len();
    match damage {
        Damage::Flip(at, byte) => message[at.index(n)] = *byte,
        Damage::Cut(at) => message.truncate(at.index(n)),
        Damage::Insert(at, bytes) => {
            let at = at.index(n);
            message.splice(at..at, bytes.iter().copied());
        }
        Damage::Swap(a, b) => message.swap(a.index(n), b.index(n)),
    }
}

/// What is sent to one RPC.
#[derive(Debug, Clone)]
enum Sent {
    /// Valid messages, damaged, each in a proper frame.
    Damaged(Vec<Damage>),
    /// Arbitrary messages, each in a proper frame.
    Arbitrary(Vec<Vec<u8>>),
    /// A body that is not framed at all.
    Unframed(Vec<u8>),
    /// A valid message behind a frame header that lies about it.
    Misframed(u8, u32),
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        6 => prop::collection::vec(damage(), 1..4).prop_map(Sent::Damaged),
        2 => prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..4).prop_map(Sent::Arbitrary),
        1 => prop::collection::vec(any::<u8>(), 0..64).prop_map(Sent::Unframed),
        1 => (0u8..3, prop_oneof![Just(u32::MAX), Just(0), any::<u32>()]).prop_map(|(flag, n)| Sent::Misframed(flag, n)),
    ]
}

async fn send(channel: &Channel, path: &'static str, good: &[Bytes], sent: &Sent) {
    match sent {
        Sent::Damaged(all) => {
            let mut messages: Vec<Vec<u8>> = good.iter().map(|m| m.to_vec()).collect();
            for (i, damage) in all.iter().enumerate() {
                // The first damage meets the last message, so that streams get past their beginning as well.
                let at = (messages.len() - 1).saturating_sub(i);
                apply(&mut messages[at], damage);
            }
            let _ =
                raw::call(channel, path, messages.into_iter().map(Bytes::from).collect(), 8).await;
        }
        Sent::Arbitrary(messages) => {
            let _ =
                raw::call(channel, path, messages.iter().cloned().map(Bytes::from).collect(), 8)
                    .await;
        }
        Sent::Unframed(body) => raw::post(channel, path, Bytes::from(body.clone())).await,
        Sent::Misframed(flag, length) => {
            let mut body = BytesMut::new();
            body.put_u8(*flag);
            body.put_u32(*length);
            body.put_slice(&good[0]);
            raw::post(channel, path, body.freeze()).await;
        }
    }
}

#[test]
fn no_bytes_make_a_service_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Only the threads of this runtime count; other tests run beside.
        if std::thread::current().name() == Some("fuzzed") {
            PANICS.fetch_add(1, Ordering::SeqCst);
        }
        before(info);
    }));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("fuzzed")
        .enable_all()
        .build()
        .unwrap();
    let here = runtime.block_on(async { tokio::spawn(trained(2, 2, 1)).await.unwrap() });
    let good = good_messages(&here);
    let lines: Vec<(&'static str, Channel, Vec<Bytes>)> = ACCESS_TABLE
        .iter()
        .filter(|(path, _)| !path.starts_with("/grpc."))
        .map(|&(path, roles)| {
            let peer = server_of(&here.deployment, path);
            let _guard = runtime.enter();
            (
                path,
                channel(&credentials(&here.deployment, roles[0]), &peer).unwrap(),
                good[path].clone(),
            )
        })
        .collect();
    let until = Instant::now() + DURATION;
    let tried = AtomicUsize::new(0);
    let mut runner = TestRunner::new_with_rng(
        Config { cases: 1_000_000, failure_persistence: None, ..Config::default() },
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    runner
        .run(&(any::<prop::sample::Index>(), sent()), |(line, sent)| {
            if Instant::now() > until {
                return Ok(());
            }
            let (path, channel, good) = &lines[line.index(lines.len())];
            runtime.block_on(send(channel, path, good, &sent));
            tried.fetch_add(1, Ordering::Relaxed);
            prop_assert_eq!(PANICS.load(Ordering::SeqCst), 0, "{} panicked", path);
            Ok(())
        })
        .unwrap();
    let tried = tried.into_inner();
    println!("{tried} bodies sent to {} calls in {DURATION:?}", lines.len());
    assert!(tried > 200, "only {tried} bodies were sent");

    // All of them still answer a valid call, the coordinator and both passive parties on the way of the first.
    // (Some of the bodies train a model, on some records or on all: the answer is then that these were used in training.)
    let ids = test_ids(&here.dataset, 200, 320);
    runtime.block_on(async {
        let scored = score(&here.deployment, &ids).await.unwrap();
        let (ok, training) = (RowStatus::Ok as i32, RowStatus::TrainingRecord as i32);
        assert_eq!(scored.row_status.len(), 120);
        assert!(
            scored.row_status.iter().all(|&s| s == ok || s == training),
            "{:?}",
            scored.row_status
        );
        let (_, ended) = raw::call(&lines[0].1, lines[0].0, vec![Bytes::new()], 1).await;
        ended.unwrap();
        here.deployment.stop().await.unwrap();
    });
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
}
