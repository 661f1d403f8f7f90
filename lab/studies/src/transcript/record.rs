//! The record of an active party after a training in which it followed the protocol.

use nalgebra::DMatrix;
use rayon::prelude::*;
use vfl_core::model::{
    LearnerError, PartyLearner, Schedule, TrainingConfig, TrainingValues, cross_entropy,
};
use vfl_core::types::{FeatureBlock, Logits};

/// One training step as the active party sees it.
#[derive(Clone, PartialEq)]
pub struct Step {
    /// The positions of the batch's records in the training's list.
    pub positions: Vec<u32>,
    /// The contribution of the passive features to each logit, up to a number per record: k × B,
    /// every column with mean 0.
    pub passive: DMatrix<f64>,
    /// The gradient that every party received: k × B.
    pub gradient: DMatrix<f64>,
}

/// An honest training as its active party sees it: no parameters, no features of other parties,
/// only its own data and the messages of the protocol.
#[derive(Clone)]
pub struct Transcript {
    /// The number of classes k.
    pub classes: usize,
    /// The label of each record of the training's list.
    pub labels: Vec<u32>,
    /// The active party's own features, d_act × n.
    pub own: DMatrix<f64>,
    /// The step size of Adam, which the active party chose.
    pub learning_rate: f64,
    /// The weight of the squared norm of all weights, which the active party chose.
    pub l2: f64,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The number of steps run at the end of each epoch.
    pub epoch_ends: Vec<usize>,
}

impl std::fmt::Debug for Transcript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (steps, records) = (self.steps.len(), self.labels.len());
        write!(f, "Transcript({records} records, {steps} steps, values withheld)")
    }
}

impl Transcript {
    /// Creates an empty transcript.
    #[must_use]
    pub fn new(
        config: &TrainingConfig,
        classes: usize,
        labels: Vec<u32>,
        own: DMatrix<f64>,
    ) -> Self {
        let &TrainingValues { learning_rate, l2, .. } = config.values();
        let (steps, epoch_ends) = (Vec::new(), Vec::new());
        Self { classes, labels, own, learning_rate, l2, steps, epoch_ends }
    }

    /// Records one step: the batch, the party's own logit shares of it, and the returned gradient,
    /// all k × B.
    ///
    /// The gradient is (c − e_y) / B, so it determines c; ln c is the logits up to a number per
    /// record, and the own share is known. A score below the smallest normal double counts as that
    /// double.
    pub fn push(&mut self, positions: &[u32], own_share: &DMatrix<f64>, gradient: &DMatrix<f64>) {
        let size = positions.len() as f64;
        let mut passive = gradient * size;
        for ((mut column, share), &position) in
            passive.column_iter_mut().zip(own_share.column_iter()).zip(positions)
        {
            column[self.labels[position as usize] as usize] += 1.0;
            column
                .iter_mut()
                .zip(share.iter())
                .for_each(|(c, s)| *c = c.max(f64::MIN_POSITIVE).ln() - s);
            let mean = column.mean();
            column.add_scalar_mut(-mean);
        }
        let gradient = gradient.clone();
        self.steps.push(Step { positions: positions.to_vec(), passive, gradient });
    }

    /// Records the end of an epoch.
    pub fn end_epoch(&mut self) {
        self.epoch_ends.push(self.steps.len());
    }

    /// Returns the steps of the first `epochs` epochs: the transcript of the same training, had it
    /// ended there.
    #[must_use]
    pub fn first(&self, epochs: usize) -> &[Step] {
        let end = epochs.checked_sub(1).and_then(|e| self.epoch_ends.get(e)).copied();
        &self.steps[..end.unwrap_or(if epochs == 0 { 0 } else { self.steps.len() })]
    }
}

/// Runs a training in this process, with the parties' own learners, the service's order of records
/// and its gradient, and records what the active party sees. All epochs of `config` are run, as the
/// active party sets the patience.
///
/// Records are the columns of the blocks, in the order of the training's list. Validation is left
/// out: it changes no parameter and tells the active party only a mean loss.
///
/// # Errors
/// [`LearnerError`] if training diverges, or the blocks do not fit each other.
pub fn record(
    config: &TrainingConfig,
    classes: usize,
    active: FeatureBlock,
    passive: Vec<FeatureBlock>,
    labels: Vec<u32>,
) -> Result<Transcript, LearnerError> {
    let mut transcript = Transcript::new(config, classes, labels, active.matrix().clone());
    let mut schedule = Schedule::new(config, transcript.labels.len());
    let mut active = PartyLearner::new(config, classes, active, true)?;
    let learner = |block| PartyLearner::new(config, classes, block, false);
    let mut passive = passive.into_iter().map(learner).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..config.values().epochs {
        for batch in schedule.next_epoch() {
            let own = active.shares(&batch, false)?;
            let shares = passive
                .iter_mut()
                .map(|p| p.shares(&batch, false))
                .collect::<Result<Vec<_>, _>>()?;
            let own_share = own.matrix().clone();
            let y: Vec<u32> = batch.iter().map(|&p| transcript.labels[p as usize]).collect();
            let (_, gradient, _) = cross_entropy(Logits::sum(own, shares)?, &y);
            transcript.push(&batch, &own_share, &gradient);
            active.update(&gradient)?;
            passive.par_iter_mut().try_for_each(|p| p.update(&gradient))?;
        }
        transcript.end_epoch();
    }
    Ok(transcript)
}
