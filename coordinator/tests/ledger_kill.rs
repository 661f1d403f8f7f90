//! Kill −9 at random moments: whatever was released is recorded.
//!
//! The test runs itself as a child that spends and prints each request after `spend` returned (that is where a coordinator
//! would release), kills it, opens the ledger again and compares. `CLOISON_KILLS` sets the rounds (20). With
//! `CLOISON_POSTGRES_URL` it runs against PostgreSQL as well, and with `CLOISON_POSTGRES_CRASH`, a shell command that stops the
//! server hard and starts it again, the server dies in each round too.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use vfl_coordinator::ledger::{
    Budgets, JournalLimits, Ledger, LedgerConfig, LedgerError, RowVerdict, SpendRequest,
    record_uses, summary, verify,
};
use vfl_core::types::{ModelVersion, PartyName, RecordIds};

const CHILD: &str = "CLOISON_LEDGER_KILL_CHILD";
const FINGERPRINT: &str = "5f3a";
const RECORDS: usize = 100;
const TASKS: usize = 8;
/// Each record passes this at some point, so that refused rows are among what is checked.
const PER_RECORD: u64 = 300;

/// The state directory remembers the ledger: no kill may make it look lost, or old.
fn config(url: &str, state: &str) -> LedgerConfig {
    LedgerConfig {
        budgets: Budgets { queries_per_record: Some(PER_RECORD), ..Budgets::UNLIMITED },
        state_dir: Some(state.into()),
        // Some groups go by the journal and some do not, and it is added to the tables every few hundred rows.
        journal: JournalLimits { rows: 60, records: 80, bytes: 5000, ..JournalLimits::default() },
        ..LedgerConfig::new(url)
    }
}

fn spend(request_id: &str, records: &[usize]) -> SpendRequest {
    let mut body_hash = [0; 32];
    for (i, record) in records.iter().enumerate() {
        body_hash[i % 32] ^= *record as u8;
    }
    SpendRequest {
        party: PartyName::new("active").unwrap(),
        model: ModelVersion::new("m-1").unwrap(),
        passive: "p-1".into(),
        policy: "none".into(),
        bits: None,
        request_id: Some(request_id.into()),
        body_hash,
        ids: RecordIds::new(records.iter().map(ToString::to_string)).unwrap(),
        share_hashes: vec![[7; 16]; records.len()],
        at: SystemTime::now(),
        uptime: Duration::ZERO,
    }
}

fn is_alarm(error: &LedgerError) -> bool {
    use LedgerError::{Another, DamagedMark, Fingerprint, Lost, NothingToBegin, OldCopy};
    matches!(
        error,
        Lost { .. }
            | Another { .. }
            | OldCopy { .. }
            | DamagedMark { .. }
            | NothingToBegin
            | Fingerprint { .. }
    )
}

/// Not a test: what the child does. Returns at once where nobody asked for it.
#[test]
fn child() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let mut words = asked.splitn(3, ' ');
    let [round, state, url] = [(); 3].map(|()| words.next().unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // The server may be on its way up again, or still hold the lock of the child before.
        let ledger = loop {
            match Ledger::open(&config(url, state), FINGERPRINT).await {
                Ok(ledger) => break std::sync::Arc::new(ledger),
                Err(error) if is_alarm(&error) => {
                    let line = format!("alarm {error}\n");
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                    return;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let tasks = (0..TASKS).map(|task| {
            let (ledger, round) = (ledger.clone(), round.to_owned());
            tokio::spawn(async move {
                for turn in 0u64.. {
                    let picked =
                        sample(&mut rand::rng(), RECORDS, 1 + (turn as usize * 7) % 30).into_vec();
                    let request_id = format!("{round}-{task}-{turn}");
                    match ledger.spend(spend(&request_id, &picked)).await {
                        Ok(verdicts) => {
                            let rows = picked.iter().zip(verdicts).map(|(r, v)| {
                                format!("{r}{}", if v == RowVerdict::Granted { "+" } else { "-" })
                            });
                            let rows: Vec<String> = rows.collect();
                            let line = format!("released {request_id} {}\n", rows.join(","));
                            // One write for a line: the pipe takes it whole, or the kill came before.
                            std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                            std::io::stdout().lock().flush().unwrap();
                        }
                        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                }
            })
        });
        futures_util::future::join_all(tasks.collect::<Vec<_>>()).await;
    });
}

/// What was released so far: per record the rows answered and the rows refused, and every request.
#[derive(Default)]
struct Released {
    granted: BTreeMap<usize, u64>,
    asked: BTreeMap<usize, u64>,
    requests: u64,
    last: Option<(String, Vec<(usize, bool)>)>,
}

/// Runs a child, kills it after `lives`, and takes down what it printed.
fn kill_one(
    round: usize,
    place: (&str, &str),
    lives: Duration,
    crash: Option<&str>,
    released: &mut Released,
) {
    let (state, url) = place;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{round} {state} {url}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut lines = Vec::new();
        let mut out = BufReader::new(out);
        let mut line = String::new();
        while out.read_line(&mut line).is_ok_and(|n| n > 0) {
            lines.push(std::mem::take(&mut line));
        }
        lines
    });
    wait(lives);
    if let Some(command) = crash {
        let status =
            Command::new("sh").args(["-c", command]).stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{command}: {status}");
        wait(lives);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for line in reader.join().unwrap() {
        assert!(!line.contains("alarm "), "round {round}: a false alarm: {line}");
        // libtest prints lines of its own, one of them without an end.
        let Some(line) = line.find("released ").map(|start| &line[start..]) else { continue };
        let Some(line) = line.strip_suffix('\n') else { continue };
        let mut words = line.split(' ').skip(1);
        let (id, rows) = (words.next().unwrap().to_owned(), words.next().unwrap());
        let rows: Vec<(usize, bool)> = rows
            .split(',')
            .map(|r| (r[..r.len() - 1].parse().unwrap(), r.ends_with('+')))
            .collect();
        for &(record, granted) in &rows {
            *released.granted.entry(record).or_default() += u64::from(granted);
            *released.asked.entry(record).or_default() += 1;
        }
        released.requests += 1;
        released.last = Some((id, rows));
    }
}

/// Waits on the clock of a channel: nothing is ever sent.
fn wait(time: Duration) {
    let (_keep, never) = std::sync::mpsc::channel::<()>();
    let _ = never.recv_timeout(time);
}

/// Compares the ledger with what was released.
async fn check(round: usize, (state, url): (&str, &str), released: &Released) {
    let ledger = loop {
        match Ledger::open(&config(url, state), FINGERPRINT).await {
            Ok(ledger) => break ledger,
            // PostgreSQL notices a moment later that the child is gone.
            Err(error) => {
                assert!(url.starts_with("postgres") && !is_alarm(&error), "round {round}: {error}")
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let mut sums = (0, 0);
    for record in 0..RECORDS {
        let uses = record_uses(url, &record.to_string(), None).await.unwrap();
        let recorded: u64 = uses.iter().map(|u| u.queries).sum();
        let granted = released.granted.get(&record).copied().unwrap_or_default();
        assert!(
            recorded >= granted,
            "round {round}: {granted} rows of a record were released, {recorded} are recorded"
        );
        assert!(granted <= PER_RECORD, "round {round}: {granted} rows of a record were granted");
        assert!(
            granted == 0 || uses.iter().any(|u| u.bound),
            "round {round}: a released record is not bound"
        );
        sums = (sums.0 + recorded, sums.1 + u64::from(!uses.is_empty()));
    }
    // The sums agree with the rows: no transaction is there by half.
    let described = summary(url, None).await.unwrap();
    let (rows, refused, records) =
        described.parties.first().map_or((0, 0, 0), |p| (p.queries, p.refused, p.records));
    assert_eq!((rows - refused, records), sums, "round {round}");
    let asked: u64 = released.asked.values().sum();
    assert!(
        rows >= asked,
        "round {round}: {asked} rows were answered or refused, {rows} are recorded"
    );
    // The last request released is remembered: its retry gets the same and costs nothing.
    if let Some((id, rows)) = &released.last {
        let records: Vec<usize> = rows.iter().map(|r| r.0).collect();
        let again = ledger.spend(spend(id, &records)).await.unwrap();
        let again: Vec<bool> = again.iter().map(|&v| v == RowVerdict::Granted).collect();
        assert_eq!(again, rows.iter().map(|r| r.1).collect::<Vec<_>>(), "round {round}");
        assert_eq!(summary(url, None).await.unwrap(), described, "round {round}");
    }
    ledger.close().await;
}

fn kills(url: &str, crash: Option<&str>) {
    let rounds: usize =
        std::env::var("CLOISON_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let seed = 20_260_131;
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut released = Released::default();
    let dir = tempfile::tempdir().unwrap();
    let place = (dir.path().to_str().unwrap(), url);
    for round in 0..rounds {
        let lives = Duration::from_micros(rng.random_range(1_000..250_000));
        kill_one(round, place, lives, crash, &mut released);
        // A killed child that never came so far as to begin the ledger leaves nothing to compare.
        if released.requests > 0 {
            runtime.block_on(check(round, place, &released));
        }
    }
    assert!(released.requests > 0, "no child released anything");
    let recorded = runtime.block_on(summary(url, None)).unwrap().parties[0].queries;
    let rows: u64 = released.asked.values().sum();
    let mark = std::fs::read_to_string(dir.path().join("ledger.mark")).unwrap();
    assert!(!mark.contains("\"mark\":0,"), "the mark follows: {mark}");
    let found = runtime.block_on(verify(url, Some(dir.path()), &[])).unwrap();
    assert_eq!(found.findings, Vec::<String>::new(), "the chain of releases");
    println!(
        "{rounds} kills: {} requests with {rows} rows released, {recorded} rows recorded",
        released.requests
    );
}

#[test]
fn sqlite_records_what_was_released() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("ledger.db").display());
    kills(&url, None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let check = async {
        let mut file = SqliteConnection::connect(&url).await.unwrap();
        sqlx::query_scalar::<_, String>("PRAGMA integrity_check")
            .fetch_one(&mut file)
            .await
            .unwrap()
    };
    assert_eq!(runtime.block_on(check), "ok");
}

#[test]
fn postgres_records_what_was_released() {
    let Ok(server) = std::env::var("CLOISON_POSTGRES_URL") else {
        eprintln!(
            "not run: CLOISON_POSTGRES_URL is not set (postgres://USER:PASSWORD@HOST/DATABASE of a scratch database)"
        );
        return;
    };
    let schema = format!("ledger_kill_{:016x}", rand::random_range(0..u64::MAX));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = |sql: String| {
        runtime.block_on(async {
            let mut admin = PgConnection::connect(&server).await.unwrap();
            sqlx::query(AssertSqlSafe(sql)).execute(&mut admin).await.unwrap();
        });
    };
    run(format!("CREATE SCHEMA {schema}"));
    let join = if server.contains('?') { '&' } else { '?' };
    let url = format!("{server}{join}options=-c%20search_path%3D{schema}");
    kills(&url, std::env::var("CLOISON_POSTGRES_CRASH").ok().as_deref());
    run(format!("DROP SCHEMA {schema} CASCADE"));
}
