//! A party's consent before and during a training, and its record of it.

use std::sync::Arc;

use vfl_core::model::contract::InitialSeed;
use vfl_core::types::{ModelVersion, PartyName};
use vfl_protocol::Refusal;
use vfl_protocol::training::messages::Step;
use vfl_server::service::off_thread;
use vfl_state::journal::{Proposal, Terms};

/// The consent of a party whose features are trained on. The answers come from its own
/// configuration and its own journal; a peer supplies only the proposal.
///
/// Methods may wait for the disk; they are called on threads that may block.
pub trait TrainingGate: Send + Sync {
    /// Checks that the party takes part at all. No record was named yet, so that nothing is held
    /// for a caller that is refused.
    ///
    /// # Errors
    /// [`Refusal`] that names the violated rule.
    fn propose(&self, terms: &Terms<'_>) -> Result<(), Refusal>;

    /// Checks that the party agrees to the layout of a private training: that it trusts the passive
    /// party that computes, `other` if it is another one, not to join hands with the active party
    /// or the coordinator; and that it gives shares for calibration if they are asked for.
    ///
    /// # Errors
    /// [`Refusal`] that names the setting.
    fn agree(&self, other: Option<&PartyName>, calibration: bool) -> Result<(), Refusal>;

    /// Draws the seed of the initial parameters. `None` stands for the seed of the training, which
    /// every party knows.
    ///
    /// # Errors
    /// [`Refusal`] if no seed can be drawn.
    fn start(&self) -> Result<Option<InitialSeed>, Refusal>;

    /// Records that some of the proposed records are not held here, which the refusal will reveal.
    ///
    /// # Errors
    /// [`Refusal`] in place of that one if it cannot be recorded.
    fn records_missing(&self, proposal: &Proposal) -> Result<(), Refusal>;

    /// Records durably that the training begins, before anything that depends on parameters leaves.
    /// Returns its number.
    ///
    /// # Errors
    /// [`Refusal`]; the training does not begin then.
    fn begin(&self, proposal: &Proposal) -> Result<u64, Refusal>;

    /// Checks that a batch may be learned from: `positions` of the proposed records.
    ///
    /// # Errors
    /// [`Refusal`] that names the violated rule.
    fn batch(&self, positions: &[u32]) -> Result<(), Refusal>;

    /// Records that step `step`, from 1, is about to be taken.
    ///
    /// # Errors
    /// [`Refusal`]; the step is not taken then.
    fn reach(&self, number: u64, step: u64) -> Result<(), Refusal>;

    /// Records that the training has ended after so many steps, with a version if one was
    /// published.
    fn end(&self, number: u64, steps: u64, published: Option<&ModelVersion>);
}

/// A training that the gate has admitted.
pub(super) struct AdmittedTraining {
    gate: Arc<dyn TrainingGate>,
    proposal: Arc<Proposal>,
    /// The number in the journal, once something has left.
    number: Option<u64>,
    steps: u64,
}

impl AdmittedTraining {
    /// Creates the training whose terms the gate has accepted.
    pub(super) fn new(gate: Arc<dyn TrainingGate>, proposal: Proposal) -> Self {
        Self { gate, proposal: Arc::new(proposal), number: None, steps: 0 }
    }

    /// Returns the seed of the initial parameters, if it is not that of the training.
    pub(super) fn start(&self) -> Result<Option<InitialSeed>, Refusal> {
        self.gate.start()
    }

    pub(super) async fn records_missing(&self) -> Result<(), Refusal> {
        let (gate, proposal) = (self.gate.clone(), self.proposal.clone());
        off_thread("writing down the training", move || gate.records_missing(&proposal)).await
    }

    /// Checks a requested step, and records it before it is taken.
    pub(super) async fn step(&mut self, step: &Step) -> Result<(), Refusal> {
        if !step.batch.is_empty() && !step.evaluation {
            self.gate.batch(&step.batch)?;
        }
        self.steps += 1;
        let (gate, proposal, number, steps) =
            (self.gate.clone(), self.proposal.clone(), self.number, self.steps);
        // Nine steps in ten need no disk: a thread for each would cost more than the step.
        if let (Some(number), false) = (number, steps.is_power_of_two()) {
            return gate.reach(number, steps);
        }
        let work = move || {
            let number = match number {
                Some(number) => number,
                None => gate.begin(&proposal)?,
            };
            gate.reach(number, steps)?;
            Ok(number)
        };
        self.number = Some(off_thread("writing down the training", work).await?);
        Ok(())
    }

    /// Records that the training begins, before anything leaves.
    pub(super) async fn begin(&mut self) -> Result<(), Refusal> {
        let (gate, proposal) = (self.gate.clone(), self.proposal.clone());
        let begin = move || gate.begin(&proposal);
        self.number = Some(off_thread("writing down the training", begin).await?);
        Ok(())
    }

    /// Returns the function that records a step, from 1, of a training that has begun. It returns
    /// false if the step cannot be recorded, and may wait for the disk.
    pub(super) fn journal(&self) -> impl FnMut(u64) -> bool + Send + 'static {
        let (gate, number) = (self.gate.clone(), self.number);
        move |step| number.is_some_and(|number| gate.reach(number, step).is_ok())
    }

    /// Notes that a step was reached.
    pub(super) fn reached(&mut self, step: u64) {
        self.steps = self.steps.max(step);
    }

    /// Records the end of the training. A training from which nothing had left is not in the
    /// journal.
    pub(super) async fn ended(&self, published: Option<&ModelVersion>) {
        let Some(number) = self.number else { return };
        let (gate, steps, published) = (self.gate.clone(), self.steps, published.cloned());
        let work = move || {
            gate.end(number, steps, published.as_ref());
            Ok(())
        };
        // The training is over in any case; the journal then only lacks its end.
        let _ = off_thread("writing down the training", work).await;
    }
}
