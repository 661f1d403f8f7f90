//! The events that the auditor receives while attacks run.

use std::ops::Range;

use vfl_attack::{AttackError, Method};

use super::adversary_inputs::AttackEstimates;

/// An event of a job.
#[derive(Debug)]
pub(crate) enum Event {
    /// The progress of the job.
    Progress {
        /// The number of stages that have ended.
        done: u64,
        /// The number of all stages.
        total: u64,
        /// The stage that begins, in words.
        stage: String,
    },
    /// The size and the accuracy of the release.
    Scores {
        /// The number of released rows.
        rows: u64,
        /// The share of rows whose predicted class is the label, if it may be reported.
        accuracy: Option<f64>,
    },
    /// An attack has ended.
    Attacked(Box<AttackOutcome>),
}

/// The result of one attack.
#[derive(Debug)]
pub(crate) struct AttackOutcome {
    pub(crate) method: Method,
    /// The parties whose features are attacked.
    pub(crate) targets: Vec<Target>,
    /// The number of records with known passive features that the attack had.
    pub(crate) auxiliary_records: usize,
    /// The estimates of all passive features, or the reason why there are none.
    pub(crate) ended: Result<AttackEstimates, AttackError>,
}

/// A passive party that is attacked.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) party: String,
    /// The range of its features among those of all passive parties.
    pub(crate) features: Range<usize>,
}
