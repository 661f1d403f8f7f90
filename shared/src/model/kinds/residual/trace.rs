//! What the forward pass of a training batch remembers.

use super::batch_norm::Normed;
use super::maps::{Maps, Real};

/// What the backward pass through a block needs beside its inputs and outputs.
pub(super) struct BlockTrace<T> {
    pub(super) first: Normed<T>,
    /// What goes into the second unit.
    pub(super) inner: Maps<T>,
    pub(super) second: Normed<T>,
    pub(super) shortcut: Option<Normed<T>>,
}

/// What the backward pass through the network needs.
pub(super) struct Trace<T> {
    /// What goes into the stem, into each block, and into the mean over pixels.
    pub(super) maps: Vec<Maps<T>>,
    pub(super) stem: Normed<T>,
    pub(super) blocks: Vec<BlockTrace<T>>,
    /// The means over pixels, n × channels.
    pub(super) pooled: Vec<T>,
}

impl<T: Real> Trace<T> {
    /// Number of records of the batch.
    pub(super) fn records(&self) -> usize {
        self.maps.first().map_or(0, Maps::records)
    }
}
