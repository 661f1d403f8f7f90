//! The learners of all parties in one process, with the services' own order of records and without
//! sockets: for tables and figures that need many models.

use std::sync::Arc;

use nalgebra::DMatrix;
use vfl_core::model::contract::{InitialSeed, start_of};
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{
    HeadLearner, LearnerError, PartyLearner, Schedule, SubModel, TrainingConfig, cross_entropy,
    heads, kinds,
};
use vfl_core::types::{FeatureBlock, LogitShare, Logits, OutputGradient, ShapeError};

use crate::VerticalSplit;

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
        let values = config.values();
        let mut schedule = Schedule::new(config, labels.len());
        let validation = schedule.validation().to_vec();
        let mut model = Self {
            chosen: !validation.is_empty(),
            ..Self::begin(config, classes, parties, start)?
        };
        let (mut best, mut best_epoch) = (f64::INFINITY, 0);
        for epoch in 1..=values.epochs {
            for batch in schedule.next_epoch() {
                model.step(&batch, labels)?;
            }
            if validation.is_empty() {
                continue;
            }
            let (loss, _, _) =
                cross_entropy(model.logits(&validation, true)?, &classes_of(&validation, labels));
            if loss < best {
                (best, best_epoch) = (loss, epoch);
                model.parties.iter_mut().for_each(PartyLearner::checkpoint);
                model.head.checkpoint();
            } else if epoch - best_epoch >= values.patience {
                break;
            }
        }
        if model.chosen {
            model.parties.iter_mut().try_for_each(PartyLearner::restore)?;
            model.head.restore()?;
        }
        Ok(model)
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
        let (_, gradient, _) =
            cross_entropy(self.logits(batch, false)?, &classes_of(batch, labels));
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
        let passive = split.passive().iter().map(|party| party.columns.clone());
        let columns: Vec<Vec<usize>> =
            std::iter::once(split.active().to_vec()).chain(passive).collect();
        let blocks = columns.iter().map(|columns| FeatureBlock::new(x.select_rows(columns)));
        let parties = learners(config, classes, blocks.collect::<Result<Vec<_>, _>>()?, None)?;
        let trained = LocalTraining::train(config, classes, parties, labels, start(config))?;
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
