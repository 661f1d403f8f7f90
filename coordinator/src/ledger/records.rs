//! What is known of the records that a party has asked for.

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use smallvec::SmallVec;

use super::bits::Release;

/// The records of one party, by id. An entry keeps its place, its slot, for as long as the map lives.
///
/// Keys are what peers send: the map is seeded at random, so that they cannot make them collide.
#[derive(Default)]
pub(super) struct Records(IndexMap<Box<str>, Entry, RandomState>);

/// What is known of one record.
#[derive(Default)]
pub(super) struct Entry {
    /// Whether the party has ever been answered for it.
    pub(super) known: bool,
    /// How often.
    pub(super) queries: u64,
    /// Under what: each contribution of passive parties with each policy once.
    pub(super) answered: SmallVec<[Release; 1]>,
    pub(super) shares: SmallVec<[Bound; 1]>,
    /// Its number in the journal, and of which of the journal's series.
    pub(super) number: Option<(u32, u32)>,
}

/// A share that is bound to a record and to what passive parties contribute.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    pub(super) passive: i64,
    /// The version it was bound under: of two that an older program bound, the first counts.
    pub(super) model: i64,
    pub(super) share: [u8; 16],
}

impl Entry {
    /// Takes note of an answer.
    pub(super) fn answer(&mut self, release: Release) {
        if !self.answered.contains(&release) {
            self.answered.push(release);
        }
    }

    /// The models that it was answered under: distinct contributions of passive parties.
    pub(super) fn models(&self) -> u64 {
        let first = |at: usize, passive: i64| self.answered[..at].iter().all(|(before, _)| *before != passive);
        self.answered.iter().enumerate().filter(|(at, (passive, _))| first(*at, *passive)).count() as u64
    }

    /// The share that is bound.
    pub(super) fn bound(&self, passive: i64) -> Option<[u8; 16]> {
        self.shares.iter().find(|b| b.passive == passive).map(|b| b.share)
    }
}

impl Records {
    /// The slot of a record, made if there is none; `true`: it was made. `before` is the slot of the record asked for before it, if
    /// there is one. The slot behind that is tried first: who asks for all of his records asks in the order of last time.
    pub(super) fn enter(&mut self, record: &str, before: Option<usize>) -> (usize, bool) {
        let behind = before.map_or(0, |slot| slot + 1);
        if self.0.get_index(behind).is_some_and(|(id, _)| **id == *record) {
            return (behind, false);
        }
        match self.0.get_index_of(record) {
            Some(slot) => (slot, false),
            None => (self.0.insert_full(record.into(), Entry::default()).0, true),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The record at a slot.
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<(&str, &mut Entry)> {
        self.0.get_index_mut(slot).map(|(record, entry)| (record.as_ref(), entry))
    }

    /// See [`Self::get_mut`].
    pub(super) fn get(&self, slot: usize) -> Option<(&str, &Entry)> {
        self.0.get_index(slot).map(|(record, entry)| (record.as_ref(), entry))
    }

    /// Adds a row of `uses`: the record at `slot` was answered `queries` times under `model`, which is one of the models of
    /// `release`'s passive parameters, and bound to `share`.
    pub(super) fn known(
        &mut self,
        slot: usize,
        model: i64,
        release: Release,
        queries: u64,
        share: Option<[u8; 16]>,
    ) -> Option<()> {
        let (_, entry) = self.get_mut(slot)?;
        entry.known = true;
        entry.queries = entry.queries.saturating_add(queries);
        entry.answer(release);
        let (passive, _) = release;
        match (share, entry.shares.iter_mut().find(|b| b.passive == passive)) {
            (Some(share), None) => entry.shares.push(Bound { passive, model, share }),
            (Some(share), Some(bound)) if model < bound.model => (bound.model, bound.share) = (model, share),
            _ => {}
        }
        Some(())
    }
}
