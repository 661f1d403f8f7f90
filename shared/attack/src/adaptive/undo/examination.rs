//! The result of an examination of hypotheses.

use super::{Hypothesis, Verdict};

/// The hypotheses that remain, and the evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct RemainingHypotheses {
    /// The transform that was identified: one hypothesis remains, or all remaining ones give the
    /// same equations.
    pub hypothesis: Option<Hypothesis>,
    /// All remaining hypotheses. Those with many forms (signs, orders) are searched only if no
    /// other remains.
    pub left: Vec<Hypothesis>,
    /// Less plausible hypotheses that the evidence does not rule out beside `hypothesis`: its
    /// partner, if that takes a second transform; and, for the parameters as released with ranges
    /// known to differ, orders one swap of features away.
    pub not_ruled_out: Vec<Hypothesis>,
    /// The evidence for and against each hypothesis that was tried. Of those with many forms, only
    /// the ones that remain or came nearest.
    pub counts: Vec<Verdict>,
}

/// The result of an examination.
#[derive(Debug, Clone, PartialEq)]
pub struct Examination {
    /// The hypotheses that remain.
    pub undone: RemainingHypotheses,
    /// The same in words, without any feature value or score.
    pub remarks: Vec<String>,
}
