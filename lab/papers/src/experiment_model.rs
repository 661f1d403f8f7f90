//! The subject of an attack: a logistic model of a public data set, and its test records.

use std::path::PathBuf;

use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use vfl_core::data::normalise::Normalisation;
use vfl_core::data::schema::FeatureSpec;
use vfl_core::metrics::accuracy;
use vfl_core::model::{TrainingConfig, TrainingValues, train_central};
use vfl_core::types::{ConfidenceScores, Logits, ReleasedScores};
use vfl_datasets as data;
use vfl_datasets::{
    Dataset, DatasetName, DatasetSpec, Encoding, MeanOver, Part, SplitSpec, SyntheticFields,
    SyntheticParameters, Variant,
};
use vfl_present::result_cache::ResultCache;

use super::ReproduceError;
use super::document::{DatasetFacts, ModelFacts, ModelOrigin};
use super::model_file::read_model;
use super::model_training::{ModelSource, TrainAndServe, TrainedModel, scores, trained};
use super::protocol::{Protocol, Training};

/// The specification of the attacked model and its data.
#[derive(Debug, Clone)]
pub struct ExperimentModelSpec {
    /// The data set.
    pub dataset: DatasetName,
    /// The directory of the public sets; the synthetic one needs none.
    pub data_dir: Option<PathBuf>,
    /// The variant of the data set.
    pub variant: Variant,
    /// A file with the model's weights; without it the model is trained.
    pub model: Option<PathBuf>,
    /// The seed of the split, of training, and of the synthetic set.
    pub seed: u64,
    /// The weight of the squared norm of the weights in training; `None`: the protocol's value.
    pub l2: Option<f64>,
    /// The protocol of the experiments.
    pub protocol: Protocol,
    /// The place where the model is trained. Ignored with a file, which cannot be combined with a
    /// training for each split.
    pub training: Training,
    /// The parties that train over sockets, for [`Training::OverSockets`].
    pub parties: Option<TrainAndServe>,
}

/// A model with its test set.
#[derive(Clone)]
pub struct ExperimentModel {
    pub(super) dataset: DatasetFacts,
    pub(super) model: ModelFacts,
    /// The weights W, k × d_t.
    pub(super) weights: DMatrix<f64>,
    /// The bias b, of length k.
    pub(super) bias: DVector<f64>,
    /// The features of the test records, d_t × n.
    x: DMatrix<f64>,
    /// The scores of the test records, k × n.
    scores: DMatrix<f64>,
    /// The labels of the test records.
    pub(super) labels: Vec<u32>,
    /// The features of all other records, d_t × m, which training uses.
    pub(super) others: DMatrix<f64>,
    /// The labels of the other records.
    pub(super) other_labels: Vec<u32>,
    /// The settings of the model's training, even if it is not trained.
    pub(super) training: TrainingConfig,
    /// The names of the features, in the order of the columns.
    pub(super) feature_names: Vec<String>,
    /// The kinds, ranges and steps of the features, in the same order.
    pub(super) schema: Vec<FeatureSpec>,
    /// The values in the source's units that 0 and 1 stand for, feature by feature.
    pub(super) ranges: Vec<(f64, f64)>,
}

/// The most steps in a range that are derived from values: with more, the values are not a grid.
const MOST_STEPS: f64 = 1e5;

/// Returns a feature with the grid of the values of the test records (in [0, 1]). If these are
/// normalised by their own ranges, the step is not known. It is then derived from the least
/// difference of two values, as the owner would declare it.
fn on_values(feature: &FeatureSpec, values: impl Iterator<Item = f64>) -> FeatureSpec {
    if feature.grid().is_some() {
        return feature.clone();
    }
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let gaps = values.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 1e-9);
    let steps = (1.0 / gaps.fold(1.0, f64::min)).round();
    let on_grid = values.iter().map(|v| v * steps).all(|t| (t - t.round()).abs() < 1e-6);
    match on_grid && steps <= MOST_STEPS {
        true => FeatureSpec { min: 0.0, max: steps, step: Some(1.0), ..feature.clone() },
        false => feature.clone(),
    }
}

/// Shows only the facts.
impl std::fmt::Debug for ExperimentModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subject({:?}, values withheld)", self.dataset)
    }
}

/// Records drawn for an attack: the same in every split.
pub(super) struct DrawnRecords {
    /// The features, d_t × n.
    pub(super) x: DMatrix<f64>,
    /// The scores, k × n.
    scores: DMatrix<f64>,
}

impl DrawnRecords {
    /// Returns the number of records.
    pub(super) fn records(&self) -> usize {
        self.x.ncols()
    }

    /// Returns the exact scores, k × n.
    pub(super) fn scores(&self) -> &DMatrix<f64> {
        &self.scores
    }

    /// Returns the exact scores of the first `n` records.
    pub(super) fn released(&self, n: usize) -> ReleasedScores {
        ReleasedScores::Probabilities(self.scores.columns(0, n).into_owned())
    }
}

impl ExperimentModel {
    /// Loads the data, normalised and encoded as by the authors of R, and trains or reads the
    /// model.
    ///
    /// The test set is the official one, or the rows that the model's file names, or a fifth of the
    /// records. Satellite is normalised part by part; bank's categories become label means over all
    /// rows, including the test set (both as for R's figures). [`Protocol`] describes other
    /// figures.
    ///
    /// # Errors
    /// [`ReproduceError::Data`], [`ReproduceError::Model`] and other errors in the files.
    pub fn load(spec: &ExperimentModelSpec) -> Result<Self, ReproduceError> {
        Self::load_kept(spec, None)
    }

    /// Loads the same subject with stored models. A model that was trained before, on the same data
    /// and in the same way, is read from `models`; a model that is trained now is stored there.
    ///
    /// # Errors
    /// As [`ExperimentModel::load`]; [`ReproduceError::Write`] if the file cannot be written.
    pub fn load_kept(
        spec: &ExperimentModelSpec,
        models: Option<&ResultCache>,
    ) -> Result<Self, ReproduceError> {
        if spec.training == Training::EachSplit && spec.model.is_some() {
            let figure = "a figure that trains a model for every split";
            return Err(ReproduceError::NoChoice { figure, what: "a file of weights" });
        }
        let dataset = data::load(&data_spec(spec)?)?;
        let file = spec.model.as_ref().map(|path| read_model(path, &dataset)).transpose()?;
        let config = training_config(spec)?;
        let (test, origin, weights, bias, served) = match file {
            Some(file) => {
                let test = file.test.unwrap_or_else(|| test_rows(&dataset, spec.protocol));
                (test, ModelOrigin::File { sha256: file.sha256 }, file.weights, file.bias, None)
            }
            None if matches!(spec.training, Training::None | Training::EachSplit) => {
                let (k, d) = (dataset.class_names().len(), dataset.x().nrows());
                let test = test_rows(&dataset, spec.protocol);
                (test, ModelOrigin::None {}, DMatrix::zeros(k, d), DVector::zeros(k), None)
            }
            None => {
                let test = test_rows(&dataset, spec.protocol);
                let how = ModelSource {
                    protocol: spec.protocol,
                    training: spec.training,
                    seed: spec.seed,
                    models,
                    parties: spec.parties,
                };
                let TrainedModel { origin, weights, bias, served } =
                    trained(how, &dataset, &config, &test)?;
                (test, origin, weights, bias, served)
            }
        };
        let x = dataset.x().select_columns(&test);
        let scores = match served {
            Some(served) => served,
            None => scores(&weights, &bias, &x)?,
        };
        let labels: Vec<u32> = test.iter().map(|&r| dataset.labels()[r]).collect();
        let released = ReleasedScores::Probabilities(scores.clone());
        let accuracy = accuracy(&released.predicted_labels(), &labels)?;
        let mut is_test = vec![false; dataset.records()];
        test.iter().for_each(|&r| is_test[r] = true);
        let others: Vec<usize> = match spec.protocol {
            // The records that this protocol leaves out belong to nobody.
            Protocol::RTradeoff => dataset.split().train.clone(),
            _ => (0..dataset.records()).filter(|&r| !is_test[r]).collect(),
        };
        Ok(Self {
            dataset: DatasetFacts {
                name: dataset.name().to_owned(),
                variant: Some(dataset.variant().to_string()),
                columns: Some(dataset.columns()),
                sha256: dataset.data_hash(),
                features: dataset.x().nrows(),
                classes: weights.nrows(),
                test_records: test.len(),
            },
            model: ModelFacts { origin, accuracy },
            feature_names: dataset.features().iter().map(|f| f.name.clone()).collect(),
            schema: dataset
                .features()
                .iter()
                .zip(x.row_iter())
                .map(|(f, row)| on_values(f, row.iter().copied()))
                .collect(),
            ranges: dataset.features().iter().map(|f| (f.min, f.max)).collect(),
            others: dataset.x().select_columns(&others),
            other_labels: others.iter().map(|&r| dataset.labels()[r]).collect(),
            labels,
            training: config,
            weights,
            bias,
            x,
            scores,
        })
    }

    /// Returns the same records with softmax regression that is trained on them by other settings.
    ///
    /// # Errors
    /// [`ReproduceError`] if a score is not finite.
    pub(super) fn retrained(&self, config: &TrainingConfig) -> Result<Self, ReproduceError> {
        let fit = train_central(config, self.classes(), &self.others, &self.other_labels);
        let scores = scores(&fit.weights, &fit.bias, &self.x)?;
        let released = ReleasedScores::Probabilities(scores.clone());
        let accuracy = accuracy(&released.predicted_labels(), &self.labels)?;
        let origin =
            ModelOrigin::Trained { config: config.values().clone(), best_epoch: fit.best_epoch };
        Ok(Self {
            model: ModelFacts { origin, accuracy },
            training: config.clone(),
            weights: fit.weights,
            bias: fit.bias,
            scores,
            ..self.clone()
        })
    }

    /// Returns the facts about the data set.
    #[must_use]
    pub fn dataset(&self) -> &DatasetFacts {
        &self.dataset
    }

    /// Returns the facts about the model.
    #[must_use]
    pub fn model(&self) -> &ModelFacts {
        &self.model
    }

    /// Draws records whose scores the adversary has seen, from the test records, and targets from
    /// all the others, including training records.
    pub(super) fn draw_agnostic(
        &self,
        seen: usize,
        records: Option<usize>,
        seed: u64,
    ) -> (DrawnRecords, DrawnRecords) {
        let n = self.x.ncols();
        let mut rng = generator(seed, Purpose::Auxiliary, 0);
        let seen = rand::seq::index::sample(&mut rng, n, seen.min(n)).into_vec();
        let mut free = vec![true; n + self.others.ncols()];
        seen.iter().for_each(|&r| free[r] = false);
        let all: Vec<usize> = (0..free.len()).filter(|&r| free[r]).collect();
        let wanted = records.map_or(all.len(), |wanted| wanted.min(all.len()));
        let mut rng = generator(seed, Purpose::Records, 0);
        let targets: Vec<usize> =
            rand::seq::index::sample(&mut rng, all.len(), wanted).iter().map(|i| all[i]).collect();
        let feature =
            |row: usize, r: usize| if r < n { self.x[(row, r)] } else { self.others[(row, r - n)] };
        let x = DMatrix::from_fn(self.features(), targets.len(), |row, j| feature(row, targets[j]));
        // Training records have no served scores: theirs are computed from the stored parameters.
        let mut scores = &self.weights * &x;
        scores.column_iter_mut().for_each(|mut z| z += &self.bias);
        vfl_numerics::softmax_columns(&mut scores);
        for (mut to, &r) in scores.column_iter_mut().zip(&targets) {
            if r < n {
                to.copy_from(&self.scores.column(r));
            }
        }
        (
            DrawnRecords {
                x: self.x.select_columns(&seen),
                scores: self.scores.select_columns(&seen),
            },
            DrawnRecords { x, scores },
        )
    }

    /// Returns training records with their labels: `records` of them without replacement, or all in
    /// their order if there are no more.
    pub(super) fn own_records(
        &self,
        records: Option<usize>,
        seed: u64,
    ) -> (DMatrix<f64>, Vec<u32>) {
        let n = self.others.ncols();
        match records.filter(|&wanted| wanted < n) {
            None => (self.others.clone(), self.other_labels.clone()),
            Some(wanted) => {
                let mut rng = generator(seed, Purpose::Own, 0);
                let drawn = rand::seq::index::sample(&mut rng, n, wanted).into_vec();
                (
                    self.others.select_columns(&drawn),
                    drawn.iter().map(|&r| self.other_labels[r]).collect(),
                )
            }
        }
    }

    /// Returns the exact scores of the first `most` training records, which defenses are fitted on.
    ///
    /// # Errors
    /// [`ReproduceError`] if a logit is not finite.
    pub(super) fn training_scores(&self, most: usize) -> Result<ConfidenceScores, ReproduceError> {
        let mut logits = &self.weights * self.others.columns(0, self.others.ncols().min(most));
        logits.column_iter_mut().for_each(|mut z| z += &self.bias);
        Ok(ConfidenceScores::softmax(Logits::new(logits)?))
    }

    /// Returns the features of the test records, d_t × n.
    pub(super) fn test_records(&self) -> &DMatrix<f64> {
        &self.x
    }

    /// Returns the features of all records, d_t × n: test records first.
    pub(super) fn all_records(&self) -> DMatrix<f64> {
        let mut all = self.x.clone().resize_horizontally(self.x.ncols() + self.others.ncols(), 0.0);
        all.columns_mut(self.x.ncols(), self.others.ncols()).copy_from(&self.others);
        all
    }

    /// Returns the number of features, d_t.
    pub(super) fn features(&self) -> usize {
        self.weights.ncols()
    }

    /// Returns the number of classes, k.
    pub(super) fn classes(&self) -> usize {
        self.weights.nrows()
    }

    /// Returns the test records that [`ExperimentModel::draw`] with the same numbers leaves out
    /// (d_t × m): records of the prediction set that are not attacked.
    ///
    /// # Errors
    /// [`ReproduceError::NoneLeft`] if there are fewer than `expected`.
    pub(super) fn left_out(
        &self,
        records: Option<usize>,
        seed: u64,
        expected: usize,
    ) -> Result<DMatrix<f64>, ReproduceError> {
        let n = self.x.ncols();
        let drawn = self.drawn(records, seed).unwrap_or_else(|| (0..n).collect());
        let mut free = vec![true; n];
        drawn.iter().for_each(|&r| free[r] = false);
        let rest: Vec<usize> = (0..n).filter(|&r| free[r]).collect();
        match rest.len() {
            got if got < expected => {
                Err(ReproduceError::NoneLeft { attacked: drawn.len(), got, expected })
            }
            _ => Ok(self.x.select_columns(&rest)),
        }
    }

    /// Returns the positions of a draw; `None`: all.
    fn drawn(&self, records: Option<usize>, seed: u64) -> Option<Vec<usize>> {
        let n = self.x.ncols();
        let wanted = records.filter(|&wanted| wanted < n)?;
        Some(
            rand::seq::index::sample(&mut generator(seed, Purpose::Records, 0), n, wanted)
                .into_vec(),
        )
    }

    /// Draws `records` test records without replacement, or all of them in their order if there are
    /// no more.
    pub(super) fn draw(&self, records: Option<usize>, seed: u64) -> DrawnRecords {
        match self.drawn(records, seed) {
            None => DrawnRecords { x: self.x.clone(), scores: self.scores.clone() },
            Some(drawn) => DrawnRecords {
                x: self.x.select_columns(&drawn),
                scores: self.scores.select_columns(&drawn),
            },
        }
    }
}

/// The purpose of a random number generator. Each has its own stream, so that leaving out an attack
/// changes nothing elsewhere.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// The choice of attacked test records.
    Records = 1,
    /// An attack in one split.
    Attack = 2,
    /// The auxiliary records of one split.
    Auxiliary = 3,
    /// The repetitions of an experiment.
    Repetition = 4,
    /// The secret of a transform in one split.
    Transform = 5,
    /// The labelled records of the adversary.
    Own = 6,
}

/// Returns the generator of a seed for a purpose and an item below 2⁵⁶.
pub(super) fn generator(seed: u64, purpose: Purpose, item: u64) -> ChaCha20Rng {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    rng.set_stream((purpose as u64) << 56 | item);
    rng
}

fn test_rows(dataset: &Dataset, protocol: Protocol) -> Vec<usize> {
    match dataset.parts().filter(|_| protocol == Protocol::R) {
        Some(parts) => (0..dataset.records()).filter(|&r| parts[r] == Part::Test).collect(),
        None => dataset.split().test.clone(),
    }
}

fn data_spec(spec: &ExperimentModelSpec) -> Result<DatasetSpec, ReproduceError> {
    let mut data = DatasetSpec::new(spec.dataset, spec.data_dir.clone(), spec.seed);
    data.variant = spec.variant;
    let official = spec.protocol == Protocol::R;
    let (train, left_out, test) = match spec.protocol {
        Protocol::Own => (0.7, 0.0, 0.3),
        Protocol::RTradeoff => (0.8, 0.1, 0.1),
        Protocol::R | Protocol::V => (0.8, 0.0, 0.2),
    };
    if spec.protocol != Protocol::Own {
        data.encoding = Encoding::MeanLabel { over: MeanOver::AllRows };
    }
    data.split = SplitSpec::new(train, left_out, test, official).map_err(data::DataError::from)?;
    if spec.dataset == DatasetName::Satellite && official {
        data.normalisation = Normalisation::PerPart;
    }
    // R's set for attacks: 20 000 records, 10 features, 2 classes. The paper leaves the rest open.
    // One cluster per class, since two of them may lie crosswise, and then no linear model does
    // better than chance.
    data.synthetic = SyntheticParameters::try_from(SyntheticFields {
        records: 20_000,
        features: 10,
        informative: 5,
        redundant: 2,
        repeated: 0,
        classes: 2,
        clusters_per_class: 1,
        class_sep: 1.0,
        ..SyntheticFields::default()
    })
    .map_err(data::DataError::from)?;
    Ok(data)
}

/// Returns the settings of training as in the papers: Adam with early stopping; for R with the
/// regularisation that its authors stored with their models (in either repository), for V without,
/// otherwise with hardly any and time to converge.
fn training_config(spec: &ExperimentModelSpec) -> Result<TrainingConfig, ReproduceError> {
    let l2 = match (spec.protocol, spec.dataset) {
        (Protocol::V, _) => 0.0,
        (Protocol::Own, _) => 6e-7,
        (Protocol::RTradeoff, DatasetName::Satellite) => 2e-4,
        // No available file has bank's value. Of the round values that were tried, this one
        // reproduces its published curves.
        (Protocol::RTradeoff, DatasetName::Robot | DatasetName::Bank) => 1e-3,
        (Protocol::R | Protocol::RTradeoff, DatasetName::Synthetic) => 1e-7,
        (Protocol::R | Protocol::RTradeoff, _) => 1e-4,
    };
    let l2 = spec.l2.unwrap_or(l2);
    let epochs = if spec.protocol == Protocol::Own { 200 } else { 100 };
    let values =
        TrainingValues { epochs, l2, patience: 10, seed: spec.seed, ..TrainingValues::default() };
    Ok(TrainingConfig::try_from(values)?)
}
