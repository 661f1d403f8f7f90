//! Random histories against a model of the ledger that a reader can check line by line.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use vfl_coordinator::ledger::{
    self, Budgets, JournalLimits, Ledger, LedgerConfig, LedgerError, RowVerdict, SpendRequest,
};
use vfl_core::types::ModelVersion;

use crate::site::{FINGERPRINT, Site, at, later, model, party, request};

#[derive(Debug, Clone)]
struct Ask {
    party: usize,
    /// Version 0 and 1 have the same passive parameters, 2 and 3 their own.
    model: usize,
    policy: usize,
    records: BTreeSet<usize>,
    share: Option<u8>,
    request_id: Option<usize>,
    wait: u64,
}

#[derive(Debug, Clone)]
enum Step {
    /// Requests that are on their way together, through one of the coordinators.
    Ask(usize, Vec<Ask>),
    Restart(usize),
    Erase(usize),
    Retain,
    Approve(usize),
}

fn passive_of(model: usize) -> usize {
    model.max(1)
}

/// The bits of an answer; of one kind of answers no bound is known.
fn bits_of(passive: usize, policy: usize) -> Option<f64> {
    match (passive, policy) {
        (3, 1) => None,
        (_, 0) => Some(0.1 * passive as f64),
        _ => Some(1.25),
    }
}

struct Naive {
    budgets: Budgets,
    /// Rows granted, by party, record, version and policy.
    uses: BTreeMap<(usize, usize, usize, usize), u64>,
    /// By party, record and passive parameters.
    bound: BTreeMap<(usize, usize, usize), u8>,
    /// Rows asked and rows refused, by party.
    totals: BTreeMap<usize, (u64, u64)>,
    approved: BTreeSet<usize>,
    requests: BTreeMap<(usize, usize), (SpendRequest, Vec<RowVerdict>, u64)>,
    /// Sixtieths of a row that are left, and since when.
    tokens: BTreeMap<usize, (u64, u64)>,
}

impl Naive {
    fn new(budgets: Budgets) -> Self {
        let (uses, bound, requests, tokens) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            budgets,
            uses,
            bound,
            totals: BTreeMap::new(),
            approved: BTreeSet::new(),
            requests,
            tokens,
        }
    }

    fn spend(
        &mut self,
        ask: &Ask,
        spend: &SpendRequest,
        now: u64,
    ) -> Result<Vec<RowVerdict>, LedgerError> {
        if let Some(id) = ask.request_id
            && let Some((before, verdicts, _)) = self.requests.get(&(ask.party, id))
        {
            let same = before.body_hash == spend.body_hash;
            return if same { Ok(verdicts.clone()) } else { Err(LedgerError::RequestIdReused) };
        }
        let seen: BTreeSet<usize> =
            self.uses.keys().filter(|k| k.0 == ask.party).map(|k| k.1).collect();
        let new = ask.records.difference(&seen).count() as u64;
        if let Some(limit) = self.budgets.records
            && seen.len() as u64 + new > limit
        {
            return Err(LedgerError::TotalBudget {
                left: limit.saturating_sub(seen.len() as u64),
                asked: new,
            });
        }
        if let Some(rate) = self.budgets.rows_per_minute {
            let (tokens, then) = self.tokens.get(&ask.party).copied().unwrap_or((rate * 60, now));
            let tokens = (tokens + (now - then) * rate).min(rate * 60);
            let rows = ask.records.len() as u64;
            if rows * 60 > tokens {
                return Err(LedgerError::Rate { rows_per_minute: rate, rows, retry_after: None });
            }
            self.tokens.insert(ask.party, (tokens - rows * 60, now));
        }
        let mut verdicts = Vec::new();
        for &record in &ask.records {
            let asked = |k: &(usize, usize, usize, usize)| (k.0, k.1) == (ask.party, record);
            let before: u64 = self.uses.iter().filter(|(k, _)| asked(k)).map(|(_, n)| n).sum();
            let passive = passive_of(ask.model);
            let models = self.uses.keys().filter(|k| asked(k)).map(|k| passive_of(k.2));
            let models: BTreeSet<usize> = models.collect();
            let further = !models.contains(&passive) && !self.approved.contains(&passive);
            let bound = self.bound.get(&(ask.party, record, passive)).copied();
            let verdict = if self.budgets.queries_per_record.is_some_and(|limit| before >= limit) {
                RowVerdict::RecordBudget
            } else if ask.share.is_some() && bound.is_some() && bound != ask.share {
                RowVerdict::ShareChanged
            } else if further
                && self.budgets.models_per_record.is_some_and(|limit| models.len() as u64 >= limit)
            {
                RowVerdict::ModelBudget
            } else if self.tells_too_much(ask, record) {
                RowVerdict::BitsBudget
            } else {
                if let (Some(share), None) = (ask.share, bound) {
                    self.bound.insert((ask.party, record, passive), share);
                }
                *self.uses.entry((ask.party, record, ask.model, ask.policy)).or_default() += 1;
                RowVerdict::Granted
            };
            let (rows, refused) = self.totals.entry(ask.party).or_default();
            *rows += 1;
            *refused += u64::from(verdict != RowVerdict::Granted);
            verdicts.push(verdict);
        }
        if let Some(id) = ask.request_id {
            self.requests.insert((ask.party, id), (spend.clone(), verdicts.clone(), now));
        }
        Ok(verdicts)
    }

    fn tells_too_much(&self, ask: &Ask, record: usize) -> bool {
        let Some(most) = self.budgets.bits_per_record else { return false };
        let before = self
            .uses
            .keys()
            .filter(|k| (k.0, k.1) == (ask.party, record))
            .map(|k| (passive_of(k.2), k.3));
        let mut answers: BTreeSet<(usize, usize)> = before.collect();
        let new = answers.insert((passive_of(ask.model), ask.policy));
        let told = answers
            .iter()
            .map(|(passive, policy)| bits_of(*passive, *policy).unwrap_or(f64::INFINITY));
        new && told.sum::<f64>() > most + 1e-9
    }
}

fn spend_of(ask: &Ask, now: u64) -> SpendRequest {
    let mut spend = request(ask.records.iter().map(|r| format!("record-{r}")));
    spend = party(model(spend, &format!("m-{}", ask.model)), &format!("party-{}", ask.party));
    spend.passive = format!("passive-{}", passive_of(ask.model));
    spend.policy = format!("policy-{}", ask.policy);
    spend.bits = bits_of(passive_of(ask.model), ask.policy);
    spend.share_hashes = ask.share.iter().flat_map(|&s| vec![[s; 16]; ask.records.len()]).collect();
    spend.request_id = ask.request_id.map(|i| format!("request-{i}"));
    spend = later(spend, now);
    let body = format!("{:?}", (ask.model, ask.policy, &ask.records, ask.share));
    for (i, byte) in body.bytes().enumerate() {
        let place = &mut spend.body_hash[i % 32];
        *place = place.wrapping_mul(31).wrapping_add(byte);
    }
    spend
}

fn steps() -> impl Strategy<Value = (Budgets, Vec<Step>)> {
    let ask = (
        0usize..2,
        0usize..4,
        0usize..2,
        proptest::collection::btree_set(0usize..6, 1..5),
        proptest::option::of(0u8..2),
        proptest::option::weighted(0.4, 0usize..4),
        0u64..12,
    )
        .prop_map(|(party, model, policy, records, share, request_id, wait)| Ask {
            party,
            model,
            policy,
            records,
            share,
            request_id,
            wait,
        });
    let step = prop_oneof![
        12 => (0usize..2, proptest::collection::vec(ask, 1..4)).prop_map(|(way, asks)| Step::Ask(way, asks)),
        1 => (0usize..2).prop_map(Step::Restart),
        1 => (0usize..6).prop_map(Step::Erase),
        1 => Just(Step::Retain),
        1 => (0usize..4).prop_map(Step::Approve),
    ];
    let limit = proptest::option::of;
    let budgets = (
        limit(3u64..7),
        limit(1u64..6),
        limit(0u64..3),
        limit(5u64..30),
        proptest::option::of(0.05..3.0),
    );
    let budgets = budgets.prop_map(|limits| {
        let (records, queries_per_record, models_per_record, rows_per_minute, bits_per_record) =
            limits;
        Budgets { records, queries_per_record, models_per_record, bits_per_record, rows_per_minute }
    });
    (budgets, proptest::collection::vec(step, 1..25))
}

/// Through `writers` coordinators, each with a state directory of its own.
async fn replay(
    site: &Site,
    budgets: Budgets,
    steps: &[Step],
    writers: usize,
    journal: JournalLimits,
) {
    let mut naive = Naive::new(budgets);
    let states: Vec<_> = (0..writers).map(|_| tempfile::tempdir().unwrap()).collect();
    let open = async |at: usize| {
        let config = LedgerConfig {
            budgets,
            shared: writers > 1,
            journal,
            ..site.remembered(states[at].path())
        };
        Some(Ledger::open(&config, FINGERPRINT).await.unwrap())
    };
    let mut ledgers = Vec::new();
    for at in 0..writers {
        ledgers.push(open(at).await);
    }
    let mut now = 0;
    let mut erased = BTreeSet::new();
    for step in steps {
        match step {
            Step::Ask(way, asks) => {
                let ledger = ledgers[way % writers].as_ref().unwrap();
                let mut expected = Vec::new();
                let mut spends = Vec::new();
                for ask in asks {
                    now += ask.wait;
                    let spend = spend_of(ask, now);
                    expected.push(naive.spend(ask, &spend, now));
                    spends.push(spend);
                }
                // In the order in which they were made: each is sent when it is first polled.
                let got =
                    futures_util::future::join_all(spends.into_iter().map(|s| ledger.spend(s)))
                        .await;
                for (got, expected) in got.into_iter().zip(expected) {
                    match (&got, &expected) {
                        (Err(LedgerError::Rate { .. }), Err(LedgerError::Rate { .. })) => {}
                        _ => assert_eq!(got, expected),
                    }
                }
            }
            Step::Restart(at) => {
                ledgers[at % writers].take().unwrap().close().await;
                ledgers[at % writers] = open(at % writers).await;
                naive.tokens.clear();
            }
            Step::Erase(record) => {
                ledger::erase(&site.url, &format!("record-{record}"), at(now)).await.unwrap();
                if naive.uses.keys().any(|k| k.1 == *record) {
                    erased.insert(*record);
                }
            }
            Step::Retain => {
                ledger::retain(&site.url, 0, false, at(now)).await.unwrap();
                naive.requests.retain(|_, (_, _, at)| *at >= now);
            }
            Step::Approve(model) => {
                let version = ModelVersion::new(format!("m-{model}")).unwrap();
                let passive = passive_of(*model);
                let new =
                    ledger::approve(&site.url, &version, &format!("passive-{passive}"), at(now))
                        .await
                        .unwrap();
                assert_eq!(new, naive.approved.insert(passive));
            }
        }
    }
    for ledger in ledgers.into_iter().flatten() {
        ledger.close().await;
    }
    let rows = site
        .sql(
            "SELECT p.name, u.record, m.name, y.name, u.queries FROM uses u JOIN parties p ON p.id = u.party \
              JOIN models m ON m.id = u.model JOIN policies y ON y.id = u.policy",
        )
        .await;
    let (hidden, open): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|row| row[1].starts_with("erased:"));
    let open: BTreeSet<String> = open.into_iter().map(|row| row.join(" ")).collect();
    let (expected_hidden, expected): (Vec<_>, Vec<_>) =
        naive.uses.iter().partition(|(k, _)| erased.contains(&k.1));
    let line = |(k, n): (&(usize, usize, usize, usize), &u64)| {
        format!("party-{} record-{} m-{} policy-{} {n}", k.0, k.1, k.2, k.3)
    };
    assert_eq!(open, expected.into_iter().map(line).collect());
    let mut hidden: Vec<u64> = hidden.iter().map(|row| row[4].parse().unwrap()).collect();
    let mut expected_hidden: Vec<u64> = expected_hidden.into_iter().map(|(_, &n)| n).collect();
    hidden.sort_unstable();
    expected_hidden.sort_unstable();
    assert_eq!(hidden, expected_hidden);
    assert_eq!(site.number("SELECT count(share) FROM uses").await, naive.bound.len() as i64);
    let sums = "SELECT p.name, CAST(sum(t.queries) AS BIGINT), CAST(sum(t.refused) AS BIGINT) FROM totals t \
        JOIN parties p ON p.id = t.party GROUP BY p.name ORDER BY p.name";
    let totals =
        naive.totals.iter().map(|(p, (rows, refused))| format!("party-{p} {rows} {refused}"));
    assert_eq!(
        site.sql(sums).await.iter().map(|row| row.join(" ")).collect::<Vec<_>>(),
        totals.collect::<Vec<_>>()
    );
    let distinct = "SELECT count(*) FROM (SELECT DISTINCT party, record FROM uses) d";
    let counted = "SELECT CAST(coalesce(sum(records), 0) AS BIGINT) FROM parties";
    assert_eq!(site.number(distinct).await, site.number(counted).await);
}

/// Of several writers, without a rate: theirs goes by the clock of the database, see `shared`.
fn random_histories(cases: u32, postgres: bool, writers: usize, journal: JournalLimits) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let run = TestRunner::new(config).run(&steps(), |(mut budgets, steps)| {
        if writers > 1 {
            budgets.rows_per_minute = None;
        }
        runtime.block_on(async {
            if postgres {
                if let Some(site) = Site::postgres().await {
                    replay(&site, budgets, &steps, writers, journal).await;
                    site.remove().await;
                }
            } else {
                replay(&Site::sqlite(), budgets, &steps, writers, journal).await;
            }
        });
        Ok(())
    });
    run.unwrap();
}

#[test]
fn sqlite_agrees_with_the_naive_model() {
    random_histories(128, false, 1, JournalLimits::default());
}

/// Groups of four rows and more go by the journal, which is added to the tables after a few of them.
#[test]
fn the_journal_agrees_with_the_naive_model() {
    let idle = Duration::from_secs(3600);
    for (records, bytes) in [(4, 1 << 20), (1000, 150), (1000, 1 << 20)] {
        random_histories(64, false, 1, JournalLimits { rows: 4, records, bytes, idle });
    }
}

#[test]
fn postgres_agrees_with_the_naive_model() {
    random_histories(16, true, 1, JournalLimits::default());
}

#[test]
fn two_coordinators_on_one_ledger_agree_with_the_naive_model() {
    random_histories(16, true, 2, JournalLimits::default());
}
