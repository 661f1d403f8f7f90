//! Scores that the adversary estimated instead of asking for them.

use nalgebra::DMatrix;
use vfl_core::metrics::ScoreMismatch;

/// The result of the fit of an adversary model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdversaryFit {
    /// [The objective](super::agnostic::AgnosticObjective) at the end.
    pub objective: f64,
    /// The largest magnitude of an entry of its gradient there.
    pub gradient_norm: f64,
    /// The number of steps taken; of epochs if the model was trained as the joint one.
    pub iterations: u32,
    /// True if the gradient fell to the tolerance, or training stopped early as configured. If not,
    /// the model is that of the last step.
    pub converged: bool,
}

/// The scores of the adversary's own model from which estimates were made. `Debug` shows shapes
/// only.
#[derive(Clone, PartialEq)]
pub struct EstimatedScores {
    /// The estimated scores, k × n.
    pub scores: DMatrix<f64>,
    /// The result of the model's fit.
    pub fit: AdversaryFit,
    /// The mismatch between its scores and those of the records seen.
    pub mismatch: Option<ScoreMismatch>,
    /// The number of labelled records that the model was fitted to.
    pub labelled: usize,
    /// The number of records seen that it was fitted to.
    pub seen: usize,
    /// The number of records under attack whose released score was attacked instead.
    pub own_scores: usize,
}

impl std::fmt::Debug for EstimatedScores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (k, n) = self.scores.shape();
        write!(
            f,
            "EstimatedScores({k} × {n}, {} labelled, {} seen, values withheld)",
            self.labelled, self.seen
        )
    }
}
