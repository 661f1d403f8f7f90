//! The embeddings that the coordinator of a training under `concat` receives.

use nalgebra::DMatrix;
use vfl_core::model::{LearnerError, Schedule, TrainingConfig};
use vfl_core::types::{FeatureBlock, LogitShare};
use vfl_datasets::local_training::{LocalTraining, learners, start};

/// The embeddings of every party in one epoch and after it, the active party's first. No value is
/// shown.
pub struct EmbeddingsAfter {
    /// The number of epochs.
    pub epochs: u32,
    /// The embeddings (w × n) of the training's list as they arrived in the steps of that epoch.
    /// Those of records in no step are 0.
    pub steps: Vec<DMatrix<f64>>,
    /// The embeddings (w × m) of all records under the parameters at the end of that epoch, as they
    /// arrive for predictions.
    pub predictions: Vec<DMatrix<f64>>,
}

/// Trains all epochs of `config` in this process, with the parties' own learners, the service's
/// order of records and its gradients, and records the embeddings in and after each of the
/// `epochs`, in rising order. Validation is left out: it changes no parameter.
///
/// `blocks` are the parties' features (d_p × m), the active party's first. The first n records are
/// the training's list, whose classes are `labels`.
///
/// # Errors
/// [`LearnerError`] if the training diverges, or the blocks do not fit each other.
pub fn observe(
    config: &TrainingConfig,
    classes: usize,
    blocks: &[FeatureBlock],
    labels: &[u32],
    epochs: &[u32],
) -> Result<Vec<EmbeddingsAfter>, LearnerError> {
    let parties = learners(config, classes, blocks.iter().cloned(), None)?;
    let widths: Vec<usize> = parties.iter().map(|party| party.width()).collect();
    let mut schedule = Schedule::new(config, labels.len());
    let mut together = LocalTraining::begin(config, classes, parties, start(config))?;
    let mut found = Vec::new();
    for epoch in 1..=config.values().epochs {
        let asked = epochs.contains(&epoch);
        let mut steps: Vec<DMatrix<f64>> = match asked {
            true => widths.iter().map(|&width| DMatrix::zeros(width, labels.len())).collect(),
            false => Vec::new(),
        };
        for batch in schedule.next_epoch() {
            if asked {
                let arrived = together.outputs(&batch, true)?;
                for (all, share) in steps.iter_mut().zip(&arrived) {
                    for (column, &position) in share.matrix().column_iter().zip(&batch) {
                        all.set_column(position as usize, &column);
                    }
                }
            }
            together.step(&batch, labels)?;
        }
        if asked {
            let models = together.sub_models()?;
            let outputs = models
                .iter()
                .zip(blocks)
                .map(|(model, block)| model.outputs(block.matrix()).map(LogitShare::into_matrix));
            let predictions = outputs.collect::<Result<_, _>>()?;
            found.push(EmbeddingsAfter { epochs: epoch, steps, predictions });
        }
    }
    Ok(found)
}
