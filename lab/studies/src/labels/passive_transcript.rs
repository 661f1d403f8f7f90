//! The messages that a passive party receives in a training in which all parties follow the
//! protocol.

use nalgebra::DMatrix;
use vfl_core::model::contract::InitialSeed;
use vfl_core::model::privacy::{PrivacyConfig, PrivacyStatement};
use vfl_core::model::{Combiner, LearnerError, PartyLearner, Schedule, TrainingConfig};
use vfl_core::types::FeatureBlock;
use vfl_datasets::local_training::{LocalTraining, learners, start};

/// One training step as a passive party sees it.
#[derive(Clone, PartialEq)]
pub struct Step {
    /// The positions of the batch's records in the training's list, whose ids the party has.
    pub positions: Vec<u32>,
    /// The gradient of the mean loss with respect to the party's outputs, w × B, as the coordinator
    /// sends it.
    pub gradient: DMatrix<f64>,
}

/// Everything that one passive party received: no labels, and no features of another party.
#[derive(Clone)]
pub struct PassiveTranscript {
    /// The coordinator's combiner of outputs. The party learns it before the training.
    pub combiner: Combiner,
    /// The number of records in the training's list.
    pub records: usize,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The number of steps run at the end of each epoch.
    pub epoch_ends: Vec<usize>,
}

impl std::fmt::Debug for PassiveTranscript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Received({} records, {} steps, values withheld)", self.records, self.steps.len())
    }
}

impl PassiveTranscript {
    /// Creates the state before the first step of a training on so many records.
    #[must_use]
    pub fn new(config: &TrainingConfig, records: usize) -> Self {
        let combiner = config.values().model.combiner();
        Self { combiner, records, steps: Vec::new(), epoch_ends: Vec::new() }
    }

    /// Returns the steps of each of the first epochs.
    #[must_use]
    pub fn epochs(&self, most: usize) -> Vec<&[Step]> {
        let ends = self.epoch_ends.iter().take(most);
        let starts = std::iter::once(&0).chain(&self.epoch_ends);
        starts.zip(ends).map(|(&from, &to)| &self.steps[from..to]).collect()
    }
}

/// The adversary's own sub-model after some epochs, which it holds in any case.
#[derive(Clone)]
pub struct SubModelSnapshot {
    /// The number of epochs so far.
    pub epochs: u32,
    /// The outputs of the sub-model, w × n, on all records of the list.
    pub outputs: DMatrix<f64>,
    /// The weights of the sub-model, k × d, if it is linear.
    pub weights: Option<DMatrix<f64>>,
}

/// The observations of one training.
pub struct ObservedTraining {
    /// The messages that the first passive party received.
    pub received: PassiveTranscript,
    /// The party's sub-model after each of the requested epochs.
    pub after: Vec<SubModelSnapshot>,
    /// The party's privacy statement.
    pub privacy: Option<PrivacyStatement>,
}

/// Trains all epochs of `config` in this process, with the parties' own learners, the service's
/// order of records and its gradients, and records what the first passive party receives. `blocks`
/// are the parties' features (d_p × n), the active party's first. With `privacy`, each party trains
/// with differential privacy, with the noise of the seed that the function gives for its place.
///
/// Validation is left out: it changes no parameter, and only tells a passive party which records it
/// uses.
///
/// # Errors
/// [`LearnerError`] if the training diverges, or the blocks do not fit each other.
pub fn observe(
    config: &TrainingConfig,
    classes: usize,
    blocks: &[FeatureBlock],
    labels: &[u32],
    privacy: Option<(PrivacyConfig, &dyn Fn(usize) -> InitialSeed)>,
    epochs: &[u32],
) -> Result<ObservedTraining, LearnerError> {
    let parties = learners(config, classes, blocks.iter().cloned(), privacy)?;
    let mut schedule = Schedule::new(config, labels.len());
    let mut together = LocalTraining::begin(config, classes, parties, start(config))?;
    let (mut received, mut after) = (PassiveTranscript::new(config, labels.len()), Vec::new());
    for epoch in 1..=config.values().epochs {
        for batch in schedule.next_epoch() {
            let gradients = together.step(&batch, labels)?;
            if let Some(own) = gradients.into_iter().nth(1) {
                received.steps.push(Step { positions: batch, gradient: own.matrix().clone() });
            }
        }
        received.epoch_ends.push(received.steps.len());
        if !epochs.contains(&epoch) {
            continue;
        }
        if let (Some(model), Some(block)) =
            (together.sub_models()?.into_iter().nth(1), blocks.get(1))
        {
            let outputs = model.outputs(block.matrix())?.matrix().clone();
            let weights = model.linear().map(|linear| linear.weights().clone());
            after.push(SubModelSnapshot { epochs: epoch, outputs, weights });
        }
    }
    let privacy = together.parties().get(1).and_then(PartyLearner::privacy);
    Ok(ObservedTraining { received, after, privacy })
}
