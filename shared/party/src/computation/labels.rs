//! The labels of a private training.

/// The labels of a training's records, in the order of its list, at the active party.
#[derive(Debug, Clone, Copy)]
pub enum TrainingLabels<'a> {
    /// The class of each record, from 0.
    Classes(&'a [u32]),
    /// The number of each record, in its own units.
    Numbers(&'a [f64]),
}
