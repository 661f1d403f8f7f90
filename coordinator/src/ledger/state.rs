//! The open ledger of the writer: the connection, and the reads and writes for a group of requests.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use vfl_core::{hex, unhex};

use super::LedgerError;
use super::begin::{self, MARK};
use super::bits::Bits;
use super::chain::Chain;
use super::changes::{UseGroup, changes};
use super::connection::{Arg, Connection, json};
use super::decide::{
    PartyState, RememberedRequest, ResolvedRequest, read_verdicts, write_verdicts,
};
use super::erasure::{self, ErasedRecords};
use super::error::contradiction;
use super::journal::{self, Journal, JournalLimits};
use super::models::{self, Models};
use super::rate::Bucket;
use super::records::Records;

/// Approximate bytes of a remembered request beside its id and its verdicts: hash, keys, index.
const REMEMBERED_OVERHEAD: i64 = 200;
/// Approximate number of records that are kept in memory between two groups: 50 to 100 MB.
const RECORDS_KEPT: usize = 262_144;

/// A connection that is locked and checked, and what the writer keeps in memory.
pub(super) struct LedgerState {
    pub(super) connection: Connection,
    pub(super) erased: ErasedRecords,
    pub(super) models: Models,
    policies: HashMap<String, i64>,
    pub(super) bits: Bits,
    pub(super) chain: Chain,
    /// Number of commits that changed the ledger.
    pub(super) mark: u64,
    /// The database's clock in a shared ledger, as of this transaction.
    pub(super) clock: Option<Duration>,
    /// Approximate bytes of the remembered requests.
    pub(super) remembered: i64,
    /// The known state of records by party, for the embedded ledger: the sums of their rows of
    /// `uses` and of the journal. Every record that the journal adds to is here. The whole is
    /// dropped when somebody else has changed the file.
    records: HashMap<i64, Records>,
    pub(super) journal: Journal,
    /// SQLite's number of changes by others, as of the last transaction; `None` while the state of
    /// the file is not known yet.
    others: Option<u64>,
}

impl LedgerState {
    pub(super) async fn new(
        mut connection: Connection,
        mark: u64,
        chain: Chain,
        limits: JournalLimits,
    ) -> Result<Self, LedgerError> {
        let erased = ErasedRecords::read(&mut connection).await?;
        let (models, bits) =
            (Models::read(&mut connection).await?, Bits::read(&mut connection).await?);
        let (policies, clock, remembered) = (HashMap::new(), None, 0);
        let (records, journal, others) = (HashMap::new(), Journal::new(limits), None);
        let mut open = Self {
            connection,
            erased,
            models,
            policies,
            bits,
            chain,
            mark,
            clock,
            remembered,
            records,
            journal,
            others,
        };
        open.count_remembered().await?;
        Ok(open)
    }

    /// Reads what maintenance has changed: erased records, approved versions. Adds the journal to
    /// the tables where the next group could not be decided or noted without.
    pub(super) async fn refresh(&mut self) -> Result<u64, LedgerError> {
        let sql = self.connection.pick(
            "SELECT name, value FROM meta WHERE name = $1 OR name = $2 \
             UNION ALL SELECT 'others', CAST(data_version AS TEXT) FROM pragma_data_version",
            "SELECT name, value FROM meta WHERE name = $1 OR name = $2",
        );
        let names = [Arg::Text(erasure::COUNT), Arg::Text(models::APPROVALS)];
        let mut others = None;
        for (name, count) in self.connection.rows::<(String, String)>(sql, &names).await? {
            match name.as_str() {
                erasure::COUNT => self.erased.refresh(&mut self.connection, &count).await?,
                models::APPROVALS => self.models.refresh(&mut self.connection, &count).await?,
                _ => others = Some(count.parse().map_err(|_| contradiction())?),
            }
        }
        let kept: usize = self.records.values().map(Records::len).sum();
        let changed = others != self.others;
        if changed || kept > RECORDS_KEPT || self.journal.is_full() {
            self.settle().await?;
        }
        if changed || kept > RECORDS_KEPT {
            self.records.clear();
        }
        self.others = others;
        Ok(0)
    }

    /// Adds the journal to the tables. Runs inside a transaction.
    pub(super) async fn settle(&mut self) -> Result<(), LedgerError> {
        journal::fold(&mut self.connection).await?;
        self.journal.clear();
        Ok(())
    }

    /// Reads what maintenance and other writers have changed, and the database's clock; returns the
    /// number of changes of the registry. Takes one round trip, unless something has changed.
    pub(super) async fn follow(&mut self, terms: &str) -> Result<u64, LedgerError> {
        let sql = "SELECT name, value FROM meta WHERE name IN ($1, $2, $3, $4, $5) \
            UNION ALL SELECT 'clock', CAST(CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) AS TEXT) \
            UNION ALL SELECT 'models', coalesce(max(id), 0) || ' ' || count(fingerprint) FROM models \
            UNION ALL SELECT 'bits', CAST(count(*) AS TEXT) FROM bits";
        let names =
            [erasure::COUNT, models::APPROVALS, MARK, begin::TERMS, begin::REGISTRY].map(Arg::Text);
        let (mut registry, mut theirs) = (0, String::new());
        for (name, value) in self.connection.rows::<(String, String)>(sql, &names).await? {
            let number = || value.parse::<u64>().map_err(|_| contradiction());
            match name.as_str() {
                erasure::COUNT => self.erased.refresh(&mut self.connection, &value).await?,
                models::APPROVALS => self.models.refresh(&mut self.connection, &value).await?,
                "models" => self.models.follow(&mut self.connection, &value).await?,
                "bits" => self.bits.follow(&mut self.connection, number()?).await?,
                "clock" => self.clock = Some(Duration::from_micros(number()?)),
                begin::TERMS => theirs = value,
                begin::REGISTRY => registry = number()?,
                _ => {
                    // Another server may have taken over with fewer commits.
                    if number()? < self.mark {
                        return Err(LedgerError::Storage(
                            "the database has lost commits under the coordinator".into(),
                        ));
                    }
                    self.mark = number()?;
                }
            }
        }
        begin::check_terms(&theirs, terms)?;
        Ok(registry)
    }

    /// Returns a party's tokens in a shared ledger; `full` if the party has not been limited yet.
    pub(super) async fn bucket(&mut self, party: i64, full: Bucket) -> Result<Bucket, LedgerError> {
        let sql = "SELECT tokens, filled_at FROM rates WHERE party = $1";
        let Some((tokens, filled_at)) =
            self.connection.row::<(String, i64)>(sql, &[Arg::Int(party)]).await?
        else {
            return Ok(full);
        };
        let tokens = tokens.parse().map_err(|_| contradiction())?;
        Ok(Bucket::of((
            tokens,
            Duration::from_micros(u64::try_from(filled_at).map_err(|_| contradiction())?),
        )))
    }

    pub(super) async fn write_bucket(
        &mut self,
        party: i64,
        bucket: Bucket,
    ) -> Result<(), LedgerError> {
        let sql = "INSERT INTO rates (party, tokens, filled_at) VALUES ($1, $2, $3) \
            ON CONFLICT (party) DO UPDATE SET tokens = excluded.tokens, filled_at = excluded.filled_at";
        let (tokens, filled_at) = bucket.parts();
        let (tokens, filled_at) =
            (tokens.to_string(), i64::try_from(filled_at.as_micros()).unwrap_or(i64::MAX));
        self.connection
            .execute(sql, &[Arg::Int(party), Arg::Text(&tokens), Arg::Int(filled_at)])
            .await
            .map(drop)
    }

    pub(super) async fn count_remembered(&mut self) -> Result<(), LedgerError> {
        let sql = "SELECT CAST(coalesce(sum(length(request_id) + length(verdicts) + $1), 0) AS BIGINT) FROM requests";
        let row = self.connection.row::<(i64,)>(sql, &[Arg::Int(REMEMBERED_OVERHEAD)]).await?;
        self.remembered = row.map_or(0, |(bytes,)| bytes);
        Ok(())
    }

    /// Forgets the older half of the remembered requests.
    pub(super) async fn forget_half(&mut self) -> Result<(), LedgerError> {
        let middle = "SELECT at FROM requests ORDER BY at LIMIT 1 OFFSET (SELECT count(*) / 2 FROM requests)";
        if let Some((at,)) = self.connection.row::<(i64,)>(middle, &[]).await? {
            // At least that second, or many requests of one second would free nothing.
            let forgotten = self
                .connection
                .execute("DELETE FROM requests WHERE at <= $1", &[Arg::Int(at)])
                .await?;
            tracing::warn!(
                forgotten,
                "many request ids are remembered; the oldest were forgotten before their time"
            );
        }
        self.count_remembered().await
    }

    pub(super) async fn policy(&mut self, name: &str) -> Result<i64, LedgerError> {
        let find = "SELECT id FROM policies WHERE name = $1";
        let add =
            "INSERT INTO policies (id, name) SELECT coalesce(max(id), 0) + 1, $1 FROM policies";
        intern(&mut self.connection, &mut self.policies, name, find, add).await
    }

    /// Reads what is known of a party, and of the records and requests in its part of a group.
    pub(super) async fn read<'a>(
        &mut self,
        party: &str,
        asked: &[&'a ResolvedRequest<'a>],
        bucket: Option<Bucket>,
    ) -> Result<(i64, PartyState<'a>), LedgerError> {
        let connection = &mut self.connection;
        let find = "SELECT id, records FROM parties WHERE name = $1";
        let (id, records) = match connection.row::<(i64, i64)>(find, &[Arg::Text(party)]).await? {
            Some(found) => found,
            None => {
                let add = "INSERT INTO parties (id, name) SELECT coalesce(max(id), 0) + 1, $1 FROM parties";
                connection.execute(add, &[Arg::Text(party)]).await?;
                connection
                    .row::<(i64, i64)>(find, &[Arg::Text(party)])
                    .await?
                    .ok_or_else(contradiction)?
            }
        };
        let count = u64::try_from(records).map_err(|_| contradiction())?;
        let mut state =
            PartyState::new(count, bucket, self.records.remove(&id).unwrap_or_default());
        let mut fresh = Vec::new();
        asked.iter().for_each(|asked| state.enter(asked, &mut fresh));
        if !fresh.is_empty() {
            look_up(connection, &self.models, id, &mut state.records, &fresh).await?;
        }
        let mut by_request_id: HashMap<&str, &'a str> = HashMap::new();
        by_request_id
            .extend(asked.iter().filter_map(|a| a.spend.request_id.as_deref()).map(|id| (id, id)));
        if !by_request_id.is_empty() {
            let ids = json(by_request_id.keys())?;
            let sql = connection.pick(
                "SELECT request_id, body_hash, verdicts, at FROM requests \
                 WHERE party = $1 AND request_id IN (SELECT value FROM json_each($2))",
                "SELECT request_id, body_hash, verdicts, at FROM requests \
                 WHERE party = $1 AND request_id IN (SELECT json_array_elements_text(CAST($2 AS JSON)))",
            );
            let found = connection
                .rows::<(String, String, String, i64)>(sql, &[Arg::Int(id), Arg::Text(&ids)])
                .await?;
            for (request_id, body_hash, verdicts, at) in found {
                let request_id =
                    by_request_id.get(request_id.as_str()).ok_or_else(contradiction)?;
                let body_hash = unhex(&body_hash).ok_or_else(contradiction)?;
                let verdicts = read_verdicts(&verdicts).ok_or_else(contradiction)?;
                state.remember(request_id, RememberedRequest { body_hash, verdicts, at });
            }
        }
        Ok((id, state))
    }

    /// Writes the changes of a group for one party. Its granted rows go to `uses` at once, or to
    /// the journal if `journaled`.
    pub(super) async fn write(
        &mut self,
        party: i64,
        state: &mut PartyState<'_>,
        journaled: bool,
    ) -> Result<(), LedgerError> {
        if journaled {
            for granted in &state.granted {
                self.journal.add(party, granted, &mut state.records);
            }
        } else {
            for (class, records) in changes(state) {
                self.write_uses(party, &class, &records).await?;
            }
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
            connection
                .execute(sql, &[keys[0], keys[1], keys[2], queries, refused, first_at, last_at])
                .await?;
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
            let (body_hash, verdicts) = (hex(decided.body_hash), write_verdicts(&decided.verdicts));
            self.remembered += (request_id.len() + verdicts.len()) as i64 + REMEMBERED_OVERHEAD;
            let texts = [Arg::Text(request_id), Arg::Text(&body_hash), Arg::Text(&verdicts)];
            connection
                .execute(
                    sql,
                    &[Arg::Int(party), texts[0], texts[1], texts[2], Arg::Int(decided.at)],
                )
                .await?;
        }
        Ok(())
    }

    /// Keeps the known state of a party's records for the next group, except where others write
    /// too: there it would soon be out of date.
    pub(super) fn keep(&mut self, party: i64, records: Records) {
        if let Connection::Sqlite(_) = self.connection {
            self.records.insert(party, records);
        }
    }

    async fn write_uses(
        &mut self,
        party: i64,
        class: &UseGroup,
        records: &[Cow<'_, str>],
    ) -> Result<(), LedgerError> {
        // A forgotten first time stays forgotten; the binding of a record and model is never
        // replaced.
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
        let numbers =
            [party, class.model, class.policy, class.queries, class.first_at, class.last_at]
                .map(Arg::Int);
        let [a, b, c, d, e, f] = numbers;
        self.connection.execute(sql, &[a, b, c, d, e, f, Arg::Text(&records)]).await.map(drop)
    }
}

/// Returns the key of a name; adds the name if it is new.
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

/// Reads the rows of `uses` of the records at these slots.
async fn look_up(
    connection: &mut Connection,
    models: &Models,
    party: i64,
    records: &mut Records,
    slots: &[usize],
) -> Result<(), LedgerError> {
    let names = json(slots.iter().filter_map(|&slot| records.get(slot)).map(|(record, _)| record))?;
    // One text of all rows: a value for each would cost more than the look-up.
    let sql = connection.pick(
        "SELECT group_concat(i.key || ' ' || u.model || ' ' || u.policy || ' ' || u.queries || ' ' || coalesce(u.share, ''), ';') \
         FROM json_each($2) i CROSS JOIN uses u WHERE u.party = $1 AND u.record = i.value",
        "SELECT string_agg((i.key - 1) || ' ' || u.model || ' ' || u.policy || ' ' || u.queries || ' ' || coalesce(u.share, ''), ';') \
         FROM json_array_elements_text(CAST($2 AS JSON)) WITH ORDINALITY i (value, key) CROSS JOIN uses u \
         WHERE u.party = $1 AND u.record = i.value",
    );
    let known =
        connection.row::<(Option<String>,)>(sql, &[Arg::Int(party), Arg::Text(&names)]).await?;
    let known = known.and_then(|(text,)| text).unwrap_or_default();
    for row in known.split(';').filter(|row| !row.is_empty()) {
        add_known(records, slots, models, row).ok_or_else(contradiction)?;
    }
    Ok(())
}

/// Adds a row `position model policy queries share` to the records.
fn add_known(records: &mut Records, slots: &[usize], models: &Models, row: &str) -> Option<()> {
    let mut fields = row.split(' ');
    let slot = *slots.get(fields.next()?.parse::<usize>().ok()?)?;
    let model = fields.next()?.parse().ok()?;
    let release = (models.passive(model)?, fields.next()?.parse().ok()?);
    let queries = fields.next()?.parse().ok()?;
    let share = match fields.next()? {
        "" => None,
        hash => Some(unhex(hash)?),
    };
    records.known(slot, model, release, queries, share)
}
