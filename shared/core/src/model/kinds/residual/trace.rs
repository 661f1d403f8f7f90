//! The values that the forward pass of a training batch keeps.

use super::batch_norm::NormalisedBatch;
use super::maps::{Maps, Real};

/// The values that the backward pass through a block needs beside its inputs and outputs.
pub(super) struct BlockTrace<T> {
    pub(super) first: NormalisedBatch<T>,
    /// The inputs of the second unit.
    pub(super) inner: Maps<T>,
    pub(super) second: NormalisedBatch<T>,
    pub(super) shortcut: Option<NormalisedBatch<T>>,
}

/// The values that the backward pass through the network needs.
pub(super) struct Trace<T> {
    /// The inputs of the stem, of each block, and of the mean over pixels.
    pub(super) maps: Vec<Maps<T>>,
    pub(super) stem: NormalisedBatch<T>,
    pub(super) blocks: Vec<BlockTrace<T>>,
    /// The means over pixels, n × channels.
    pub(super) pooled: Vec<T>,
}

impl<T: Real> Trace<T> {
    /// Returns the number of records of the batch.
    pub(super) fn records(&self) -> usize {
        self.maps.first().map_or(0, Maps::records)
    }
}
