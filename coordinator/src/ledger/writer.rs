//! The one writer of the ledger, which commits requests together that wait together.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use vfl_core::clock::seconds;

use super::begin::{self, MARK, OpenedLedger};
use super::chain::{Chain, RowCounts, Sums};
use super::connection::{Arg, DatabaseLocation};
use super::decide::{PartyState, ResolvedRequest};
use super::error::contradiction;
use super::journal::JournalLimits;
use super::mark::{self, MarkFile};
use super::meter::{LedgerMeter, SpentBudget};
use super::rate::Bucket;
use super::request::{RowVerdict, SpendRequest};
use super::signer::Signer;
use super::state::LedgerState;
use super::{Budgets, LedgerConfig, LedgerError};
use crate::share::ShareHashKind;

/// Approximate rows of one commit, at which a group is closed. The more rows, the more of them
/// share a page that is written.
const GROUP_ROWS: usize = 262_144;
/// Most requests of one commit.
const GROUP_REQUESTS: usize = 1024;
/// Seconds by which a clock may be set back without a request being dated before earlier ones: its
/// id would be forgotten when the clock is right again. A request newer than that was dated by a
/// clock that was wrong.
const SET_BACK_S: i64 = 30 * 86_400;
/// Interval at which expired request ids are deleted, in seconds of the requests' clock.
const PURGE_EVERY_S: i64 = 60;
/// Approximate bytes of remembered requests above which the older half of them is forgotten before
/// its time.
const REMEMBERED_BYTES: i64 = 256 << 20;

/// The answer that a caller waits for.
pub(super) type Answer = Result<Vec<RowVerdict>, LedgerError>;

/// A request on its way to the writer.
pub(super) struct QueuedRequest {
    pub(super) spend: SpendRequest,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// The writer's state between two commits. Parties, models and policies are few.
struct Writer {
    place: DatabaseLocation,
    budgets: Budgets,
    memory: Duration,
    fingerprint: String,
    /// `None` after a failure: the next group connects anew.
    open: Option<LedgerState>,
    buckets: HashMap<String, Bucket>,
    purged_at: i64,
    /// The date of the newest request, in Unix seconds.
    newest: i64,
    marker: MarkFile,
    signer: Signer,
    /// The terms that other writers of the ledger must agree on; `None` if there is no other.
    terms: Option<String>,
    /// The number of changes of the registry, as the last transaction saw it.
    registry: Arc<AtomicU64>,
    /// SQLite's lock file; held for as long as the writer lives.
    _lock: Option<File>,
    share_hash: ShareHashKind,
    journal: JournalLimits,
    meter: LedgerMeter,
}

/// Starts the writer on a thread of its own: it decides tens of thousands of rows at a time, which
/// would stall a runtime that serves requests. Returns once the ledger is open, with the kind of
/// its share hashes; the receiver hears when the writer has ended.
pub(super) async fn start(
    place: DatabaseLocation,
    config: &LedgerConfig,
    fingerprint: String,
    registry: Arc<AtomicU64>,
    waiting: mpsc::Receiver<QueuedRequest>,
) -> Result<(ShareHashKind, oneshot::Receiver<()>), LedgerError> {
    let config = config.clone();
    let (opened, opening) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let failed =
        |e: std::io::Error| LedgerError::Storage(format!("cannot start the ledger's writer: {e}"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let work = move || {
        runtime.block_on(async move {
            match Writer::open(place, &config, fingerprint, registry).await {
                Ok(writer) => {
                    // A caller that has gone away drops its end of the channel, which ends the
                    // writer.
                    let _ = opened.send(Ok(writer.share_hash));
                    writer.run(waiting).await;
                }
                Err(error) => drop(opened.send(Err(error))),
            }
        });
        drop(runtime);
        let _ = end.send(());
    };
    std::thread::Builder::new().name("ledger".into()).spawn(work).map_err(failed)?;
    let share_hash = opening
        .await
        .map_err(|_| LedgerError::Storage("the ledger's writer did not start".into()))??;
    Ok((share_hash, ended))
}

impl Writer {
    async fn open(
        place: DatabaseLocation,
        config: &LedgerConfig,
        fingerprint: String,
        registry: Arc<AtomicU64>,
    ) -> Result<Self, LedgerError> {
        let signer = Signer::open(config.state_dir.as_deref())?;
        let begun = begin::begin(&place, config, &fingerprint, signer.clone()).await?;
        let OpenedLedger { connection, marker, lock, share_hash, chain } = begun;
        let mut open =
            LedgerState::new(connection, marker.reached(), chain, config.journal).await?;
        for (party, records) in
            open.connection.rows::<(String, i64)>("SELECT name, records FROM parties", &[]).await?
        {
            let records = u64::try_from(records).map_err(|_| contradiction())?;
            config.meter.spent(SpentBudget { party, records, exhausted: 0 }, &config.budgets);
        }
        let newest = open
            .connection
            .row::<(i64,)>("SELECT coalesce(max(last_at), 0) FROM totals", &[])
            .await?;
        let newest = newest.map_or(0, |(newest,)| newest);
        let open = Some(open);
        let (budgets, memory, buckets, purged_at) =
            (config.budgets, config.request_memory, HashMap::new(), 0);
        let terms = config.shared.then(|| begin::written(&config.terms())).transpose()?;
        Ok(Self {
            place,
            budgets,
            memory,
            fingerprint,
            open,
            buckets,
            purged_at,
            newest,
            marker,
            signer,
            terms,
            registry,
            _lock: lock,
            share_hash,
            journal: config.journal,
            meter: config.meter.clone(),
        })
    }

    /// Returns the next request; `None` when every sender is gone. When there is nothing to do,
    /// adds the journal to the tables and writes the mark.
    async fn next(&mut self, waiting: &mut mpsc::Receiver<QueuedRequest>) -> Option<QueuedRequest> {
        if self.open.as_ref().is_some_and(|open| !open.journal.is_empty()) {
            match tokio::time::timeout(self.journal.idle, waiting.recv()).await {
                Ok(next) => return next,
                Err(_) => self.settle().await,
            }
        }
        if self.marker.behind() {
            match tokio::time::timeout(mark::EVERY, waiting.recv()).await {
                Ok(next) => return next,
                Err(_) => self.marker.flush(),
            }
        }
        waiting.recv().await
    }

    /// Runs until every sender is gone.
    async fn run(mut self, mut waiting: mpsc::Receiver<QueuedRequest>) {
        while let Some(first) = self.next(&mut waiting).await {
            let mut rows = first.spend.ids.len();
            let mut group = vec![first];
            while rows < GROUP_ROWS
                && group.len() < GROUP_REQUESTS
                && let Ok(next) = waiting.try_recv()
            {
                rows += next.spend.ids.len();
                group.push(next);
            }
            let (spends, answers): (Vec<SpendRequest>, Vec<_>) =
                group.into_iter().map(|w| (w.spend, w.answer)).unzip();
            let began = Instant::now();
            let committed = self.commit(&spends).await;
            self.meter.committed(spends.len(), rows, began.elapsed(), committed.is_err());
            match committed {
                // The request of a caller that no longer waits is recorded, and the caller gets
                // nothing.
                Ok(decided) => {
                    answers.into_iter().zip(decided).for_each(|(to, answer)| drop(to.send(answer)))
                }
                Err(error) => {
                    tracing::error!(%error, requests = spends.len(), "a ledger commit failed; nothing was granted");
                    if let Some(open) = self.open.take() {
                        open.connection.close().await;
                    }
                    answers.into_iter().for_each(|to| drop(to.send(Err(error.clone()))));
                }
            }
        }
        self.settle().await;
        self.marker.flush();
        if let Some(open) = self.open.take() {
            open.connection.close().await;
        }
    }

    /// Adds the journal to the tables. After a failure this is done when the ledger is opened next.
    async fn settle(&mut self) {
        let Some(open) = self.open.as_mut().filter(|open| !open.journal.is_empty()) else { return };
        let settled = async {
            open.connection.begin().await?;
            open.settle().await?;
            open.connection.commit().await
        };
        let settled: Result<(), LedgerError> = settled.await;
        if let Err(error) = settled {
            tracing::error!(%error, "the ledger's journal was not added to its tables; it is tried again");
            if let Some(open) = self.open.take() {
                open.connection.close().await;
            }
        }
    }

    /// Decides a group and makes it durable.
    async fn commit(&mut self, spends: &[SpendRequest]) -> Result<Vec<Answer>, LedgerError> {
        let mut begun = false;
        if let Some(open) = &mut self.open {
            match open.connection.begin().await {
                Ok(()) => begun = true,
                Err(error) if self.terms.is_none() => return Err(error),
                // The connection was lost while nobody asked, as when the database was started
                // again. Nothing was begun, so nothing is lost.
                Err(_) => self.open = None,
            }
        }
        if self.open.is_none() {
            let shared = self.terms.is_some();
            let (mut connection, mark) =
                begin::resume(&self.place, &self.marker, &self.fingerprint, shared).await?;
            let chain = Chain::read(&mut connection, self.signer.clone()).await?;
            self.open = Some(LedgerState::new(connection, mark, chain, self.journal).await?);
        }
        let Some(open) = &mut self.open else { return Err(LedgerError::Missing) };
        if !begun {
            open.connection.begin().await?;
        }
        let registry = match &self.terms {
            None => open.refresh().await?,
            Some(terms) => open.follow(terms).await?,
        };
        open.chain.follow(&mut open.connection).await?;
        let (newest, mut dates) = (self.newest, 0);
        let mut asked = Vec::with_capacity(spends.len());
        for spend in spends {
            let at = seconds(spend.at);
            let dated =
                if (0..SET_BACK_S).contains(&newest.saturating_sub(at)) { newest } else { at };
            dates = dated.max(dates);
            let (model, passive) =
                open.models.intern(&mut open.connection, &spend.model, &spend.passive).await?;
            let approved = open.models.approved(&spend.passive);
            let policy = open.policy(&spend.policy).await?;
            open.bits.note(&mut open.connection, (passive, policy), spend.bits).await?;
            let (records, clock) =
                (open.erased.names(&spend.ids), open.clock.unwrap_or(spend.uptime));
            asked.push(ResolvedRequest {
                spend,
                records,
                model,
                passive,
                approved,
                policy,
                clock,
                dated,
            });
        }
        let mut by_party: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (position, asked) in asked.iter().enumerate() {
            by_party.entry(asked.spend.party.as_str()).or_default().push(position);
        }
        let rows = spends.iter().map(|spend| spend.ids.len()).sum();
        // Where others write too, they read the tables, which must then be complete.
        let journaled =
            self.terms.is_none() && open.connection.is_embedded() && open.journal.takes(rows);
        let mut answers: Vec<Option<Answer>> = spends.iter().map(|_| None).collect();
        let (mut buckets, mut spent) = (Vec::new(), Vec::new());
        let (mut changed, mark, mut added) = (false, open.mark + 1, Sums::default());
        for (party, positions) in by_party {
            let asked: Vec<&ResolvedRequest<'_>> = positions.iter().map(|&p| &asked[p]).collect();
            let bucket = self.budgets.rows_per_minute.zip(asked.first());
            let bucket = bucket.map(|(rate, first)| {
                self.buckets.get(party).copied().unwrap_or_else(|| Bucket::full(rate, first.clock))
            });
            let (id, mut state) = open.read(party, &asked, bucket).await?;
            if let (Some(full), Some(_)) = (bucket, open.clock) {
                state.bucket = Some(open.bucket(id, full).await?);
            }
            for (request, (&position, asked)) in positions.iter().zip(&asked).enumerate() {
                answers[position] =
                    Some(state.decide(request, asked, (&self.budgets, &open.bits), self.memory));
            }
            open.write(id, &mut state, journaled).await?;
            add(&mut added, party, &asked, &state);
            changed |= state.changed();
            spent.push(SpentBudget {
                party: party.to_owned(),
                records: state.count(),
                exhausted: state.exhausted,
            });
            match (state.bucket, open.clock) {
                (Some(bucket), Some(_)) if state.changed() => open.write_bucket(id, bucket).await?,
                (Some(bucket), None) => buckets.push((party.to_owned(), bucket)),
                _ => {}
            }
            open.keep(id, state.records);
        }
        open.journal.write(&mut open.connection).await?;
        let now = spends.iter().map(|s| seconds(s.at)).max().unwrap_or_default();
        if now.saturating_sub(self.purged_at) >= PURGE_EVERY_S {
            let memory = i64::try_from(self.memory.as_secs()).unwrap_or(i64::MAX);
            let old = [Arg::Int(now.saturating_sub(memory))];
            open.connection.execute("DELETE FROM requests WHERE at < $1", &old).await?;
            open.count_remembered().await?;
            self.purged_at = now;
        }
        if open.remembered > REMEMBERED_BYTES {
            open.forget_half().await?;
        }
        // A group that was refused as a whole writes nothing, and need not wait for the disk.
        if changed {
            open.connection.set_meta(MARK, &mark.to_string()).await?;
            open.chain.commit(&mut open.connection, now, mark, added).await?;
        }
        open.connection.commit().await?;
        if changed {
            open.mark = mark;
            self.newest = dates;
        }
        // This includes commits of other writers: theirs were durable before they could be read.
        self.marker.reach(open.mark, open.chain.fixed());
        self.registry.fetch_max(registry, Ordering::AcqRel);
        // Tokens are gone only when the rows that they were taken for are on disk.
        self.buckets.extend(buckets);
        spent.into_iter().for_each(|spent| self.meter.spent(spent, &self.budgets));
        let undecided = || Err(LedgerError::Storage("the request was not decided".into()));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(undecided)).collect())
    }
}

/// Adds a group's part to the sums of a party.
fn add(sums: &mut Sums, party: &str, asked: &[&ResolvedRequest<'_>], state: &PartyState<'_>) {
    if state.new_records > 0 {
        sums.records.insert(party.to_owned(), i64::try_from(state.new_records).unwrap_or(i64::MAX));
    }
    for (&(model, policy), total) in &state.totals {
        let Some(of) = asked.iter().find(|asked| (asked.model, asked.policy) == (model, policy))
        else {
            continue;
        };
        let under = (party.to_owned(), of.spend.model.as_str().to_owned(), of.spend.policy.clone());
        let (queries, refused) = (total.queries, total.refused);
        sums.rows.insert(under, RowCounts { queries, refused, granted: queries - refused });
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use vfl_core::types::{ModelVersion, PartyName, RecordIds};

    use super::*;

    fn spend(rows: usize) -> SpendRequest {
        SpendRequest {
            party: PartyName::new("active").unwrap(),
            model: ModelVersion::new("m-1").unwrap(),
            passive: "p-1".into(),
            policy: "none".into(),
            bits: None,
            request_id: None,
            body_hash: [0; 32],
            ids: RecordIds::new((0..rows).map(|i| format!("record-{i}"))).unwrap(),
            share_hashes: Vec::new(),
            at: SystemTime::now(),
            uptime: Duration::ZERO,
        }
    }

    /// The disk is full in the middle of a transaction: nothing is granted, nothing is written,
    /// tokens stay.
    #[tokio::test]
    async fn a_full_disk_grants_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("ledger.db").display());
        let budgets = Budgets { rows_per_minute: Some(20_000), ..Budgets::UNLIMITED };
        let config = LedgerConfig { budgets, ..LedgerConfig::new(url) };
        let mut writer = Writer::open(
            DatabaseLocation::parse(&config.url).unwrap(),
            &config,
            "5f3a".into(),
            Arc::default(),
        )
        .await
        .unwrap();
        writer.commit(&[spend(10)]).await.unwrap();
        let connection = &mut writer.open.as_mut().unwrap().connection;
        let (pages,) = connection.row::<(i64,)>("PRAGMA page_count", &[]).await.unwrap().unwrap();
        connection.execute_text(format!("PRAGMA max_page_count = {}", pages + 20)).await.unwrap();
        let full = writer.commit(&[spend(10), spend(15_000)]).await.unwrap_err();
        assert!(full.to_string().contains("full"), "{full}");
        writer.open.take().unwrap().connection.close().await;
        let decided = writer.commit(&[spend(15_000)]).await.unwrap();
        assert_eq!(decided[0], Ok(vec![RowVerdict::Granted; 15_000]), "the tokens were not taken");
        writer.settle().await;
        let connection = &mut writer.open.as_mut().unwrap().connection;
        let sum = "SELECT CAST(sum(queries) AS BIGINT) FROM uses";
        assert_eq!(connection.row::<(i64,)>(sum, &[]).await.unwrap(), Some((15_010,)));
    }
}
