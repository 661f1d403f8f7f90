//! Where a participant of a training gets its features from.

use std::pin::Pin;

use crate::rpc::Refusal;
use crate::types::{FeatureBlock, RecordIds};

/// What a source answers when it has.
pub type Rows<'a, T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send + 'a>>;

/// Where a participant gets its features from.
pub trait RecordSource: Send + Sync {
    /// Makes ready for a training on these records, all of which must be held.
    fn open<'a>(&'a self, ids: &'a RecordIds) -> Rows<'a, TrainingRecords>;

    /// The block of some of them, in the order given.
    fn fetch<'a>(&'a self, ids: &'a RecordIds) -> Rows<'a, FeatureBlock>;
}

/// The records of a training, as their source has them.
pub enum TrainingRecords {
    /// In memory: the block of all of them, in their order.
    Here(FeatureBlock),
    /// Elsewhere: each batch is fetched when its step comes.
    Elsewhere {
        /// Number of features.
        features: usize,
    },
}

/// A function that has all records in memory.
impl<F: Fn(&RecordIds) -> Result<FeatureBlock, Refusal> + Send + Sync> RecordSource for F {
    fn open<'a>(&'a self, ids: &'a RecordIds) -> Rows<'a, TrainingRecords> {
        let block = self(ids).map(TrainingRecords::Here);
        Box::pin(async move { block })
    }

    fn fetch<'a>(&'a self, ids: &'a RecordIds) -> Rows<'a, FeatureBlock> {
        let block = self(ids);
        Box::pin(async move { block })
    }
}
