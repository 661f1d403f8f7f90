//! Plain predictions and private releases of the same policies, side by side.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use vfl_active_party::scoring::{ModelDescription, Scorer};
use vfl_core::types::RowStatus;
use vfl_features::stores::DataConfig;
use vfl_party::computation::release::ServingMode;
use vfl_present::progress::Progress;
use vfl_protocol::STREAM_CHUNK_RECORDS;
use vfl_state::ShareStore;

use super::bench::Bench;
use super::measure::{Sample, drive, median};
use super::print::print;
use super::source::Source;

/// The messages of one bulk call.
const MESSAGES: usize = 16;

/// A policy, a delay and a mode, measured.
#[derive(Debug, Clone, Serialize)]
struct Line {
    policy: String,
    delay_ms: u32,
    mode: &'static str,
    /// The median time of a call of one record, one call at a time, in microseconds.
    one_p50_us: f64,
    one_p99_us: f64,
    /// Calls of one record per second, 64 at a time.
    calls_per_second: f64,
    calls_p50_us: f64,
    /// Rows per second in calls of 16 384 rows, one at a time.
    rows_per_second: f64,
}

/// The settings of a comparison.
pub(super) struct Comparison<'a> {
    pub(super) policies: &'a [String],
    /// Milliseconds that are added to each round trip; empty: none.
    pub(super) delays: &'a [u32],
    pub(super) rounds: usize,
    pub(super) json: bool,
}

/// Measures both modes under each policy and with each delay, in every round, and prints the
/// medians.
pub(super) async fn run(
    program: &Path,
    comparison: &Comparison<'_>,
    seconds: Duration,
    told: &str,
) -> anyhow::Result<()> {
    let Comparison { policies, delays, rounds: count, json } = *comparison;
    let delays = if delays.is_empty() { &[0][..] } else { delays };
    let modes = [("plain", ServingMode::Plain), ("private", ServingMode::Private)];
    let total = policies.len() * delays.len() * modes.len() * count;
    let mut bar = Progress::start("measuring", total as u64);
    let (mut lines, mut done) = (Vec::new(), 0);
    for policy in policies {
        for &delay in delays {
            for (name, mode) in modes {
                let mut rounds = Vec::new();
                for _ in 0..count {
                    bar.at(done, &format!("{policy}, {delay} ms more, {name}"));
                    let more = Duration::from_millis(delay.into());
                    rounds.push(round(program, policy, mode, more, seconds).await?);
                    done += 1;
                }
                let of = |pick: fn(&[Sample; 3]) -> f64| median(rounds.iter().map(pick).collect());
                lines.push(Line {
                    policy: policy.clone(),
                    delay_ms: delay,
                    mode: name,
                    one_p50_us: of(|r| r[0].p50_us),
                    one_p99_us: of(|r| r[0].p99_us),
                    calls_per_second: of(|r| r[1].per_second),
                    calls_p50_us: of(|r| r[1].p50_us),
                    rows_per_second: of(|r| r[2].per_second)
                        * (MESSAGES * STREAM_CHUNK_RECORDS) as f64,
                });
            }
        }
    }
    bar.done(told);
    print(&lines, json, HEADER, 3, row)
}

/// Starts the processes and measures one mode: calls of one record, one and 64 at a time, and bulk
/// calls.
async fn round(
    program: &Path,
    policy: &str,
    mode: ServingMode,
    delay: Duration,
    seconds: Duration,
) -> anyhow::Result<[Sample; 3]> {
    let mut options = vec!["--policy".to_owned(), policy.to_owned()];
    if mode == ServingMode::Private {
        options.push("--private".to_owned());
    }
    let bench = Bench::with_options(program, None, &Source::Csv, delay, &options).await?;
    let data: DataConfig = toml::from_str(&bench.active_data())?;
    let store = ShareStore::open(&bench.active_state())?;
    let (credentials, coordinator) = (bench.credentials("active")?, bench.coordinator()?);
    let timeout = Duration::from_secs(60);
    let scorer = Scorer::new(&credentials, coordinator, data.open()?, store, timeout)?;
    let model = scorer.describe().await?;
    let one = |i: usize| {
        let at = i % bench.ids.len();
        score(&scorer, &model, &bench, at..at + 1)
    };
    let bulk = MESSAGES * STREAM_CHUNK_RECORDS;
    // One call opens the session.
    one(0).await?;
    let samples = [
        drive(1, seconds, one).await?,
        drive(64, seconds, one).await?,
        drive(1, seconds, |_| score(&scorer, &model, &bench, 0..bulk)).await?,
    ];
    bench.end().await?;
    Ok(samples)
}

async fn score(
    scorer: &Scorer,
    model: &ModelDescription,
    bench: &Bench,
    records: std::ops::Range<usize>,
) -> Result<(), tonic::Status> {
    let ids = bench.ids.slice(records.start, records.end);
    let answer = scorer.score(model, &ids, None, "").await?;
    match answer.status.iter().all(|status| *status == RowStatus::Ok) {
        true => Ok(()),
        false => Err(tonic::Status::internal("not all rows were scored")),
    }
}

const HEADER: [&str; 7] = [
    "policy",
    "delay",
    "mode",
    "one call at a time,\np50 / p99 ms",
    "64 at a time,\ncalls/s",
    "64 at a time,\np50 ms",
    "in bulk,\nrows/s",
];

fn row(l: &Line) -> [String; 7] {
    let ms = |us: f64| format!("{:.1}", us / 1000.0);
    [
        l.policy.clone(),
        format!("{} ms", l.delay_ms),
        l.mode.to_owned(),
        format!("{} / {}", ms(l.one_p50_us), ms(l.one_p99_us)),
        format!("{:.0}", l.calls_per_second),
        ms(l.calls_p50_us),
        format!("{:.0}", l.rows_per_second),
    ]
}
