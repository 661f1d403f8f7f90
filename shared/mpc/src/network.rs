//! Networks on shares: perceptrons of each party's features, whose outputs are added, by batches.
//!
//! Party p has hidden layers h = φ(Wₚ h + bₚ) from its own features, and outputs Vₚ h. The logits
//! are Σₚ Vₚ h + b, the loss is the mean cross-entropy plus λ times the squared weights, without
//! biases. Which features a layer takes is public: blocks of zeros are not multiplied.
//!
//! A step is one of gradient descent with momentum (Polyak 1964) over a batch of records,
//! v ← μ v − η g and w ← w + v, where the step η falls linearly over the epochs to 0. Every party
//! whitens its own features, so that one η fits all; no second moment is estimated. The hidden
//! layers of a sigmoid network are trained as tanh: σ(z) = (1 + tanh(z / 2)) / 2 is the same
//! network in centred units, in which gradient descent gets on faster (LeCun et al. 1998).
//!
//! Scores are computed anew in each step, by [`Session::exponential_softmax`]: the records of a
//! batch come back after all others, so that their scores cannot follow the logits as those of a
//! regression do. tanh and its slope are a wave of ten sines, within 2.6e-3 and 1.3e-2 for inputs
//! up to 10; the rectifier is exact.
//!
//! One step with ℓ hidden layers and 4 classes takes 46 + 8 ℓ rounds with tanh, and at most
//! 46 + 15 ℓ with rectifiers; of a few records four less. Most of them are the softmax.

use std::ops::Range;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

use crate::error::MpcError;
use crate::fixed_point::FixedPoint;
use crate::matrix::SharedMatrix;
use crate::regression::shift;
use crate::release::LOGIT_BITS;

/// The step in the first epoch.
const STEP: f64 = 0.1;
/// The share μ of the last step that the next one goes on with.
pub(crate) const MOMENTUM: f64 = 0.9;
/// The fraction bits of a step divided by a number of records.
pub(crate) const STEP_BITS: u32 = 18;
/// The most records of a part of the validation, and the largest [`Network::batch`].
pub(crate) const LARGEST_BATCH: usize = 1024;

/// The function φ of hidden layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// The hyperbolic tangent.
    Tanh,
    /// The rectifier, max(u, 0).
    Relu,
}

/// The settings of a network, which all parties have agreed on.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// The largest number of passes over the records.
    pub epochs: usize,
    /// The fewest records of a batch, 1 to 1024; each has less than twice as many.
    pub batch: usize,
    /// The widths of the hidden layers of each party, the first one first.
    pub hidden: Vec<usize>,
    /// The function of the hidden layers.
    pub activation: Activation,
    /// λ, 0 to 0.1.
    pub penalty: f64,
    /// The number of last records that validate and take no part in the gradient, fewer than there
    /// are. 0 for none: then all epochs are run, and the last one counts as the best.
    pub validation: usize,
    /// The number of epochs without a better validation score after which training stops, at least
    /// 1. Without validation it has no meaning.
    pub patience: usize,
    /// The representation of numbers, of at most 20 fraction bits.
    pub fixed: FixedPoint,
}

/// A network's data.
#[derive(Debug)]
pub struct NetworkData {
    /// The features of each party, records × features, whitened and cut to
    /// [`LARGEST_FEATURE`](crate::LARGEST_FEATURE); the records that validate come last.
    pub blocks: Vec<SharedMatrix>,
    /// 1 for the label of a record and 0 for the other classes, records × classes.
    pub labels: SharedMatrix,
}

/// The shape of one layer of one party.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerShape {
    /// The number of its inputs.
    pub inputs: usize,
    /// The number of its outputs.
    pub outputs: usize,
    /// True for a hidden layer, which has a bias.
    pub hidden: bool,
}

impl LayerShape {
    /// Returns the number of weights.
    #[must_use]
    pub fn weights(self) -> usize {
        self.inputs * self.outputs
    }

    /// Returns the number of parameters: the weights, and the bias of a hidden layer.
    #[must_use]
    pub fn parameters(self) -> usize {
        self.weights() + if self.hidden { self.outputs } else { 0 }
    }
}

impl Network {
    /// Returns the layers of a party with so many features, the first one first.
    ///
    /// Its parameters are those of layer after layer: the weights, inputs × outputs, column by
    /// column, and then the bias of a hidden layer.
    #[must_use]
    pub fn layers(&self, features: usize, classes: usize) -> Vec<LayerShape> {
        let inputs = std::iter::once(features).chain(self.hidden.iter().copied());
        let outputs = self.hidden.iter().copied().map(|width| (width, true));
        let shapes = inputs.zip(outputs.chain([(classes, false)]));
        shapes.map(|(inputs, (outputs, hidden))| LayerShape { inputs, outputs, hidden }).collect()
    }

    /// Returns the number of parameters of a party with so many features, without the common bias.
    #[must_use]
    pub fn parameters(&self, features: usize, classes: usize) -> usize {
        self.layers(features, classes).into_iter().map(LayerShape::parameters).sum()
    }

    /// Draws a party's parameters before the first step, in the order of [`Network::layers`]:
    /// weights are uniform within √(6 / (inputs + outputs)) (Glorot and Bengio 2010, (16)), biases
    /// are 0.
    #[must_use]
    pub fn start(&self, seed: &[u8; 32], features: usize, classes: usize) -> Vec<f64> {
        let mut rng = ChaCha12Rng::from_seed(*seed);
        let mut parameters = Vec::with_capacity(self.parameters(features, classes));
        for shape in self.layers(features, classes) {
            let reach = (6.0 / (shape.inputs + shape.outputs).max(1) as f64).sqrt();
            let mut weight = || {
                let uniform = (rng.next_u64() >> 11) as f64 * (-53_f64).exp2();
                reach * (2.0 * uniform - 1.0)
            };
            parameters.extend((0..shape.weights()).map(|_| weight()));
            parameters.resize(parameters.len() + shape.parameters() - shape.weights(), 0.0);
        }
        parameters
    }

    /// Checks the settings for a number of records.
    ///
    /// # Errors
    /// [`MpcError::Setting`].
    pub(crate) fn check(&self, records: usize) -> Result<(), MpcError> {
        let wrong = |name, got, range| Err(MpcError::Setting { name, got, range });
        let bits = self.fixed.fraction_bits();
        if records == 0 {
            return wrong("the number of records", 0.0, "at least 1");
        }
        if self.validation >= records {
            let range = "less than the number of records";
            return wrong("the number of records that validate", self.validation as f64, range);
        }
        if self.validation > 0 && self.patience == 0 {
            return wrong("the patience", 0.0, "at least 1");
        }
        if !(1..=LARGEST_BATCH).contains(&self.batch) {
            return wrong("the number of records of a batch", self.batch as f64, "1 to 1024");
        }
        if self.hidden.is_empty() || self.hidden.contains(&0) {
            let range = "at least 1, of at least one layer";
            return wrong("the width of a hidden layer", 0.0, range);
        }
        if !(0.0..=0.1).contains(&self.penalty) {
            return wrong("the penalty", self.penalty, "0 to 0.1");
        }
        if 2 * bits > LOGIT_BITS || 2 * bits + shift(records) > 60 {
            let range = "at most 20, and the number of records times 2^(2 bits) at most 2^60";
            return wrong("fraction_bits", bits.into(), range);
        }
        Ok(())
    }

    /// Returns the number of records that are trained on.
    pub(crate) fn trained(&self, records: usize) -> usize {
        records.saturating_sub(self.validation)
    }

    /// Returns true if training goes on after so many epochs.
    pub(crate) fn goes_on(&self, epochs: usize, best_epoch: usize) -> bool {
        let waits = self.validation == 0 || epochs - best_epoch < self.patience;
        epochs < self.epochs && waits
    }

    /// Returns the ranges of the records of each batch, which are as long as another but for one.
    pub(crate) fn batches(&self, records: usize) -> Vec<Range<usize>> {
        let trained = self.trained(records);
        let count = (trained / self.batch.max(1)).max(1);
        (0..count).map(|at| at * trained / count..(at + 1) * trained / count).collect()
    }

    /// Returns the step of an epoch, from 0, for the gradient summed over so many records, in
    /// units of 2^−18.
    pub(crate) fn step(&self, epoch: usize, records: usize) -> u64 {
        let left = 1.0 - epoch as f64 / self.epochs.max(1) as f64;
        let step = STEP * left / records.max(1) as f64 * f64::from(STEP_BITS).exp2();
        step.round().max(1.0) as u64
    }
}
