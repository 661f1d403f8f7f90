//! The one writer: requests that wait together are committed together.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::begin::{self, Begun, MARK};
use super::connection::{Arg, Connection, Place};
use super::decide::{Asked, Class, PartyState, Remembered, hex, read_verdicts, seconds, unhex, write_verdicts};
use super::erased::{self, Erased};
use super::mark::{self, Marker};
use super::meter::{LedgerMeter, Spent};
use super::models::{self, Models};
use super::rate::Bucket;
use super::request::{RowVerdict, Spend};
use super::{Budgets, LedgerConfig, LedgerError};
use crate::share::ShareHashKind;

/// Rows of one commit, about: a group is closed when it has as many. The more, the more rows share a page that is written.
const GROUP_ROWS: usize = 262_144;
/// Requests of one commit.
const GROUP_REQUESTS: usize = 1024;
/// How often request ids that nobody needs to remember are deleted, in seconds of the requests' clock.
const PURGE_EVERY_S: i64 = 60;
/// Above about so many bytes of remembered requests, the older half of them is forgotten before its time.
const REMEMBERED_BYTES: i64 = 256 << 20;
/// What a remembered request takes beside its id and its verdicts, about: hash, keys, index.
const REMEMBERED_OVERHEAD: i64 = 200;

/// What a caller waits for.
pub(super) type Answer = Result<Vec<RowVerdict>, LedgerError>;

/// A request on its way to the writer.
pub(super) struct Waiting {
    pub(super) spend: Spend,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// What the writer knows between two commits. Parties, models and policies are few.
struct Writer {
    place: Place,
    budgets: Budgets,
    memory: Duration,
    fingerprint: String,
    /// `None` after a failure: the next group connects anew.
    open: Option<Open>,
    buckets: HashMap<String, Bucket>,
    purged_at: i64,
    marker: Marker,
    /// What other writers of the ledger must agree on; `None`: there is no other.
    terms: Option<String>,
    /// The changes of the registry, as the last transaction saw them.
    registry: Arc<AtomicU64>,
    /// SQLite's lock file; held for as long as the writer lives.
    _lock: Option<File>,
    share_hash: ShareHashKind,
    meter: LedgerMeter,
}

/// A connection that is locked and checked.
struct Open {
    connection: Connection,
    erased: Erased,
    models: Models,
    policies: HashMap<String, i64>,
    /// Commits that changed the ledger.
    mark: u64,
    /// The database's clock in a shared ledger, as of this transaction.
    clock: Option<Duration>,
    /// About how many bytes the remembered requests take.
    remembered: i64,
}

/// Starts the writer on a thread of its own: it decides tens of thousands of rows at a time, which would stall a runtime that
/// serves requests. Returns once the ledger is open, with the kind of its share hashes; the receiver hears when the writer has
/// ended.
pub(super) async fn start(
    place: Place,
    config: &LedgerConfig,
    fingerprint: String,
    registry: Arc<AtomicU64>,
    waiting: mpsc::Receiver<Waiting>,
) -> Result<(ShareHashKind, oneshot::Receiver<()>), LedgerError> {
    let config = config.clone();
    let (opened, opening) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let failed = |e: std::io::Error| LedgerError::Storage(format!("cannot start the ledger's writer: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let work = move || {
        runtime.block_on(async move {
            match Writer::open(place, &config, fingerprint, registry).await {
                Ok(writer) => {
                    // A caller that has gone away drops its end of the channel, which ends the writer.
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
    let share_hash = opening.await.map_err(|_| LedgerError::Storage("the ledger's writer did not start".into()))??;
    Ok((share_hash, ended))
}

impl Writer {
    async fn open(
        place: Place,
        config: &LedgerConfig,
        fingerprint: String,
        registry: Arc<AtomicU64>,
    ) -> Result<Self, LedgerError> {
        let Begun { connection, marker, lock, share_hash } = begin::begin(&place, config, &fingerprint).await?;
        let mut open = Open::new(connection, marker.reached()).await?;
        for (party, records) in open.connection.rows::<(String, i64)>("SELECT name, records FROM parties", &[]).await? {
            let records = u64::try_from(records).map_err(|_| contradiction())?;
            config.meter.spent(Spent { party, records, exhausted: 0 }, &config.budgets);
        }
        let open = Some(open);
        let (budgets, memory, buckets, purged_at) = (config.budgets, config.request_memory, HashMap::new(), 0);
        let terms = config.shared.then(|| begin::written(&config.terms())).transpose()?;
        Ok(Self {
            place,
            budgets,
            memory,
            fingerprint,
            open,
            buckets,
            purged_at,
            marker,
            terms,
            registry,
            _lock: lock,
            share_hash,
            meter: config.meter.clone(),
        })
    }

    /// The next request; `None` when every sender is gone. Where there is nothing to do, the mark catches up.
    async fn next(&mut self, waiting: &mut mpsc::Receiver<Waiting>) -> Option<Waiting> {
        if self.marker.behind() {
            match tokio::time::timeout(mark::EVERY, waiting.recv()).await {
                Ok(next) => return next,
                Err(_) => self.marker.flush(),
            }
        }
        waiting.recv().await
    }

    /// Until every sender is gone.
    async fn run(mut self, mut waiting: mpsc::Receiver<Waiting>) {
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
            let (spends, answers): (Vec<Spend>, Vec<_>) = group.into_iter().map(|w| (w.spend, w.answer)).unzip();
            let began = Instant::now();
            let committed = self.commit(&spends).await;
            self.meter.committed(spends.len(), rows, began.elapsed(), committed.is_err());
            match committed {
                // A caller that no longer waits has its request recorded and gets nothing.
                Ok(decided) => answers.into_iter().zip(decided).for_each(|(to, answer)| drop(to.send(answer))),
                Err(error) => {
                    tracing::error!(%error, requests = spends.len(), "a ledger commit failed; nothing was granted");
                    if let Some(open) = self.open.take() {
                        open.connection.close().await;
                    }
                    answers.into_iter().for_each(|to| drop(to.send(Err(error.clone()))));
                }
            }
        }
        self.marker.flush();
        if let Some(open) = self.open.take() {
            open.connection.close().await;
        }
    }

    /// Decides a group and makes it durable.
    async fn commit(&mut self, spends: &[Spend]) -> Result<Vec<Answer>, LedgerError> {
        let mut begun = false;
        if let Some(open) = &mut self.open {
            match open.connection.begin().await {
                Ok(()) => begun = true,
                Err(error) if self.terms.is_none() => return Err(error),
                // Lost while nobody asked, as when the database was started again. Nothing was begun, so nothing is lost.
                Err(_) => self.open = None,
            }
        }
        if self.open.is_none() {
            let shared = self.terms.is_some();
            let (connection, mark) = begin::resume(&self.place, &self.marker, &self.fingerprint, shared).await?;
            self.open = Some(Open::new(connection, mark).await?);
        }
        let Some(open) = &mut self.open else { return Err(LedgerError::Missing) };
        if !begun {
            open.connection.begin().await?;
        }
        let registry = match &self.terms {
            None => open.refresh().await?,
            Some(terms) => open.follow(terms).await?,
        };
        let mut asked = Vec::with_capacity(spends.len());
        for spend in spends {
            let (model, passive) = open.models.intern(&mut open.connection, &spend.model, &spend.passive).await?;
            let approved = open.models.approved(&spend.passive);
            let policy = open.policy(&spend.policy).await?;
            let (records, clock) = (open.erased.names(&spend.ids), open.clock.unwrap_or(spend.uptime));
            asked.push(Asked { spend, records, model, passive, approved, policy, clock });
        }
        let mut by_party: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (position, asked) in asked.iter().enumerate() {
            by_party.entry(asked.spend.party.as_str()).or_default().push(position);
        }
        let mut answers: Vec<Option<Answer>> = spends.iter().map(|_| None).collect();
        let (mut buckets, mut spent) = (Vec::new(), Vec::new());
        let (mut changed, mark) = (false, open.mark + 1);
        for (party, positions) in by_party {
            let asked: Vec<&Asked<'_>> = positions.iter().map(|&p| &asked[p]).collect();
            let bucket = self.budgets.rows_per_minute.zip(asked.first());
            let bucket = bucket.map(|(rate, first)| {
                self.buckets.get(party).copied().unwrap_or_else(|| Bucket::full(rate, first.clock))
            });
            let (id, mut state) = open.read(party, &asked, bucket).await?;
            if let (Some(full), Some(_)) = (bucket, open.clock) {
                state.bucket = Some(open.bucket(id, full).await?);
            }
            for (&position, asked) in positions.iter().zip(&asked) {
                answers[position] = Some(state.decide(asked, &self.budgets, self.memory));
            }
            open.write(id, &state).await?;
            changed |= state.changed();
            spent.push(Spent { party: party.to_owned(), records: state.records(), exhausted: state.exhausted });
            match (state.bucket, open.clock) {
                (Some(bucket), Some(_)) if state.changed() => open.write_bucket(id, bucket).await?,
                (Some(bucket), None) => buckets.push((party.to_owned(), bucket)),
                _ => {}
            }
        }
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
        }
        open.connection.commit().await?;
        if changed {
            open.mark = mark;
        }
        // Of other writers too: theirs was durable before it could be read.
        self.marker.reach(open.mark);
        self.registry.fetch_max(registry, Ordering::AcqRel);
        // Tokens are gone only when what they were taken for is on disk.
        self.buckets.extend(buckets);
        spent.into_iter().for_each(|spent| self.meter.spent(spent, &self.budgets));
        let undecided = || Err(LedgerError::Storage("the request was not decided".into()));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(undecided)).collect())
    }
}

impl Open {
    async fn new(mut connection: Connection, mark: u64) -> Result<Self, LedgerError> {
        let erased = Erased::read(&mut connection).await?;
        let models = Models::read(&mut connection).await?;
        let mut open = Self { connection, erased, models, policies: HashMap::new(), mark, clock: None, remembered: 0 };
        open.count_remembered().await?;
        Ok(open)
    }

    /// Reads what maintenance has changed: erased records, approved versions.
    async fn refresh(&mut self) -> Result<u64, LedgerError> {
        let sql = "SELECT name, value FROM meta WHERE name = $1 OR name = $2";
        let names = [Arg::Text(erased::COUNT), Arg::Text(models::APPROVALS)];
        for (name, count) in self.connection.rows::<(String, String)>(sql, &names).await? {
            match name.as_str() {
                erased::COUNT => self.erased.refresh(&mut self.connection, &count).await?,
                _ => self.models.refresh(&mut self.connection, &count).await?,
            }
        }
        Ok(0)
    }

    /// Reads what maintenance and other writers have changed, and the database's clock; gives the number of changes of the
    /// registry. One round trip, unless something has changed.
    async fn follow(&mut self, terms: &str) -> Result<u64, LedgerError> {
        let sql = "SELECT name, value FROM meta WHERE name IN ($1, $2, $3, $4, $5) \
            UNION ALL SELECT 'clock', CAST(CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) AS TEXT) \
            UNION ALL SELECT 'models', coalesce(max(id), 0) || ' ' || count(fingerprint) FROM models";
        let names = [erased::COUNT, models::APPROVALS, MARK, begin::TERMS, begin::REGISTRY].map(Arg::Text);
        let (mut registry, mut theirs) = (0, String::new());
        for (name, value) in self.connection.rows::<(String, String)>(sql, &names).await? {
            let number = || value.parse::<u64>().map_err(|_| contradiction());
            match name.as_str() {
                erased::COUNT => self.erased.refresh(&mut self.connection, &value).await?,
                models::APPROVALS => self.models.refresh(&mut self.connection, &value).await?,
                "models" => self.models.follow(&mut self.connection, &value).await?,
                "clock" => self.clock = Some(Duration::from_micros(number()?)),
                begin::TERMS => theirs = value,
                begin::REGISTRY => registry = number()?,
                _ => {
                    // Another server may have taken over with less than was there.
                    if number()? < self.mark {
                        return Err(LedgerError::Storage("the database has lost commits under the coordinator".into()));
                    }
                    self.mark = number()?;
                }
            }
        }
        begin::check_terms(&theirs, terms)?;
        Ok(registry)
    }

    /// A party's tokens in a shared ledger; `full` if it has not been limited yet.
    async fn bucket(&mut self, party: i64, full: Bucket) -> Result<Bucket, LedgerError> {
        let sql = "SELECT tokens, filled_at FROM rates WHERE party = $1";
        let Some((tokens, filled_at)) = self.connection.row::<(String, i64)>(sql, &[Arg::Int(party)]).await? else {
            return Ok(full);
        };
        let tokens = tokens.parse().map_err(|_| contradiction())?;
        Ok(Bucket::of((tokens, Duration::from_micros(u64::try_from(filled_at).map_err(|_| contradiction())?))))
    }

    async fn write_bucket(&mut self, party: i64, bucket: Bucket) -> Result<(), LedgerError> {
        let sql = "INSERT INTO rates (party, tokens, filled_at) VALUES ($1, $2, $3) \
            ON CONFLICT (party) DO UPDATE SET tokens = excluded.tokens, filled_at = excluded.filled_at";
        let (tokens, filled_at) = bucket.parts();
        let (tokens, filled_at) = (tokens.to_string(), i64::try_from(filled_at.as_micros()).unwrap_or(i64::MAX));
        self.connection.execute(sql, &[Arg::Int(party), Arg::Text(&tokens), Arg::Int(filled_at)]).await.map(drop)
    }

    async fn count_remembered(&mut self) -> Result<(), LedgerError> {
        let sql = "SELECT CAST(coalesce(sum(length(request_id) + length(verdicts) + $1), 0) AS BIGINT) FROM requests";
        let row = self.connection.row::<(i64,)>(sql, &[Arg::Int(REMEMBERED_OVERHEAD)]).await?;
        self.remembered = row.map_or(0, |(bytes,)| bytes);
        Ok(())
    }

    /// Forgets the older half of the requests that could be repeated.
    async fn forget_half(&mut self) -> Result<(), LedgerError> {
        let middle = "SELECT at FROM requests ORDER BY at LIMIT 1 OFFSET (SELECT count(*) / 2 FROM requests)";
        if let Some((at,)) = self.connection.row::<(i64,)>(middle, &[]).await? {
            // At least that second, or nothing would be won from many requests of one.
            let forgotten = self.connection.execute("DELETE FROM requests WHERE at <= $1", &[Arg::Int(at)]).await?;
            tracing::warn!(forgotten, "many request ids are remembered; the oldest were forgotten before their time");
        }
        self.count_remembered().await
    }

    async fn policy(&mut self, name: &str) -> Result<i64, LedgerError> {
        let find = "SELECT id FROM policies WHERE name = $1";
        let add = "INSERT INTO policies (id, name) SELECT coalesce(max(id), 0) + 1, $1 FROM policies";
        intern(&mut self.connection, &mut self.policies, name, find, add).await
    }

    /// What is known of a party and of the records and requests that its part of a group names.
    async fn read<'a>(
        &mut self,
        party: &str,
        asked: &[&'a Asked<'a>],
        bucket: Option<Bucket>,
    ) -> Result<(i64, PartyState<'a>), LedgerError> {
        let connection = &mut self.connection;
        let find = "SELECT id, records FROM parties WHERE name = $1";
        let (id, records) = match connection.row::<(i64, i64)>(find, &[Arg::Text(party)]).await? {
            Some(found) => found,
            None => {
                let add = "INSERT INTO parties (id, name) SELECT coalesce(max(id), 0) + 1, $1 FROM parties";
                connection.execute(add, &[Arg::Text(party)]).await?;
                connection.row::<(i64, i64)>(find, &[Arg::Text(party)]).await?.ok_or_else(contradiction)?
            }
        };
        let rows = asked.iter().map(|a| a.records.len()).sum();
        let mut state = PartyState::new(u64::try_from(records).map_err(|_| contradiction())?, bucket, rows);
        for record in asked.iter().flat_map(|a| &a.records) {
            state.enter(record);
        }
        let records = json(state.entries.iter().map(|e| e.record))?;
        // One text of all rows: a value for each would cost more than the look-up.
        let sql = connection.pick(
            "SELECT group_concat(i.key || ' ' || u.model || ' ' || u.queries || ' ' || coalesce(u.share, ''), ';') \
             FROM json_each($2) i CROSS JOIN uses u WHERE u.party = $1 AND u.record = i.value",
            "SELECT string_agg((i.key - 1) || ' ' || u.model || ' ' || u.queries || ' ' || coalesce(u.share, ''), ';') \
             FROM json_array_elements_text(CAST($2 AS JSON)) WITH ORDINALITY i (value, key) CROSS JOIN uses u \
             WHERE u.party = $1 AND u.record = i.value",
        );
        let known = connection.row::<(Option<String>,)>(sql, &[Arg::Int(id), Arg::Text(&records)]).await?;
        let known = known.and_then(|(text,)| text).unwrap_or_default();
        for row in known.split(';').filter(|row| !row.is_empty()) {
            add_known(&mut state, &self.models, row).ok_or_else(contradiction)?;
        }
        let mut by_request_id: HashMap<&str, &'a str> = HashMap::new();
        by_request_id.extend(asked.iter().filter_map(|a| a.spend.request_id.as_deref()).map(|id| (id, id)));
        if !by_request_id.is_empty() {
            let ids = json(by_request_id.keys())?;
            let sql = connection.pick(
                "SELECT request_id, body_hash, verdicts, at FROM requests \
                 WHERE party = $1 AND request_id IN (SELECT value FROM json_each($2))",
                "SELECT request_id, body_hash, verdicts, at FROM requests \
                 WHERE party = $1 AND request_id IN (SELECT json_array_elements_text(CAST($2 AS JSON)))",
            );
            let found = connection.rows::<(String, String, String, i64)>(sql, &[Arg::Int(id), Arg::Text(&ids)]).await?;
            for (request_id, body_hash, verdicts, at) in found {
                let request_id = by_request_id.get(request_id.as_str()).ok_or_else(contradiction)?;
                let body_hash = unhex(&body_hash).ok_or_else(contradiction)?;
                let verdicts = read_verdicts(&verdicts).ok_or_else(contradiction)?;
                state.remember(request_id, Remembered { body_hash, verdicts, at });
            }
        }
        Ok((id, state))
    }

    /// Writes what a group changes for one party.
    async fn write(&mut self, party: i64, state: &PartyState<'_>) -> Result<(), LedgerError> {
        for (class, records) in state.changes() {
            self.write_uses(party, &class, &records).await?;
        }
        let connection = &mut self.connection;
        for (&(model, policy), total) in &state.totals {
            let sql = "INSERT INTO totals (party, model, policy, queries, refused, first_at, last_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (party, model, policy) DO UPDATE SET \
                 queries = totals.queries + excluded.queries, refused = totals.refused + excluded.refused, \
                 first_at = CASE WHEN totals.first_at < excluded.first_at THEN totals.first_at ELSE excluded.first_at END, \
                 last_at = CASE WHEN totals.last_at > excluded.last_at THEN totals.last_at ELSE excluded.last_at END";
            let (queries, refused) = (Arg::Int(total.queries), Arg::Int(total.refused));
            let (first_at, last_at) = (Arg::Int(total.first_at), Arg::Int(total.last_at));
            let keys = [Arg::Int(party), Arg::Int(model), Arg::Int(policy)];
            connection.execute(sql, &[keys[0], keys[1], keys[2], queries, refused, first_at, last_at]).await?;
        }
        if state.new_records > 0 {
            let new = i64::try_from(state.new_records).map_err(|_| contradiction())?;
            let sql = "UPDATE parties SET records = records + $2 WHERE id = $1";
            connection.execute(sql, &[Arg::Int(party), Arg::Int(new)]).await?;
        }
        for (request_id, decided) in state.remembered() {
            let sql = "INSERT INTO requests (party, request_id, body_hash, verdicts, at) VALUES ($1, $2, $3, $4, $5) \
                 ON CONFLICT (party, request_id) DO UPDATE SET \
                 body_hash = excluded.body_hash, verdicts = excluded.verdicts, at = excluded.at";
            let (body_hash, verdicts) = (hex(&decided.body_hash), write_verdicts(&decided.verdicts));
            self.remembered += (request_id.len() + verdicts.len()) as i64 + REMEMBERED_OVERHEAD;
            let texts = [Arg::Text(request_id), Arg::Text(&body_hash), Arg::Text(&verdicts)];
            connection.execute(sql, &[Arg::Int(party), texts[0], texts[1], texts[2], Arg::Int(decided.at)]).await?;
        }
        Ok(())
    }

    async fn write_uses(&mut self, party: i64, class: &Class, records: &[Cow<'_, str>]) -> Result<(), LedgerError> {
        // A forgotten first time stays forgotten; the binding of a record and model is never replaced.
        macro_rules! upsert {
            ($record:literal, $share:literal, $from:literal) => {
                concat!(
                    "INSERT INTO uses (party, record, model, policy, queries, first_at, last_at, share) SELECT $1, ",
                    $record, ", $2, $3, $4, $5, $6, ", $share, " FROM ", $from,
                    " WHERE true ON CONFLICT (party, record, model, policy) DO UPDATE SET ",
                    "queries = uses.queries + excluded.queries, ",
                    "first_at = CASE WHEN uses.first_at > excluded.first_at THEN excluded.first_at ELSE uses.first_at END, ",
                    "last_at = CASE WHEN uses.last_at > excluded.last_at THEN uses.last_at ELSE excluded.last_at END, ",
                    "share = coalesce(uses.share, excluded.share)"
                )
            };
        }
        let sql = if class.binds {
            self.connection.pick(
                upsert!("substr(value, 33)", "substr(value, 1, 32)", "json_each($7)"),
                upsert!(
                    "substr(value, 33)",
                    "substr(value, 1, 32)",
                    "json_array_elements_text(CAST($7 AS JSON)) i (value)"
                ),
            )
        } else {
            self.connection.pick(
                upsert!("value", "NULL", "json_each($7)"),
                upsert!("value", "NULL", "json_array_elements_text(CAST($7 AS JSON)) i (value)"),
            )
        };
        let records = json(records)?;
        let numbers = [party, class.model, class.policy, class.queries, class.first_at, class.last_at].map(Arg::Int);
        let [a, b, c, d, e, f] = numbers;
        self.connection.execute(sql, &[a, b, c, d, e, f, Arg::Text(&records)]).await.map(drop)
    }
}

/// The key of a name, made if there is none.
async fn intern(
    connection: &mut Connection,
    known: &mut HashMap<String, i64>,
    name: &str,
    find: &'static str,
    add: &'static str,
) -> Result<i64, LedgerError> {
    if let Some(&id) = known.get(name) {
        return Ok(id);
    }
    let id = match connection.row::<(i64,)>(find, &[Arg::Text(name)]).await? {
        Some((id,)) => id,
        None => {
            connection.execute(add, &[Arg::Text(name)]).await?;
            connection.row::<(i64,)>(find, &[Arg::Text(name)]).await?.ok_or_else(contradiction)?.0
        }
    };
    known.insert(name.to_owned(), id);
    Ok(id)
}

/// `slot model queries share`.
fn add_known(state: &mut PartyState<'_>, models: &Models, row: &str) -> Option<()> {
    let mut fields = row.split(' ');
    let slot = fields.next()?.parse().ok()?;
    let model = fields.next()?.parse().ok()?;
    let passive = models.passive(model)?;
    let queries = fields.next()?.parse().ok()?;
    let share = match fields.next()? {
        "" => None,
        hash => Some(unhex(hash)?),
    };
    state.known(slot, (model, passive), queries, share)
}

/// A JSON array of texts: one parameter for any number of rows.
fn json<S: serde::Serialize>(texts: impl IntoIterator<Item = S>) -> Result<String, LedgerError> {
    let texts: Vec<S> = texts.into_iter().collect();
    serde_json::to_string(&texts).map_err(|e| LedgerError::Storage(e.to_string()))
}

/// A table does not hold what the ledger writes into it.
fn contradiction() -> LedgerError {
    LedgerError::Storage("the ledger's tables contradict each other; restore a backup".into())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use vfl_shared::types::{ModelVersion, PartyName, RecordIds};

    use super::*;

    fn spend(rows: usize) -> Spend {
        Spend {
            party: PartyName::new("active").unwrap(),
            model: ModelVersion::new("m-1").unwrap(),
            passive: "p-1".into(),
            policy: "none".into(),
            request_id: None,
            body_hash: [0; 32],
            ids: RecordIds::new((0..rows).map(|i| format!("record-{i}"))).unwrap(),
            share_hashes: Vec::new(),
            at: SystemTime::now(),
            uptime: Duration::ZERO,
        }
    }

    /// The disk is full in the middle of a transaction: nothing is granted, nothing is written, tokens stay.
    #[tokio::test]
    async fn a_full_disk_grants_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("ledger.db").display());
        let budgets = Budgets { rows_per_minute: Some(20_000), ..Budgets::UNLIMITED };
        let config = LedgerConfig { budgets, ..LedgerConfig::new(url) };
        let mut writer =
            Writer::open(Place::parse(&config.url).unwrap(), &config, "5f3a".into(), Arc::default()).await.unwrap();
        writer.commit(&[spend(10)]).await.unwrap();
        let connection = &mut writer.open.as_mut().unwrap().connection;
        let (pages,) = connection.row::<(i64,)>("PRAGMA page_count", &[]).await.unwrap().unwrap();
        connection.execute_text(format!("PRAGMA max_page_count = {}", pages + 20)).await.unwrap();
        let full = writer.commit(&[spend(10), spend(15_000)]).await.unwrap_err();
        assert!(full.to_string().contains("full"), "{full}");
        writer.open.take().unwrap().connection.close().await;
        let decided = writer.commit(&[spend(15_000)]).await.unwrap();
        assert_eq!(decided[0], Ok(vec![RowVerdict::Granted; 15_000]), "the tokens were not taken");
        let connection = &mut writer.open.as_mut().unwrap().connection;
        let sum = "SELECT CAST(sum(queries) AS BIGINT) FROM uses";
        assert_eq!(connection.row::<(i64,)>(sum, &[]).await.unwrap(), Some((15_010,)));
    }
}
