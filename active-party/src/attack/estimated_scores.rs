//! Scores that the adversary estimated instead of asking for them.

use nalgebra::DMatrix;
use vfl_shared::metrics::ScoreMismatch;

/// How the fit of an adversary model ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdversaryFit {
    /// [The objective](super::agnostic::AgnosticObjective) at the end.
    pub objective: f64,
    /// Largest magnitude of an entry of its gradient there.
    pub gradient_norm: f64,
    /// Steps taken; epochs of a model that was trained as the joint one.
    pub iterations: u32,
    /// Whether the gradient fell to the tolerance, or training stopped early as it was told to. If not, the model is where the steps led.
    pub converged: bool,
}

/// What stands behind estimates that were made from scores of the adversary's own model. `Debug` shows shapes only.
#[derive(Clone, PartialEq)]
pub struct EstimatedScores {
    /// The scores as estimated, k × n.
    pub scores: DMatrix<f64>,
    /// How the fit of the model ended.
    pub fit: AdversaryFit,
    /// Its scores and those of the records seen.
    pub mismatch: Option<ScoreMismatch>,
    /// Labelled records that the model was fitted to.
    pub labelled: usize,
    /// Records seen that it was fitted to.
    pub seen: usize,
    /// Records under attack whose own score was attacked instead.
    pub own_scores: usize,
}

impl std::fmt::Debug for EstimatedScores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (k, n) = self.scores.shape();
        write!(f, "EstimatedScores({k} × {n}, {} labelled, {} seen, values withheld)", self.labelled, self.seen)
    }
}
