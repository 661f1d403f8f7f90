//! A training configuration on the wire.

use super::{TrainingConfig, TrainingValues};
use crate::rpc::{WireError, pb};

impl From<&TrainingConfig> for pb::TrainingConfig {
    fn from(config: &TrainingConfig) -> Self {
        let v = config.values();
        Self {
            epochs: v.epochs,
            batch_size: v.batch_size,
            learning_rate: v.learning_rate,
            l2: v.l2,
            validation_share: v.validation_share,
            patience: v.patience,
            seed: v.seed,
        }
    }
}

impl TryFrom<&pb::TrainingConfig> for TrainingConfig {
    type Error = WireError;

    fn try_from(c: &pb::TrainingConfig) -> Result<Self, WireError> {
        let values = TrainingValues {
            epochs: c.epochs,
            batch_size: c.batch_size,
            learning_rate: c.learning_rate,
            l2: c.l2,
            validation_share: c.validation_share,
            patience: c.patience,
            seed: c.seed,
        };
        Self::try_from(values).map_err(|e| WireError::Content { field: "config", reason: e.to_string() })
    }
}
