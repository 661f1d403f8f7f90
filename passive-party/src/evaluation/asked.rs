//! A scoring as it is asked for, and what is left after its answer.

use vfl_shared::metrics::Metric;

use super::scoring::{Scorable, Told};

/// The most candidates of one scoring.
pub const MAX_CANDIDATES: usize = 64;

/// What a scoring compares with.
#[derive(Debug, Clone)]
pub enum Control {
    /// Nothing.
    None,
    /// ½ everywhere.
    Half,
    /// Each feature's mean over the records.
    ColumnMean,
    /// Estimates of the auditor's.
    Given(Scorable),
    /// Each feature's mean over the records here that are not scored.
    Moments,
}

/// A scoring as it is asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The candidates.
    pub candidates: Vec<Scorable>,
    /// Whether an adversary that knows the moments is played: its likeliest point and its mean are candidates after the others.
    pub moments: bool,
    /// The control.
    pub control: Control,
    /// Whose errors are wanted.
    pub told: Told,
    /// Whether by feature too.
    pub by_feature: bool,
    /// Whether figures by attribute are told too, of the candidates whose errors are; it takes `by_feature` and a control.
    pub by_attribute: bool,
    /// What else is wanted of the candidates whose errors are told, and in trusted mode of the control.
    pub metrics: Vec<&'static dyn Metric>,
    /// What may be spent; in trusted mode nothing.
    pub rho: Option<f64>,
}

/// What is left after an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Left {
    /// In noised mode.
    Noised {
        /// What this answer has cost.
        spent: f64,
        /// What the set has left.
        left: f64,
    },
    /// In trusted mode: candidates.
    Trusted {
        /// How many.
        scorings: u32,
    },
}
