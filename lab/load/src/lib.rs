//! Load measurement: rows and calls per second of the service, compared with a bare gRPC echo of
//! messages of the same size in the same run.
//!
//! The coordinator, the passive party and the echo are separate processes; this process is the
//! active party. The echo has the same transport (mutual TLS, window sizes) and answers at once
//! with as many bytes as a prediction's answer has.

mod bench;
pub mod cli;
mod echo;
mod features;
pub mod flood;
mod flood_measurement;
mod measure;
mod postgres_table;
mod print;
mod private;
mod process;
mod relay;
mod services;
mod soak;
mod source;
mod worker;

use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use vfl_protocol::STREAM_CHUNK_RECORDS;

pub use bench::Bench;
use vfl_present::progress::Progress;

use bench::{CLASSES, PASSIVE, RECORDS};
use measure::median;
use print::print;
use services::Services;
use source::Source;
pub use worker::{WorkerArgs, worker};

/// The most distinct requests of one measurement.
const REQUESTS: usize = 256;

/// The arguments of `cloison load`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  cloison load --seconds 5
  cloison load --rows 1,10,50,300,4096 --delay-ms 0,10 --store csv,http,postgres://reader@localhost/bank
  cloison load --soak 600
  cloison load --private class_label,none --delay-ms 0,10
  cloison load --strangers 500 --descriptors 200

Starts a coordinator with its ledger (a commit on the disk before each answer), one without, a passive party and a bare echo as \
processes on loopback and drives them from this one. Every figure is the median of the rounds; they take turns in each round.

With --rows, --delay-ms or --store, measures Predict with so many rows a call, for each delay and each store of the passive party. A delay \
is added to each round trip between two processes. For http a feature service (BatchFetchFeature) is started, with its rows in memory. In \
PostgreSQL a table is made, and dropped in the end.

With --private, measures the active party's program under these policies, plainly and by private releases: calls of one record, and of \
16 384.

With --soak, finds the highest rate of PredictStream, asks for four fifths of it for so long, and tells what memory the coordinator and the \
passive party hold.

With --strangers, floods the coordinator instead, and tells what a legitimate caller gets and what memory the coordinator holds \
before, during and after: connections that say nothing, TLS connections without a certificate, messages that are never finished.")]
pub struct LoadArgs {
    /// Seconds of each measurement.
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,
    /// Rounds of the measurement.
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Rows of a call; each number is a line of the result.
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16_384))]
    rows: Vec<u32>,
    /// Milliseconds that are added to each round trip between two processes.
    #[arg(long, value_name = "MS,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=10_000))]
    delay_ms: Vec<u32>,
    /// Stores of the passive party: csv, sqlite, http, or the URL of a PostgreSQL database.
    #[arg(long, value_name = "STORE,…", value_delimiter = ',')]
    store: Vec<Source>,
    /// Calls in flight at once, with --rows, --delay-ms or --store.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    in_flight: u32,
    /// Instead, compare plain predictions and private releases under these policies.
    #[arg(long, value_name = "POLICY,…", value_delimiter = ',', conflicts_with_all = ["rows", "store", "soak", "strangers"])]
    private: Vec<String>,
    /// Instead, request four fifths of the highest rate for so many seconds.
    #[arg(long, value_name = "S", conflicts_with_all = ["rows", "delay_ms", "strangers"], value_parser = clap::value_parser!(u64).range(10..))]
    soak: Option<u64>,
    /// Instead, flood the coordinator: so many silent connections a second, idle TLS connections
    /// and unfinished messages.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000))]
    strangers: Option<u32>,
    /// File descriptors that the flooded coordinator may have.
    #[arg(long, value_name = "N", requires = "strangers", value_parser = clap::value_parser!(u32).range(100..))]
    descriptors: Option<u32>,
    /// Another build of cloison-load to flood instead of this one, to compare the two.
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
    /// The kind of calls, if they are measured by store, delay and rows.
    #[serde(flatten)]
    calls: Option<Calls>,
    echo_per_second: f64,
    service_per_second: f64,
    ratio: f64,
    /// The rate of the same service without a ledger.
    no_ledger_per_second: f64,
    echo_p50_us: f64,
    echo_p99_us: f64,
    service_p50_us: f64,
    service_p99_us: f64,
    no_ledger_p50_us: f64,
    no_ledger_p99_us: f64,
}

/// The calls of a line.
#[derive(Debug, Clone, Serialize)]
struct Calls {
    store: &'static str,
    delay_ms: u32,
    rows_a_call: u32,
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
        return flood_measurement::run(&program, per_second, args.descriptors, seconds, args.json)
            .await;
    }
    if !args.private.is_empty() {
        let comparison = private::Comparison {
            policies: &args.private,
            delays: &args.delay_ms,
            rounds: args.rounds,
            json: args.json,
        };
        return private::run(&program, &comparison, seconds, &told(&args)).await;
    }
    if let Some(soak) = args.soak {
        anyhow::ensure!(args.store.len() <= 1, "--soak takes one store");
        let source = args.store.first().unwrap_or(&Source::Csv);
        return soak::run(&program, source, Duration::from_secs(soak), args.json).await;
    }
    match args.rows.is_empty() && args.delay_ms.is_empty() && args.store.is_empty() {
        true => print(&usual(&program, &args, seconds).await?, args.json, HEADER, 2, row),
        false => {
            print(&calls(&program, &args, seconds).await?, args.json, CALLS_HEADER, 1, calls_row)
        }
    }
}

/// Describes the common settings for the last line of the progress.
fn told(args: &LoadArgs) -> String {
    let (rounds, seconds) = (args.rounds, args.seconds);
    format!(
        "{RECORDS} records, {CLASSES} classes, {PASSIVE} passive features; medians of {rounds} rounds of {seconds} s"
    )
}

/// Measures calls of one record with 1, 16 and 64 in flight, and the stream.
async fn usual(program: &Path, args: &LoadArgs, seconds: Duration) -> anyhow::Result<Vec<Line>> {
    let sides = Services::start(program, &Source::Csv, Duration::ZERO).await?;
    let mut bar = Progress::start("measuring", (args.rounds * 4) as u64);
    let (mut lines, mut done) = (Vec::new(), 0);
    let single = sides.requests(1, REQUESTS);
    let sizes = sides.sizes(&single[0]).await?;
    for in_flight in [1, 16, 64] {
        let mut rounds = Vec::new();
        for _ in 0..args.rounds {
            bar.at(done, &format!("Predict, {in_flight} in flight"));
            rounds.push(sides.unary(&single, sizes, in_flight, seconds).await?);
            done += 1;
        }
        let what =
            format!("Predict, 1 record, {in_flight} in flight ({} B → {} B)", sizes.0, sizes.1);
        lines.push(line(what, "calls", 1.0, &rounds));
    }
    let bulk = sides.requests(STREAM_CHUNK_RECORDS, usize::MAX);
    let sizes = sides.sizes(&bulk[0]).await?;
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        bar.at(done, "PredictStream");
        rounds.push(sides.stream(&bulk, sizes, seconds).await?);
        done += 1;
    }
    let what = format!(
        "PredictStream, {STREAM_CHUNK_RECORDS} records a message ({} B → {} B)",
        sizes.0, sizes.1
    );
    lines.push(line(what, "rows", STREAM_CHUNK_RECORDS as f64, &rounds));
    bar.done(&told(args));
    sides.bench.end().await?;
    Ok(lines)
}

/// Measures calls of so many rows, for each store and each delay.
async fn calls(program: &Path, args: &LoadArgs, seconds: Duration) -> anyhow::Result<Vec<Line>> {
    let given = |values: &[u32], default: u32| {
        if values.is_empty() { vec![default] } else { values.to_vec() }
    };
    let (rows, delays) = (given(&args.rows, 1), given(&args.delay_ms, 0));
    let stores = if args.store.is_empty() { vec![Source::Csv] } else { args.store.clone() };
    let mut bar = Progress::start(
        "measuring",
        (stores.len() * delays.len() * rows.len() * args.rounds) as u64,
    );
    let (mut lines, mut done) = (Vec::new(), 0);
    for store in &stores {
        for &delay in &delays {
            let sides =
                Services::start(program, store, Duration::from_millis(delay.into())).await?;
            for &rows in &rows {
                let requests = sides.requests(rows as usize, REQUESTS);
                let sizes = sides.sizes(&requests[0]).await?;
                let calls = Calls { store: store.name(), delay_ms: delay, rows_a_call: rows };
                let what = format!("{}, {delay} ms more, {rows} rows a call", calls.store);
                let mut rounds = Vec::new();
                for _ in 0..args.rounds {
                    bar.at(done, &what);
                    rounds.push(
                        sides.unary(&requests, sizes, args.in_flight as usize, seconds).await?,
                    );
                    done += 1;
                }
                let measured = line(what, "rows", rows.into(), &rounds);
                lines.push(Line { calls: Some(calls), ..measured });
            }
            sides.bench.end().await?;
        }
    }
    bar.done(&format!("{}; {} calls in flight", told(args), args.in_flight));
    Ok(lines)
}

/// Summarises the rounds, each of which has the echo, the service, and the service without a
/// ledger.
fn line(what: String, unit: &'static str, per: f64, rounds: &[[measure::Sample; 3]]) -> Line {
    let of = |pick: fn(&[measure::Sample; 3]) -> f64| median(rounds.iter().map(pick).collect());
    let (e, s) = (of(|r| r[0].per_second) * per, of(|r| r[1].per_second) * per);
    Line {
        what,
        unit,
        calls: None,
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

const CALLS_HEADER: [&str; 9] = [
    "store",
    "delay",
    "rows\na call",
    "bare echo,\nrows/s",
    "with ledger,\nrows/s",
    "of the\necho",
    "without,\nrows/s",
    "p50 / p99 ms,\nwith ledger",
    "p50 / p99 ms,\nwithout",
];

fn calls_row(l: &Line) -> [String; 9] {
    let [store, delay, rows] = match &l.calls {
        Some(calls) => [
            calls.store.to_owned(),
            format!("{} ms", calls.delay_ms),
            calls.rows_a_call.to_string(),
        ],
        None => [l.what.clone(), String::new(), String::new()],
    };
    let ms = |us: f64| {
        if us < 10_000.0 { format!("{:.1}", us / 1000.0) } else { format!("{:.0}", us / 1000.0) }
    };
    [
        store,
        delay,
        rows,
        format!("{:.0}", l.echo_per_second),
        format!("{:.0}", l.service_per_second),
        format!("{:.0} %", 100.0 * l.ratio),
        format!("{:.0}", l.no_ledger_per_second),
        format!("{} / {}", ms(l.service_p50_us), ms(l.service_p99_us)),
        format!("{} / {}", ms(l.no_ledger_p50_us), ms(l.no_ledger_p99_us)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_calls_is_one_line_of_at_most_120_columns() {
        let sample =
            |per_second| measure::Sample { per_second, p50_us: 12_345_678.0, p99_us: 12_345_678.0 };
        let measured =
            line(String::new(), "rows", 16_384.0, &[[sample(1e5), sample(1e5), sample(1e5)]]);
        let calls = Calls { store: "postgres", delay_ms: 10_000, rows_a_call: 16_384 };
        let lines = [Line { calls: Some(calls), ..measured }];
        let text = print::table(&lines, CALLS_HEADER, 1, calls_row);
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        // The frame has three lines, the header two.
        assert_eq!(text.lines().count(), 6, "{text}");
        assert!(text.contains("12346 / 12346"), "{text}");

        let json = serde_json::to_value(&lines).unwrap();
        assert_eq!(
            (&json[0]["store"], &json[0]["rows_a_call"]),
            (&"postgres".into(), &16_384.into())
        );
    }
}
