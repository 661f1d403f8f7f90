//! Hash index of record ids.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use crate::types::RecordIds;

const EMPTY: u32 = u32::MAX;
/// The number of ids that are looked up together.
const GROUP: usize = 64;

/// Positions of a batch of ids by hash: an open-addressed table of positions, at most half full.
/// The ids themselves are not copied, so the index costs 8 to 16 bytes a record. The hash is seeded
/// at random, so that nobody can choose ids that collide. No result depends on the seed.
#[derive(Clone)]
pub struct IdIndex {
    slots: Box<[u32]>,
    hasher: RandomState,
}

impl IdIndex {
    /// Indexes distinct ids. [`RecordIds`] guarantees that they are distinct, and fewer than 2³²
    /// because their packed text ends below 4 GiB.
    #[must_use]
    pub fn new(ids: &RecordIds) -> Self {
        let hasher = RandomState::default();
        let size = (2 * ids.len().max(1)).next_power_of_two();
        let mut slots = vec![EMPTY; size].into_boxed_slice();
        for (position, id) in ids.iter().enumerate() {
            let mut slot = hasher.hash_one(id) as usize & (size - 1);
            while slots[slot] != EMPTY {
                slot = (slot + 1) & (size - 1);
            }
            slots[slot] = position as u32;
        }
        Self { slots, hasher }
    }

    /// Returns the position of `id` in the batch that was indexed.
    #[must_use]
    pub fn position(&self, ids: &RecordIds, id: &str) -> Option<usize> {
        let slot = self.hasher.hash_one(id) as usize & (self.slots.len() - 1);
        self.walk(ids, id, slot, self.slots[slot])
    }

    /// Finds the ids of `asked` that are in the indexed batch. Returns their places in `asked` and
    /// their positions in the batch, in the order of `asked`.
    ///
    /// This is faster than [`IdIndex::position`] for each id: a slot and the id it refers to lie
    /// anywhere in memory, and the processor waits for those of a whole group at once.
    #[must_use]
    pub fn positions(&self, ids: &RecordIds, asked: &RecordIds) -> (Vec<usize>, Vec<usize>) {
        let mask = self.slots.len() - 1;
        let (mut places, mut found) =
            (Vec::with_capacity(asked.len()), Vec::with_capacity(asked.len()));
        let mut rest = asked.iter().enumerate();
        loop {
            let mut group = [(0, "", 0); GROUP];
            let mut some = 0;
            for (to, (place, id)) in group.iter_mut().zip(rest.by_ref()) {
                *to = (place, id, self.hasher.hash_one(id) as usize & mask);
                some += 1;
            }
            let group = &group[..some];
            if group.is_empty() {
                return (places, found);
            }
            let mut first = [EMPTY; GROUP];
            for (first, (_, _, slot)) in first.iter_mut().zip(group) {
                *first = self.slots[*slot];
            }
            let mut spans = [const { 0..0 }; GROUP];
            for (span, first) in spans.iter_mut().zip(&first[..some]) {
                *span = ids.span(*first as usize).unwrap_or_default();
            }
            // The texts of a group are also loaded together, before any is compared.
            let text = ids.packed().0;
            let starts = spans[..some].iter().filter_map(|span| text.as_bytes().get(span.start));
            std::hint::black_box(starts.fold(0, |seen, byte| seen ^ byte));
            for ((first, span), (place, id, slot)) in first.into_iter().zip(spans).zip(group) {
                let at_once = text.get(span) == Some(id);
                let position =
                    if at_once { Some(first as usize) } else { self.walk(ids, id, *slot, first) };
                if let Some(position) = position {
                    places.push(*place);
                    found.push(position);
                }
            }
        }
    }

    /// Continues the search from the slot of the hash of `id`, which holds `first`.
    fn walk(&self, ids: &RecordIds, id: &str, mut slot: usize, first: u32) -> Option<usize> {
        let mut position = first;
        while position != EMPTY {
            if ids.get(position as usize) == Some(id) {
                return Some(position as usize);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
            position = self.slots[slot];
        }
        None
    }
}

/// A set of record ids with fast membership tests.
pub struct IdSet {
    ids: RecordIds,
    index: IdIndex,
}

impl IdSet {
    /// Creates the set of these ids.
    #[must_use]
    pub fn new(ids: RecordIds) -> Self {
        Self { index: IdIndex::new(&ids), ids }
    }

    /// Returns true if the id is in the set.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.index.position(&self.ids, id).is_some()
    }
}

/// All indexes compare as equal: the seeds do not matter, and tables compare their ids themselves.
impl PartialEq for IdIndex {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn agrees_with_a_map(ids in proptest::collection::hash_set("[a-c]{1,4}", 0..80), asked in proptest::collection::vec("[a-c]{1,4}", 0..200)) {
            let ids = RecordIds::new(&ids).unwrap();
            let map: HashMap<&str, usize> = ids.iter().enumerate().map(|(i, id)| (id, i)).collect();
            let index = IdIndex::new(&ids);
            for id in asked.iter().map(String::as_str).chain(ids.iter()) {
                prop_assert_eq!(index.position(&ids, id), map.get(id).copied());
            }
            let mut once = std::collections::HashSet::new();
            let distinct = RecordIds::new(asked.iter().filter(|id| once.insert(*id))).unwrap();
            let wanted = distinct.iter().enumerate().filter_map(|(place, id)| Some((place, *map.get(id)?)));
            prop_assert_eq!(index.positions(&ids, &distinct), wanted.unzip());
            let set = IdSet::new(ids.clone());
            prop_assert!(asked.iter().all(|id| set.contains(id) == map.contains_key(id.as_str())));
        }
    }
}
