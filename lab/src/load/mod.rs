//! Rows and calls per second of the service, measured beside a bare gRPC echo of messages of the same size in the same run.
//!
//! The coordinator, the passive party and the echo are processes of their own; this process is the active party. The echo
//! has the same transport (mutual TLS, window sizes) and answers at once with as many bytes as a prediction's answer has.

mod bench;
mod echo;
pub mod flood;
mod measure;
mod print;
mod strangers;
mod worker;

use std::time::Duration;

use clap::Args;
use prost::Message;
use serde::Serialize;
use vfl_shared::rpc::{STREAM_CHUNK_RECORDS, pb};

use crate::progress::Progress;
pub use bench::Bench;
use bench::{CLASSES, PASSIVE, RECORDS, Worker, coordinator_at};
use print::print;
pub use worker::{WorkerArgs, worker};

/// `cloison load`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  cloison load --seconds 5
  cloison load --strangers 500 --descriptors 200

Starts a coordinator with its ledger (a commit on the disk before each answer), one without, a passive party and a bare echo as
processes on loopback and drives them from this one. Every figure is the median of the rounds; they take turns in each round.

With --strangers, floods the coordinator instead, and tells what a legitimate caller gets and what memory the coordinator holds
before, during and after: connections that say nothing, TLS connections without a certificate, messages that are never finished.")]
pub struct LoadArgs {
    /// Seconds of each measurement.
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,
    /// Rounds.
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Flood the coordinator with so many silent connections a second, and the rest of it, instead.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000))]
    strangers: Option<u32>,
    /// File descriptors that the flooded coordinator may have.
    #[arg(long, value_name = "N", requires = "strangers", value_parser = clap::value_parser!(u32).range(100..))]
    descriptors: Option<u32>,
    /// The build of cloison that is flooded, if not this one: to compare two.
    #[arg(long, value_name = "FILE", requires = "strangers")]
    program: Option<std::path::PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// One line of the result.
#[derive(Debug, Clone, Serialize)]
struct Line {
    what: String,
    unit: &'static str,
    echo_per_second: f64,
    service_per_second: f64,
    ratio: f64,
    /// The same service without a ledger.
    no_ledger_per_second: f64,
    echo_p50_us: f64,
    echo_p99_us: f64,
    service_p50_us: f64,
    service_p99_us: f64,
    no_ledger_p50_us: f64,
    no_ledger_p99_us: f64,
}

/// Runs the measurement and prints it.
///
/// # Errors
/// If a process cannot be started or a call fails.
pub async fn run(args: LoadArgs) -> anyhow::Result<()> {
    anyhow::ensure!((0.1..=600.0).contains(&args.seconds), "--seconds takes 0.1 to 600");
    anyhow::ensure!((1..=100).contains(&args.rounds), "--rounds takes 1 to 100");
    let program = std::env::current_exe()?;
    let seconds = Duration::from_secs_f64(args.seconds);
    if let Some(per_second) = args.strangers {
        let program = args.program.unwrap_or(program);
        return strangers::run(&program, per_second, args.descriptors, seconds, args.json).await;
    }
    let bench = Bench::start(&program, None).await?;
    let without = Worker::start(&program, bench.dir(), "bare", Some(&bench.passive.address), None).await?;
    let echo = Worker::start(&program, bench.dir(), "echo", None, None).await?;
    let credentials = bench.credentials("active")?;
    let service = measure::Service::new(&credentials, &bench.coordinator()?)?;
    let no_ledger = measure::Service::new(&credentials, &coordinator_at(&without.address)?)?;
    let bare = measure::Echo::new(&credentials, &coordinator_at(&echo.address)?)?;

    let single: Vec<pb::PredictRequest> = (0..256).map(|i| bench.request(i, i + 1)).collect();
    let bulk: Vec<pb::PredictRequest> = (0..bench.ids.len() / STREAM_CHUNK_RECORDS)
        .map(|i| bench.request(i * STREAM_CHUNK_RECORDS, (i + 1) * STREAM_CHUNK_RECORDS))
        .collect();
    let mut bar = Progress::start("measuring", (args.rounds * 4) as u64);
    let mut lines = Vec::new();
    let mut done = 0;
    for in_flight in [1, 16, 64] {
        let answer = service.once(single[0].clone()).await?.encoded_len();
        let question = single[0].encoded_len();
        let mut rounds = Vec::new();
        for _ in 0..args.rounds {
            bar.at(done, &format!("Predict, {in_flight} in flight"));
            let e = bare.unary(question, answer, in_flight, seconds).await?;
            let s = service.unary(&single, in_flight, seconds).await?;
            let n = no_ledger.unary(&single, in_flight, seconds).await?;
            rounds.push([e, s, n]);
            done += 1;
        }
        let what = format!("Predict, 1 record, {in_flight} in flight ({question} B → {answer} B)");
        lines.push(line(what, "calls", 1.0, &rounds));
    }
    let answer = service.once(bulk[0].clone()).await?.encoded_len();
    let question = bulk[0].encoded_len();
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        bar.at(done, "PredictStream");
        let e = bare.stream(question, answer, seconds).await?;
        let s = service.stream(&bulk, seconds).await?;
        let n = no_ledger.stream(&bulk, seconds).await?;
        rounds.push([e, s, n]);
        done += 1;
    }
    let what = format!("PredictStream, {STREAM_CHUNK_RECORDS} records a message ({question} B → {answer} B)");
    lines.push(line(what, "rows", STREAM_CHUNK_RECORDS as f64, &rounds));
    bar.done(&format!(
        "{RECORDS} records, {CLASSES} classes, {PASSIVE} passive features; medians of {} rounds of {} s",
        args.rounds, args.seconds
    ));
    drop((bench, without, echo));
    print(&lines, args.json, HEADER, 2, row)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Of each round: the echo, the service, the service without a ledger.
fn line(what: String, unit: &'static str, per: f64, rounds: &[[measure::Sample; 3]]) -> Line {
    let of = |pick: fn(&[measure::Sample; 3]) -> f64| median(rounds.iter().map(pick).collect());
    let (e, s) = (of(|r| r[0].per_second) * per, of(|r| r[1].per_second) * per);
    Line {
        what,
        unit,
        echo_per_second: e,
        service_per_second: s,
        ratio: s / e,
        no_ledger_per_second: of(|r| r[2].per_second) * per,
        echo_p50_us: of(|r| r[0].p50_us),
        echo_p99_us: of(|r| r[0].p99_us),
        service_p50_us: of(|r| r[1].p50_us),
        service_p99_us: of(|r| r[1].p99_us),
        no_ledger_p50_us: of(|r| r[2].p50_us),
        no_ledger_p99_us: of(|r| r[2].p99_us),
    }
}

const HEADER: [&str; 9] = [
    "what",
    "per second",
    "bare echo",
    "service",
    "ratio",
    "without ledger",
    "echo p50 / p99 µs",
    "service p50 / p99 µs",
    "no ledger p50 / p99 µs",
];

fn row(l: &Line) -> [String; 9] {
    [
        l.what.clone(),
        l.unit.to_owned(),
        format!("{:.0}", l.echo_per_second),
        format!("{:.0}", l.service_per_second),
        format!("{:.0} %", 100.0 * l.ratio),
        format!("{:.0}", l.no_ledger_per_second),
        format!("{:.0} / {:.0}", l.echo_p50_us, l.echo_p99_us),
        format!("{:.0} / {:.0}", l.service_p50_us, l.service_p99_us),
        format!("{:.0} / {:.0}", l.no_ledger_p50_us, l.no_ledger_p99_us),
    ]
}
