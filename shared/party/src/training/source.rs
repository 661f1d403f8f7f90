//! The source of the features of a training's participant.

use std::pin::Pin;

use vfl_core::types::{FeatureBlock, RecordIds};
use vfl_protocol::Refusal;

/// The future answer of a source.
pub type SourceFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send + 'a>>;

/// A source of features for a training.
pub trait RecordSource: Send + Sync {
    /// Prepares for a training on these records, all of which must be held.
    fn open<'a>(&'a self, ids: &'a RecordIds) -> SourceFuture<'a, TrainingRecords>;

    /// Fetches the block of some of the records, in the order given.
    fn fetch<'a>(&'a self, ids: &'a RecordIds) -> SourceFuture<'a, FeatureBlock>;
}

/// The records of a training, in memory or at their source.
pub enum TrainingRecords {
    /// The block of all records in memory, in their order.
    Here(FeatureBlock),
    /// Records that are not in memory: each batch is fetched for its step.
    Elsewhere {
        /// The number of features.
        features: usize,
    },
}

/// A function that has all records in memory.
impl<F: Fn(&RecordIds) -> Result<FeatureBlock, Refusal> + Send + Sync> RecordSource for F {
    fn open<'a>(&'a self, ids: &'a RecordIds) -> SourceFuture<'a, TrainingRecords> {
        let block = self(ids).map(TrainingRecords::Here);
        Box::pin(async move { block })
    }

    fn fetch<'a>(&'a self, ids: &'a RecordIds) -> SourceFuture<'a, FeatureBlock> {
        let block = self(ids);
        Box::pin(async move { block })
    }
}
