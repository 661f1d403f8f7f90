//! The record of an adversary after a training in which it followed the protocol.

use std::borrow::Cow;

use nalgebra::DMatrix;
use vfl_core::model::contract::{ParameterRole, Tensor};
use vfl_core::model::{Adam, TrainingConfig, TrainingValues};
use vfl_core::types::ShapeError;

/// One training step as the adversary sees it.
#[derive(Clone, PartialEq)]
pub struct Step {
    /// The positions of the batch's records in the training's list.
    pub positions: Vec<u32>,
    /// The contribution of the features under attack to each logit, up to a number per record: k ×
    /// B, every column with mean 0. The bias is no part of it.
    pub logits: DMatrix<f64>,
    /// The gradient that every party received: k × B.
    pub gradient: DMatrix<f64>,
}

/// An honest training as an adversary sees it: no parameters, no features of other parties, only
/// its own data and the messages of the protocol.
#[derive(Clone)]
pub struct Transcript {
    /// The number of classes k.
    pub classes: usize,
    /// The label of each record of the training's list, as far as the adversary knows it: the
    /// active party's own, or read from the residuals.
    pub labels: Vec<Option<u32>>,
    /// The adversary's own features, d_own × n. The coordinator has none.
    pub own: DMatrix<f64>,
    /// The step size of Adam, which every party is told.
    pub learning_rate: f64,
    /// The weight of the squared norm of all weights, which every party is told.
    pub l2: f64,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The number of steps run at the end of each epoch.
    pub epoch_ends: Vec<usize>,
}

impl std::fmt::Debug for Transcript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (steps, records) = (self.steps.len(), self.labels.len());
        write!(f, "Transcript({records} records, {steps} steps, values withheld)")
    }
}

impl Transcript {
    /// Creates an empty transcript of the active party.
    #[must_use]
    pub fn new(
        config: &TrainingConfig,
        classes: usize,
        labels: Vec<u32>,
        own: DMatrix<f64>,
    ) -> Self {
        let empty = Self::without_labels(config, classes, labels.len(), own);
        Self { labels: labels.into_iter().map(Some).collect(), ..empty }
    }

    /// Creates an empty transcript of an adversary that holds no labels, of a training with so many
    /// records.
    #[must_use]
    pub fn without_labels(
        config: &TrainingConfig,
        classes: usize,
        records: usize,
        own: DMatrix<f64>,
    ) -> Self {
        let &TrainingValues { learning_rate, l2, .. } = config.values();
        let (steps, epoch_ends) = (Vec::new(), Vec::new());
        let labels = vec![None; records];
        Self { classes, labels, own, learning_rate, l2, steps, epoch_ends }
    }

    /// Records one step of a party: the batch, the party's own logit shares of it, and the returned
    /// gradient, all k × B.
    ///
    /// The gradient is (c − e_y) / B, and its one negative entry of a record is that of the label.
    /// So it determines c; ln c is the logits up to a number per record, and the own share is
    /// known. A score below the smallest normal double counts as that double.
    pub fn push(&mut self, positions: &[u32], own_share: &DMatrix<f64>, gradient: &DMatrix<f64>) {
        self.read_labels(positions, gradient);
        let size = positions.len() as f64;
        let mut logits = gradient * size;
        for ((mut column, share), &position) in
            logits.column_iter_mut().zip(own_share.column_iter()).zip(positions)
        {
            if let Some(label) = self.labels[position as usize] {
                column[label as usize] += 1.0;
            }
            column
                .iter_mut()
                .zip(share.iter())
                .for_each(|(c, s)| *c = c.max(f64::MIN_POSITIVE).ln() - s);
        }
        self.keep(positions, logits, gradient);
    }

    /// Records one step of the coordinator: the batch, the logit shares (k × B) of the parties
    /// under attack, and the gradient (k × B).
    pub fn push_share(&mut self, positions: &[u32], share: DMatrix<f64>, gradient: &DMatrix<f64>) {
        self.read_labels(positions, gradient);
        self.keep(positions, share, gradient);
    }

    /// Reads labels that are not known yet: the class of the smallest entry of a record's gradient.
    fn read_labels(&mut self, positions: &[u32], gradient: &DMatrix<f64>) {
        for (column, &position) in gradient.column_iter().zip(positions) {
            self.labels[position as usize].get_or_insert_with(|| column.argmin().0 as u32);
        }
    }

    fn keep(&mut self, positions: &[u32], mut logits: DMatrix<f64>, gradient: &DMatrix<f64>) {
        centre(&mut logits);
        let gradient = gradient.clone();
        self.steps.push(Step { positions: positions.to_vec(), logits, gradient });
    }

    /// Records the end of an epoch.
    pub fn end_epoch(&mut self) {
        self.epoch_ends.push(self.steps.len());
    }

    /// Takes the active party's bias off the contributions, once all steps are recorded, for an
    /// attack on that party's features.
    ///
    /// Everybody who receives the residuals can compute the bias: it starts at 0, its gradient is
    /// the sum of the residuals, and it has no penalty.
    ///
    /// # Errors
    /// [`ShapeError`] for gradients of different heights, or values that are not finite.
    pub fn without_bias(mut self) -> Result<Self, ShapeError> {
        let mut adam = Adam::at(self.learning_rate);
        let mut bias = DMatrix::zeros(self.classes, 1);
        for step in &mut self.steps {
            let mut centred = bias.clone();
            centre(&mut centred);
            step.logits.column_iter_mut().for_each(|mut column| column -= centred.column(0));
            let tensor = Tensor {
                name: Cow::Borrowed("bias"),
                shape: vec![self.classes],
                used: ParameterRole::Free,
                values: bias.as_mut_slice(),
            };
            let sums = step.gradient.column_sum().as_slice().to_vec();
            adam.step(vec![tensor], vec![sums])?;
        }
        Ok(self)
    }

    /// Returns the steps of the first `epochs` epochs: the transcript of the same training, had it
    /// ended there.
    #[must_use]
    pub fn first(&self, epochs: usize) -> &[Step] {
        let end = epochs.checked_sub(1).and_then(|e| self.epoch_ends.get(e)).copied();
        &self.steps[..end.unwrap_or(if epochs == 0 { 0 } else { self.steps.len() })]
    }
}

/// Takes the mean over the classes off every column.
fn centre(logits: &mut DMatrix<f64>) {
    for mut column in logits.column_iter_mut() {
        let mean = column.mean();
        column.add_scalar_mut(-mean);
    }
}
