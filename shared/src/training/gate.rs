//! What a party consents to before and during a training, and what it writes down of it.

use std::sync::Arc;

use super::journal::{Proposal, Terms};
use super::messages::Step;
use crate::model::contract::Start;
use crate::rpc::Refusal;
use crate::service::off_thread;
use crate::types::ModelVersion;

/// The consent of a party whose features are trained on. The answers come from its own configuration and its own journal; a
/// peer supplies the proposal and nothing else.
///
/// Methods may wait for the disk; they are called on threads that may.
pub trait TrainingGate: Send + Sync {
    /// Whether the party takes part at all. No record was named yet, so that nothing is held for whoever is refused.
    ///
    /// # Errors
    /// [`Refusal`] that names the rule.
    fn propose(&self, terms: &Terms<'_>) -> Result<(), Refusal>;

    /// What the party draws first parameters from; `None`: from the seed of the training, which every party knows.
    ///
    /// # Errors
    /// [`Refusal`] if it cannot draw.
    fn start(&self) -> Result<Option<Start>, Refusal>;

    /// Some of the proposed records are not held here, which the refusal will say.
    ///
    /// # Errors
    /// [`Refusal`] in place of that one when it cannot be counted.
    fn records_missing(&self, proposal: &Proposal) -> Result<(), Refusal>;

    /// Writes down, durably, that the training begins, before anything that depends on parameters leaves; gives its number.
    ///
    /// # Errors
    /// [`Refusal`]: the training does not begin then.
    fn begin(&self, proposal: &Proposal) -> Result<u64, Refusal>;

    /// Whether a batch may be learned from: `positions` of the proposed records.
    ///
    /// # Errors
    /// [`Refusal`] that names the rule.
    fn batch(&self, positions: &[u32]) -> Result<(), Refusal>;

    /// Step `step`, from 1, is about to be taken.
    ///
    /// # Errors
    /// [`Refusal`]: the step is not taken then.
    fn reach(&self, number: u64, step: u64) -> Result<(), Refusal>;

    /// The training has ended after so many steps, with a version if one was published.
    fn end(&self, number: u64, steps: u64, published: Option<&ModelVersion>);
}

/// A training that the gate has let in.
pub(super) struct Admitted {
    gate: Arc<dyn TrainingGate>,
    proposal: Arc<Proposal>,
    /// Its number in the journal, once something has left.
    number: Option<u64>,
    steps: u64,
}

impl Admitted {
    /// The training whose terms the gate has let in.
    pub(super) fn new(gate: Arc<dyn TrainingGate>, proposal: Proposal) -> Self {
        Self { gate, proposal: Arc::new(proposal), number: None, steps: 0 }
    }

    /// What first parameters are drawn from, if not from the seed.
    pub(super) fn start(&self) -> Result<Option<Start>, Refusal> {
        self.gate.start()
    }

    pub(super) async fn records_missing(&self) -> Result<(), Refusal> {
        let (gate, proposal) = (self.gate.clone(), self.proposal.clone());
        off_thread("writing down the training", move || gate.records_missing(&proposal)).await
    }

    /// A step is asked for: checked, and written down before it is taken.
    pub(super) async fn step(&mut self, step: &Step) -> Result<(), Refusal> {
        if !step.batch.is_empty() && !step.evaluation {
            self.gate.batch(&step.batch)?;
        }
        self.steps += 1;
        let (gate, proposal, number, steps) = (self.gate.clone(), self.proposal.clone(), self.number, self.steps);
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

    /// The training has ended. A training of which nothing had left is not in the journal.
    pub(super) async fn ended(&self, published: Option<&ModelVersion>) {
        let Some(number) = self.number else { return };
        let (gate, steps, published) = (self.gate.clone(), self.steps, published.cloned());
        let work = move || {
            gate.end(number, steps, published.as_ref());
            Ok(())
        };
        // The training is over either way; what the journal lacks then is its end alone.
        let _ = off_thread("writing down the training", work).await;
    }
}
