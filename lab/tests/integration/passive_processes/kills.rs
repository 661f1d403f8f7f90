//! Processes of their own, one of them killed again and again under load, and the database as well.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::Channel;
use vfl_core::types::RecordIds;
use vfl_datasets::{Dataset, partition};
use vfl_passive_party::config::{PLAIN_CONSENT, Settings};
use vfl_protocol::pb::active_party_client::ActivePartyClient;
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_protocol::{broken, pb};
use vfl_server::service::{Role, TlsPem};
use vfl_transform::scoring::accountant::RHO;

use super::{NAME, WIDTH, name, scored, site, two};
use crate::support::{active_client, free_address, score, split, test_ids};

/// Names the config file of a passive party that a test starts in a process of its own.
const CHILD: &str = "CLOISON_PASSIVE_PROCESS";

/// A process of the party: an ordinary test run has nothing to do here.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (listen, settings) = Settings::read(Path::new(&path)).unwrap();
        let listener = TcpListener::bind(listen).await.unwrap();
        vfl_passive_party::service::run(settings, listener, std::future::pending()).await.unwrap();
    });
}

/// A process that is killed and started again.
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
            .args(["--exact", "passive_processes::kills::child", "--nocapture", "--test-threads=1"])
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

/// The party's certificate and key, in files.
pub(super) fn put_tls(dir: &Path, pem: &TlsPem) {
    for (name, text) in [("ca.pem", &pem.ca), ("cert.pem", &pem.certificate), ("key.pem", &pem.key)]
    {
        std::fs::write(dir.join(name), text).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(
            dir.join(name),
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        )
        .unwrap();
    }
}

/// The party's features, in files.
pub(super) fn put_data(dir: &Path, dataset: &Dataset) {
    partition::partition(dataset, &split(dataset, 2, WIDTH), &dir.join("data"), 9).unwrap();
}

/// A config file without the place of the state.
pub(super) fn tables(dir: &Path, listen: SocketAddr, classes: usize) -> String {
    let (tls, data) =
        (|name: &str| dir.join(name), |end: &str| dir.join("data").join(format!("{NAME}{end}")));
    format!(
        "listen = \"{listen}\"\n[tls]\nca = {:?}\ncertificate = {:?}\nkey = {:?}\n[data]\nschema = {:?}\ncsv = {:?}\n\
         [release]\nto_active_party = \"true_parameters\"\n[audit]\nallowed = true\n[training]\nallowed = true\n\
         active_party = \"active\"\nmax_classes = {classes}\nmax_per_day = 1000\nmax_total = 1000\nstart = \"seed\"\n\
         mode = \"plain\"\nplain_consent = \"{PLAIN_CONSENT}\"\n",
        tls("ca.pem"),
        tls("cert.pem"),
        tls("key.pem"),
        data(".schema.toml"),
        data(".csv"),
    )
}

/// What the callers and the auditors got so far.
#[derive(Default)]
struct Told {
    stop: AtomicBool,
    answered: AtomicU64,
    /// Most calls of one request.
    most: AtomicU64,
    scored: AtomicU64,
    /// Scorings that may have been recorded, or not.
    unanswered: AtomicU64,
    refused: AtomicU64,
}

impl Told {
    /// Asks for the same scores again and again: every answer is the one it was before, to the bit, after at most so many calls.
    async fn call(
        self: Arc<Self>,
        mut client: ActivePartyClient<Channel>,
        ids: RecordIds,
        before: pb::ScoreResponse,
    ) {
        while !self.stop.load(Ordering::Relaxed) {
            let request = pb::ScoreRequest { ids: Some((&ids).into()), ..Default::default() };
            let mut calls = 0;
            let answer = loop {
                calls += 1;
                match client.predict(request.clone()).await {
                    Err(status)
                        if (broken(&status) || status.code() == Code::Unavailable)
                            && calls < 100 =>
                    {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    answer => break answer,
                }
            };
            assert_eq!(answer.unwrap().into_inner(), before);
            self.most.fetch_max(calls, Ordering::Relaxed);
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Has a process score the same estimates again and again.
    async fn audit(self: Arc<Self>, client: PassivePartyClient<Channel>, ids: RecordIds, rho: f64) {
        while !self.stop.load(Ordering::Relaxed) {
            let count = match scored(client.clone(), &ids, rho).await {
                Ok(()) => &self.scored,
                Err(status) if status.code() == Code::ResourceExhausted => &self.refused,
                Err(status) if broken(&status) || status.code() == Code::Unavailable => {
                    &self.unanswered
                }
                Err(status) => panic!("{status}"),
            };
            count.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// 16 callers ask for scores and 4 auditors for scorings while the processes are killed in turn. A caller sees a retry at most, and no
/// scoring is answered that is not recorded, or is beyond the budget. `CLOISON_REPLICAS_S` spreads the kills over so many seconds, one every
/// five; the database is then stopped hard between those of the second half (`CLOISON_POSTGRES_CRASH`).
#[tokio::test(flavor = "multi_thread")]
async fn callers_see_nothing_of_a_process_that_is_killed() {
    let seconds: Option<u64> =
        std::env::var("CLOISON_REPLICAS_S").ok().and_then(|s| s.parse().ok());
    let crash = std::env::var("CLOISON_POSTGRES_CRASH").ok().filter(|_| seconds.is_some());
    let addresses = [free_address(), free_address()];
    let Some(mut site) = site(&addresses).await else { return };
    put_tls(site.dir.path(), &site.deployment.pem(Role::PassiveParty, name().as_str()).unwrap());
    put_data(site.dir.path(), &site.dataset);
    let mut processes: Vec<Killed> = addresses
        .iter()
        .map(|&address| {
            let path = site.dir.path().join(format!("{}.toml", address.port()));
            let state = format!("[state]\nurl = {:?}\n", site.schema.url);
            let text = tables(site.dir.path(), address, site.dataset.class_names().len()) + &state;
            std::fs::write(&path, text).unwrap();
            Killed::start(path)
        })
        .collect();
    for address in addresses {
        site.up(address).await;
    }
    site.train().await;
    let (ids, scored_ids) = (test_ids(&site.dataset, 0, 60), test_ids(&site.dataset, 0, 100));
    // About as many scorings as the kills leave time for.
    let scorings = seconds.map_or(40, |seconds| 10 * seconds);
    let rho = RHO / scorings as f64;
    let before = score(&site.deployment, &ids).await.unwrap();
    let told = Arc::new(Told::default());
    let mut tasks: Vec<_> = (0..16)
        .map(|_| {
            tokio::spawn(told.clone().call(
                active_client(&site.deployment),
                ids.clone(),
                before.clone(),
            ))
        })
        .collect();
    tasks.extend((0..4).map(|number| {
        let client = site.client(addresses[number % 2], Role::Auditor);
        tokio::spawn(told.clone().audit(client, scored_ids.clone(), rho))
    }));
    let phases = if crash.is_some() { 2 } else { 1 };
    let kills = seconds.map_or(6, |seconds| (seconds / 5 / phases).max(1));
    let (began, mut all, mut stops, mut most, mut alone) = (Instant::now(), 0, 0, 0, None);
    for phase in 0..phases {
        for kill in 0..kills {
            let so_far = told.answered.load(Ordering::Relaxed);
            if let Some(crash) = crash.clone().filter(|_| phase == 1) {
                if alone.is_none() {
                    alone = Some(site.schema.alone().await);
                }
                let run =
                    move || Command::new("sh").args(["-c", &crash]).stdout(Stdio::null()).status();
                assert!(tokio::task::spawn_blocking(run).await.unwrap().unwrap().success());
                stops += 1;
            }
            let at = usize::try_from(kill % 2).unwrap();
            processes[at].kill();
            site.up(addresses[at]).await;
            all += 1;
            // There is load between two kills.
            while told.answered.load(Ordering::Relaxed) < so_far + 16
                && !tasks.iter().any(|task| task.is_finished())
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            if seconds.is_some() {
                tokio::time::sleep_until((began + Duration::from_secs(5 * all)).into()).await;
            }
        }
        if phase == 0 {
            most = told.most.load(Ordering::Relaxed);
        }
    }
    told.stop.store(true, Ordering::Relaxed);
    futures_util::future::try_join_all(tasks).await.unwrap();
    let spent = site.spent();
    let (recorded, scored) = (u64::from(spent.noised_answers), told.scored.load(Ordering::Relaxed));
    let unanswered = told.unanswered.load(Ordering::Relaxed);
    println!(
        "{all} kills and {stops} stops of the database in {:.0} s: {} answers, all alike; most calls of a request: {most} while the \
         database was there, {} in all\n{scored} scorings, {unanswered} calls without an answer, {} beyond the budget; recorded {recorded} of {scorings}",
        began.elapsed().as_secs_f64(),
        told.answered.load(Ordering::Relaxed),
        told.most.load(Ordering::Relaxed),
        told.refused.load(Ordering::Relaxed),
    );
    assert!(most <= 2, "{most} calls of a request: a killed process costs its callers a retry");
    assert!(
        (scored..=scored + unanswered).contains(&recorded),
        "every scoring that was answered is recorded"
    );
    assert!(recorded <= scorings && spent.rho_spent <= RHO * (1.0 + 1e-9), "{spent:?}");
    drop((alone, processes));
    site.end().await;
}

/// The database is stopped hard and started again while auditors ask: meanwhile UNAVAILABLE, then as before. What was answered is
/// recorded; what was not answered may be; nothing beyond the budget is.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_stopped_hard_loses_no_answer() {
    let Ok(crash) = std::env::var("CLOISON_POSTGRES_CRASH") else { return };
    let Some((mut site, processes)) = two(|_| ()).await else { return };
    let _alone = site.schema.alone().await;
    let (ids, rho) = (test_ids(&site.dataset, 0, 100), RHO / 400.0);
    let stop = Arc::new(AtomicBool::new(false));
    let (answered, unanswered) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let auditors: Vec<_> = (0..8)
        .map(|number| {
            let client = site.client(processes[number % 2].address, Role::Auditor);
            let (ids, stop) = (ids.clone(), stop.clone());
            let (answered, unanswered) = (answered.clone(), unanswered.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    match scored(client.clone(), &ids, rho).await {
                        Ok(()) => answered.fetch_add(1, Ordering::Relaxed),
                        Err(status) => {
                            assert_eq!(status.code(), Code::Unavailable, "{status}");
                            unanswered.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            })
        })
        .collect();
    let more_than = async |least: u64| {
        while answered.load(Ordering::Relaxed) < least
            && !auditors.iter().any(|auditor| auditor.is_finished())
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    more_than(20).await;
    let run = move || Command::new("sh").args(["-c", &crash]).stdout(Stdio::null()).status();
    assert!(tokio::task::spawn_blocking(run).await.unwrap().unwrap().success());
    let before = answered.load(Ordering::Relaxed);
    more_than(before + 20).await;
    stop.store(true, Ordering::Relaxed);
    futures_util::future::try_join_all(auditors).await.unwrap();
    let (answered, unanswered) =
        (answered.load(Ordering::Relaxed), unanswered.load(Ordering::Relaxed));
    let spent = site.spent();
    let recorded = u64::from(spent.noised_answers);
    println!("{answered} answers, {unanswered} calls without one, {recorded} recorded");
    assert!(unanswered > 0, "the database was away");
    assert!((answered..=answered + unanswered).contains(&recorded));
    assert!(
        spent.rho_spent <= RHO && (spent.rho_spent - rho * recorded as f64).abs() < 1e-9,
        "{spent:?}"
    );
    for process in processes {
        process.end().await;
    }
    site.end().await;
}
