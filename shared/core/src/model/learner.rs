//! Both sides of training, without any transport: a party's sub-model, and the coordinator's head.

use nalgebra::DMatrix;

use super::contract::{
    BackwardError, Head, InitialSeed, Parameters, SubModel, SubModelOrigin, Tensor, start_of,
};
use super::optimiser::Adam;
use super::privacy::{Privacy, PrivacyConfig, PrivacyError, PrivacyStatement};
use super::{SpecError, SubModelSpec, TrainingConfig, kinds};
use crate::types::{FeatureBlock, LogitShare, Logits, OutputGradient, ShapeError};

/// Errors from a training step.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LearnerError {
    /// A position past the record list.
    #[error("batch position {position} is not below the {records} records of this training")]
    Position {
        /// The position in the record list.
        position: u32,
        /// Length of the list.
        records: usize,
    },
    /// A batch by positions alone, of records that are not in memory.
    #[error("the records of this training are not in memory, so that each batch needs its rows")]
    Elsewhere,
    /// A gradient without a batch that it belongs to.
    #[error("a gradient came without a batch before it")]
    NoBatch,
    /// A gradient or share of the wrong shape, or not finite.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A checkpoint was requested, but none was taken.
    #[error("no checkpoint was taken")]
    NoCheckpoint,
    /// A model that cannot be trained here.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A training that `[training.privacy]` does not allow.
    #[error(transparent)]
    Privacy(#[from] PrivacyError),
}

impl From<BackwardError> for LearnerError {
    fn from(error: BackwardError) -> Self {
        match error {
            BackwardError::NoBatch => Self::NoBatch,
            // The configuration of a training refuses such models before.
            BackwardError::NotTrained => Self::NoBatch,
            BackwardError::Shape(error) => Self::Shape(error),
        }
    }
}

/// A party's state during one training. It gives the outputs of a batch, takes their gradient, and
/// updates its own parameters with Adam.
pub struct PartyLearner {
    records: Records,
    model: Box<dyn SubModel>,
    adam: Adam,
    /// True if the next gradient belongs to a batch.
    pending: bool,
    checkpoint: Option<Vec<Vec<f64>>>,
    privacy: Option<Privacy>,
}

/// The records of a training.
enum Records {
    /// All records in memory, d × n.
    Here(DMatrix<f64>),
    /// Records elsewhere, with d and n. Each batch brings its own.
    Elsewhere(usize, usize),
}

impl Records {
    /// Returns d and n.
    fn shape(&self) -> (usize, usize) {
        match self {
            Self::Here(block) => block.shape(),
            &Self::Elsewhere(features, records) => (features, records),
        }
    }
}

impl PartyLearner {
    /// Starts a sub-model of the configuration's kind from the seed of the training. `block` holds
    /// this party's features of the training's record list, in its order; `active` is true for the
    /// active party.
    ///
    /// # Errors
    /// [`SpecError`] for a kind, width or setting that does not fit this many classes.
    pub fn new(
        config: &TrainingConfig,
        classes: usize,
        block: FeatureBlock,
        active: bool,
    ) -> Result<Self, SpecError> {
        Self::starting(config, classes, block, active, start_of(config.values().seed))
    }

    /// Does the same with initial parameters drawn from `start`.
    ///
    /// # Errors
    /// As [`PartyLearner::new`].
    pub fn starting(
        config: &TrainingConfig,
        classes: usize,
        block: FeatureBlock,
        active: bool,
        start: InitialSeed,
    ) -> Result<Self, SpecError> {
        Self::of(config, classes, Records::Here(block.into_matrix()), active, start)
    }

    /// Does the same for records elsewhere, `records` of them with `features` features:
    /// [`PartyLearner::shares_of`] takes those of each batch.
    ///
    /// # Errors
    /// As [`PartyLearner::new`].
    pub fn elsewhere(
        config: &TrainingConfig,
        classes: usize,
        (features, records): (usize, usize),
        active: bool,
        start: InitialSeed,
    ) -> Result<Self, SpecError> {
        Self::of(config, classes, Records::Elsewhere(features, records), active, start)
    }

    fn of(
        config: &TrainingConfig,
        classes: usize,
        records: Records,
        active: bool,
        start: InitialSeed,
    ) -> Result<Self, SpecError> {
        let classes = u32::try_from(classes).unwrap_or(u32::MAX);
        let spec = config.values().model.sub_model(classes)?;
        let origin = SubModelOrigin { spec, features: records.shape().0, active, start };
        Ok(Self {
            model: kinds::start(&origin)?,
            records,
            adam: Adam::new(config),
            pending: false,
            checkpoint: None,
            privacy: None,
        })
    }

    /// Sets the initial parameters, block by block, before the first batch.
    pub fn initialise(&mut self, set: &mut dyn FnMut(Tensor<&mut [f64]>)) {
        self.model.tensors_mut().into_iter().for_each(set);
    }

    /// Adds differential privacy of the parameters, before the first batch;
    /// [`privacy`](super::privacy) describes the guarantee. Noise is drawn from `seed`, which must
    /// be random and this party's own secret: anyone who knows it can remove the noise.
    ///
    /// # Errors
    /// [`LearnerError::Privacy`] for a training that the privacy does not allow.
    pub fn with_privacy(
        self,
        privacy: PrivacyConfig,
        config: &TrainingConfig,
        seed: InitialSeed,
    ) -> Result<Self, LearnerError> {
        privacy.check(config)?;
        let privacy = Privacy::new(privacy, self.records.shape().1, seed);
        Ok(Self { privacy: Some(privacy), ..self })
    }

    /// Returns the privacy cost of the updates so far, if this party trains with privacy.
    #[must_use]
    pub fn privacy(&self) -> Option<PrivacyStatement> {
        self.privacy.as_ref().map(Privacy::statement)
    }

    /// Returns the number of features.
    #[must_use]
    pub fn features(&self) -> usize {
        self.records.shape().0
    }

    /// Returns kind, settings and output width of the sub-model.
    #[must_use]
    pub fn spec(&self) -> &SubModelSpec {
        self.model.spec()
    }

    /// Returns how many numbers a record's share has.
    #[must_use]
    pub fn width(&self) -> usize {
        self.model.spec().width() as usize
    }

    /// Returns the approximate number of multiplications of a step with this many records:
    /// forwards, and twice that backwards.
    #[must_use]
    pub fn work(&self, records: usize) -> u64 {
        3 * self.model.work() * records as u64
    }

    /// Computes the shares of a batch. Unless it is for `evaluation`, the next gradient belongs to
    /// it.
    ///
    /// # Errors
    /// [`LearnerError::Position`] past the record list; [`LearnerError::Shape`] when an output
    /// overflows; [`LearnerError::Privacy`] for a training batch that names a record twice, with
    /// privacy.
    pub fn shares(
        &mut self,
        positions: &[u32],
        evaluation: bool,
    ) -> Result<LogitShare, LearnerError> {
        self.check_positions(positions)?;
        let Records::Here(block) = &self.records else { return Err(LearnerError::Elsewhere) };
        let mut batch = DMatrix::zeros(block.nrows(), positions.len());
        for (mut to, &from) in batch.column_iter_mut().zip(positions) {
            to.copy_from(&block.column(from as usize));
        }
        self.shares_of(positions, batch, evaluation)
    }

    /// Does the same as [`PartyLearner::shares`] for a batch whose rows (d × B, in the order of
    /// `positions`) are given.
    ///
    /// # Errors
    /// As [`PartyLearner::shares`], and [`LearnerError::Shape`] for rows of another shape.
    pub fn shares_of(
        &mut self,
        positions: &[u32],
        batch: DMatrix<f64>,
        evaluation: bool,
    ) -> Result<LogitShare, LearnerError> {
        self.check_positions(positions)?;
        let sizes = [
            ("features", self.features(), batch.nrows()),
            ("records", positions.len(), batch.ncols()),
        ];
        if let Some(&(unit, expected, got)) =
            sizes.iter().find(|(_, expected, got)| expected != got)
        {
            return Err(ShapeError::Size { what: "the batch", unit, expected, got }.into());
        }
        if let (Some(privacy), false) = (&mut self.privacy, evaluation) {
            self.pending = false;
            privacy.begin(positions)?;
        }
        if evaluation {
            return Ok(self.model.outputs(&batch)?);
        }
        let share = self.model.forward(batch)?;
        self.pending = true;
        Ok(share)
    }

    /// Checks that a batch consists of records of this training.
    ///
    /// # Errors
    /// [`LearnerError::Position`] at the first position past the record list.
    pub fn check_positions(&self, positions: &[u32]) -> Result<(), LearnerError> {
        let (_, records) = self.records.shape();
        match positions.iter().find(|&&p| p as usize >= records) {
            Some(&position) => Err(LearnerError::Position { position, records }),
            None => Ok(()),
        }
    }

    /// Makes one Adam step with the gradient (w × B) of the mean loss with respect to the last
    /// batch's outputs. With privacy each record's part is clipped, and noise is added to their
    /// sum.
    ///
    /// # Errors
    /// [`LearnerError::NoBatch`] without a batch before; [`LearnerError::Shape`] for another shape
    /// or non-finite values; [`LearnerError::Privacy`] if the update would cost more than the party
    /// allows.
    pub fn update(&mut self, gradient: &DMatrix<f64>) -> Result<(), LearnerError> {
        if !std::mem::take(&mut self.pending) {
            return Err(LearnerError::NoBatch);
        }
        let finite = gradient.iter().all(|v| v.is_finite());
        let gradients = match &mut self.privacy {
            Some(privacy) if finite => {
                let squares = self.model.squared_norms(gradient)?;
                let squares = squares.ok_or_else(|| PrivacyError::Kind {
                    kind: self.model.spec().kind().to_owned(),
                })?;
                privacy.count()?;
                let mut gradients =
                    self.model.backward(&privacy.clipped(gradient, &squares), false)?;
                privacy.blur(&mut gradients.parameters, gradient.ncols());
                gradients
            }
            _ => self.model.backward(gradient, false)?,
        };
        if !finite {
            return Err(ShapeError::NotFinite { what: "gradient", record: 0 }.into());
        }
        Ok(self.adam.step(self.model.tensors_mut(), gradients.parameters)?)
    }

    /// Saves the current parameters as the best so far.
    pub fn checkpoint(&mut self) {
        self.checkpoint = Some(self.model.snapshot());
    }

    /// Restores the saved parameters for evaluation. Afterwards there is no batch for a gradient.
    ///
    /// # Errors
    /// [`LearnerError::NoCheckpoint`] if none were saved.
    pub fn restore(&mut self) -> Result<(), LearnerError> {
        let remembered = self.checkpoint.as_ref().ok_or(LearnerError::NoCheckpoint)?;
        self.model.put_back(remembered);
        self.pending = false;
        Ok(())
    }

    /// Returns the parameters to publish: the last ones, or the saved ones.
    ///
    /// # Errors
    /// [`LearnerError::NoCheckpoint`] if none were saved.
    pub fn parameters(&self, from_checkpoint: bool) -> Result<Parameters, LearnerError> {
        let values = match from_checkpoint {
            true => self.checkpoint.clone().ok_or(LearnerError::NoCheckpoint)?,
            false => self.model.snapshot(),
        };
        Ok(Parameters::of(&*self.model, values))
    }
}

/// The coordinator's state during one training. It takes the outputs of all parties and gives
/// logits, then gradients.
pub struct HeadLearner {
    head: Box<dyn Head>,
    adam: Adam,
    checkpoint: Option<Vec<Vec<f64>>>,
}

impl HeadLearner {
    /// Creates the state for a head that has just been started.
    #[must_use]
    pub fn new(config: &TrainingConfig, head: Box<dyn Head>) -> Self {
        Self { head, adam: Adam::new(config), checkpoint: None }
    }

    /// Sets the initial parameters of the head, as [`PartyLearner::initialise`] does.
    pub fn initialise(&mut self, set: &mut dyn FnMut(Tensor<&mut [f64]>)) {
        self.head.tensors_mut().into_iter().for_each(set);
    }

    /// Returns the output widths of the parties, the active party's first.
    #[must_use]
    pub fn widths(&self) -> &[usize] {
        self.head.widths()
    }

    /// Returns the approximate number of multiplications of a step with this many records.
    #[must_use]
    pub fn work(&self, records: usize) -> u64 {
        3 * self.head.work() * records as u64
    }

    /// Computes the logits of a batch. Unless it is for `evaluation`, the next gradient belongs to
    /// it.
    ///
    /// # Errors
    /// [`ShapeError`] for other widths, or a logit that overflows.
    pub fn logits(
        &mut self,
        outputs: Vec<LogitShare>,
        evaluation: bool,
    ) -> Result<Logits, ShapeError> {
        if evaluation { self.head.combine(outputs) } else { self.head.forward(outputs) }
    }

    /// Makes one Adam step on the head's own parameters, if it has any, with the gradient (k × B)
    /// of the mean loss with respect to the last batch's logits. Returns the gradient for each
    /// party, the active party's first.
    ///
    /// # Errors
    /// [`LearnerError`] without a batch before, for another shape, or for values that are not
    /// finite.
    pub fn update(&mut self, gradient: DMatrix<f64>) -> Result<Vec<OutputGradient>, LearnerError> {
        let gradients = self.head.backward(gradient)?;
        self.adam.step(self.head.tensors_mut(), gradients.parameters)?;
        Ok(gradients.parties)
    }

    /// Saves the head's current parameters as the best so far.
    pub fn checkpoint(&mut self) {
        self.checkpoint = Some(self.head.snapshot());
    }

    /// Returns the top model's parameters to publish, if there is one: the last ones, or the saved
    /// ones.
    ///
    /// # Errors
    /// [`LearnerError::NoCheckpoint`] if none were saved.
    pub fn parameters(&self, from_checkpoint: bool) -> Result<Option<Parameters>, LearnerError> {
        let Some(top) = self.head.top() else { return Ok(None) };
        let values = match from_checkpoint {
            true => self.checkpoint.clone().ok_or(LearnerError::NoCheckpoint)?,
            false => self.head.snapshot(),
        };
        Ok(Some(Parameters::of(top, values)))
    }

    /// Restores the saved parameters.
    ///
    /// # Errors
    /// [`LearnerError::NoCheckpoint`] if none were saved.
    pub fn restore(&mut self) -> Result<(), LearnerError> {
        let remembered = self.checkpoint.as_ref().ok_or(LearnerError::NoCheckpoint)?;
        self.head.put_back(remembered);
        Ok(())
    }
}
