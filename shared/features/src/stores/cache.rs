//! A cache of rows of a remote store: limited in bytes and in age, with eviction of the least
//! recently used.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use nalgebra::DMatrix;
use serde::Deserialize;
use tokio::time::Instant;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::types::{FeatureBlock, RecordIds};

use crate::features::{LookupResult, RemoteStore, StoreFuture};
use crate::stores::DataError;

/// The table `[data.cache]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// The maximum size of rows and ids in bytes.
    pub bytes: usize,
    /// The lifetime of a row, in seconds. A change in the store may stay unseen for this time.
    pub ttl_s: u64,
}

/// The bytes of a row besides its values and its id.
const OVERHEAD: usize = 160;

/// A store with a cache of its rows in memory.
pub(crate) struct CachedStore {
    store: Arc<dyn RemoteStore>,
    bytes: usize,
    ttl: Duration,
    rows: Mutex<RowCache>,
}

#[derive(Default)]
struct RowCache {
    by_id: HashMap<Arc<str>, Row, RandomState>,
    /// The ids by the time of their last use, as a count.
    by_use: BTreeMap<u64, Arc<str>>,
    uses: u64,
    bytes: usize,
}

struct Row {
    values: Box<[f64]>,
    label: Option<u32>,
    until: Instant,
    used: u64,
}

fn cost(id: &str, values: usize) -> usize {
    id.len() + 8 * values + OVERHEAD
}

impl RowCache {
    fn get(&mut self, id: &str, now: Instant) -> Option<(&[f64], Option<u32>)> {
        if self.by_id.get(id)?.until <= now {
            self.remove(id);
            return None;
        }
        self.uses += 1;
        let row = self.by_id.get_mut(id)?;
        if let Some(name) = self.by_use.remove(&row.used) {
            self.by_use.insert(self.uses, name);
        }
        row.used = self.uses;
        Some((&row.values, row.label))
    }

    fn remove(&mut self, id: &str) {
        if let Some(row) = self.by_id.remove(id) {
            self.by_use.remove(&row.used);
            self.bytes -= cost(id, row.values.len());
        }
    }

    fn put(
        &mut self,
        id: &str,
        values: Box<[f64]>,
        label: Option<u32>,
        until: Instant,
        most: usize,
    ) {
        self.remove(id);
        let cost = cost(id, values.len());
        if cost > most {
            return;
        }
        while self.bytes + cost > most {
            let Some((_, oldest)) = self.by_use.first_key_value() else { break };
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
        self.uses += 1;
        let name: Arc<str> = id.into();
        self.by_use.insert(self.uses, name.clone());
        self.by_id.insert(name, Row { values, label, until, used: self.uses });
        self.bytes += cost;
    }
}

impl CachedStore {
    /// Creates a cache for rows of `store`.
    pub(crate) fn new(
        store: Arc<dyn RemoteStore>,
        config: &CacheConfig,
    ) -> Result<Self, DataError> {
        if config.bytes == 0 || !(1..=86_400).contains(&config.ttl_s) {
            let message = "[data.cache] takes `bytes` of at least 1 and `ttl_s` from 1 to 86400; leave it out for no cache";
            return Err(DataError::Config(message.into()));
        }
        let ttl = Duration::from_secs(config.ttl_s);
        Ok(Self { store, bytes: config.bytes, ttl, rows: Mutex::default() })
    }

    fn rows(&self) -> std::sync::MutexGuard<'_, RowCache> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RemoteStore for CachedStore {
    fn words(&self) -> &str {
        self.store.words()
    }

    fn schema(&self) -> &FeatureSchema {
        self.store.schema()
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        self.store.check()
    }

    fn lookup<'a>(&'a self, ids: &'a RecordIds) -> StoreFuture<'a, LookupResult> {
        Box::pin(async move {
            let (d, n) = (self.schema().len(), ids.len());
            let mut come = vec![false; n];
            let (mut values, mut labels) = (vec![0.0; n * d], vec![0; n]);
            let mut wanted = Vec::new();
            {
                let now = Instant::now();
                let mut rows = self.rows();
                for (at, id) in ids.iter().enumerate() {
                    match rows.get(id, now) {
                        Some((row, label)) => {
                            values[at * d..(at + 1) * d].copy_from_slice(row);
                            labels[at] = label.unwrap_or_default();
                            come[at] = true;
                        }
                        None => wanted.push(at),
                    }
                }
            }
            if !wanted.is_empty() {
                let found = self.store.lookup(&ids.select(&wanted)).await?;
                let until = Instant::now() + self.ttl;
                let mut rows = self.rows();
                for (column, &place) in found.held.iter().enumerate() {
                    let at = wanted[place];
                    let row = &found.block.matrix().as_slice()[column * d..(column + 1) * d];
                    let label = found.labels.as_ref().map(|labels| labels[column]);
                    values[at * d..(at + 1) * d].copy_from_slice(row);
                    labels[at] = label.unwrap_or_default();
                    come[at] = true;
                    rows.put(ids.get(at).unwrap_or_default(), row.into(), label, until, self.bytes);
                }
            }
            let held: Vec<usize> = (0..n).filter(|&at| come[at]).collect();
            for (to, &from) in held.iter().enumerate() {
                values.copy_within(from * d..(from + 1) * d, to * d);
                labels[to] = labels[from];
            }
            values.truncate(held.len() * d);
            labels.truncate(held.len());
            let block = FeatureBlock::new(DMatrix::from_vec(d, held.len(), values))?;
            Ok(LookupResult { held, block, labels: self.schema().label().map(|_| labels) })
        })
    }

    fn held<'a>(&'a self, ids: &'a RecordIds) -> StoreFuture<'a, Vec<usize>> {
        self.store.held(ids)
    }

    fn ids(&self) -> StoreFuture<'_, RecordIds> {
        self.store.ids()
    }

    fn lists(&self) -> bool {
        self.store.lists()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::features::RowCollector;
    use vfl_core::data::schema::FeatureSpec;
    use vfl_core::data::table::StoreError;
    use vfl_core::data::{Cell, ColumnRole};

    use super::*;

    /// Holds the records `0` to `9` with the value id / 10, and counts the rows it was asked for.
    struct Counting(FeatureSchema, AtomicUsize);

    impl RemoteStore for Counting {
        fn words(&self) -> &str {
            "the test"
        }
        fn schema(&self) -> &FeatureSchema {
            &self.0
        }
        fn check(&self) -> StoreFuture<'_, ()> {
            Box::pin(async { Ok(()) })
        }
        fn lookup<'a>(&'a self, ids: &'a RecordIds) -> StoreFuture<'a, LookupResult> {
            self.1.fetch_add(ids.len(), Ordering::SeqCst);
            Box::pin(async move {
                let mut gather = RowCollector::new("the test", &self.0, ids);
                for id in ids.iter().filter(|id| id.len() == 1) {
                    let at = gather.begin(id)?.unwrap();
                    gather.take(
                        at,
                        "f",
                        ColumnRole::Column(0),
                        Cell::Real(id.parse::<f64>().unwrap() / 10.0),
                    )?;
                }
                gather.finish()
            })
        }
        fn ids(&self) -> StoreFuture<'_, RecordIds> {
            Box::pin(async { Err(StoreError::UnknownRecord { position: 0 }) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_kept_for_a_time_and_within_their_bytes() {
        let schema = FeatureSchema::new(vec![FeatureSpec::numeric("f", 0.0, 1.0)], None).unwrap();
        let store = Arc::new(Counting(schema, AtomicUsize::new(0)));
        let three = 3 * cost("0", 1);
        let cached =
            CachedStore::new(store.clone(), &CacheConfig { bytes: three, ttl_s: 60 }).unwrap();
        let ask = async |ids: &[&str]| {
            let before = store.1.load(Ordering::SeqCst);
            let found = cached.lookup(&RecordIds::new(ids).unwrap()).await.unwrap();
            (
                found.held,
                found.block.matrix().as_slice().to_vec(),
                store.1.load(Ordering::SeqCst) - before,
            )
        };
        assert_eq!(ask(&["1", "xx", "2"]).await, (vec![0, 2], vec![0.1, 0.2], 3));
        // What is missing is asked for again; what is known is not, and the order is that of the
        // request.
        assert_eq!(ask(&["2", "xx", "3", "1"]).await, (vec![0, 2, 3], vec![0.2, 0.3, 0.1], 2));
        // The longest unused goes.
        assert_eq!(ask(&["1", "2", "4"]).await.2, 1);
        assert_eq!(ask(&["3"]).await.2, 1);
        assert!(cached.rows().bytes <= three && cached.rows().by_id.len() == 3);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(ask(&["3"]).await.2, 1);
        assert!(CachedStore::new(store.clone(), &CacheConfig { bytes: 0, ttl_s: 1 }).is_err());
    }
}
