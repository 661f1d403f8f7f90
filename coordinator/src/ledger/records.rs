//! The known state of the records that a party has asked for.

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use smallvec::SmallVec;

use super::bits::ReleaseKey;

/// The records of one party, by id. An entry keeps its place, its slot, for as long as the map
/// lives.
///
/// Keys come from peers: the map is seeded at random, so that they cannot make keys collide.
#[derive(Default)]
pub(super) struct Records(IndexMap<Box<str>, Entry, RandomState>);

/// The known state of one record.
#[derive(Default)]
pub(super) struct Entry {
    /// True if the party has ever been answered for it.
    pub(super) known: bool,
    /// Number of queries that were granted.
    pub(super) queries: u64,
    /// The kinds of answers it got: each pair of passive parameters and policy once.
    pub(super) answered: SmallVec<[ReleaseKey; 1]>,
    pub(super) shares: SmallVec<[BoundShare; 1]>,
    /// The series of the journal, and the record's number in it.
    pub(super) number: Option<(u32, u32)>,
}

/// A share that is bound to a record and to passive parameters.
#[derive(Clone, Copy)]
pub(super) struct BoundShare {
    pub(super) passive: i64,
    /// The version that it was bound under: of two that an older program bound, the first counts.
    pub(super) model: i64,
    pub(super) share: [u8; 16],
}

impl Entry {
    /// Notes an answer.
    pub(super) fn answer(&mut self, release: ReleaseKey) {
        if !self.answered.contains(&release) {
            self.answered.push(release);
        }
    }

    /// Returns the number of models that it was answered under: distinct passive parameters.
    pub(super) fn models(&self) -> u64 {
        let first = |at: usize, passive: i64| {
            self.answered[..at].iter().all(|(before, _)| *before != passive)
        };
        self.answered.iter().enumerate().filter(|(at, (passive, _))| first(*at, *passive)).count()
            as u64
    }

    /// Returns the share that is bound under these passive parameters.
    pub(super) fn bound(&self, passive: i64) -> Option<[u8; 16]> {
        self.shares.iter().find(|b| b.passive == passive).map(|b| b.share)
    }
}

impl Records {
    /// Returns the slot of a record, adding the record if it is new; `true` if it was added.
    /// `before` is the slot of the record asked for before it, if there is one. The slot after that
    /// is tried first: a party that asks for all of its records asks in the order of last time.
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

    /// Returns the record at a slot.
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<(&str, &mut Entry)> {
        self.0.get_index_mut(slot).map(|(record, entry)| (record.as_ref(), entry))
    }

    /// Returns the record at a slot, as [`Self::get_mut`] does.
    pub(super) fn get(&self, slot: usize) -> Option<(&str, &Entry)> {
        self.0.get_index(slot).map(|(record, entry)| (record.as_ref(), entry))
    }

    /// Adds a row of `uses`: the record at `slot` was answered `queries` times under `model`, which
    /// is one of the models of `release`'s passive parameters, and bound to `share`.
    pub(super) fn known(
        &mut self,
        slot: usize,
        model: i64,
        release: ReleaseKey,
        queries: u64,
        share: Option<[u8; 16]>,
    ) -> Option<()> {
        let (_, entry) = self.get_mut(slot)?;
        entry.known = true;
        entry.queries = entry.queries.saturating_add(queries);
        entry.answer(release);
        let (passive, _) = release;
        match (share, entry.shares.iter_mut().find(|b| b.passive == passive)) {
            (Some(share), None) => entry.shares.push(BoundShare { passive, model, share }),
            (Some(share), Some(bound)) if model < bound.model => {
                (bound.model, bound.share) = (model, share)
            }
            _ => {}
        }
        Some(())
    }
}
