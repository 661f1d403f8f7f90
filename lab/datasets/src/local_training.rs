//! The learners of all parties in one process, with the services' own order of records and without
//! sockets: for tables and figures that need many models.

use std::sync::Arc;

use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::model::contract::{InitialSeed, Tensor, start_of};
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{
    Combiner, HeadLearner, LearnerError, PartyLearner, Schedule, SpecError, SubModel,
    TrainingConfig, cross_entropy, heads, kinds,
};
use vfl_core::types::{
    ConfidenceScores, FeatureBlock, LogitShare, Logits, OutputGradient, ShapeError,
};

use crate::VerticalSplit;

/// The loss of a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainingLoss {
    /// The cross entropy of the scores.
    CrossEntropy,
    /// The cross entropy of a softmax of the scores, as in P's code: the model ends in a softmax,
    /// and its loss applies another (errata P5).
    SoftmaxTwice,
}

impl TrainingLoss {
    /// Returns the gradient of the mean loss with respect to the logits, k × n.
    fn gradient(self, logits: Logits, labels: &[u32]) -> Result<DMatrix<f64>, LearnerError> {
        if self == Self::CrossEntropy {
            return Ok(cross_entropy(logits, labels).1);
        }
        let scores = ConfidenceScores::softmax(logits).into_matrix();
        let (_, mut gradient, _) = cross_entropy(Logits::new(scores.clone())?, labels);
        for (mut g, c) in gradient.column_iter_mut().zip(scores.column_iter()) {
            let mean = g.dot(&c);
            g.zip_apply(&c, |g, c| *g = c * (*g - mean));
        }
        Ok(gradient)
    }
}

/// The gradient of a training's loss with respect to the logits (k × n), by the labels.
type LossGradient<'a> = dyn Fn(Logits, &[u32]) -> Result<DMatrix<f64>, LearnerError> + 'a;

/// Returns the gradient with respect to `z`, (k + 1) × n, of the mean over the records of the cross
/// entropies of σ(z_1) to σ(z_k), summed over the classes. The last output belongs to no class.
fn of_sigmoids(mut z: DMatrix<f64>, labels: &[u32]) -> DMatrix<f64> {
    let (last, n) = (z.nrows().saturating_sub(1), labels.len().max(1) as f64);
    for (mut z, &label) in z.column_iter_mut().zip(labels) {
        z.apply(|z| *z = 1.0 / (1.0 + (-*z).exp()) / n);
        z[label as usize] -= 1.0 / n;
        z[last] = 0.0;
    }
    z
}

/// A model trained in one process.
pub struct LocalTraining {
    /// The learners, the active party's first.
    parties: Vec<PartyLearner>,
    head: HeadLearner,
    /// True if parameters were stored at the best epoch.
    chosen: bool,
}

impl LocalTraining {
    /// Trains with the coordinator's order of records and stopping rule, without the checks that
    /// services make of each other. The first `labels.len()` records of every party's block are the
    /// training records; more may follow them.
    ///
    /// # Errors
    /// [`LearnerError`] for parties that do not fit the configuration's model, or a number that
    /// exceeds the range of a double.
    pub fn train(
        config: &TrainingConfig,
        classes: usize,
        parties: Vec<PartyLearner>,
        labels: &[u32],
        start: InitialSeed,
    ) -> Result<Self, LearnerError> {
        let mut model = Self::begin(config, classes, parties, start)?;
        model.run(config, labels, &|z, labels| TrainingLoss::CrossEntropy.gradient(z, labels))?;
        Ok(model)
    }

    /// Runs the steps of [`LocalTraining::train`], by the gradient of a loss with respect to the
    /// logits. Early stopping goes by the cross entropy.
    fn run(
        &mut self,
        config: &TrainingConfig,
        labels: &[u32],
        gradient: &LossGradient<'_>,
    ) -> Result<(), LearnerError> {
        let values = config.values();
        let mut schedule = Schedule::new(config, labels.len());
        let validation = schedule.validation().to_vec();
        self.chosen = !validation.is_empty();
        let (mut best, mut best_epoch) = (f64::INFINITY, 0);
        for epoch in 1..=values.epochs {
            for batch in schedule.next_epoch() {
                self.step_by(gradient, &batch, labels)?;
            }
            if validation.is_empty() {
                continue;
            }
            let (loss, _, _) =
                cross_entropy(self.logits(&validation, true)?, &classes_of(&validation, labels));
            if loss < best {
                (best, best_epoch) = (loss, epoch);
                self.parties.iter_mut().for_each(PartyLearner::checkpoint);
                self.head.checkpoint();
            } else if epoch - best_epoch >= values.patience {
                break;
            }
        }
        if self.chosen {
            self.parties.iter_mut().try_for_each(PartyLearner::restore)?;
            self.head.restore()?;
        }
        Ok(())
    }

    /// Creates the parties and the head before the first step.
    ///
    /// # Errors
    /// [`LearnerError`] for parties that do not fit the configuration's model.
    pub fn begin(
        config: &TrainingConfig,
        classes: usize,
        parties: Vec<PartyLearner>,
        start: InitialSeed,
    ) -> Result<Self, LearnerError> {
        let values = config.values();
        let k = u32::try_from(classes).unwrap_or(u32::MAX);
        let sub_model = values.model.sub_model(k)?;
        let passive = vec![sub_model.clone(); parties.len().saturating_sub(1)];
        let spec = values.model.model(k, sub_model, passive)?;
        let head = HeadLearner::new(config, heads::start(&spec, k, start)?);
        Ok(Self { parties, head, chosen: false })
    }

    /// Runs one step on the records at these positions. Returns the gradients that the coordinator
    /// sends to the parties, the active party's first.
    ///
    /// # Errors
    /// [`LearnerError`] if a number exceeds the range of a double.
    pub fn step(
        &mut self,
        batch: &[u32],
        labels: &[u32],
    ) -> Result<Vec<OutputGradient>, LearnerError> {
        self.step_by(&|z, labels| TrainingLoss::CrossEntropy.gradient(z, labels), batch, labels)
    }

    /// Runs one step as [`LocalTraining::step`] does, by the gradient of another loss.
    fn step_by(
        &mut self,
        gradient: &LossGradient<'_>,
        batch: &[u32],
        labels: &[u32],
    ) -> Result<Vec<OutputGradient>, LearnerError> {
        let gradient = gradient(self.logits(batch, false)?, &classes_of(batch, labels))?;
        let gradients = self.head.update(gradient)?;
        for (party, gradient) in self.parties.iter_mut().zip(&gradients) {
            party.update(gradient.matrix())?;
        }
        Ok(gradients)
    }

    /// Returns the logits of records by their positions in the parties' blocks. Without
    /// `evaluation`, the next gradient belongs to this batch.
    ///
    /// # Errors
    /// [`LearnerError`] if a number exceeds the range of a double.
    pub fn logits(&mut self, batch: &[u32], evaluation: bool) -> Result<Logits, LearnerError> {
        let shares = self.outputs(batch, evaluation)?;
        Ok(self.head.logits(shares, evaluation)?)
    }

    /// Returns the outputs that each party sends to the coordinator for these records, as
    /// [`LocalTraining::logits`] takes them, the active party's first.
    ///
    /// # Errors
    /// As [`LocalTraining::logits`].
    pub fn outputs(
        &mut self,
        batch: &[u32],
        evaluation: bool,
    ) -> Result<Vec<LogitShare>, LearnerError> {
        self.parties.iter_mut().map(|party| party.shares(batch, evaluation)).collect()
    }

    /// Returns the learners of the parties.
    pub fn parties(&self) -> &[PartyLearner] {
        &self.parties
    }

    /// Returns the top model as it would be served, if there is one.
    pub(crate) fn top(&self) -> Result<Option<Box<dyn SubModel>>, LearnerError> {
        Ok(self.head.parameters(self.chosen)?.map(|top| kinds::restore(&top)).transpose()?)
    }

    /// Returns the sub-models as they would be served, the active party's first.
    ///
    /// # Errors
    /// [`LearnerError`] if parameters cannot be restored.
    pub fn sub_models(&self) -> Result<Vec<Box<dyn SubModel>>, LearnerError> {
        self.parties
            .iter()
            .map(|party| Ok(kinds::restore(&party.parameters(self.chosen)?)?))
            .collect()
    }
}

/// Creates the learners of all parties on their blocks (d_p × n), the active party's first. With
/// `privacy`, each trains with differential privacy, with the noise of the seed that the function
/// gives for its place.
///
/// # Errors
/// [`LearnerError`] for blocks that do not fit the configuration's model, or a privacy that does
/// not fit the training.
pub fn learners(
    config: &TrainingConfig,
    classes: usize,
    blocks: impl IntoIterator<Item = FeatureBlock>,
    privacy: Option<(PrivacyConfig, &dyn Fn(usize) -> InitialSeed)>,
) -> Result<Vec<PartyLearner>, LearnerError> {
    let learner = |(place, block): (usize, FeatureBlock)| {
        let learner = PartyLearner::new(config, classes, block, place == 0)?;
        match privacy {
            Some((privacy, seed)) => learner.with_privacy(privacy, config, seed(place)),
            None => Ok(learner),
        }
    };
    blocks.into_iter().enumerate().map(learner).collect()
}

/// The trained sub-models of a split of the features, as they would be served.
pub struct TrainedParties {
    /// The columns of each party, the active party's first.
    pub columns: Vec<Vec<usize>>,
    /// The sub-model of each party.
    pub models: Vec<Arc<dyn SubModel>>,
    /// The top model, if there is one.
    pub top: Option<Arc<dyn SubModel>>,
}

impl TrainedParties {
    /// Trains one party on each part of a split, any number of them. `x` has all features of the
    /// training records, d_t × n.
    ///
    /// # Errors
    /// As [`LocalTraining::train`]; [`LearnerError::Shape`] for features that are not finite.
    pub fn train(
        config: &TrainingConfig,
        classes: usize,
        (x, labels): (&DMatrix<f64>, &[u32]),
        split: &VerticalSplit,
    ) -> Result<Self, LearnerError> {
        let (columns, parties) = learners_of(config, classes, x, split)?;
        Self::of(LocalTraining::train(config, classes, parties, labels, start(config))?, columns)
    }

    /// Trains as [`TrainedParties::train`] does, with a sigmoid for each class (J 3.1.2) in place
    /// of a softmax. The model has k + 1 outputs, of which the last is 0 for every record. The
    /// scores σ(z_i) of the classes tell z_1 to z_k, and so does the softmax of these outputs: its
    /// log-ratios to the last score are z_1 to z_k.
    ///
    /// # Errors
    /// As [`TrainedParties::train`]; [`LearnerError::Spec`] for a top model, and for early
    /// stopping, which goes by another loss.
    pub fn train_sigmoids(
        config: &TrainingConfig,
        classes: usize,
        (x, labels): (&DMatrix<f64>, &[u32]),
        split: &VerticalSplit,
    ) -> Result<Self, LearnerError> {
        let outputs = classes + 1;
        let (columns, parties) = learners_of(config, outputs, x, split)?;
        let mut model = LocalTraining::begin(config, outputs, parties, start(config))?;
        if config.values().model.combiner() != Combiner::Sum
            || config.values().validation_share > 0.0
        {
            let reason =
                "sigmoids are of outputs that are added, and trained without early stopping";
            return Err(SpecError::Top { reason: reason.into() }.into());
        }
        // The output of no class has no gradient and stays at the zeros that it starts with.
        for party in &mut model.parties {
            let mut layers = 0;
            party.initialise(&mut |tensor| layers += usize::from(tensor.shape.len() == 2));
            let mut layer = 0;
            party.initialise(&mut |tensor| {
                layer += usize::from(tensor.shape.len() == 2);
                if layer == layers {
                    tensor.values.chunks_exact_mut(outputs).for_each(|row| row[classes] = 0.0);
                }
            });
        }
        let gradient = |z: Logits, labels: &[u32]| Ok(of_sigmoids(z.into_matrix(), labels));
        model.run(config, labels, &gradient)?;
        Self::of(model, columns)
    }

    /// Trains by a loss of one's own with all records in their order in every epoch, with no early
    /// stopping, and from the parameters that PyTorch starts a layer with: uniform within
    /// 1/√inputs. `x` as for [`TrainedParties::train`].
    ///
    /// # Errors
    /// As [`TrainedParties::train`].
    pub fn train_in_order(
        (config, loss): (&TrainingConfig, TrainingLoss),
        classes: usize,
        (x, labels): (&DMatrix<f64>, &[u32]),
        split: &VerticalSplit,
    ) -> Result<Self, LearnerError> {
        let (columns, parties) = learners_of(config, classes, x, split)?;
        let mut model = LocalTraining::begin(config, classes, parties, start(config))?;
        let mut rng = ChaCha20Rng::from_seed(start(config));
        let mut inputs = 1;
        let mut draw = |tensor: Tensor<&mut [f64]>| {
            // The bias of a layer follows its weights, inputs × outputs.
            if let [of_layer, _] = tensor.shape[..] {
                inputs = of_layer;
            }
            let reach = 1.0 / (inputs.max(1) as f64).sqrt();
            tensor.values.fill_with(|| rng.random_range(-reach..reach));
        };
        model.parties.iter_mut().for_each(|party| party.initialise(&mut draw));
        model.head.initialise(&mut draw);
        let positions: Vec<u32> = (0u32..).take(labels.len()).collect();
        let values = config.values();
        for _ in 0..values.epochs {
            for batch in positions.chunks(values.batch_size as usize) {
                model.step_by(&|z, labels| loss.gradient(z, labels), batch, labels)?;
            }
        }
        Self::of(model, columns)
    }

    /// Returns the sub-models of a training, with the columns of each.
    fn of(trained: LocalTraining, columns: Vec<Vec<usize>>) -> Result<Self, LearnerError> {
        let models = trained.sub_models()?.into_iter().map(Arc::from).collect();
        Ok(Self { columns, models, top: trained.top()?.map(Arc::from) })
    }

    /// Returns the outputs of each party for records with all features (d_t × n).
    ///
    /// # Errors
    /// [`ShapeError`] for outputs that are not finite.
    pub fn outputs(&self, x: &DMatrix<f64>) -> Result<Vec<LogitShare>, ShapeError> {
        self.models
            .iter()
            .zip(&self.columns)
            .map(|(model, columns)| model.outputs(&x.select_rows(columns)))
            .collect()
    }
}

/// Returns the columns of each party of a split, the active party's first, and the learners on them
/// (`x`: d_t × n).
fn learners_of(
    config: &TrainingConfig,
    classes: usize,
    x: &DMatrix<f64>,
    split: &VerticalSplit,
) -> Result<(Vec<Vec<usize>>, Vec<PartyLearner>), LearnerError> {
    let passive = split.passive().iter().map(|party| party.columns.clone());
    let columns: Vec<Vec<usize>> =
        std::iter::once(split.active().to_vec()).chain(passive).collect();
    let blocks = columns.iter().map(|columns| FeatureBlock::new(x.select_rows(columns)));
    let parties = learners(config, classes, blocks.collect::<Result<Vec<_>, _>>()?, None)?;
    Ok((columns, parties))
}

/// Returns the classes of the records at these positions.
fn classes_of(batch: &[u32], labels: &[u32]) -> Vec<u32> {
    batch.iter().map(|at| labels[*at as usize]).collect()
}

/// Returns the softmax of summed outputs (k × n each).
pub fn summed_scores(outputs: &[LogitShare]) -> Option<DMatrix<f64>> {
    let (first, others) = outputs.split_first()?;
    let mut scores = first.matrix().clone();
    others.iter().for_each(|share| scores += share.matrix());
    vfl_numerics::softmax_columns(&mut scores);
    Some(scores)
}

/// Returns the start of initial parameters from a training's seed, in the form for a head.
pub fn start(config: &TrainingConfig) -> InitialSeed {
    start_of(config.values().seed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vfl_core::model::{ModelConfig, TrainingValues};

    /// Checks a gradient at `z` by central differences of its loss.
    fn assert_slopes(
        gradient: &DMatrix<f64>,
        z: &DMatrix<f64>,
        loss: impl Fn(&DMatrix<f64>) -> f64,
    ) {
        for at in 0..z.len() {
            let moved = |by: f64| {
                let mut z = z.clone();
                z[at] += by;
                loss(&z)
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((gradient[at] - slope).abs() < 1e-9, "{at}: {} {slope}", gradient[at]);
        }
    }

    /// Central differences of the loss that the doc comment states.
    #[test]
    fn the_gradient_of_a_softmax_twice_is_that_of_its_loss() {
        let logits = DMatrix::from_row_slice(3, 2, &[1.0, -0.4, 0.2, 2.0, -1.5, 0.3]);
        let labels = [2, 1];
        let loss = |z: &DMatrix<f64>| {
            let scores = ConfidenceScores::softmax(Logits::new(z.clone()).unwrap()).into_matrix();
            cross_entropy(Logits::new(scores).unwrap(), &labels).0
        };
        let found = TrainingLoss::SoftmaxTwice
            .gradient(Logits::new(logits.clone()).unwrap(), &labels)
            .unwrap();
        assert_slopes(&found, &logits, loss);
    }

    /// The gradient against central differences of the loss; the last output gets none and is 0
    /// after a training, whatever the start of the others.
    #[test]
    fn sigmoids_are_trained_by_the_sum_of_their_cross_entropies() {
        let z = DMatrix::from_row_slice(3, 2, &[1.0, -0.4, 0.2, 2.0, 0.0, 0.0]);
        let labels = [1, 0];
        let loss = |z: &DMatrix<f64>| {
            let of = |class: usize, record: usize| {
                let p = 1.0 / (1.0 + (-z[(class, record)]).exp());
                if labels[record] as usize == class { -p.ln() } else { -(1.0 - p).ln() }
            };
            (of(0, 0) + of(1, 0) + of(0, 1) + of(1, 1)) / 2.0
        };
        let found = of_sigmoids(z.clone(), &labels);
        assert_slopes(&found, &z, loss);

        let settings = serde_json::json!({ "hidden": [3], "activation": "sigmoid" });
        let values = TrainingValues {
            epochs: 300,
            learning_rate: 0.05,
            l2: 0.0,
            validation_share: 0.0,
            model: ModelConfig::new(
                Combiner::Sum,
                "mlp",
                None,
                settings.as_object().cloned().unwrap(),
            )
            .unwrap(),
            ..TrainingValues::default()
        };
        let config = TrainingConfig::try_from(values).unwrap();
        let split = VerticalSplit::window(0, 1, 2).unwrap();
        let x = DMatrix::from_row_slice(2, 4, &[0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
        let trained =
            TrainedParties::train_sigmoids(&config, 2, (&x, &[0, 0, 1, 1]), &split).unwrap();
        let outputs = trained.outputs(&x).unwrap();
        let z = outputs[0].matrix() + outputs[1].matrix();
        assert_eq!(z.row(2).amax(), 0.0);
        let stopped = TrainingValues { validation_share: 0.5, ..config.values().clone() };
        let stopped = TrainingConfig::try_from(stopped).unwrap();
        let refused = TrainedParties::train_sigmoids(&stopped, 2, (&x, &[0, 0, 1, 1]), &split);
        assert!(refused.err().unwrap().to_string().contains("without early stopping"));
        // Each sigmoid says its own class.
        for (record, label) in [0, 0, 1, 1].into_iter().enumerate() {
            assert!(z[(label, record)] > 1.0 && z[(1 - label, record)] < -1.0, "{z}");
        }
    }

    /// With steps too small to count, what comes back is the start. Inputs and outputs of each
    /// layer differ, so that a bound by outputs would show.
    #[test]
    fn layers_start_within_the_root_of_their_inputs() {
        let settings = serde_json::json!({ "hidden": [4], "activation": "relu" });
        let settings = settings.as_object().cloned().unwrap();
        let values = TrainingValues {
            epochs: 1,
            learning_rate: 1e-12,
            l2: 0.0,
            validation_share: 0.0,
            model: ModelConfig::new(Combiner::Concat, "mlp", Some(64), settings).unwrap(),
            ..TrainingValues::default()
        };
        let config = TrainingConfig::try_from(values).unwrap();
        let split = VerticalSplit::window(0, 100, 200).unwrap();
        let (x, labels) = (DMatrix::from_element(200, 6, 0.5), [0, 1, 2, 0, 1, 2]);
        let training = (&config, TrainingLoss::SoftmaxTwice);
        let trained = TrainedParties::train_in_order(training, 3, (&x, &labels), &split).unwrap();
        let top = trained.top.unwrap();
        let parts = trained.models.iter().map(|part| (part, [100, 4].as_slice()));
        for (model, inputs) in parts.chain([(&top, [128].as_slice())]) {
            for (layer, inputs) in model.layers().unwrap().into_iter().zip(inputs) {
                let reach = 1.0 / f64::from(*inputs).sqrt();
                let largest = layer.weights.amax();
                assert!(largest <= reach + 1e-9 && largest > 0.9 * reach, "{largest} {reach}");
                assert!(layer.bias.is_none_or(|bias| bias.amax() <= reach + 1e-9));
            }
        }
    }
}
