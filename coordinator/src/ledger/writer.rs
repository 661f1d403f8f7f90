//! The one writer: requests that wait together are committed together.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::begin::{self, Begun, MARK};
use super::connection::{Arg, Connection, Place};
use super::decide::{Asked, Class, PartyState, Remembered, hex, read_verdicts, seconds, unhex, write_verdicts};
use super::erased::{self, Erased};
use super::mark::{self, Marker};
use super::models::{self, Models};
use super::rate::Bucket;
use super::request::{RowVerdict, Spend};
use super::{Budgets, LedgerConfig, LedgerError};

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
    /// SQLite's lock file; held for as long as the writer lives.
    _lock: Option<File>,
}

/// A connection that is locked and checked.
struct Open {
    connection: Connection,
    erased: Erased,
    models: Models,
    policies: HashMap<String, i64>,
    /// Commits that changed the ledger.
    mark: u64,
    /// About how many bytes the remembered requests take.
    remembered: i64,
}

/// Starts the writer on a thread of its own: it decides tens of thousands of rows at a time, which would stall a runtime that
/// serves requests. Returns once the ledger is open; the receiver hears when the writer has ended.
pub(super) async fn start(
    place: Place,
    config: &LedgerConfig,
    fingerprint: String,
    waiting: mpsc::Receiver<Waiting>,
) -> Result<oneshot::Receiver<()>, LedgerError> {
    let config = config.clone();
    let (opened, opening) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let failed = |e: std::io::Error| LedgerError::Storage(format!("cannot start the ledger's writer: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let work = move || {
        runtime.block_on(async move {
            match Writer::open(place, &config, fingerprint).await {
                Ok(writer) => {
                    // A caller that has gone away drops its end of the channel, which ends the writer.
                    let _ = opened.send(Ok(()));
                    writer.run(waiting).await;
                }
                Err(error) => drop(opened.send(Err(error))),
            }
        });
        drop(runtime);
        let _ = end.send(());
    };
    std::thread::Builder::new().name("ledger".into()).spawn(work).map_err(failed)?;
    opening.await.map_err(|_| LedgerError::Storage("the ledger's writer did not start".into()))??;
    Ok(ended)
}

impl Writer {
    async fn open(place: Place, config: &LedgerConfig, fingerprint: String) -> Result<Self, LedgerError> {
        let Begun { connection, marker, lock } = begin::begin(&place, config, &fingerprint).await?;
        let open = Some(Open::new(connection, marker.reached()).await?);
        let (budgets, memory, buckets, purged_at) = (config.budgets, config.request_memory, HashMap::new(), 0);
        Ok(Self { place, budgets, memory, fingerprint, open, buckets, purged_at, marker, _lock: lock })
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
            match self.commit(&spends).await {
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
        if self.open.is_none() {
            let (connection, mark) = begin::resume(&self.place, &self.marker, &self.fingerprint).await?;
            self.open = Some(Open::new(connection, mark).await?);
        }
        let Some(open) = &mut self.open else { return Err(LedgerError::Missing) };
        open.connection.begin().await?;
        open.refresh().await?;
        let mut asked = Vec::with_capacity(spends.len());
        for spend in spends {
            let (model, passive) = open.models.intern(&mut open.connection, &spend.model, &spend.passive).await?;
            let approved = open.models.approved(&spend.passive);
            let policy = open.policy(&spend.policy).await?;
            asked.push(Asked { spend, records: open.erased.names(&spend.ids), model, passive, approved, policy });
        }
        let mut by_party: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (position, asked) in asked.iter().enumerate() {
            by_party.entry(asked.spend.party.as_str()).or_default().push(position);
        }
        let mut answers: Vec<Option<Answer>> = spends.iter().map(|_| None).collect();
        let mut buckets = Vec::new();
        let (mut changed, mark) = (false, open.mark + 1);
        for (party, positions) in by_party {
            let asked: Vec<&Asked<'_>> = positions.iter().map(|&p| &asked[p]).collect();
            let bucket = self.budgets.rows_per_minute.zip(asked.first());
            let bucket = bucket.map(|(rate, first)| {
                self.buckets.get(party).copied().unwrap_or_else(|| Bucket::full(rate, first.spend.uptime))
            });
            let (id, mut state) = open.read(party, &asked, bucket).await?;
            for (&position, asked) in positions.iter().zip(&asked) {
                answers[position] = Some(state.decide(asked, &self.budgets, self.memory));
            }
            open.write(id, &state).await?;
            changed |= state.changed();
            buckets.extend(state.bucket.map(|bucket| (party.to_owned(), bucket)));
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
            self.marker.reach(mark);
        }
        // Tokens are gone only when what they were taken for is on disk.
        self.buckets.extend(buckets);
        let undecided = || Err(LedgerError::Storage("the request was not decided".into()));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(undecided)).collect())
    }
}

impl Open {
    async fn new(mut connection: Connection, mark: u64) -> Result<Self, LedgerError> {
        let erased = Erased::read(&mut connection).await?;
        let models = Models::read(&mut connection).await?;
        let mut open = Self { connection, erased, models, policies: HashMap::new(), mark, remembered: 0 };
        open.count_remembered().await?;
        Ok(open)
    }

    /// Reads what maintenance has changed: erased records, approved versions.
    async fn refresh(&mut self) -> Result<(), LedgerError> {
        let sql = "SELECT name, value FROM meta WHERE name = $1 OR name = $2";
        let names = [Arg::Text(erased::COUNT), Arg::Text(models::APPROVALS)];
        for (name, count) in self.connection.rows::<(String, String)>(sql, &names).await? {
            match name.as_str() {
                erased::COUNT => self.erased.refresh(&mut self.connection, &count).await?,
                _ => self.models.refresh(&mut self.connection, &count).await?,
            }
        }
        Ok(())
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
        let mut writer = Writer::open(Place::parse(&config.url).unwrap(), &config, "5f3a".into()).await.unwrap();
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
