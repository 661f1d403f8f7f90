//! The job of a training, and its record in the registry's journal.

use std::sync::Arc;

use vfl_core::clock::now;
use vfl_core::model::TrainingConfig;
use vfl_core::types::{ModelVersion, PartyName, RecordIds};
use vfl_protocol::Refusal;
use vfl_protocol::training::computation::ComputationLayout;
use vfl_protocol::training::messages::Begin;
use vfl_state::journal::Proposal;

use crate::registry::Registry;

/// The request with which the active party opened the training.
pub(super) struct Job {
    pub(super) active_party: PartyName,
    pub(super) config: TrainingConfig,
    pub(super) class_names: Vec<String>,
    pub(super) ids: RecordIds,
    /// The label of each record; none in a private training.
    pub(super) labels: Vec<u32>,
    /// The parties of a private training.
    pub(super) layout: Option<ComputationLayout>,
}

impl Job {
    /// Returns the message that opens the training at the active party, which knows its records.
    pub(super) fn begin(&self) -> Begin {
        Begin {
            config: self.config.clone(),
            class_names: self.class_names.clone(),
            record_count: 0,
            active_party: Some(self.active_party.clone()),
            layout: self.layout.clone(),
        }
    }

    /// Returns the training as journals have it.
    pub(super) fn proposal(&self) -> Proposal {
        Proposal {
            active_party: self.active_party.clone(),
            config: self.config.clone(),
            class_names: self.class_names.clone(),
            ids: self.ids.clone(),
        }
    }
}

/// A training that is in the registry's journal. Its end is recorded when it is dropped, however it
/// ends.
pub(super) struct JournaledTraining {
    pub(super) registry: Arc<Registry>,
    pub(super) number: u64,
    pub(super) steps: u64,
    pub(super) published: Option<ModelVersion>,
}

impl JournaledTraining {
    /// Counts a step that is about to be taken.
    pub(super) async fn step(&mut self) -> Result<(), Refusal> {
        self.steps += 1;
        let (registry, number, steps) = (self.registry.clone(), self.number, self.steps);
        if !steps.is_power_of_two() {
            return Ok(());
        }
        let reached =
            tokio::task::spawn_blocking(move || registry.training_reaches(number, steps)).await;
        reached.map_err(|_| not_recorded(&"the work failed"))?.map_err(|e| not_recorded(&e))
    }
}

impl Drop for JournaledTraining {
    fn drop(&mut self) {
        if let Err(error) =
            self.registry.training_ended(self.number, self.steps, self.published.as_ref(), now())
        {
            tracing::error!(%error, number = self.number, "the end of a training cannot be written down");
        }
    }
}

pub(super) fn not_recorded(error: &dyn std::fmt::Display) -> Refusal {
    tracing::error!(%error, "a training cannot be written down, so it does not go on");
    Refusal::internal(
        "the training cannot be written down, so it does not go on; the coordinator's log says why",
    )
}
