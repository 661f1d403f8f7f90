//! An index from record ids to rows, at 12 bytes per row: the ids themselves are compared in the
//! file.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;

/// The rows by the hash of their ids. The hash is seeded at random: somebody who chooses the ids
/// cannot choose their collisions.
pub(crate) struct RowIndex {
    /// The two halves of the hash, and the row; sorted.
    entries: Vec<[u32; 3]>,
    hasher: RandomState,
}

impl RowIndex {
    /// Creates an index with room for so many rows.
    pub(crate) fn with_room(rows: usize) -> Self {
        Self { entries: Vec::with_capacity(rows), hasher: RandomState::default() }
    }

    fn key(&self, id: &str) -> [u32; 2] {
        let hash = self.hasher.hash_one(id);
        [(hash >> 32) as u32, hash as u32]
    }

    /// Adds the next row.
    pub(crate) fn push(&mut self, id: &str) {
        let ([high, low], row) = (self.key(id), self.entries.len() as u32);
        self.entries.push([high, low, row]);
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Sorts the entries, which look-ups require.
    pub(crate) fn sort(&mut self) {
        self.entries.sort_unstable();
    }

    /// Returns the rows that may have this id: rarely more than one.
    pub(crate) fn rows(&self, id: &str) -> impl Iterator<Item = u32> + '_ {
        let key = self.key(id);
        let from = self.entries.partition_point(|entry| entry[..2] < key[..]);
        self.entries[from..]
            .iter()
            .take_while(move |entry| entry[..2] == key[..])
            .map(|entry| entry[2])
    }

    /// Returns the first row from `from` on that has the hash of an earlier one, and that one.
    pub(crate) fn repeated(&self, from: u32) -> Option<(u32, u32)> {
        let pairs = self.entries.windows(2).filter(|pair| pair[0][..2] == pair[1][..2]);
        pairs.map(|pair| (pair[1][2], pair[0][2])).filter(|&(row, _)| row >= from).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_and_repeated_ids_too() {
        let mut index = RowIndex::with_room(0);
        let id = |i: usize| format!("r{}", if i == 700 { 13 } else { i });
        (0..1000).for_each(|i| index.push(&id(i)));
        index.sort();
        assert_eq!(index.len(), 1000);
        for i in (0..1000).filter(|i| ![13, 700].contains(i)) {
            assert!(index.rows(&id(i)).eq([i as u32]));
        }
        assert!(index.rows("r13").eq([13, 700]));
        assert_eq!(index.rows("nobody").count(), 0);
        assert_eq!(index.repeated(0), Some((700, 13)));
        assert_eq!(index.repeated(701), None);
    }
}
