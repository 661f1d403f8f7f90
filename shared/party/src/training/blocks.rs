//! The rows of batches whose records are not in memory.

use std::collections::VecDeque;

use nalgebra::DMatrix;
use vfl_core::types::RecordIds;
use vfl_protocol::Refusal;
use vfl_protocol::training::messages::Step;

use super::source::RecordSource;

/// The number of records in one request to a source.
const PART: usize = 4096;
/// The number of cached blocks: batches go from one into the next, and a short one may lie between.
const KEPT: usize = 3;
/// The maximum size of the cache in bytes. Larger blocks are not cached: each batch is requested
/// separately.
const KEPT_BYTES: usize = 192 << 20;

/// The records of a training, at their source. If the training proceeds in blocks
/// (`shuffle_block`), a block is fetched for its first batch, in the order of the list, and cached
/// until it is finished. So a store reads neighbouring records together.
pub(super) struct RemoteRecords<'a> {
    source: &'a dyn RecordSource,
    ids: RecordIds,
    features: usize,
    /// The number of records in a block; 0 if there are no blocks.
    size: usize,
    /// The rows of the most recent blocks.
    kept: VecDeque<(usize, DMatrix<f64>)>,
}

impl<'a> RemoteRecords<'a> {
    /// Creates the source of these records, with blocks of this size.
    pub(super) fn new(
        source: &'a dyn RecordSource,
        ids: RecordIds,
        features: usize,
        block: u32,
    ) -> Self {
        let size = (block as usize).min(ids.len());
        let bytes = size.saturating_mul(features).saturating_mul(8 * KEPT);
        let size = if bytes > KEPT_BYTES { 0 } else { size };
        Self { source, ids, features, size, kept: VecDeque::new() }
    }

    /// Returns the rows of a batch (d × B), whose positions are below the number of records.
    ///
    /// # Errors
    /// The refusal of the source.
    pub(super) async fn rows(&mut self, step: &Step) -> Result<DMatrix<f64>, Refusal> {
        let mut wanted: Vec<usize> = step.batch.iter().map(|&p| p as usize).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let blocks = self.blocks_of(&wanted);
        // An evaluation batch goes through the list, and leaves most of each block out.
        if step.evaluation || blocks.is_empty() || blocks.len() > KEPT {
            let rows = self.fetch(&wanted).await?;
            // A batch may contain a record twice; a store is asked for it once.
            let place = |&p: &u32| wanted.binary_search(&(p as usize)).unwrap_or_default();
            let columns: Vec<usize> = step.batch.iter().map(place).collect();
            return Ok(rows.select_columns(&columns));
        }
        // Room is made first: the cache never holds more than the blocks of this batch.
        self.kept.retain(|(block, _)| blocks.contains(block));
        for block in blocks {
            if self.kept.iter().all(|(kept, _)| *kept != block) {
                let from = block * self.size;
                let all: Vec<usize> = (from..(from + self.size).min(self.ids.len())).collect();
                let rows = self.fetch(&all).await?;
                self.kept.push_back((block, rows));
            }
        }
        let mut batch = DMatrix::zeros(self.features, step.batch.len());
        for (mut to, &position) in batch.column_iter_mut().zip(&step.batch) {
            let (block, at) = (position as usize / self.size, position as usize % self.size);
            if let Some((_, rows)) = self.kept.iter().find(|(kept, _)| *kept == block) {
                to.copy_from(&rows.column(at));
            }
        }
        Ok(batch)
    }

    /// Returns the rows of all records (d × n).
    ///
    /// # Errors
    /// The refusal of the source.
    pub(super) async fn all(&self) -> Result<DMatrix<f64>, Refusal> {
        let positions: Vec<usize> = (0..self.ids.len()).collect();
        self.fetch(&positions).await
    }

    /// Returns the blocks of increasing positions; none without blocks.
    fn blocks_of(&self, positions: &[usize]) -> Vec<usize> {
        if self.size == 0 {
            return Vec::new();
        }
        let mut blocks: Vec<usize> = positions.iter().map(|p| p / self.size).collect();
        blocks.dedup();
        blocks
    }

    /// Fetches rows from the source (d × n), a part at a time.
    async fn fetch(&self, positions: &[usize]) -> Result<DMatrix<f64>, Refusal> {
        let mut values = Vec::with_capacity(self.features * positions.len());
        for part in positions.chunks(PART) {
            let block = self.source.fetch(&self.ids.select(part)).await?.into_matrix();
            if block.shape() != (self.features, part.len()) {
                return Err(Refusal::internal(
                    "the feature store gave another number of records than were asked for",
                ));
            }
            values.extend_from_slice(block.as_slice());
        }
        Ok(DMatrix::from_vec(self.features, positions.len(), values))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Mutex;

    use super::*;
    use crate::training::source::{SourceFuture, TrainingRecords};
    use vfl_core::model::{Schedule, TrainingConfig, TrainingValues};
    use vfl_core::types::FeatureBlock;

    /// Record `i` has the features i and -i; remembers what it was asked for.
    struct Counting(Mutex<Vec<Vec<usize>>>);

    impl RecordSource for Counting {
        fn open<'a>(&'a self, _: &'a RecordIds) -> SourceFuture<'a, TrainingRecords> {
            Box::pin(async { Ok(TrainingRecords::Elsewhere { features: 2 }) })
        }

        fn fetch<'a>(&'a self, ids: &'a RecordIds) -> SourceFuture<'a, FeatureBlock> {
            let asked: Vec<usize> = ids.iter().map(|id| id.parse().unwrap()).collect();
            let values = asked.iter().flat_map(|&i| [i as f64, -(i as f64)]).collect();
            let block = FeatureBlock::new(DMatrix::from_vec(2, asked.len(), values)).unwrap();
            self.0.lock().unwrap().push(asked);
            Box::pin(async move { Ok(block) })
        }
    }

    fn step(batch: Vec<u32>, evaluation: bool) -> Step {
        Step { batch, evaluation, ..Step::default() }
    }

    async fn check(elsewhere: &mut RemoteRecords<'_>, batch: &[u32], evaluation: bool) {
        let rows = elsewhere.rows(&step(batch.to_vec(), evaluation)).await.unwrap();
        let wanted: Vec<f64> = batch.iter().flat_map(|&p| [f64::from(p), -f64::from(p)]).collect();
        assert_eq!((rows.shape(), rows.as_slice()), ((2, batch.len()), &wanted[..]));
    }

    #[tokio::test]
    async fn an_epoch_asks_for_each_block_once_and_keeps_few() {
        let (records, block) = (10_000, 640);
        let values =
            TrainingValues { batch_size: 32, shuffle_block: block, seed: 9, ..Default::default() };
        let mut schedule = Schedule::new(&TrainingConfig::try_from(values).unwrap(), records);
        let source = Counting(Mutex::default());
        let ids = RecordIds::new((0..records).map(|i| i.to_string())).unwrap();
        let mut elsewhere = RemoteRecords::new(&source, ids, 2, block);
        for _ in 0..2 {
            for batch in schedule.next_epoch() {
                check(&mut elsewhere, &batch, false).await;
                assert!(elsewhere.kept.len() <= KEPT);
            }
            let mut asked = source.0.lock().unwrap();
            // The last block of an epoch may be the first of the next.
            assert!((15..=16).contains(&asked.len()), "{}", asked.len());
            assert!(
                asked.iter().all(|ids| ids.windows(2).all(|pair| pair[0] + 1 == pair[1])),
                "neighbours"
            );
            asked.clear();
        }
        let kept = elsewhere.kept.len();
        for chunk in schedule.validation().to_vec().chunks(300) {
            check(&mut elsewhere, chunk, true).await;
        }
        let asked: usize = source.0.lock().unwrap().iter().map(Vec::len).sum();
        assert_eq!(
            (asked, elsewhere.kept.len()),
            (schedule.validation().len(), kept),
            "only what is looked at"
        );
    }

    /// A coordinator that asks across the list gets its answer, and the party keeps no more for it.
    #[tokio::test]
    async fn batches_of_any_records_are_answered() {
        let source = Counting(Mutex::default());
        let ids = RecordIds::new((0..9000).map(|i| i.to_string())).unwrap();
        for block in [0, 700, 1_000_000] {
            let mut elsewhere = RemoteRecords::new(&source, ids.clone(), 2, block);
            check(&mut elsewhere, &[8999, 3, 3, 4500, 2000, 700], false).await;
            check(&mut elsewhere, &[1, 1], false).await;
            check(&mut elsewhere, &(0..9000).rev().collect::<Vec<_>>(), true).await;
        }
        let wide = RemoteRecords::new(&source, ids, 100_000, 9000);
        assert_eq!(wide.size, 0, "blocks that do not fit are not kept");
    }
}
