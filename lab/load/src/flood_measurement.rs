//! Floods by unauthenticated callers: measures the service of legitimate callers and the
//! coordinator's memory before, during and after.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use vfl_present::progress::Progress;
use vfl_protocol::pb;
use vfl_protocol::pb::coordinator_client::CoordinatorClient;
use vfl_server::service::{Credentials, Peer, channel, raise_descriptor_limit};

use super::bench::Bench;
use super::print::print;
use super::{flood, measure};

/// The idle TLS connections: as many as once took down a service with 200 descriptors.
const IDLE: usize = 181;
/// The unfinished messages of 16 MiB to a call that accepts no such size, and as many to one that
/// does.
const HALF_SENT: usize = 40;
/// The legitimate caller's calls in flight at once.
const IN_FLIGHT: usize = 16;

/// One line of the result.
#[derive(Debug, Clone, Serialize)]
struct Line {
    phase: &'static str,
    calls_per_second: f64,
    call_p50_us: f64,
    call_p99_us: f64,
    /// Time of a new connection, handshake included, and one call on it.
    connection_p50_us: f64,
    connection_p99_us: f64,
    connections: usize,
    failed: usize,
    memory_mib: f64,
    /// The highest memory in the phase.
    memory_peak_mib: f64,
}

/// Runs the measurement and prints it.
///
/// # Errors
/// If a process cannot be started, or a legitimate call fails on an established connection.
pub(super) async fn run(
    program: &Path,
    per_second: u32,
    descriptors: Option<u32>,
    time: Duration,
    json: bool,
) -> anyhow::Result<()> {
    raise_descriptor_limit();
    let bench = Bench::start(program, descriptors).await?;
    let (peer, active, auditor) =
        (bench.coordinator()?, bench.credentials("active")?, bench.credentials("auditor")?);
    let single: Vec<pb::PredictRequest> = (0..256).map(|i| bench.request(i, i + 1)).collect();
    let service = measure::Service::new(&active, &peer)?;
    service.once(single[0].clone()).await?;
    let mut bar = Progress::start("measuring", 4);
    let mut lines = Vec::new();
    for (done, phase) in
        ["before", "strangers", "half-sent messages", "after"].into_iter().enumerate()
    {
        bar.at(done as u64, phase);
        let stop = CancellationToken::new();
        let held = stop.clone();
        let attack = async {
            match phase {
                "strangers" => {
                    let silent = flood::silent(peer.clone(), per_second, held.clone());
                    let idle = flood::idle_tls(active.clone(), peer.clone(), IDLE, held);
                    tokio::join!(silent, idle).0?;
                }
                "half-sent messages" => {
                    let small = "/vfl.v1.Coordinator/DescribeModel";
                    let large = "/vfl.v1.Coordinator/OpenAudit";
                    let needless =
                        flood::half_sent(&auditor, &peer, small, HALF_SENT, held.clone());
                    let of_size = flood::half_sent(&auditor, &peer, large, HALF_SENT, held);
                    tokio::try_join!(needless, of_size)?;
                }
                _ => held.cancelled().await,
            }
            anyhow::Ok(())
        };
        let measured = async {
            let connecting = connections(&active, &peer, stop.clone());
            let watching = peak(&bench, stop.clone());
            let calling = async {
                let sample = service.unary(&single, IN_FLIGHT, time).await;
                stop.cancel();
                sample
            };
            let (calls, connections, peak) = tokio::join!(calling, connecting, watching);
            anyhow::Ok((calls?, connections, peak?))
        };
        let (attacked, measured) = tokio::join!(attack, measured);
        attacked?;
        let (calls, (mut times, failed), peak) = measured?;
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            times.get((times.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN)
        };
        lines.push(Line {
            phase,
            calls_per_second: calls.per_second,
            call_p50_us: calls.p50_us,
            call_p99_us: calls.p99_us,
            connection_p50_us: at(0.5),
            connection_p99_us: at(0.99),
            connections: times.len(),
            failed,
            memory_mib: mib(bench.memory()?),
            memory_peak_mib: mib(peak),
        });
    }
    bar.done(&format!(
        "{per_second} silent connections a second and {IDLE} idle ones; {HALF_SENT} unfinished messages of 16 MiB to a call \
         that takes none, and {HALF_SENT} to one that does; {} s a phase",
        time.as_secs_f64()
    ));
    print(&lines, json, HEADER, 1, row)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Opens new legitimate connections with one call each, 20 a second. Returns their times in
/// microseconds, and the number of failures.
async fn connections(
    credentials: &Credentials,
    peer: &Peer,
    stop: CancellationToken,
) -> (Vec<f64>, usize) {
    let (mut times, mut failed) = (Vec::new(), 0);
    while !stop.is_cancelled() {
        let began = Instant::now();
        let call = async {
            let mut client = CoordinatorClient::new(channel(credentials, peer).ok()?);
            client.describe_model(pb::DescribeModelRequest {}).await.ok()
        };
        match tokio::time::timeout(Duration::from_secs(5), call).await {
            Ok(Some(_)) => times.push(began.elapsed().as_secs_f64() * 1e6),
            _ => failed += 1,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    (times, failed)
}

/// Returns the highest memory until it is stopped, in bytes.
async fn peak(bench: &Bench, stop: CancellationToken) -> anyhow::Result<u64> {
    let mut most = bench.memory()?;
    while !stop.is_cancelled() {
        most = most.max(bench.memory()?);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(most)
}

const HEADER: [&str; 8] = [
    "phase",
    "calls per second",
    "call p50 / p99 µs",
    "new connection p50 / p99 µs",
    "connections",
    "failed",
    "memory at the end, MiB",
    "peak, MiB",
];

fn row(l: &Line) -> [String; 8] {
    [
        l.phase.to_owned(),
        format!("{:.0}", l.calls_per_second),
        format!("{:.0} / {:.0}", l.call_p50_us, l.call_p99_us),
        format!("{:.0} / {:.0}", l.connection_p50_us, l.connection_p99_us),
        l.connections.to_string(),
        l.failed.to_string(),
        format!("{:.0}", l.memory_mib),
        format!("{:.0}", l.memory_peak_mib),
    ]
}
