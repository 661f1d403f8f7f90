//! One party's side of training: logit shares of a batch out, gradient in, Adam on its own parameters.

use nalgebra::DMatrix;

use super::{PartyParameters, TrainingConfig};
use crate::types::{FeatureBlock, LogitShare, ShapeError};

/// Adam's usual constants; the step size is the configuration's.
pub(super) const BETA1: f64 = 0.9;
pub(super) const BETA2: f64 = 0.999;
pub(super) const EPSILON: f64 = 1e-8;

/// Why a training step was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LearnerError {
    /// A position past the record list.
    #[error("batch position {position} is not below the {records} records of this training")]
    Position {
        /// The position.
        position: u32,
        /// Length of the list.
        records: usize,
    },
    /// A gradient without a batch it could belong to.
    #[error("a gradient came without a batch before it")]
    NoBatch,
    /// A gradient or share of the wrong shape, or not finite.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The best parameters were wanted, but none were remembered.
    #[error("no checkpoint was taken")]
    NoCheckpoint,
}

/// First and second moments of one block of parameters.
#[derive(Clone)]
struct Moments {
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Moments {
    fn new(len: usize) -> Self {
        Self { first: vec![0.0; len], second: vec![0.0; len] }
    }

    /// One Adam step number `t` (from 1), in place.
    fn step(&mut self, t: i32, learning_rate: f64, parameters: &mut [f64], gradient: &[f64]) {
        let (c1, c2) = (1.0 - BETA1.powi(t), 1.0 - BETA2.powi(t));
        for (((p, g), m), v) in parameters.iter_mut().zip(gradient).zip(&mut self.first).zip(&mut self.second) {
            *m = BETA1 * *m + (1.0 - BETA1) * g;
            *v = BETA2 * *v + (1.0 - BETA2) * g * g;
            *p -= learning_rate * (*m / c1) / ((*v / c2).sqrt() + EPSILON);
        }
    }
}

/// A party's state during one training.
pub struct PartyLearner {
    block: DMatrix<f64>,
    parameters: PartyParameters,
    weight_moments: Moments,
    bias_moments: Moments,
    steps: i32,
    learning_rate: f64,
    l2: f64,
    /// Features of the last training batch, d × B: the next gradient belongs to them.
    batch: Option<DMatrix<f64>>,
    checkpoint: Option<PartyParameters>,
}

impl PartyLearner {
    /// Starts from zero parameters. `block` holds this party's features of the training's record list, in its order; the
    /// active party (`bias`) also learns the bias.
    #[must_use]
    pub fn new(config: &TrainingConfig, classes: usize, block: FeatureBlock, bias: bool) -> Self {
        let block = block.into_matrix();
        let v = config.values();
        Self {
            weight_moments: Moments::new(classes * block.nrows()),
            bias_moments: Moments::new(if bias { classes } else { 0 }),
            parameters: PartyParameters::zeros(classes, block.nrows(), bias),
            block,
            steps: 0,
            learning_rate: v.learning_rate,
            l2: v.l2,
            batch: None,
            checkpoint: None,
        }
    }

    /// Number of features.
    #[must_use]
    pub fn features(&self) -> usize {
        self.block.nrows()
    }

    /// Numbers in a record's share.
    #[must_use]
    pub fn width(&self) -> usize {
        self.parameters.classes()
    }

    /// The logit shares of a batch. Unless it is for `evaluation`, the next gradient belongs to it.
    ///
    /// # Errors
    /// [`LearnerError::Position`] past the record list; [`LearnerError::Shape`] when a logit overflows.
    pub fn shares(&mut self, positions: &[u32], evaluation: bool) -> Result<LogitShare, LearnerError> {
        let records = self.block.ncols();
        if let Some(&position) = positions.iter().find(|&&p| p as usize >= records) {
            return Err(LearnerError::Position { position, records });
        }
        let mut batch = DMatrix::zeros(self.block.nrows(), positions.len());
        for (mut to, &from) in batch.column_iter_mut().zip(positions) {
            to.copy_from(&self.block.column(from as usize));
        }
        let share = LogitShare::new(self.parameters.affine(&batch))?;
        if !evaluation {
            self.batch = Some(batch);
        }
        Ok(share)
    }

    /// One Adam step with the gradient G (k × B) of the mean loss with respect to the last batch's logits: the gradient of
    /// the weights is G Xᵀ + 2 l2 W, that of the bias G 1.
    ///
    /// # Errors
    /// [`LearnerError::NoBatch`] without a batch before; [`LearnerError::Shape`] for another shape or non-finite values.
    pub fn update(&mut self, gradient: &DMatrix<f64>) -> Result<(), LearnerError> {
        let batch = self.batch.take().ok_or(LearnerError::NoBatch)?;
        let size = |unit, expected, got| ShapeError::Size { what: "gradient", unit, expected, got };
        if gradient.nrows() != self.parameters.classes() {
            return Err(size("classes", self.parameters.classes(), gradient.nrows()).into());
        }
        if gradient.ncols() != batch.ncols() {
            return Err(size("records", batch.ncols(), gradient.ncols()).into());
        }
        let (weights, bias) = self.parameters.parts_mut();
        let mut slope = &*weights * (2.0 * self.l2);
        if !batch.is_empty() {
            slope += gradient * batch.transpose();
        }
        if !slope.iter().chain(gradient.iter()).all(|v| v.is_finite()) {
            return Err(ShapeError::NotFinite { what: "gradient", record: 0 }.into());
        }
        self.steps += 1;
        self.weight_moments.step(self.steps, self.learning_rate, weights.as_mut_slice(), slope.as_slice());
        if let Some(bias) = bias {
            let slope = gradient.column_sum();
            self.bias_moments.step(self.steps, self.learning_rate, bias.as_mut_slice(), slope.as_slice());
        }
        Ok(())
    }

    /// Remembers the parameters as they are: the best so far.
    pub fn checkpoint(&mut self) {
        self.checkpoint = Some(self.parameters.clone());
    }

    /// Goes back to the remembered parameters, to evaluate them: there is no batch for a gradient after it.
    ///
    /// # Errors
    /// [`LearnerError::NoCheckpoint`] if none were remembered.
    pub fn restore(&mut self) -> Result<(), LearnerError> {
        self.parameters = self.checkpoint.clone().ok_or(LearnerError::NoCheckpoint)?;
        self.batch = None;
        Ok(())
    }

    /// The parameters to publish: the last ones, or the remembered ones.
    ///
    /// # Errors
    /// [`LearnerError::NoCheckpoint`] if none were remembered.
    pub fn parameters(&self, from_checkpoint: bool) -> Result<&PartyParameters, LearnerError> {
        if from_checkpoint { self.checkpoint.as_ref().ok_or(LearnerError::NoCheckpoint) } else { Ok(&self.parameters) }
    }
}
