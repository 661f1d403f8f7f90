//! The model of a figure: trained, or read from the store of an earlier run.

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_core::model::{TrainingConfig, train_central, train_converged};
use vfl_core::types::{ConfidenceScores, Logits};
use vfl_datasets::Dataset;
use vfl_numerics::Lbfgs;
use vfl_present::progress::say;
use vfl_present::result_cache::{CacheError, ResultCache};

use super::ReproduceError;
use super::document::ModelOrigin;
use super::protocol::{Protocol, Training};

/// The settings for training to full convergence.
pub(super) const CONVERGED: Lbfgs =
    Lbfgs { memory: 20, max_iterations: 5000, gradient_tolerance: 1e-10 };

/// The version of the program: another one may train differently.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A model, with the scores of the test records if parties served them.
pub(super) struct TrainedModel {
    pub(super) origin: ModelOrigin,
    /// The weights W, k × d_t.
    pub(super) weights: DMatrix<f64>,
    /// The bias b, of length k.
    pub(super) bias: DVector<f64>,
    /// The served scores, k × n.
    pub(super) served: Option<DMatrix<f64>>,
}

/// The trained model and its served scores.
pub struct ServedModel {
    /// W, k × d_t, assembled from the shares that the two parties stored.
    pub weights: DMatrix<f64>,
    /// The bias b, of length k.
    pub bias: DVector<f64>,
    /// The scores that `Predict` returned for the requested records, k × n.
    pub scores: DMatrix<f64>,
    /// The version of the model in service.
    pub version: String,
    /// The epoch whose parameters were published.
    pub best_epoch: u32,
    /// The number of training steps, each one round trip to every party.
    pub steps: u64,
}

/// Trains a model by parties over sockets and has it served: on the training part of a data set,
/// with this configuration, test rows and seed.
///
/// # Errors
/// [`ReproduceError::Sockets`] with the cause.
pub type TrainAndServe =
    fn(&Dataset, &TrainingConfig, &[usize], u64) -> Result<ServedModel, ReproduceError>;

/// The settings to obtain a model.
#[derive(Clone, Copy)]
pub(super) struct ModelSource<'a> {
    pub(super) protocol: Protocol,
    pub(super) training: Training,
    pub(super) seed: u64,
    /// The storage of models; `None`: models are not stored.
    pub(super) models: Option<&'a ResultCache>,
    /// The parties for [`Training::OverSockets`].
    pub(super) parties: Option<TrainAndServe>,
}

/// The stored form of a model: matrices by columns.
#[derive(Serialize, Deserialize)]
struct StoredModel {
    origin: ModelOrigin,
    classes: usize,
    weights: Vec<f64>,
    bias: Vec<f64>,
    served: Option<Vec<f64>>,
}

impl StoredModel {
    fn of(trained: &TrainedModel) -> Self {
        Self {
            origin: trained.origin.clone(),
            classes: trained.weights.nrows(),
            weights: trained.weights.as_slice().to_vec(),
            bias: trained.bias.as_slice().to_vec(),
            served: trained.served.as_ref().map(|served| served.as_slice().to_vec()),
        }
    }

    /// Returns the model, if it fits `features` features and `records` test records.
    fn model(self, features: usize, records: usize) -> Option<TrainedModel> {
        let k = self.classes;
        let right = self.weights.len() == k * features
            && self.bias.len() == k
            && self.served.as_ref().is_none_or(|served| served.len() == k * records);
        right.then(|| TrainedModel {
            origin: self.origin,
            weights: DMatrix::from_vec(k, features, self.weights),
            bias: DVector::from_vec(self.bias),
            served: self.served.map(|served| DMatrix::from_vec(k, records, served)),
        })
    }
}

/// Returns the model of a data set with scores of the rows `test`.
///
/// # Errors
/// If training fails, or a model cannot be stored.
pub(super) fn trained(
    how: ModelSource<'_>,
    dataset: &Dataset,
    config: &TrainingConfig,
    test: &[usize],
) -> Result<TrainedModel, ReproduceError> {
    let Some(keeper) = how.models else { return train(how, dataset, config, test) };
    let of = (
        dataset.data_hash(),
        config.values(),
        format!("{:?} {:?}", how.protocol, how.training),
        test,
        VERSION,
    );
    let place = keeper.model(&hex(Sha256::digest(serde_json::to_vec(&of)?)));
    let read = |bytes: &[u8]| {
        serde_json::from_slice::<StoredModel>(bytes).ok()?.model(dataset.x().nrows(), test.len())
    };
    if let Some(found) = keeper.in_folder(&place, read) {
        return Ok(found);
    }
    match keeper.in_store(&place, read) {
        Ok(Some(found)) => return Ok(found),
        // A store that fails is no reason to stop: the model is trained here.
        Err(CacheError::Store(why)) => say(&format!("no model is taken from the store: {why}")),
        other => drop(other?),
    }
    let trained = train(how, dataset, config, test)?;
    keeper.keep(&place, serde_json::to_vec(&StoredModel::of(&trained))?)?;
    Ok(trained)
}

fn train(
    how: ModelSource<'_>,
    dataset: &Dataset,
    config: &TrainingConfig,
    test: &[usize],
) -> Result<TrainedModel, ReproduceError> {
    let train = &dataset.split().train;
    let labels: Vec<u32> = train.iter().map(|&r| dataset.labels()[r]).collect();
    let (classes, x) = (dataset.class_names().len(), dataset.x().select_columns(train));
    if how.training == Training::Converged {
        let l2 = config.values().l2;
        let fit = train_converged(classes, &x, &labels, l2, CONVERGED)?;
        let origin = ModelOrigin::Converged {
            l2,
            iterations: fit.iterations,
            gradient_norm: fit.gradient_norm,
        };
        return Ok(TrainedModel { origin, weights: fit.weights, bias: fit.bias, served: None });
    }
    let fit = train_central(config, classes, &x, &labels);
    if how.training != Training::OverSockets {
        let origin =
            ModelOrigin::Trained { config: config.values().clone(), best_epoch: fit.best_epoch };
        return Ok(TrainedModel { origin, weights: fit.weights, bias: fit.bias, served: None });
    }
    let parties = how
        .parties
        .ok_or_else(|| ReproduceError::Sockets("this program has no parties to train by".into()))?;
    let served = parties(dataset, config, test, how.seed)?;
    let here = scores(&served.weights, &served.bias, &dataset.x().select_columns(test))?;
    let origin = ModelOrigin::OverSockets {
        config: config.values().clone(),
        best_epoch: served.best_epoch,
        steps: served.steps,
        version: served.version,
        off_central: (&served.weights - fit.weights).amax().max((&served.bias - fit.bias).amax()),
        off_scores: (&served.scores - here).amax(),
    };
    Ok(TrainedModel {
        origin,
        weights: served.weights,
        bias: served.bias,
        served: Some(served.scores),
    })
}

/// Computes softmax(W X + b), k × n.
pub(super) fn scores(
    weights: &DMatrix<f64>,
    bias: &DVector<f64>,
    x: &DMatrix<f64>,
) -> Result<DMatrix<f64>, ReproduceError> {
    let mut logits = weights * x;
    logits.column_iter_mut().for_each(|mut z| z += bias);
    Ok(ConfidenceScores::softmax(Logits::new(logits)?).into_matrix())
}
