//! The decision on a group of requests: its cost, and which of its rows are granted. Pure, so that
//! a test can run it against an oracle.
//!
//! The writer reads what is known of the records asked for, lets this module decide one request
//! after another, and writes the sum of the changes. A later request of the group sees what the
//! earlier ones spent.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use foldhash::fast::RandomState;
use vfl_core::clock::seconds;

use super::bits::{Bits, ReleaseKey};
use super::rate::Bucket;
use super::records::{BoundShare, Entry, Records};
use super::{Budgets, LedgerError, RowVerdict, SpendRequest};

/// Relative amount by which a sum of bits may exceed its budget: three answers of 1/3 bit are one.
const ROUND_OFF: f64 = 1e-12;

/// A map whose keys come from peers: seeded at random, so that they cannot make keys collide.
type Map<K, V> = HashMap<K, V, RandomState>;

/// A request with its names resolved.
pub(crate) struct ResolvedRequest<'a> {
    pub(crate) spend: &'a SpendRequest,
    /// Its records as the ledger keeps them: the ids, or the pseudonyms of erased ones.
    pub(crate) records: Vec<Cow<'a, str>>,
    pub(crate) model: i64,
    /// Key of the model's passive parameters.
    pub(crate) passive: i64,
    /// True if the operator has approved the model.
    pub(crate) approved: bool,
    pub(crate) policy: i64,
    /// Time of the request, by the clock of the rate limit.
    pub(crate) clock: Duration,
    /// Time of the request in Unix seconds, for the memory of its id: not before that of earlier
    /// requests, even if the clock was set back.
    pub(crate) dated: i64,
}

/// The rows of one request that were granted.
pub(super) struct GrantedRows {
    pub(super) model: i64,
    /// Key of the model's passive parameters.
    pub(super) passive: i64,
    pub(super) policy: i64,
    /// Time of the request, in Unix seconds.
    pub(super) at: i64,
    /// Slots of the records; `true` if the row bound the record's share.
    pub(super) rows: Vec<(u32, bool)>,
}

/// The addition of a group to one row of `totals`.
#[derive(Clone, Copy)]
pub(crate) struct TotalDelta {
    pub(crate) queries: i64,
    pub(crate) refused: i64,
    /// Time of the first row, in Unix seconds.
    pub(crate) first_at: i64,
    /// Time of the last row, in Unix seconds.
    pub(crate) last_at: i64,
}

/// A request that was decided before.
pub(crate) struct RememberedRequest {
    pub(crate) body_hash: [u8; 32],
    pub(crate) verdicts: Vec<RowVerdict>,
    /// Time of the request, in Unix seconds.
    pub(crate) at: i64,
}

/// One party's part of the ledger, as far as the group concerns it.
pub(crate) struct PartyState<'a> {
    count: u64,
    /// Number of records that the party had not asked for before.
    pub(crate) new_records: u64,
    /// The party's tokens; `None` when the rate is unlimited.
    pub(crate) bucket: Option<Bucket>,
    /// The known state of the party's records, those asked for included.
    pub(super) records: Records,
    /// The slots of the records of each request.
    slots: Vec<Vec<u32>>,
    /// The granted rows, in order.
    pub(super) granted: Vec<GrantedRows>,
    remembered: Map<&'a str, RememberedRequest>,
    /// The request ids to remember.
    pub(crate) to_remember: Vec<&'a str>,
    /// Number of records whose last query the group has spent.
    pub(crate) exhausted: u64,
    /// The additions to `totals`, by model and policy.
    pub(crate) totals: BTreeMap<(i64, i64), TotalDelta>,
}

impl<'a> PartyState<'a> {
    /// Creates the state of a party that has asked for `count` records, of which `records` are
    /// known.
    pub(super) fn new(count: u64, bucket: Option<Bucket>, records: Records) -> Self {
        Self {
            count,
            new_records: 0,
            exhausted: 0,
            bucket,
            records,
            slots: Vec::new(),
            granted: Vec::new(),
            remembered: Map::default(),
            to_remember: Vec::new(),
            totals: BTreeMap::new(),
        }
    }

    /// Makes room for the records of the next request. Slots of records of which nothing is known
    /// yet go to `fresh`.
    pub(super) fn enter(&mut self, asked: &ResolvedRequest<'_>, fresh: &mut Vec<usize>) {
        let mut slots = Vec::with_capacity(asked.records.len());
        let mut before = None;
        for record in &asked.records {
            let (slot, made) = self.records.enter(record, before);
            before = Some(slot);
            if made {
                fresh.push(slot);
            }
            // Far fewer records fit in memory.
            slots.push(u32::try_from(slot).unwrap_or(u32::MAX));
        }
        self.slots.push(slots);
    }

    /// Adds a request that was decided before.
    pub(crate) fn remember(&mut self, request_id: &'a str, remembered: RememberedRequest) {
        self.remembered.insert(request_id, remembered);
    }

    /// Returns the requests to remember, and their decisions.
    pub(crate) fn remembered(&self) -> impl Iterator<Item = (&'a str, &RememberedRequest)> {
        self.to_remember.iter().filter_map(|&id| Some((id, self.remembered.get(id)?)))
    }

    /// Returns `true` if anything is to be written.
    pub(crate) fn changed(&self) -> bool {
        !self.totals.is_empty()
    }

    /// Returns the number of distinct records that the party has asked for, the group's included.
    pub(crate) fn count(&self) -> u64 {
        self.count.saturating_add(self.new_records)
    }

    /// Decides the request that was entered as number `request`. A refusal of the whole request
    /// changes nothing.
    pub(crate) fn decide(
        &mut self,
        request: usize,
        asked: &ResolvedRequest<'a>,
        (budgets, bits): (&Budgets, &Bits),
        memory: Duration,
    ) -> Result<Vec<RowVerdict>, LedgerError> {
        let spend = asked.spend;
        let now = seconds(spend.at);
        if let Some(before) = spend.request_id.as_deref().and_then(|id| self.remembered.get(id))
            && asked.dated.saturating_sub(before.at)
                < i64::try_from(memory.as_secs()).unwrap_or(i64::MAX)
        {
            let same =
                before.body_hash == spend.body_hash && before.verdicts.len() == asked.records.len();
            return if same {
                Ok(before.verdicts.clone())
            } else {
                Err(LedgerError::RequestIdReused)
            };
        }
        let slots = self.slots.get_mut(request).map(std::mem::take).unwrap_or_default();
        debug_assert_eq!(slots.len(), asked.records.len(), "every record was entered");
        let is_new =
            |slot: &&u32| self.records.get(**slot as usize).is_none_or(|(_, entry)| !entry.known);
        if let Some(limit) = budgets.records {
            let new = slots.iter().filter(is_new).count() as u64;
            let left = limit.saturating_sub(self.count + self.new_records);
            if new > left {
                return Err(LedgerError::TotalBudget { left, asked: new });
            }
        }
        if let (Some(bucket), Some(rows_per_minute)) = (&mut self.bucket, budgets.rows_per_minute) {
            let rows = slots.len() as u64;
            bucket
                .take(rows_per_minute, rows, asked.clock)
                .map_err(|retry_after| LedgerError::Rate { rows_per_minute, rows, retry_after })?;
        }
        let mut verdicts = Vec::with_capacity(slots.len());
        let ResolvedRequest { model, passive, policy, .. } = *asked;
        let mut granted =
            GrantedRows { model, passive, policy, at: now, rows: Vec::with_capacity(slots.len()) };
        for (row, slot) in slots.into_iter().enumerate() {
            let share = spend.share_hashes.get(row).copied();
            let Some((_, entry)) = self.records.get_mut(slot as usize) else {
                // Every record has a slot. Verdicts go by position, so none may be left out; a
                // record without a slot is not granted.
                verdicts.push(RowVerdict::RecordBudget);
                continue;
            };
            let was_known = entry.known;
            match spend_one(entry, asked, share, budgets, bits) {
                Ok(binds) => {
                    granted.rows.push((slot, binds));
                    self.exhausted += u64::from(budgets.queries_per_record == Some(entry.queries));
                    self.new_records += u64::from(!was_known);
                    verdicts.push(RowVerdict::Granted);
                }
                Err(refused) => verdicts.push(refused),
            }
        }
        if !granted.rows.is_empty() {
            self.granted.push(granted);
        }
        let refused = verdicts.iter().filter(|&&v| v != RowVerdict::Granted).count() as i64;
        let empty = TotalDelta { queries: 0, refused: 0, first_at: now, last_at: now };
        let total = self.totals.entry((asked.model, asked.policy)).or_insert(empty);
        total.queries += verdicts.len() as i64;
        total.refused += refused;
        total.first_at = total.first_at.min(now);
        total.last_at = total.last_at.max(now);
        if let Some(id) = spend.request_id.as_deref() {
            let remembered = RememberedRequest {
                body_hash: spend.body_hash,
                verdicts: verdicts.clone(),
                at: asked.dated,
            };
            // An id that was remembered for long enough may be in the group twice; it is then
            // written once.
            self.remembered.insert(id, remembered);
            if !self.to_remember.contains(&id) {
                self.to_remember.push(id);
            }
        }
        Ok(verdicts)
    }
}

/// Spends one query of a record; returns `true` if it binds the record's share. A refusal leaves no
/// trace in the record.
fn spend_one(
    entry: &mut Entry,
    asked: &ResolvedRequest<'_>,
    share: Option<[u8; 16]>,
    budgets: &Budgets,
    bits: &Bits,
) -> Result<bool, RowVerdict> {
    let ResolvedRequest { passive, model, policy, .. } = *asked;
    let bound = entry.bound(passive);
    let within = |limit: Option<u64>, spent: u64| limit.is_none_or(|limit| spent < limit);
    if !within(budgets.queries_per_record, entry.queries) {
        return Err(RowVerdict::RecordBudget);
    }
    if share.zip(bound).is_some_and(|(share, bound)| share != bound) {
        return Err(RowVerdict::ShareChanged);
    }
    let further = entry.answered.iter().all(|(under, _)| *under != passive) && !asked.approved;
    if further && !within(budgets.models_per_record, entry.models()) {
        return Err(RowVerdict::ModelBudget);
    }
    let release: ReleaseKey = (passive, policy);
    if let Some(most) = budgets.bits_per_record
        && !entry.answered.contains(&release)
        && bits
            .sum(entry.answered.iter().chain([&release]))
            .is_none_or(|told| told > most * (1.0 + ROUND_OFF))
    {
        return Err(RowVerdict::BitsBudget);
    }
    let bind = share.filter(|_| bound.is_none());
    entry.known = true;
    entry.queries = entry.queries.saturating_add(1);
    entry.answer(release);
    entry.shares.extend(bind.map(|share| BoundShare { passive, model, share }));
    Ok(bind.is_some())
}

/// Returns verdicts as the ledger keeps them, run by run.
pub(crate) fn write_verdicts(verdicts: &[RowVerdict]) -> String {
    let runs = verdicts.chunk_by(|a, b| a == b);
    runs.map(|run| format!("{}{}", run.len(), run.first().map_or(' ', |v| v.letter()))).collect()
}

/// Reads verdicts as [`write_verdicts`] writes them; `None` if the text is malformed.
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
        fn verdicts_round_trip(picks in proptest::collection::vec(0usize..5, 0..50)) {
            let verdicts: Vec<RowVerdict> = picks.iter().map(|&i| RowVerdict::ALL[i]).collect();
            prop_assert_eq!(read_verdicts(&write_verdicts(&verdicts)), Some(verdicts));
        }
    }

    #[test]
    fn what_is_no_verdict_is_none() {
        assert_eq!(
            write_verdicts(&[RowVerdict::Granted, RowVerdict::Granted, RowVerdict::ShareChanged]),
            "2G1S"
        );
        for bad in ["2", "G", "2X", "2G1", "-1G"] {
            assert_eq!(read_verdicts(bad), None, "{bad}");
        }
        let spent = [RowVerdict::RecordBudget, RowVerdict::ModelBudget, RowVerdict::BitsBudget];
        assert_eq!(write_verdicts(&spent), "1R1M1B");
    }
}
