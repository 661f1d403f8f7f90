//! Two coordinators in processes of their own, one of them killed again and again under load, and PostgreSQL with them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use tokio::net::TcpListener;
use tonic::transport::Channel;
use tonic::{Code, Status};
use vfl_coordinator::config::{Budgets, Settings};
use vfl_coordinator::ledger::{record_uses, summary};
use vfl_core::types::{PartyName, RecordIds};
use vfl_protocol::pb::RowStatus;
use vfl_protocol::pb::coordinator_client::CoordinatorClient;
use vfl_protocol::{broken, pb};
use vfl_server::service::{Peer, Role};

use super::{Shared, put_secret, question, shared};
use crate::support::{config, dataset, free_address, test_ids, training_ids};

/// Names the config file of a coordinator that a test starts in a process of its own.
const CHILD: &str = "CLOISON_REPLICA";

/// The coordinator of [`nothing_is_lost_and_nothing_spent_twice`], in a process of its own: an ordinary test run has nothing to do here.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // As a supervisor does: while the database is down a coordinator cannot start.
        loop {
            let (listen, settings) = Settings::read(Path::new(&path)).unwrap();
            let listener = TcpListener::bind(listen).await.unwrap();
            if let Err(error) =
                vfl_coordinator::service::run(settings, listener, std::future::pending()).await
            {
                eprintln!("{error}");
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
}

/// A coordinator that is killed and started again.
struct Killed {
    config: PathBuf,
    process: Child,
}

impl Killed {
    fn start(config: PathBuf) -> Self {
        let process = Self::spawn(&config);
        Self { config, process }
    }

    fn spawn(config: &Path) -> Child {
        let log = std::fs::File::options()
            .append(true)
            .create(true)
            .open(config.with_extension("log"))
            .unwrap();
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "replicas::kills::child", "--nocapture", "--test-threads=1"])
            .env(CHILD, config)
            .stdout(Stdio::from(log.try_clone().unwrap()))
            .stderr(Stdio::from(log))
            .spawn()
            .unwrap()
    }

    /// SIGKILL, and a new process at once.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = Self::spawn(&self.config);
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the callers were told.
#[derive(Default)]
struct Told {
    requests: u64,
    /// Rows granted, by record.
    granted: BTreeMap<String, u64>,
    /// Rows asked.
    rows: u64,
    /// Requests refused as a whole.
    refused: u64,
    /// How many requests took so many calls.
    calls: BTreeMap<u32, u64>,
    /// Microseconds, per request.
    took: Vec<u64>,
}

/// How a call that is made again ended: the connection broke, or the coordinator could not answer.
fn again(status: &Status) -> bool {
    broken(status) || status.code() == Code::Unavailable
}

/// Callers at once.
const CALLERS: u64 = 64;
/// How often one of the coordinators is killed.
const EVERY: Duration = Duration::from_secs(5);
/// How often a call is made at most while one coordinator after the other is killed: once, and once more.
const MOST_CALLS: u32 = 2;
/// Longer than any time limit of a coordinator.
const BOUND: Duration = Duration::from_secs(120);

/// How often a record may be asked for: the records that are asked for most use that up.
fn per_record(seconds: u64) -> u64 {
    (10 * seconds).max(60)
}

async fn caller(
    mut client: CoordinatorClient<Channel>,
    number: u64,
    (version, k, pool): (String, usize, RecordIds),
    stop: Arc<AtomicBool>,
) -> Told {
    let mut rng = ChaCha20Rng::seed_from_u64(number);
    let mut told = Told::default();
    while !stop.load(Ordering::Relaxed) {
        // The first records of the pool much more often than the last ones: some budgets are spent early, others last.
        let place: f64 = rng.random_range(0.0..1.0);
        let first = (place * place * (pool.len() - 4) as f64) as usize;
        let ids = pool.slice(first, first + rng.random_range(1..5));
        let request = question(&version, &ids, k, &format!("{number}-{:x}", rng.next_u64()), "");
        let began = Instant::now();
        let mut calls = 0;
        let answer = loop {
            calls += 1;
            let answer = tokio::time::timeout(BOUND, client.predict(request.clone())).await;
            match answer.expect("a call without an end") {
                Err(status) if again(&status) && calls < 400 => {
                    let pause = rng.random_range(20..120);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                answer => break answer,
            }
        };
        told.requests += 1;
        *told.calls.entry(calls).or_default() += 1;
        told.took.push(began.elapsed().as_micros() as u64);
        match answer {
            Ok(answer) => {
                let statuses = answer.into_inner().row_status;
                assert_eq!(statuses.len(), ids.len());
                told.rows += ids.len() as u64;
                for (id, status) in ids.iter().zip(statuses) {
                    match RowStatus::try_from(status).unwrap() {
                        RowStatus::Ok => *told.granted.entry(id.to_owned()).or_default() += 1,
                        RowStatus::BudgetSpent => {}
                        other => panic!("{other:?}"),
                    }
                }
            }
            Err(status) if status.code() == Code::ResourceExhausted => told.refused += 1,
            Err(status) => panic!("caller {number}: {status:?}"),
        }
    }
    told
}

impl Told {
    /// The most calls that a request took.
    fn most_calls(&self) -> u32 {
        self.calls.keys().max().copied().unwrap_or_default()
    }

    /// All calls.
    fn calls(&self) -> u64 {
        self.calls.iter().map(|(calls, requests)| u64::from(*calls) * requests).sum()
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let last = self.took.len().saturating_sub(1);
        let at = |share: f64| {
            self.took.get((last as f64 * share) as usize).map_or(0.0, |us| *us as f64 / 1000.0)
        };
        write!(
            f,
            "{} requests, {} rows, {} refused as a whole; requests by calls: {:?}; ms: p50 {:.1}, p99 {:.1}, longest {:.0}",
            self.requests,
            self.rows,
            self.refused,
            self.calls,
            at(0.5),
            at(0.99),
            at(1.0)
        )
    }
}

fn sum(all: Vec<Told>) -> Told {
    let mut sum = Told::default();
    for told in all {
        sum.requests += told.requests;
        sum.rows += told.rows;
        sum.refused += told.refused;
        told.granted.into_iter().for_each(|(id, n)| *sum.granted.entry(id).or_default() += n);
        told.calls.into_iter().for_each(|(calls, n)| *sum.calls.entry(calls).or_default() += n);
        sum.took.extend(told.took);
    }
    sum.took.sort_unstable();
    sum
}

fn config_of(here: &Shared, name: &str, listen: SocketAddr, budgets: &Budgets) -> PathBuf {
    let dir = here.dir.path();
    put_secret(&dir.join(name));
    let peers: String = here
        .settings
        .passive_parties
        .iter()
        .map(|p| {
            format!("[[passive_parties]]\nname = \"{}\"\naddress = \"{}\"\n", p.name, p.address)
        })
        .collect();
    let tls = dir.join("coordinator-tls");
    let limit = |limit: Option<u64>| limit.map_or("\"unlimited\"".to_owned(), |n| n.to_string());
    let text = format!(
        "listen = \"{listen}\"\nstate_dir = {:?}\nactive_party = \"active\"\n\
         [tls]\nca = {:?}\ncertificate = {:?}\nkey = {:?}\n{peers}\
         [training]\nallowed = true\n[audit]\nallowed = true\nrows_per_record = 300\n\
         [release]\nto_active_party = \"true_parameters\"\n[ledger]\nurl = {:?}\nshared = true\n\
         [budget]\nrecords = {}\nqueries_per_record = {}\nmodels_per_record = {}\nrows_per_minute = {}\n",
        dir.join(name),
        tls.join("ca.pem"),
        tls.join("cert.pem"),
        tls.join("key.pem"),
        here.schema.url,
        limit(budgets.records),
        limit(budgets.queries_per_record),
        limit(budgets.models_per_record),
        limit(budgets.rows_per_minute),
    );
    let path = dir.join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path
}

/// A coordinator answers.
async fn up(here: &Shared, peer: &Peer, log: &Path) {
    let mut client = here.client(peer, Role::ActiveParty);
    let answers = async {
        while client.describe_model(pb::DescribeModelRequest {}).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    if tokio::time::timeout(BOUND, answers).await.is_err() {
        panic!("{}", std::fs::read_to_string(log).unwrap());
    }
}

/// Stops PostgreSQL hard and starts it again.
async fn crash(command: &str) {
    let command = command.to_owned();
    let run = move || Command::new("sh").args(["-c", &command]).stdout(Stdio::null()).status();
    assert!(tokio::task::spawn_blocking(run).await.unwrap().unwrap().success());
}

/// 64 callers, two coordinators, one of them killed every five seconds, and in the second half the database stopped hard between the
/// kills: what was released is recorded, once, no budget is passed by one, and as long as the database is there a call is made twice at
/// most. `CLOISON_REPLICAS_S` is how long (20 s).
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_nothing_spent_twice() {
    let seconds: u64 =
        std::env::var("CLOISON_REPLICAS_S").ok().and_then(|s| s.parse().ok()).unwrap_or(20);
    let pool = test_ids(&dataset(), 0, dataset().split().test.len());
    // Fewer than there are: some requests are refused as a whole.
    let (limit, per_record) = (pool.len() as u64 - 20, per_record(seconds));
    let budgets = Budgets {
        records: Some(limit),
        queries_per_record: Some(per_record),
        ..Budgets::UNLIMITED
    };
    let Some(mut here) = shared("none", budgets).await else { return };
    let tls = here.dir.path().join("coordinator-tls");
    std::fs::create_dir_all(&tls).unwrap();
    let pem = here.deployment.pem(Role::Coordinator, "coordinator").unwrap();
    for (name, text) in [("ca.pem", &pem.ca), ("cert.pem", &pem.certificate), ("key.pem", &pem.key)]
    {
        std::fs::write(tls.join(name), text).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(
            tls.join(name),
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        )
        .unwrap();
    }
    let version = here
        .deployment
        .train(&config(1), &training_ids(&here.dataset), |_| ())
        .await
        .unwrap()
        .version;
    let version = version.as_str().to_owned();
    let k = here.dataset.class_names().len();
    let addresses = [free_address(), free_address()];
    let names = ["one", "two"];
    let mut coordinators: Vec<Killed> = (0..2)
        .map(|at| Killed::start(config_of(&here, names[at], addresses[at], &budgets)))
        .collect();
    let address = addresses.map(|a| a.to_string()).join(", ");
    let peer =
        Peer { address, name: PartyName::new("coordinator").unwrap(), role: Role::Coordinator };
    let single = addresses.map(|address| Peer { address: address.to_string(), ..peer.clone() });
    // Up before anything is measured.
    for (peer, coordinator) in single.iter().zip(&coordinators) {
        up(&here, peer, &coordinator.config.with_extension("log")).await;
    }
    let stops = std::env::var("CLOISON_POSTGRES_CRASH").ok();
    let phases = if stops.is_some() { 2 } else { 1 };
    let (mut kills, mut restarts, mut all) = (0, 0, Vec::new());
    let mut alone = None;
    for phase in 0..phases {
        if phase == 1 {
            alone = Some(here.schema.alone().await);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..CALLERS)
            .map(|number| {
                let client = here.client(&peer, Role::ActiveParty);
                let what = (version.clone(), k, pool.clone());
                tokio::spawn(caller(client, phase * 1000 + number, what, stop.clone()))
            })
            .collect();
        let length = Duration::from_secs((seconds / phases).max(6));
        let (began, every) = (Instant::now(), EVERY.min(length / 3));
        for at in 1.. {
            let next = began + every * at;
            if next >= began + length {
                break;
            }
            if let Some(command) = stops.as_ref().filter(|_| phase == 1) {
                tokio::time::sleep_until((next - every / 2).into()).await;
                crash(command).await;
                restarts += 1;
            }
            tokio::time::sleep_until(next.into()).await;
            // Never both at once: the one that was killed before is there again.
            let (dies, lives) = (kills % 2, (kills + 1) % 2);
            up(&here, &single[lives], &coordinators[lives].config.with_extension("log")).await;
            coordinators[dies].kill();
            kills += 1;
        }
        tokio::time::sleep_until((began + length).into()).await;
        stop.store(true, Ordering::Relaxed);
        let told = sum(futures_util::future::try_join_all(callers).await.unwrap());
        println!(
            "{}: {told}",
            if phase == 0 { "kills" } else { "kills, and stops of the database" }
        );
        if phase == 0 {
            assert!(
                told.most_calls() <= MOST_CALLS,
                "a killed coordinator costs its callers a retry: {:?}",
                told.calls
            );
        }
        assert!(told.requests > CALLERS, "the callers got nowhere");
        all.push(told);
    }
    drop(alone);
    let first = all[0].most_calls();
    let told = sum(all);
    let described = summary(&here.schema.url, None).await.unwrap();
    let party = &described.parties[0];
    let (mut recorded, mut records, mut most) = (0, 0, 0);
    for id in pool.iter() {
        let uses = record_uses(&here.schema.url, id, None).await.unwrap();
        let queries: u64 = uses.iter().map(|u| u.queries).sum();
        let granted = told.granted.get(id).copied().unwrap_or_default();
        // Every request came to its end, and a retry is free: recorded as often as it was released, neither less nor more.
        assert_eq!(queries, granted, "rows of a record recorded and released");
        assert!(queries <= per_record, "{queries} rows of a record");
        (recorded, records, most) =
            (recorded + queries, records + u64::from(queries > 0), most.max(queries));
    }
    assert!(
        records <= limit && party.records == records,
        "{records} records, {} counted",
        party.records
    );
    assert_eq!(party.queries - party.refused, recorded);
    assert_eq!(party.queries, told.rows, "rows answered or refused, and rows in the sums");
    let released: u64 = told.granted.values().sum();
    let asked_again: u64 =
        told.calls.iter().filter(|(calls, _)| **calls > 1).map(|(_, requests)| requests).sum();
    println!(
        "in {seconds} s with {CALLERS} callers: {kills} kills of a coordinator, {restarts} stops of the database\n\
         {} calls for {} requests, {asked_again} requests asked again; most calls of a request: {first} while the database was there, {} in all\n\
         rows released {released}, recorded {recorded}, refused {}; records {records} of {limit}\n\
         most queries of a record: {most} of {per_record}",
        told.calls(),
        told.requests,
        told.most_calls(),
        party.refused,
    );
    drop(coordinators);
    here.end().await;
}
