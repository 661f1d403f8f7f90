//! Rows and calls per second of the service, measured beside a bare gRPC echo of messages of the same size in the same run.
//!
//! The coordinator, the passive party and the echo are processes of their own; this process is the active party. The echo
//! has the same transport (mutual TLS, window sizes) and answers at once with as many bytes as a prediction's answer has.

mod echo;
mod measure;
mod worker;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use nalgebra::{DMatrix, DVector};
use prost::Message;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use vfl_coordinator::registry::TrainingSummary;
use vfl_shared::data::{
    self, DatasetName, DatasetSpec, SyntheticFields, SyntheticParameters, VerticalSplit, partition,
};
use vfl_shared::model::TrainingConfig;
use vfl_shared::rpc::{STREAM_CHUNK_RECORDS, encode_columns, pb};
use vfl_shared::service::{Credentials, Peer, Role, TlsPem};
use vfl_shared::types::{PartyName, RecordIds};

use crate::certs;
use crate::deployment::WholeModel;
use crate::progress::Progress;
pub use worker::{WorkerArgs, worker};

/// Shape of the measured deployment: that of satellite, with more records.
const CLASSES: usize = 6;
const FEATURES: usize = 36;
const PASSIVE: usize = 18;
const RECORDS: usize = 20_000;

/// `cloison load`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  cloison load --seconds 5

Starts a coordinator with its ledger (a commit on the disk before each answer), one without, a passive party and a bare echo as
processes on loopback and drives them from this one. Every figure is the median of the rounds; they take turns in each round.")]
pub struct LoadArgs {
    /// Seconds of each measurement.
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,
    /// Rounds.
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
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
    let dir = tempfile::tempdir()?;
    let (ids, version) = prepare(dir.path())?;
    let passive = Worker::start(dir.path(), "passive", None).await?;
    let coordinator = Worker::start(dir.path(), "coordinator", Some(&passive.address)).await?;
    let without = Worker::start(dir.path(), "bare", Some(&passive.address)).await?;
    let echo = Worker::start(dir.path(), "echo", None).await?;
    let credentials = credentials(dir.path(), "active")?;
    let peer = |name: &str, address: &str| -> anyhow::Result<Peer> {
        Ok(Peer { role: Role::Coordinator, name: PartyName::new(name)?, address: address.to_owned() })
    };
    let service = measure::Service::new(&credentials, &peer("coordinator", &coordinator.address)?)?;
    let no_ledger = measure::Service::new(&credentials, &peer("coordinator", &without.address)?)?;
    let bare = measure::Echo::new(&credentials, &peer("coordinator", &echo.address)?)?;

    let seconds = Duration::from_secs_f64(args.seconds);
    let single: Vec<pb::PredictRequest> = (0..256).map(|i| request(&ids, i, i + 1, &version)).collect();
    let bulk: Vec<pb::PredictRequest> = (0..ids.len() / STREAM_CHUNK_RECORDS)
        .map(|i| request(&ids, i * STREAM_CHUNK_RECORDS, (i + 1) * STREAM_CHUNK_RECORDS, &version))
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
    drop((passive, coordinator, without, echo));
    print(&lines, args.json)
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

fn print(lines: &[Line], json: bool) -> anyhow::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout();
    if json {
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(lines)?)?);
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic).set_width(120);
    table.set_header([
        "what",
        "per second",
        "bare echo",
        "service",
        "ratio",
        "without ledger",
        "echo p50 / p99 µs",
        "service p50 / p99 µs",
        "no ledger p50 / p99 µs",
    ]);
    for l in lines {
        table.add_row([
            l.what.clone(),
            l.unit.to_owned(),
            format!("{:.0}", l.echo_per_second),
            format!("{:.0}", l.service_per_second),
            format!("{:.0} %", 100.0 * l.ratio),
            format!("{:.0}", l.no_ledger_per_second),
            format!("{:.0} / {:.0}", l.echo_p50_us, l.echo_p99_us),
            format!("{:.0} / {:.0}", l.service_p50_us, l.service_p99_us),
            format!("{:.0} / {:.0}", l.no_ledger_p50_us, l.no_ledger_p99_us),
        ]);
    }
    for column in 2..9 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Ok(writeln!(out, "{table}")?)
}

/// Certificates, data and a published model (of random weights: speed does not depend on them) for the processes.
fn prepare(dir: &Path) -> anyhow::Result<(RecordIds, String)> {
    let parties = ["coordinator/coordinator", "passive-party/passive", "active-party/active"].map(str::to_owned);
    certs::write(&dir.join("tls"), "cloison.load", 2, &parties)?;
    let mut spec = DatasetSpec::new(DatasetName::Synthetic, None, 1);
    let fields =
        SyntheticFields { records: RECORDS, features: FEATURES, classes: CLASSES, ..spec.synthetic.fields().clone() };
    spec.synthetic = SyntheticParameters::new(fields)?;
    let dataset = data::load(&spec)?;
    let split = VerticalSplit::shared_window(0, PASSIVE, FEATURES, &[PartyName::new("passive")?])?;
    partition::partition(&dataset, &split, &dir.join("data"), 1)?;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let training_ids = dataset.ids().slice(0, 2);
    let whole = WholeModel {
        weights: DMatrix::from_fn(CLASSES, FEATURES, |_, _| rng.random::<f64>() - 0.5),
        bias: DVector::zeros(CLASSES),
        class_names: dataset.class_names().to_vec(),
        summary: TrainingSummary {
            config: TrainingConfig::default(),
            epochs: 0,
            best_epoch: 0,
            steps: 0,
            training_records: 2,
            validation_records: 0,
        },
        training_ids,
    };
    let name = |columns: &[usize]| columns.iter().map(|&c| dataset.features()[c].name.clone()).collect::<Vec<_>>();
    let passive: Vec<_> =
        split.passive().iter().map(|p| (p.name.clone(), p.columns.clone(), name(&p.columns))).collect();
    let state = dir.join("state");
    whole.publish(&state, (split.active(), &name(split.active())), &passive)?;
    let current = std::fs::read_to_string(state.join("coordinator").join("current"))?;
    let ids = dataset.ids().slice(2, dataset.records());
    Ok((ids, current.trim().to_owned()))
}

/// The records `from` to `to`, each with the same share in every request: another one would be refused.
fn request(all: &RecordIds, from: usize, to: usize, version: &str) -> pb::PredictRequest {
    let ids = all.slice(from, to);
    let share = DMatrix::from_fn(CLASSES, ids.len(), |i, j| ((i * 31 + (from + j) * 7) % 17) as f64 * 0.1 - 0.8);
    pb::PredictRequest {
        model_version: version.to_owned(),
        ids: Some(ids.into()),
        logit_shares: Some(encode_columns(&share)),
        audit_session: String::new(),
        request_id: String::new(),
    }
}

/// Credentials of one of the measured parties.
fn credentials(dir: &Path, name: &str) -> anyhow::Result<Credentials> {
    let tls = dir.join("tls");
    let at = |end: &str| tls.join(format!("{name}.{end}"));
    Ok(Credentials::new(&TlsPem::read(&tls.join("ca.pem"), &at("pem"), &at("key"))?)?)
}

/// A process of the measurement; it ends when this value is dropped.
struct Worker {
    address: String,
    _child: Child,
}

impl Worker {
    async fn start(dir: &Path, role: &str, passive: Option<&str>) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("load-worker").arg("--role").arg(role).arg("--dir").arg(dir);
        if let Some(address) = passive {
            command.arg("--passive").arg(address);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| anyhow::anyhow!("the {role} process has no output"))?;
        let mut address = String::new();
        let mut stdout = BufReader::new(stdout);
        tokio::time::timeout(Duration::from_secs(30), stdout.read_line(&mut address)).await??;
        anyhow::ensure!(!address.is_empty(), "the {role} process ended before it listened");
        Ok(Self { address: address.trim().to_owned(), _child: child })
    }
}
