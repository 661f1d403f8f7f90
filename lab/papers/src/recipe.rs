//! The trainings of J's figures.

use vfl_core::model::{ModelConfig, TrainingValues};

/// The training of a figure's models. J states none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recipe {
    /// Adam at 0.01 with early stopping.
    Own,
    /// Adam at 0.001, 50 epochs of batches of 64, no early stopping, no penalty: a training, found
    /// by experiment, after which J's sentences hold (errata J6). Perceptrons of two classes have a
    /// sigmoid for each of them, two equations (J 3.1.2, 5.1.1).
    J,
}

impl Recipe {
    /// Returns the settings for a model.
    pub(super) fn values(self, seed: u64, model: ModelConfig) -> TrainingValues {
        let own = TrainingValues { l2: 0.0, seed, model, ..TrainingValues::default() };
        match self {
            Self::Own => own,
            Self::J => TrainingValues {
                epochs: 50,
                batch_size: 64,
                learning_rate: 1e-3,
                validation_share: 0.0,
                ..own
            },
        }
    }
}

/// The steps of gradient inversion by J's recipe, in which its descents settle: J states no number.
pub(super) const STEPS: &str = "30000";
