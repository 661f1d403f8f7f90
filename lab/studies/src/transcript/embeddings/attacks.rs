//! The attacks: maps from embeddings to features, fitted to records that the adversary knows whole.

use std::fmt;

use anyhow::Context;
use nalgebra::{DMatrix, DVector};
use serde::Serialize;
use vfl_core::model::{
    Combiner, ModelConfig, PartyLearner, Schedule, Settings, SubModel, TrainingConfig,
    TrainingValues, kinds,
};
use vfl_core::types::FeatureBlock;
use vfl_numerics::KernelRidge;

/// The most records that the regression is fitted to: its time grows with their cube.
pub const MOST_FITTED: usize = 500;

/// The width of the inverse network's hidden layer.
const HIDDEN: u32 = 64;

/// A map from embeddings to features that is learned from known records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attack {
    /// Kernel ridge regression of each feature: linear, with products, or smooth, whichever does
    /// best on records left out.
    KernelRidge,
    /// A perceptron with one hidden layer from embeddings to all features, trained on squared
    /// errors: the inverse network of UIFV.
    InverseNetwork,
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KernelRidge => "kernel_ridge",
            Self::InverseNetwork => "inverse_network",
        })
    }
}

/// The records of which the adversary knows the features, one per column. No value is shown.
pub struct KnownRecords {
    /// Their embeddings, w × N: one matrix or more, between which an attack chooses.
    pub embeddings: Vec<DMatrix<f64>>,
    /// Their features under attack in [0, 1], d × N.
    pub features: DMatrix<f64>,
}

impl Attack {
    /// Every attack, in the order of the reports.
    pub const ALL: [Self; 2] = [Self::KernelRidge, Self::InverseNetwork];

    /// Estimates the features (d × m) of records with these embeddings (w × m, as many matrices as
    /// the known records have). Estimates are moved into [0, 1]. The inverse network is trained for
    /// at most `epochs`; its start and the order of the records follow from `seed`.
    ///
    /// # Errors
    /// If a number is not finite, or the network's training diverges.
    pub fn estimate(
        self,
        known: &KnownRecords,
        embeddings: &[DMatrix<f64>],
        epochs: u32,
        seed: u64,
    ) -> anyhow::Result<DMatrix<f64>> {
        let mut estimates = match self {
            Self::KernelRidge => regression(known, embeddings)?,
            Self::InverseNetwork => inverse_network(known, embeddings, epochs, seed)?,
        };
        estimates.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
        Ok(estimates)
    }
}

/// Regresses each feature on each of the embeddings, and takes those that do best on records left
/// out.
fn regression(known: &KnownRecords, embeddings: &[DMatrix<f64>]) -> anyhow::Result<DMatrix<f64>> {
    let n = known.features.ncols().min(MOST_FITTED);
    let first = |m: &DMatrix<f64>| m.columns(0, n).into_owned();
    let features = first(&known.features);
    let records = embeddings.first().map_or(0, DMatrix::ncols);
    let mut estimates = DMatrix::zeros(features.nrows(), records);
    let mut least = vec![f64::INFINITY; features.nrows()];
    for (own, others) in known.embeddings.iter().zip(embeddings) {
        let fitted = KernelRidge::fit(&first(own), &features)?;
        let predicted = fitted.predict(others);
        for (at, (error, least)) in fitted.left_out().iter().zip(&mut least).enumerate() {
            // Of a single record no error is known.
            if error < least || least.is_infinite() {
                *least = *error;
                estimates.set_row(at, &predicted.row(at));
            }
        }
    }
    Ok(estimates)
}

/// Trains an inverse network on each of the embeddings of the known records, and returns the
/// estimates, not yet in [0, 1], of the one that does best on the records set aside.
///
/// It learns the distance of the features from their means over the known records, from embeddings
/// of mean 0 and variance 1 over these.
fn inverse_network(
    known: &KnownRecords,
    embeddings: &[DMatrix<f64>],
    epochs: u32,
    seed: u64,
) -> anyhow::Result<DMatrix<f64>> {
    let means = known.features.column_mean();
    let mut distances = known.features.clone();
    distances.column_iter_mut().for_each(|mut column| column -= &means);
    let config = training(known.features.nrows(), epochs, seed)?;
    let mut best: Option<(f64, DMatrix<f64>)> = None;
    for (own, others) in known.embeddings.iter().zip(embeddings) {
        let inputs = Standard::of(own);
        let (loss, network) = fit(&config, inputs.apply(own), &distances)?;
        if best.as_ref().is_none_or(|(least, _)| loss < *least) {
            best = Some((loss, network.outputs(&inputs.apply(others))?.into_matrix()));
        }
    }
    let (_, mut estimates) = best.context("there are no embeddings")?;
    estimates.column_iter_mut().for_each(|mut column| column += &means);
    Ok(estimates)
}

/// Returns the settings of the training of a network with `features` outputs.
fn training(features: usize, epochs: u32, seed: u64) -> anyhow::Result<TrainingConfig> {
    let mut settings = Settings::new();
    settings.insert("hidden".into(), vec![HIDDEN].into());
    settings.insert("activation".into(), "tanh".into());
    let width = u32::try_from(features).unwrap_or(u32::MAX);
    // Under `concat` a network has the outputs that are asked for, not one for each class.
    let model = ModelConfig::new(Combiner::Concat, "mlp", Some(width), settings)?;
    let values = TrainingValues {
        epochs,
        batch_size: 16,
        learning_rate: 0.005,
        l2: 1e-5,
        validation_share: 0.1,
        patience: 50,
        seed,
        model,
        ..TrainingValues::default()
    };
    Ok(TrainingConfig::try_from(values)?)
}

/// Trains a network from `inputs` (p × N) to `outputs` (d × N) on the squared distance of a record,
/// with a party's own learner. It keeps the parameters of the epoch with the least distance on the
/// records set aside, and returns that distance; with none set aside it keeps the last ones, and
/// the distance is infinite.
fn fit(
    config: &TrainingConfig,
    inputs: DMatrix<f64>,
    outputs: &DMatrix<f64>,
) -> anyhow::Result<(f64, Box<dyn SubModel>)> {
    let mut schedule = Schedule::new(config, outputs.ncols());
    let validation = schedule.validation().to_vec();
    // The active party's network has a bias in its last layer.
    let mut learner = PartyLearner::new(config, 1, FeatureBlock::new(inputs)?, true)?;
    let chosen = |batch: &[u32]| {
        let columns: Vec<usize> = batch.iter().map(|&at| at as usize).collect();
        outputs.select_columns(&columns)
    };
    let (mut best, mut best_epoch) = (f64::INFINITY, 0);
    for epoch in 1..=config.values().epochs {
        for batch in schedule.next_epoch() {
            let off = learner.shares(&batch, false)?.into_matrix() - chosen(&batch);
            learner.update(&(off * (2.0 / batch.len() as f64)))?;
        }
        if validation.is_empty() {
            continue;
        }
        let off = learner.shares(&validation, true)?.into_matrix() - chosen(&validation);
        let loss = off.norm_squared();
        if loss < best {
            (best, best_epoch) = (loss, epoch);
            learner.checkpoint();
        } else if epoch - best_epoch >= config.values().patience {
            break;
        }
    }
    Ok((best, kinds::restore(&learner.parameters(!validation.is_empty())?)?))
}

/// The shift and scale that give known embeddings mean 0 and variance 1.
struct Standard {
    mean: DVector<f64>,
    /// 1 / deviation; 0 for a number that is the same for all known records.
    scale: DVector<f64>,
}

impl Standard {
    fn of(known: &DMatrix<f64>) -> Self {
        let (mean, variance) = (known.column_mean(), known.column_variance());
        let scale = variance.map(|v| if v > 0.0 { v.sqrt().recip() } else { 0.0 });
        Self { mean, scale }
    }

    fn apply(&self, embeddings: &DMatrix<f64>) -> DMatrix<f64> {
        let mut here = embeddings.clone();
        for mut column in here.column_iter_mut() {
            column -= &self.mean;
            column.component_mul_assign(&self.scale);
        }
        here
    }
}
