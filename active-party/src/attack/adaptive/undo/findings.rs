//! What an examination of hypotheses brings.

use super::{Hypothesis, Verdict};

/// What is left of the hypotheses.
#[derive(Debug, Clone, PartialEq)]
pub struct Undone {
    /// The one that is left, if it is one alone, or all that are left come to the same equations.
    pub hypothesis: Option<Hypothesis>,
    /// All that are left. Those with many forms (signs, orders) are looked for only if no other is.
    pub left: Vec<Hypothesis>,
    /// Beside `hypothesis`, what the evidence does not rule out of what is less plausible: its partner if that takes a second
    /// transform, and for the parameters as released, where ranges are known to differ, orders one swap of features away.
    pub not_ruled_out: Vec<Hypothesis>,
    /// What speaks for and against each that was tried; of those with many forms, the ones that are left or came nearest.
    pub counts: Vec<Verdict>,
}

/// What an examination brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Examination {
    /// What is left.
    pub undone: Undone,
    /// The same in words. No feature value and no score is in them.
    pub remarks: Vec<String>,
}
