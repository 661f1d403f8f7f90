//! Hash index of record ids.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use crate::types::RecordIds;

const EMPTY: u32 = u32::MAX;

/// Positions of a batch of ids by hash: an open-addressed table of positions, at most half full. The ids themselves stay
/// where they are, so the index costs 8 to 16 bytes a record. The hash is seeded at random: whoever chooses the ids
/// cannot choose their collisions, and no result depends on it.
#[derive(Clone)]
pub(super) struct IdIndex {
    slots: Box<[u32]>,
    hasher: RandomState,
}

impl IdIndex {
    /// Indexes distinct ids (which [`RecordIds`] guarantees, as it does that there are fewer than 2³²: their packed text
    /// ends below 4 GiB).
    pub(super) fn new(ids: &RecordIds) -> Self {
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

    /// The position of `id` in the batch that was indexed.
    pub(super) fn position(&self, ids: &RecordIds, id: &str) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut slot = self.hasher.hash_one(id) as usize & mask;
        while self.slots[slot] != EMPTY {
            let position = self.slots[slot] as usize;
            if ids.get(position) == Some(id) {
                return Some(position);
            }
            slot = (slot + 1) & mask;
        }
        None
    }
}

/// Record ids that can be asked whether one is among them.
pub struct IdSet {
    ids: RecordIds,
    index: IdIndex,
}

impl IdSet {
    /// The set of these ids.
    #[must_use]
    pub fn new(ids: RecordIds) -> Self {
        Self { index: IdIndex::new(&ids), ids }
    }

    /// Whether an id is one of them.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.index.position(&self.ids, id).is_some()
    }
}

/// Two indexes of equal batches say the same, whatever their seeds: tables are compared by their ids alone.
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
        fn agrees_with_a_map(ids in proptest::collection::hash_set("[a-c]{1,4}", 0..80), asked in proptest::collection::vec("[a-c]{1,4}", 0..40)) {
            let ids = RecordIds::new(&ids).unwrap();
            let map: HashMap<&str, usize> = ids.iter().enumerate().map(|(i, id)| (id, i)).collect();
            let index = IdIndex::new(&ids);
            for id in asked.iter().map(String::as_str).chain(ids.iter()) {
                prop_assert_eq!(index.position(&ids, id), map.get(id).copied());
            }
            let set = IdSet::new(ids.clone());
            prop_assert!(asked.iter().all(|id| set.contains(id) == map.contains_key(id.as_str())));
        }
    }
}
