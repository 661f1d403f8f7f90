//! One split of the features between two parties, and perceptrons trained on it.

use nalgebra::{DMatrix, DVector};
use vfl_attack::{AdversaryView, AuxiliaryRecords, KnownModel, KnownNetwork, Replacement};
use vfl_core::metrics::{accuracy, squared_error_by_record};
use vfl_core::model::contract::{SubModelOrigin, start_of};
use vfl_core::model::{Combiner, ModelConfig, Settings, TrainingConfig, kinds};
use vfl_core::types::{FeatureBlock, ReleasedScores};
use vfl_datasets::VerticalSplit;
use vfl_datasets::local_training::{TrainedParties, summed_scores};

use super::super::ReproduceError;
use super::super::curve_spec::CurveRun;
use super::super::experiment_model::{ExperimentModel, Purpose, generator};
use super::super::recipe::Recipe;
use super::super::sweep::select;

/// A perceptron at each party, whose outputs are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Architecture {
    /// The number of hidden layers of 8 units.
    pub(super) layers: usize,
    pub(super) activation: &'static str,
    pub(super) recipe: Recipe,
}

impl Architecture {
    /// The default of J: two hidden layers of 8, sigmoid.
    pub(super) const J: Self = Self { layers: 2, activation: "sigmoid", recipe: Recipe::Own };

    /// Returns the same perceptrons, trained by J's recipe.
    pub(super) fn by_recipe(self) -> Self {
        Self { recipe: Recipe::J, ..self }
    }

    fn model(self) -> Result<ModelConfig, ReproduceError> {
        let settings =
            serde_json::json!({ "hidden": vec![8; self.layers], "activation": self.activation });
        let settings: Settings = settings.as_object().cloned().unwrap_or_default();
        ModelConfig::new(Combiner::Sum, "mlp", None, settings)
            .map_err(|e| failed(0, 0, e.to_string()))
    }

    /// Returns the training of a model of so many classes.
    pub(super) fn training(self, seed: u64, classes: usize) -> Result<Training, ReproduceError> {
        let config = TrainingConfig::try_from(self.recipe.values(seed, self.model()?))?;
        Ok(Training { config, sigmoids: self.recipe == Recipe::J && classes == 2 })
    }
}

/// The training of a split's model.
pub(super) struct Training {
    pub(super) config: TrainingConfig,
    /// True if each class has a sigmoid, false for a softmax of all.
    pub(super) sigmoids: bool,
}

/// Returns the number of parameters of the passive party's part, if it held all d_t features.
pub(super) fn passive_parameters(
    architecture: Architecture,
    classes: usize,
    total: usize,
) -> Result<usize, ReproduceError> {
    let off = |e: &dyn std::fmt::Display| failed(total, 0, e.to_string());
    let spec = architecture
        .model()?
        .sub_model(u32::try_from(classes).unwrap_or(u32::MAX))
        .map_err(|e| off(&e))?;
    let origin = SubModelOrigin { spec, features: total, active: false, start: start_of(0) };
    let model = kinds::start(&origin).map_err(|e| off(&e))?;
    Ok(model.tensors().iter().map(|tensor| tensor.values.len()).sum())
}

fn failed(d: usize, k0: usize, reason: String) -> ReproduceError {
    ReproduceError::Failed { what: "training perceptrons", d, k0, reason }
}

/// A split with its own model: the passive party holds the columns (k0 … k0 + d − 1) mod d_t.
pub(super) struct Split {
    pub(super) k0: usize,
    pub(super) d: usize,
    pub(super) passive: Vec<usize>,
    trained: TrainedParties,
    /// The model with its passive part known.
    pub(super) known: KnownModel,
    /// The share of the test records that it classifies correctly.
    pub(super) accuracy: f64,
}

impl Split {
    /// Trains on `records` (features d_t × n, labels).
    pub(super) fn train(
        subject: &ExperimentModel,
        training: &Training,
        (x, labels): &(DMatrix<f64>, Vec<u32>),
        k0: usize,
        d: usize,
    ) -> Result<Self, ReproduceError> {
        let split = VerticalSplit::window(k0, d, subject.features())?;
        let classes = subject.classes();
        let train = match training.sigmoids {
            true => TrainedParties::train_sigmoids,
            false => TrainedParties::train,
        };
        let trained = train(&training.config, classes, (x, labels), &split)
            .map_err(|e| failed(d, k0, e.to_string()))?;
        let part = trained.models[1..].to_vec();
        // With sigmoids the last output is of no class, and 0.
        let k = classes + usize::from(training.sigmoids);
        let own_columns = split.active().len();
        let w_act =
            DMatrix::from_fn(
                k,
                own_columns + k,
                |i, j| if j == own_columns + i { 1.0 } else { 0.0 },
            );
        let known = KnownModel::of_network(w_act, DVector::zeros(k), KnownNetwork::summed(part))
            .map_err(|error| ReproduceError::Attack { curve: "the model".into(), d, k0, error })?;
        let passive = trained.columns[1..].concat();
        let mut split = Self { k0, d, passive, trained, known, accuracy: 0.0 };
        let (_, released) = split.served(subject.test_records())?;
        let ReleasedScores::Probabilities(scores) = released else {
            return Err(ReproduceError::NothingToRun { notes: "no scores".into() });
        };
        let of_classes = ReleasedScores::Probabilities(scores.rows(0, classes).into_owned());
        split.accuracy = accuracy(&of_classes.predicted_labels(), &subject.labels)?;
        Ok(split)
    }

    /// Returns the adversary's features of records (d_t × n), its own outputs below them, and the
    /// exact scores.
    pub(super) fn served(
        &self,
        x: &DMatrix<f64>,
    ) -> Result<(FeatureBlock, ReleasedScores), ReproduceError> {
        let y = select(x, &self.trained.columns[0], x.ncols());
        let outputs = self.trained.outputs(x)?;
        let (own, rows) = (outputs[0].matrix(), y.nrows());
        let mut below = y.resize_vertically(rows + own.nrows(), 0.0);
        below.rows_mut(rows, own.nrows()).copy_from(own);
        let scores = summed_scores(&outputs).unwrap_or_else(|| DMatrix::zeros(0, 0));
        Ok((FeatureBlock::new(below)?, ReleasedScores::Probabilities(scores)))
    }

    /// Returns the model with its passive part hidden, and records (d_t × n) in the view of an
    /// adversary that knows all their features.
    pub(super) fn black_box(
        &self,
        x: &DMatrix<f64>,
    ) -> Result<(KnownModel, AuxiliaryRecords), ReproduceError> {
        let off = |error| ReproduceError::Attack {
            curve: "the black box".into(),
            d: self.d,
            k0: self.k0,
            error,
        };
        let (w_act, bias) = (self.known.active_weights().clone(), self.known.bias().clone());
        let hidden = KnownModel::black_box(w_act, bias, self.d).map_err(off)?;
        let (y, released) = self.served(x)?;
        let x = FeatureBlock::new(select(x, &self.passive, x.ncols()))?;
        let auxiliary =
            AuxiliaryRecords::new(y, x, released, Replacement::default()).map_err(off)?;
        Ok((hidden, auxiliary))
    }

    /// Returns the squared error per feature of each of the first records of `x` (d_t × n), as many
    /// as the contender attacks. The attack assumes the parameters of `model`.
    pub(super) fn attack(
        &self,
        model: &KnownModel,
        contender: &CurveRun,
        x: &DMatrix<f64>,
        seed: u64,
        draw: u64,
    ) -> Result<Vec<f64>, ReproduceError> {
        let off = |error| ReproduceError::Attack {
            curve: contender.curve.into(),
            d: self.d,
            k0: self.k0,
            error,
        };
        let x = x.columns(0, contender.records.min(x.ncols())).into_owned();
        let (y, released) = self.served(&x)?;
        let item = contender.place << 48 | draw << 40 | (self.d as u64) << 20 | self.k0 as u64;
        let mut rng = generator(seed, Purpose::Attack, item);
        let view = AdversaryView::new(model, &y, &released, contender.settings.replacement())
            .map_err(off)?;
        let found = contender
            .method
            .build(&contender.settings)
            .reconstruct(&view, &mut rng)
            .map_err(off)?;
        let errors =
            squared_error_by_record(&found.estimates, &select(&x, &self.passive, x.ncols()))?;
        match errors.iter().all(|e| e.is_finite()) {
            true => Ok(errors),
            false => Err(ReproduceError::NotFinite {
                curve: contender.curve.into(),
                d: self.d,
                k0: self.k0,
            }),
        }
    }
}
