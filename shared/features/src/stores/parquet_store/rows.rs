//! The rows of a Parquet file as features, and a bounded cache of them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use vfl_core::data::ColumnRole;
use vfl_core::data::schema::FeatureSchema;

use super::columns::{Cursor, Leaf, ReadError};

/// Some rows: their ids, and their normalised features.
pub(crate) struct Rows {
    ids: String,
    ends: Vec<u32>,
    /// d values for each row.
    values: Vec<f64>,
    /// The class of each row, if the schema declares a label.
    labels: Vec<u32>,
    /// The problem and column of each row with an invalid value. It matters only if the row is
    /// requested.
    bad: HashMap<u32, Box<str>>,
}

impl Rows {
    /// Reads rows of a cursor's group.
    pub(crate) fn read(
        cursor: Cursor,
        (schema, leaves): (&FeatureSchema, &[Leaf]),
        ranges: &[Range<u32>],
    ) -> Result<(Self, Cursor), ReadError> {
        let (n, d) = (ranges.iter().map(ExactSizeIterator::len).sum::<usize>(), schema.len());
        let (mut ids, mut ends) = (String::new(), Vec::with_capacity(n));
        let mut values = vec![0.0; n * d];
        let mut labels = vec![0; if schema.label().is_some() { n } else { 0 }];
        let mut bad = HashMap::new();
        let cursor = cursor.read(leaves, ranges, &mut |column, place, cell| {
            let leaf = &leaves[column];
            let read = match leaf.target {
                ColumnRole::Id => {
                    ids.push_str(&cell?.text()?);
                    // The ids of a stretch take far less than 4 GiB.
                    ends.push(ids.len() as u32);
                    Ok(())
                }
                ColumnRole::Label => {
                    cell.and_then(|cell| schema.read_label(cell)).map(|label| labels[place] = label)
                }
                ColumnRole::Column(at) => {
                    let row = &mut values[place * d..(place + 1) * d];
                    cell.and_then(|cell| schema.read_feature(at, cell, row))
                }
            };
            if let Err(problem) = read {
                let why = || format!("column {}: {problem}", leaf.name).into_boxed_str();
                bad.entry(place as u32).or_insert_with(why);
            }
            Ok(())
        })?;
        ids.shrink_to_fit();
        Ok((Self { ids, ends, values, labels, bad }, cursor))
    }

    /// Returns the id of a row.
    pub(crate) fn id(&self, place: usize) -> Option<&str> {
        let end = *self.ends.get(place)? as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.ids.get(start..end)
    }

    /// Returns the features of a row, and its class.
    ///
    /// # Errors
    /// The reason why it has none, without a value.
    pub(crate) fn row(&self, place: usize, d: usize) -> Result<(&[f64], u32), &str> {
        match self.bad.get(&(place as u32)) {
            Some(why) => Err(why),
            None => Ok((
                &self.values[place * d..(place + 1) * d],
                self.labels.get(place).copied().unwrap_or_default(),
            )),
        }
    }

    fn bytes(&self) -> usize {
        let bad: usize = self.bad.values().map(|why| why.len() + 48).sum();
        self.ids.len()
            + 4 * (self.ends.len() + self.labels.len())
            + 8 * self.values.len()
            + bad
            + 256
    }
}

/// The most recently used stretches of rows, within a number of bytes.
pub(crate) struct StretchCache {
    most: usize,
    bytes: usize,
    uses: u64,
    stretches: HashMap<(usize, u32), (Arc<Rows>, u64)>,
}

impl StretchCache {
    /// Creates a cache of at most so many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, bytes: 0, uses: 0, stretches: HashMap::new() }
    }

    /// Returns a stretch, if it is cached.
    pub(crate) fn get(&mut self, key: (usize, u32)) -> Option<Arc<Rows>> {
        self.uses += 1;
        let (rows, used) = self.stretches.get_mut(&key)?;
        *used = self.uses;
        Some(rows.clone())
    }

    /// Caches a stretch, in place of the least recently used ones.
    pub(crate) fn put(&mut self, key: (usize, u32), rows: Arc<Rows>) {
        let bytes = rows.bytes();
        self.remove(key);
        if bytes > self.most {
            return;
        }
        while self.bytes + bytes > self.most {
            // A stretch is about a mebibyte: there are few of them.
            let Some((&oldest, _)) = self.stretches.iter().min_by_key(|(_, (_, used))| *used)
            else {
                return;
            };
            self.remove(oldest);
        }
        self.uses += 1;
        self.bytes += bytes;
        self.stretches.insert(key, (rows, self.uses));
    }

    fn remove(&mut self, key: (usize, u32)) {
        if let Some((rows, _)) = self.stretches.remove(&key) {
            self.bytes -= rows.bytes();
        }
    }

    /// Removes all stretches.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_stretch_goes() {
        let rows = |n: usize| {
            let (ids, ends, labels, bad) = (String::new(), Vec::new(), Vec::new(), HashMap::new());
            Arc::new(Rows { ids, ends, values: vec![0.0; n], labels, bad })
        };
        let mut kept = StretchCache::new(3 * rows(10).bytes());
        (0..3).for_each(|at| kept.put((0, at), rows(10)));
        assert!(kept.get((0, 0)).is_some());
        kept.put((1, 0), rows(10));
        assert!(
            kept.get((0, 1)).is_none() && kept.get((0, 0)).is_some() && kept.get((1, 0)).is_some()
        );
        kept.put((1, 0), rows(1000));
        assert!(kept.get((1, 0)).is_none() && kept.get((0, 0)).is_some(), "too large to be kept");
        assert!(kept.bytes <= kept.most);
        kept.clear();
        assert_eq!((kept.bytes, kept.stretches.len()), (0, 0));
    }
}
