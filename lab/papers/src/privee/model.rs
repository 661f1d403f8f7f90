//! P's networks: a sub-model at each party, embeddings side by side, a top model.

use nalgebra::{DMatrix, DVector};
use vfl_attack::{KnownModel, KnownNetwork};
use vfl_core::metrics::accuracy;
use vfl_core::model::{Combiner, ModelConfig, TrainingConfig, TrainingValues};
use vfl_core::types::{
    ConfidenceScores, FeatureBlock, LogitShare, Logits, PartyName, ReleasedScores,
};
use vfl_datasets::local_training::TrainedParties;
use vfl_datasets::{DatasetName, VerticalSplit};

use super::super::experiment_model::ExperimentModel;
use super::super::sweep::select;
use super::super::{Options, ReproduceError};

/// A model of P's networks, whose passive sub-models and top model are known.
pub(super) struct Model {
    pub(super) trained: TrainedParties,
    /// The passive parties' columns, party after party.
    pub(super) passive: Vec<usize>,
    pub(super) known: KnownModel,
    /// The accuracy on training records, and on test records.
    pub(super) accuracy: [f64; 2],
}

/// Returns the training settings of P's networks.
pub(super) fn training(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<TrainingConfig, ReproduceError> {
    let wrong = |e: &dyn std::fmt::Display| failed(0, e.to_string());
    let name: DatasetName = subject.dataset.name.parse().map_err(|e| wrong(&e))?;
    let residual = matches!(name, DatasetName::Cifar10 | DatasetName::Cifar100);
    let (kind, settings) = match name.image().filter(|_| residual) {
        Some(shape) => {
            ("residual", serde_json::json!({ "channels": shape.channels, "height": shape.height }))
        }
        None => ("mlp", serde_json::json!({ "hidden": [128], "activation": "relu" })),
    };
    let settings = settings.as_object().cloned().unwrap_or_default();
    let model =
        ModelConfig::new(Combiner::Concat, kind, Some(64), settings).map_err(|e| wrong(&e))?;
    let epochs = if residual { 12 } else { 40 };
    let values = TrainingValues {
        epochs,
        batch_size: 128,
        learning_rate: 1e-3,
        l2: 1e-4,
        patience: 5,
        seed: options.seed,
        model,
        ..TrainingValues::default()
    };
    Ok(TrainingConfig::try_from(values)?)
}

pub(super) fn failed(d: usize, reason: String) -> ReproduceError {
    ReproduceError::Failed { what: "training P's networks", d, k0: 0, reason }
}

/// Splits the columns in their order: the first `strength` percent to the active party, the rest in
/// equal parts to `passive` parties.
pub(super) fn divided(
    total: usize,
    strength: usize,
    passive: usize,
) -> Result<VerticalSplit, ReproduceError> {
    let d = (total - (total * strength + 50) / 100).clamp(1, total - 1);
    let names = (1..=passive).map(|i| PartyName::new(format!("passive-{i}")));
    let names: Vec<PartyName> =
        names.collect::<Result<_, _>>().map_err(|e| failed(d, e.to_string()))?;
    Ok(VerticalSplit::shared_window(total - d, d, total, &names)?)
}

impl Model {
    /// Trains the parties of a split on `records` (features d_t × n, labels).
    pub(super) fn train(
        subject: &ExperimentModel,
        config: &TrainingConfig,
        (x, labels): &(DMatrix<f64>, Vec<u32>),
        split: &VerticalSplit,
    ) -> Result<Self, ReproduceError> {
        let trained = TrainedParties::train(config, subject.classes(), (x, labels), split)
            .map_err(|e| failed(split.total() - split.active().len(), e.to_string()))?;
        Self::of(
            trained,
            subject.classes(),
            [(x, labels), (subject.test_records(), &subject.labels)],
        )
    }

    /// Returns the view of an adversary at the active party, with the accuracy on two sets of
    /// records (d_t × n each).
    pub(super) fn of(
        trained: TrainedParties,
        k: usize,
        sets: [(&DMatrix<f64>, &[u32]); 2],
    ) -> Result<Self, ReproduceError> {
        let passive = trained.columns[1..].concat();
        let d = passive.len();
        let top = trained.top.clone().ok_or_else(|| failed(d, "there is no top model".into()))?;
        let own = trained.models[0].spec().width() as usize;
        let network = KnownNetwork::under_top(trained.models[1..].to_vec(), top);
        let width = trained.columns[0].len() + own;
        let known = network.and_then(|network| {
            KnownModel::of_network(DMatrix::zeros(k, width), DVector::zeros(k), network)
        });
        let known = known.map_err(|error| ReproduceError::Attack {
            curve: "the model".into(),
            d,
            k0: 0,
            error,
        })?;
        let mut model = Self { trained, passive, known, accuracy: [0.0; 2] };
        for (at, (x, labels)) in sets.into_iter().enumerate() {
            model.accuracy[at] = accuracy(&predicted(&model.served(x)?.1)?, labels)?;
        }
        Ok(model)
    }

    /// Returns the adversary's features of records (d_t × n), its embeddings below them, and the
    /// logits.
    pub(super) fn served(
        &self,
        x: &DMatrix<f64>,
    ) -> Result<(FeatureBlock, DMatrix<f64>), ReproduceError> {
        let y = select(x, &self.trained.columns[0], x.ncols());
        let outputs = self.trained.outputs(x)?;
        let embeddings: Vec<&DMatrix<f64>> = outputs.iter().map(LogitShare::matrix).collect();
        let logits = match &self.trained.top {
            Some(top) => top.outputs(&stacked(&embeddings))?.into_matrix(),
            None => DMatrix::zeros(0, x.ncols()),
        };
        Ok((FeatureBlock::new(stacked(&[&y, embeddings[0]]))?, logits))
    }
}

/// Stacks matrices with the same number of columns.
pub(super) fn stacked(parts: &[&DMatrix<f64>]) -> DMatrix<f64> {
    let columns = parts.first().map_or(0, |part| part.ncols());
    let mut out = DMatrix::zeros(parts.iter().map(|part| part.nrows()).sum(), columns);
    let mut from = 0;
    for part in parts {
        out.rows_mut(from, part.nrows()).copy_from(part);
        from += part.nrows();
    }
    out
}

/// Returns the predicted classes of logits.
pub(super) fn predicted(logits: &DMatrix<f64>) -> Result<Vec<u32>, ReproduceError> {
    let scores = ConfidenceScores::softmax(Logits::new(logits.clone())?);
    Ok(ReleasedScores::Probabilities(scores.into_matrix()).predicted_labels())
}
