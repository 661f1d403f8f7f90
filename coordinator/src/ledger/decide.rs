//! What a group of requests costs, and which of their rows are granted: pure, so that a test can run it against an oracle.
//!
//! The writer reads what is known of the records asked for, lets this module decide request after request, and writes the
//! sum of what changed. A later request of the group sees what the earlier ones spent.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use foldhash::fast::RandomState;

use super::rate::Bucket;
use super::{Budgets, LedgerError, RowVerdict, Spend};

/// A map keyed by what peers send: seeded at random, so that they cannot make keys collide.
type Map<K, V> = HashMap<K, V, RandomState>;

/// A request with its names resolved.
pub(crate) struct Asked<'a> {
    /// The request.
    pub(crate) spend: &'a Spend,
    /// Its records as the ledger keeps them: the ids, or what stands for an erased one.
    pub(crate) records: Vec<Cow<'a, str>>,
    /// Key of the model.
    pub(crate) model: i64,
    /// Key of what its passive parties contribute.
    pub(crate) passive: i64,
    /// Whether the operator has approved it.
    pub(crate) approved: bool,
    /// Key of the policy.
    pub(crate) policy: i64,
    /// When, by the clock that the rate goes by.
    pub(crate) clock: Duration,
}

/// What is known of one record asked for, and what the group adds to it.
pub(crate) struct Entry<'a> {
    /// The record.
    pub(crate) record: &'a str,
    known: bool,
    queries: u64,
    /// What was answered: each contribution of passive parties once.
    answered: Vec<i64>,
    shares: Vec<Bound>,
    touched: Vec<(i64, i64, Touch)>,
}

/// A share that is bound to a record and to what passive parties contribute.
struct Bound {
    passive: i64,
    /// The version it was bound under: of two that an older program bound, the first counts.
    model: i64,
    share: [u8; 16],
}

/// What a group adds to one row of `uses`.
#[derive(Clone, Copy)]
struct Touch {
    queries: i64,
    first_at: i64,
    last_at: i64,
    bind: Option<[u8; 16]>,
}

/// Rows of `uses` that change in the same way, and are written by one statement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class {
    /// Key of the model.
    pub(crate) model: i64,
    /// Key of the policy.
    pub(crate) policy: i64,
    /// Queries added.
    pub(crate) queries: i64,
    /// The first of these queries, in Unix seconds.
    pub(crate) first_at: i64,
    /// The last of them.
    pub(crate) last_at: i64,
    /// Whether each carries the hash of a share that it binds.
    pub(crate) binds: bool,
}

/// What a group adds to one row of `totals`.
#[derive(Clone, Copy)]
pub(crate) struct Total {
    /// Rows.
    pub(crate) queries: i64,
    /// Rows that were refused.
    pub(crate) refused: i64,
    /// The first, in Unix seconds.
    pub(crate) first_at: i64,
    /// The last.
    pub(crate) last_at: i64,
}

/// A request that was decided before.
pub(crate) struct Remembered {
    /// The hash of its body.
    pub(crate) body_hash: [u8; 32],
    /// What it got.
    pub(crate) verdicts: Vec<RowVerdict>,
    /// When, in Unix seconds.
    pub(crate) at: i64,
}

/// One party's part of the ledger, as far as the group concerns it.
pub(crate) struct PartyState<'a> {
    records: u64,
    /// Records the party had not asked for before.
    pub(crate) new_records: u64,
    /// Its tokens; `None` when the rate is unlimited.
    pub(crate) bucket: Option<Bucket>,
    slots: Map<&'a str, usize>,
    /// The records asked for.
    pub(crate) entries: Vec<Entry<'a>>,
    remembered: Map<&'a str, Remembered>,
    /// The request ids to remember.
    pub(crate) to_remember: Vec<&'a str>,
    /// Records whose last query the group has spent.
    pub(crate) exhausted: u64,
    /// What is added to `totals`, by model and policy.
    pub(crate) totals: BTreeMap<(i64, i64), Total>,
}

impl<'a> PartyState<'a> {
    /// Nothing known yet but how many records the party has asked for.
    pub(crate) fn new(records: u64, bucket: Option<Bucket>, rows: usize) -> Self {
        Self {
            records,
            new_records: 0,
            exhausted: 0,
            bucket,
            slots: Map::with_capacity_and_hasher(rows, RandomState::default()),
            entries: Vec::with_capacity(rows),
            remembered: Map::default(),
            to_remember: Vec::new(),
            totals: BTreeMap::new(),
        }
    }

    /// Makes room for a record.
    pub(crate) fn enter(&mut self, record: &'a str) {
        let entries = &mut self.entries;
        self.slots.entry(record).or_insert_with(|| {
            let (answered, shares, touched) = (Vec::new(), Vec::new(), Vec::new());
            entries.push(Entry { record, known: false, queries: 0, answered, shares, touched });
            entries.len() - 1
        });
    }

    /// Adds a row of `uses`: the record at `slot` was asked for `queries` times under `model`, which is one of the models of
    /// `passive`, and bound to `share`.
    pub(crate) fn known(
        &mut self,
        slot: usize,
        (model, passive): (i64, i64),
        queries: u64,
        share: Option<[u8; 16]>,
    ) -> Option<()> {
        let entry = self.entries.get_mut(slot)?;
        entry.known = true;
        entry.queries = entry.queries.saturating_add(queries);
        entry.answer(passive);
        match (share, entry.shares.iter_mut().find(|b| b.passive == passive)) {
            (Some(share), None) => entry.shares.push(Bound { passive, model, share }),
            (Some(share), Some(bound)) if model < bound.model => (bound.model, bound.share) = (model, share),
            _ => {}
        }
        Some(())
    }

    /// Adds a request that was decided before.
    pub(crate) fn remember(&mut self, request_id: &'a str, remembered: Remembered) {
        self.remembered.insert(request_id, remembered);
    }

    /// The requests to remember, and what they got.
    pub(crate) fn remembered(&self) -> impl Iterator<Item = (&'a str, &Remembered)> {
        self.to_remember.iter().filter_map(|&id| Some((id, self.remembered.get(id)?)))
    }

    /// Whether anything is to be written.
    pub(crate) fn changed(&self) -> bool {
        !self.totals.is_empty()
    }

    /// Distinct records that the party has asked for, the group's among them.
    pub(crate) fn records(&self) -> u64 {
        self.records.saturating_add(self.new_records)
    }

    /// Decides one request. A refusal of the whole request changes nothing.
    pub(crate) fn decide(
        &mut self,
        asked: &Asked<'a>,
        budgets: &Budgets,
        memory: Duration,
    ) -> Result<Vec<RowVerdict>, LedgerError> {
        let spend = asked.spend;
        let now = seconds(spend.at);
        if let Some(before) = spend.request_id.as_deref().and_then(|id| self.remembered.get(id))
            && now.saturating_sub(before.at) < i64::try_from(memory.as_secs()).unwrap_or(i64::MAX)
        {
            let same = before.body_hash == spend.body_hash && before.verdicts.len() == asked.records.len();
            return if same { Ok(before.verdicts.clone()) } else { Err(LedgerError::RequestIdReused) };
        }
        let slots: Vec<usize> = asked.records.iter().filter_map(|r| self.slots.get(r.as_ref()).copied()).collect();
        debug_assert_eq!(slots.len(), asked.records.len(), "every record was expected");
        let new = slots.iter().filter(|&&slot| !self.entries[slot].known).count() as u64;
        if let Some(limit) = budgets.records {
            let left = limit.saturating_sub(self.records + self.new_records);
            if new > left {
                return Err(LedgerError::TotalBudget { left, asked: new });
            }
        }
        if let (Some(bucket), Some(rows_per_minute)) = (&mut self.bucket, budgets.rows_per_minute) {
            let rows = slots.len() as u64;
            bucket.take(rows_per_minute, rows, asked.clock).map_err(|retry_after| LedgerError::Rate {
                rows_per_minute,
                rows,
                retry_after,
            })?;
        }
        let mut verdicts = Vec::with_capacity(slots.len());
        for (row, slot) in slots.into_iter().enumerate() {
            let share = spend.share_hashes.get(row).copied();
            let entry = &mut self.entries[slot];
            let known = entry.known;
            let verdict = entry.spend(asked, share, budgets, now);
            let last = verdict == RowVerdict::Granted && budgets.queries_per_record == Some(entry.queries);
            self.exhausted += u64::from(last);
            verdicts.push(verdict);
            self.new_records += u64::from(!known && entry.known);
        }
        let refused = verdicts.iter().filter(|&&v| v != RowVerdict::Granted).count() as i64;
        let empty = Total { queries: 0, refused: 0, first_at: now, last_at: now };
        let total = self.totals.entry((asked.model, asked.policy)).or_insert(empty);
        total.queries += verdicts.len() as i64;
        total.refused += refused;
        total.first_at = total.first_at.min(now);
        total.last_at = total.last_at.max(now);
        if let Some(id) = spend.request_id.as_deref() {
            let remembered = Remembered { body_hash: spend.body_hash, verdicts: verdicts.clone(), at: now };
            // An id that was remembered for long enough may be in the group twice: it is then written once.
            self.remembered.insert(id, remembered);
            if !self.to_remember.contains(&id) {
                self.to_remember.push(id);
            }
        }
        Ok(verdicts)
    }

    /// What changed, in groups that one statement writes. Rows are in the order of their records, for the sake of the trees.
    pub(crate) fn changes(&self) -> BTreeMap<Class, Vec<Cow<'a, str>>> {
        let mut sorted: Vec<&Entry<'a>> = self.entries.iter().filter(|e| !e.touched.is_empty()).collect();
        sorted.sort_unstable_by_key(|e| e.record);
        let mut changes: BTreeMap<Class, Vec<Cow<'a, str>>> = BTreeMap::new();
        for entry in sorted {
            for &(model, policy, Touch { queries, first_at, last_at, bind }) in &entry.touched {
                let class = Class { model, policy, queries, first_at, last_at, binds: bind.is_some() };
                let row = match bind {
                    None => Cow::Borrowed(entry.record),
                    Some(share) => Cow::Owned(hex(&share) + entry.record),
                };
                changes.entry(class).or_default().push(row);
            }
        }
        changes
    }
}

impl Entry<'_> {
    fn answer(&mut self, passive: i64) {
        if !self.answered.contains(&passive) {
            self.answered.push(passive);
        }
    }

    /// One query of this record. What is refused leaves no trace in the record.
    fn spend(&mut self, asked: &Asked<'_>, share: Option<[u8; 16]>, budgets: &Budgets, now: i64) -> RowVerdict {
        let passive = asked.passive;
        let bound = self.shares.iter().find(|b| b.passive == passive).map(|b| b.share);
        let within = |limit: Option<u64>, spent: u64| limit.is_none_or(|limit| spent < limit);
        if !within(budgets.queries_per_record, self.queries) {
            return RowVerdict::RecordBudget;
        }
        if share.zip(bound).is_some_and(|(share, bound)| share != bound) {
            return RowVerdict::ShareChanged;
        }
        let further = !self.answered.contains(&passive) && !asked.approved;
        if further && !within(budgets.models_per_record, self.answered.len() as u64) {
            return RowVerdict::ModelBudget;
        }
        let bind = share.filter(|_| bound.is_none());
        self.known = true;
        self.queries = self.queries.saturating_add(1);
        self.answer(passive);
        self.shares.extend(bind.map(|share| Bound { passive, model: asked.model, share }));
        let under = (asked.model, asked.policy);
        match self.touched.iter_mut().find(|(model, policy, _)| (*model, *policy) == under) {
            Some((_, _, touch)) => {
                touch.queries += 1;
                touch.first_at = touch.first_at.min(now);
                touch.last_at = touch.last_at.max(now);
                touch.bind = touch.bind.or(bind);
            }
            None => {
                let touch = Touch { queries: 1, first_at: now, last_at: now, bind };
                self.touched.push((under.0, under.1, touch));
            }
        }
        RowVerdict::Granted
    }
}

/// Whole seconds since 1970, 0 before.
pub(crate) fn seconds(at: SystemTime) -> i64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]);
    digits.map(char::from).collect()
}

/// The inverse of [`hex`].
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let digit = |d: u8| char::from(d).to_digit(16);
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(out)
}

/// Verdicts as the ledger keeps them, run by run.
pub(crate) fn write_verdicts(verdicts: &[RowVerdict]) -> String {
    let runs = verdicts.chunk_by(|a, b| a == b);
    runs.map(|run| format!("{}{}", run.len(), run.first().map_or(' ', |v| v.letter()))).collect()
}

/// The inverse of [`write_verdicts`].
pub(crate) fn read_verdicts(text: &str) -> Option<Vec<RowVerdict>> {
    let mut verdicts = Vec::new();
    for run in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let letter = run.chars().next_back()?;
        let count: usize = run.strip_suffix(letter)?.parse().ok()?;
        let verdict = RowVerdict::ALL.into_iter().find(|v| v.letter() == letter)?;
        verdicts.resize(verdicts.len().checked_add(count)?, verdict);
    }
    Some(verdicts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn verdicts_and_hashes_round_trip(picks in proptest::collection::vec(0usize..4, 0..50), bytes: [u8; 16]) {
            let verdicts: Vec<RowVerdict> = picks.iter().map(|&i| RowVerdict::ALL[i]).collect();
            prop_assert_eq!(read_verdicts(&write_verdicts(&verdicts)), Some(verdicts));
            prop_assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn what_is_no_verdict_is_none() {
        assert_eq!(write_verdicts(&[RowVerdict::Granted, RowVerdict::Granted, RowVerdict::ShareChanged]), "2G1S");
        for bad in ["2", "G", "2X", "2G1", "-1G"] {
            assert_eq!(read_verdicts(bad), None, "{bad}");
        }
        assert_eq!(write_verdicts(&[RowVerdict::RecordBudget, RowVerdict::ModelBudget]), "1R1M");
        assert_eq!(unhex::<2>("00g0"), None);
        assert_eq!(unhex::<2>("000"), None);
    }
}
