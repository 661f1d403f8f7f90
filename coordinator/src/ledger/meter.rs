//! Measurements of the ledger: commits and budgets. They count records and rows, and never name
//! them.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use vfl_server::monitoring::LATENCY_BUCKETS;

use super::{Budgets, LedgerError, RowVerdict};

/// The names of the budgets, as in the config file.
const RECORDS: &str = "records";
const QUERIES_PER_RECORD: &str = "queries_per_record";
const MODELS_PER_RECORD: &str = "models_per_record";
const BITS_PER_RECORD: &str = "bits_per_record";
const ROWS_PER_MINUTE: &str = "rows_per_minute";

/// Upper ends of the histogram buckets for sizes of a commit, up to the largest group.
const SIZE_BUCKETS: [f64; 10] =
    [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0];

type ByParty = Family<[(&'static str, String); 1], Gauge>;

/// The measurements of one ledger. Clones share them; the default belongs to no registry.
#[derive(Debug, Clone)]
pub struct LedgerMeter {
    seconds: Histogram,
    requests: Histogram,
    rows: Histogram,
    failed: Counter,
    refused: Family<[(&'static str, &'static str); 1], Counter>,
    exhausted: Counter,
    spent: ByParty,
    left: ByParty,
}

impl Default for LedgerMeter {
    fn default() -> Self {
        let meter = Self {
            seconds: Histogram::new(LATENCY_BUCKETS),
            requests: Histogram::new(SIZE_BUCKETS),
            rows: Histogram::new(SIZE_BUCKETS),
            failed: Counter::default(),
            refused: Family::default(),
            exhausted: Counter::default(),
            spent: ByParty::default(),
            left: ByParty::default(),
        };
        // Counters start at zero, so that the first refusal shows as a rise.
        for budget in
            [RECORDS, QUERIES_PER_RECORD, MODELS_PER_RECORD, BITS_PER_RECORD, ROWS_PER_MINUTE]
        {
            drop(meter.refused.get_or_create(&[("budget", budget)]));
        }
        meter
    }
}

/// The spent part of one active party's budgets after a committed group.
pub(super) struct SpentBudget {
    pub(super) party: String,
    /// Distinct records asked for, in all.
    pub(super) records: u64,
    /// Records whose last query this group has spent.
    pub(super) exhausted: u64,
}

impl LedgerMeter {
    /// Registers all measurements.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Time of a commit of the ledger, which answers wait for";
        registry.register_with_unit("ledger_commit", help, Unit::Seconds, self.seconds.clone());
        registry.register(
            "ledger_commit_requests",
            "Requests of one commit of the ledger",
            self.requests.clone(),
        );
        registry.register(
            "ledger_commit_rows",
            "Rows of one commit of the ledger",
            self.rows.clone(),
        );
        let help = "Commits of the ledger that failed: nothing was released";
        registry.register("ledger_failed_commits", help, self.failed.clone());
        let help =
            "Rows refused because a budget was spent, by the budget's key in the config file";
        registry.register("budget_refused_rows", help, self.refused.clone());
        let help = "Records whose last query under queries_per_record was spent since this process started";
        registry.register("budget_exhausted_records", help, self.exhausted.clone());
        let help =
            "Distinct records that an active party has asked for, as of the last commit here";
        registry.register("budget_records_spent", help, self.spent.clone());
        let help = "Further records that an active party may ask for, as of the last commit here; absent if unlimited";
        registry.register("budget_records_left", help, self.left.clone());
    }

    /// Records the commit of a group of requests, or its failure.
    pub(super) fn committed(&self, requests: usize, rows: usize, took: Duration, failed: bool) {
        if failed {
            self.failed.inc();
            return;
        }
        self.seconds.observe(took.as_secs_f64());
        self.requests.observe(requests as f64);
        self.rows.observe(rows as f64);
    }

    /// Records how far an active party's budgets are spent.
    pub(super) fn spent(&self, spent: SpentBudget, budgets: &Budgets) {
        let SpentBudget { party, records, exhausted } = spent;
        self.exhausted.inc_by(exhausted);
        let party = [("active_party", party)];
        let gauge = |records: u64| i64::try_from(records).unwrap_or(i64::MAX);
        self.spent.get_or_create(&party).set(gauge(records));
        if let Some(limit) = budgets.records {
            self.left.get_or_create(&party).set(gauge(limit.saturating_sub(records)));
        }
    }

    /// Counts the refusals in the answer to a request of so many rows.
    pub fn decided(&self, rows: usize, answer: &Result<Vec<RowVerdict>, LedgerError>) {
        let refused = |budget, rows: usize| {
            self.refused.get_or_create(&[("budget", budget)]).inc_by(rows as u64);
        };
        match answer {
            Ok(verdicts) => {
                let count = |verdict| verdicts.iter().filter(|&&v| v == verdict).count();
                refused(QUERIES_PER_RECORD, count(RowVerdict::RecordBudget));
                refused(MODELS_PER_RECORD, count(RowVerdict::ModelBudget));
                refused(BITS_PER_RECORD, count(RowVerdict::BitsBudget));
            }
            Err(LedgerError::TotalBudget { .. }) => refused(RECORDS, rows),
            Err(LedgerError::Rate { .. }) => refused(ROWS_PER_MINUTE, rows),
            Err(_) => {}
        }
    }
}
