//! Rows per second of the durable ledger: every figure includes the synchronisation of the disk. In SQLite, and, where
//! `CLOISON_POSTGRES_URL` names a server, in PostgreSQL: for one coordinator alone, one that would share the ledger, and two that
//! do.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use vfl_coordinator::ledger::{Budgets, Ledger, LedgerConfig, SpendRequest};
use vfl_core::types::{ModelVersion, PartyName, RecordIds};

/// Callers at once.
const CALLERS: u64 = 8;

/// `rows` records from number `first` on, with a share each.
fn spend(first: u64, rows: u64) -> SpendRequest {
    SpendRequest {
        party: PartyName::new("active").expect("a name"),
        model: ModelVersion::new("m-1").expect("a version"),
        passive: "p-1".into(),
        policy: "rounding(2)".into(),
        bits: None,
        request_id: None,
        body_hash: [0; 32],
        // Scattered over the table, as keys of customers are.
        ids: RecordIds::new(
            (first..first + rows)
                .map(|i| format!("{:016x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        )
        .expect("distinct ids"),
        share_hashes: vec![[7; 16]; rows as usize],
        at: SystemTime::now(),
        uptime: Duration::ZERO,
    }
}

/// Spends `times` rounds of one request per caller and gives the time from the first to the last commit.
async fn rounds(ledger: &Arc<Ledger>, times: u64, rows: u64, first: impl Fn() -> u64) -> Duration {
    let mut taken = Duration::ZERO;
    for _ in 0..times {
        let spends: Vec<SpendRequest> = (0..CALLERS).map(|_| spend(first(), rows)).collect();
        let start = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for spend in spends {
            let ledger = ledger.clone();
            tasks.spawn(async move { black_box(ledger.spend(spend).await.expect("granted")) });
        }
        tasks.join_all().await;
        taken += start.elapsed();
    }
    taken
}

fn ledger(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut group = c.benchmark_group("ledger/sqlite");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for rows in [16_384, 1] {
        let dir = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite:{}", dir.path().join("ledger.db").display());
        let state_dir = Some(dir.path().to_owned());
        let config =
            LedgerConfig { budgets: Budgets::UNLIMITED, state_dir, ..LedgerConfig::new(url) };
        let ledger = Arc::new(runtime.block_on(Ledger::open(&config, "bench")).expect("a ledger"));
        let next = AtomicU64::new(0);
        group.throughput(Throughput::Elements(CALLERS * rows));
        group.bench_function(format!("new records, {rows} rows, {CALLERS} callers"), |b| {
            b.iter_custom(|times| {
                runtime.block_on(rounds(&ledger, times, rows, || {
                    next.fetch_add(rows, Ordering::Relaxed)
                }))
            });
        });
        let known = next.load(Ordering::Relaxed).max(CALLERS * rows);
        let again = AtomicU64::new(0);
        group.bench_function(format!("known records, {rows} rows, {CALLERS} callers"), |b| {
            b.iter_custom(|times| {
                let first = || again.fetch_add(rows, Ordering::Relaxed) % known;
                runtime.block_on(rounds(&ledger, times, rows, first))
            });
        });
        runtime.block_on(Arc::into_inner(ledger).expect("the last owner").close());
    }
    group.finish();
}

/// `coordinators` on one ledger, with as many callers in all as there are in the other groups.
async fn opened(config: &LedgerConfig, coordinators: usize) -> Vec<Arc<Ledger>> {
    let mut ledgers = Vec::new();
    for _ in 0..coordinators {
        ledgers.push(Arc::new(Ledger::open(config, "bench").await.expect("a ledger")));
    }
    ledgers
}

fn postgres(c: &mut Criterion) {
    let Ok(server) = std::env::var("CLOISON_POSTGRES_URL") else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for (name, shared, coordinators) in
        [("alone", false, 1), ("shared, one", true, 1), ("shared, two", true, 2)]
    {
        let mut group = c.benchmark_group(format!("ledger/postgres/{name}"));
        group.sample_size(10).sampling_mode(SamplingMode::Flat);
        let config =
            LedgerConfig { budgets: Budgets::UNLIMITED, shared, ..LedgerConfig::new(&server) };
        let ledgers = runtime.block_on(opened(&config, coordinators));
        // Of no other group: the tables stay.
        let next = AtomicU64::new(rand::random_range(0..u64::MAX / 2));
        for (rows, callers) in [(16_384, CALLERS), (1, 64)] {
            group.throughput(Throughput::Elements(callers * rows));
            group.bench_function(format!("new records, {rows} rows, {callers} callers"), |b| {
                b.iter_custom(|times| {
                    runtime.block_on(async {
                        let mut taken = Duration::ZERO;
                        for _ in 0..times {
                            let spends: Vec<SpendRequest> = (0..callers)
                                .map(|_| spend(next.fetch_add(rows, Ordering::Relaxed), rows))
                                .collect();
                            let start = Instant::now();
                            let mut tasks = tokio::task::JoinSet::new();
                            for (spend, ledger) in spends.into_iter().zip(ledgers.iter().cycle()) {
                                let ledger = ledger.clone();
                                tasks.spawn(async move {
                                    black_box(ledger.spend(spend).await.expect("granted"))
                                });
                            }
                            tasks.join_all().await;
                            taken += start.elapsed();
                        }
                        taken
                    })
                });
            });
        }
        for ledger in ledgers {
            runtime.block_on(Arc::into_inner(ledger).expect("the last owner").close());
        }
        group.finish();
    }
}

criterion_group!(benches, ledger, postgres);
criterion_main!(benches);
