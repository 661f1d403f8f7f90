//! A soak test: a long stream at a share of the highest rate, to see if memory grows.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use vfl_present::progress::Progress;
use vfl_protocol::STREAM_CHUNK_RECORDS;

use super::bench::Bench;
use super::measure::Service;
use super::print::print;
use super::source::Source;

/// The share of the highest rate.
const SHARE: f64 = 0.8;
/// The interval between two samples of memory.
const EVERY: Duration = Duration::from_millis(200);
/// The share of the time after which a process should have all the memory that it needs.
const SETTLED: f64 = 0.2;

/// The memory of one process.
#[derive(Debug, Clone, Serialize)]
struct Line {
    process: &'static str,
    /// Mean resident memory in the first fifth of the time, in which caches fill, in MiB.
    first_mib: f64,
    /// Mean resident memory in the last fifth, in MiB.
    last_mib: f64,
    /// The lowest value after the first fifth, in MiB.
    lowest_mib: f64,
    highest_mib: f64,
    /// The growth from the second fifth to the last.
    growth_percent: f64,
}

/// Measures the highest rate of `PredictStream` with the ledger for ten seconds, and continues at
/// 80 % of it for `time`.
///
/// # Errors
/// If a process does not start, or a call fails.
pub(super) async fn run(
    program: &Path,
    source: &Source,
    time: Duration,
    json: bool,
) -> anyhow::Result<()> {
    let bench = Bench::with(program, None, source, Duration::ZERO).await?;
    let service = Service::new(&bench.credentials("active")?, &bench.coordinator()?)?;
    let requests: Vec<_> = (0..bench.ids.len() / STREAM_CHUNK_RECORDS)
        .map(|i| bench.request(i * STREAM_CHUNK_RECORDS, (i + 1) * STREAM_CHUNK_RECORDS))
        .collect();
    service.once(requests[0].clone()).await?;
    let mut bar = Progress::start("soaking", time.as_secs().max(1));
    bar.at(0, "looking for the highest rate");
    let most = service.stream(&requests, Duration::from_secs(10)).await?.per_second;
    let stop = CancellationToken::new();
    let watching = async {
        let (began, mut seen) = (Instant::now(), Vec::new());
        while !stop.is_cancelled() {
            seen.push((began.elapsed(), [bench.memory()?, bench.passive_memory()?]));
            bar.at(began.elapsed().min(time).as_secs(), "at four fifths of it");
            tokio::time::sleep(EVERY).await;
        }
        anyhow::Ok(seen)
    };
    let driving = async {
        let sample = service.paced(&requests, most * SHARE, time).await;
        stop.cancel();
        sample
    };
    let (sample, seen) = tokio::join!(driving, watching);
    let (sample, seen) = (sample?, seen?);
    let rows = STREAM_CHUNK_RECORDS as f64;
    bar.done(&format!(
        "at most {:.0} rows/s; {:.0} rows/s for {:.0} s, p50 {:.1} ms, p99 {:.1} ms",
        most * rows,
        sample.per_second * rows,
        time.as_secs_f64(),
        sample.p50_us / 1e3,
        sample.p99_us / 1e3,
    ));
    let of = |at: usize, process| {
        let mib = |(_, memory): &(Duration, [u64; 2])| memory[at] as f64 / f64::from(1 << 20);
        let part = |from: f64, to: f64| -> Vec<f64> {
            let within = |t: Duration| (time.mul_f64(from)..time.mul_f64(to)).contains(&t);
            seen.iter().filter(|(t, _)| within(*t)).map(mib).collect()
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let (first, second, last) =
            (part(0.0, SETTLED), part(SETTLED, 2.0 * SETTLED), part(1.0 - SETTLED, 1.0));
        let settled = part(SETTLED, 1.0);
        Line {
            process,
            first_mib: mean(&first),
            last_mib: mean(&last),
            lowest_mib: settled.iter().copied().fold(f64::INFINITY, f64::min),
            highest_mib: settled.iter().copied().fold(0.0, f64::max),
            growth_percent: 100.0 * (mean(&last) / mean(&second) - 1.0),
        }
    };
    let lines = [of(0, "coordinator"), of(1, "passive party")];
    bench.end().await?;
    print(&lines, json, HEADER, 1, row)
}

const HEADER: [&str; 6] = [
    "process",
    "first fifth, MiB",
    "last fifth, MiB",
    "lowest after the first fifth",
    "highest",
    "last to second fifth",
];

fn row(l: &Line) -> [String; 6] {
    [
        l.process.to_owned(),
        format!("{:.1}", l.first_mib),
        format!("{:.1}", l.last_mib),
        format!("{:.1}", l.lowest_mib),
        format!("{:.1}", l.highest_mib),
        format!("{:+.1} %", l.growth_percent),
    ]
}
