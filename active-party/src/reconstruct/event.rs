//! What the auditor is told while attacks run.

use std::ops::Range;

use super::supply::Ran;
use crate::attack::{AttackError, Method};

/// One piece of news.
#[derive(Debug)]
pub(crate) enum Event {
    /// What is being done.
    Progress {
        /// Stages that have ended.
        done: u64,
        /// All stages.
        total: u64,
        /// The stage that begins, in words.
        stage: String,
    },
    /// What the release was worth to the active party.
    Scores {
        /// Rows released.
        rows: u64,
        /// Share of them whose predicted class is the label, where that may be told.
        accuracy: Option<f64>,
    },
    /// An attack has ended.
    Attacked(Box<Attacked>),
}

/// What one attack gave.
#[derive(Debug)]
pub(crate) struct Attacked {
    /// The attack.
    pub(crate) method: Method,
    /// Whose features it is after.
    pub(crate) targets: Vec<Target>,
    /// How many records with known passive features it was given.
    pub(crate) auxiliary_records: usize,
    /// Its estimates, of all passive features, or why there are none.
    pub(crate) ended: Result<Ran, AttackError>,
}

/// A passive party that is attacked.
#[derive(Debug)]
pub(crate) struct Target {
    /// Its name.
    pub(crate) party: String,
    /// Where its features are among those of all passive parties.
    pub(crate) features: Range<usize>,
}
