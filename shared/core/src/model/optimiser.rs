//! Adam on the blocks of a model.

use super::TrainingConfig;
use super::contract::{ParameterRole, Tensor};
use crate::types::ShapeError;

/// The largest distance, in step sizes, that one update can move a parameter, whatever the
/// gradients: by Cauchy and Schwarz (1 − β₁) / √((1 − β₁²/β₂)(1 − β₂)) = 7.27 for β₁ = 0.9, β₂ =
/// 0.999; the corrections for the start make it smaller.
pub(super) const ADAM_REACH: f64 = 7.28;

/// First and second moments of one block of parameters.
struct Moments {
    first: Vec<f64>,
    second: Vec<f64>,
}

/// The optimiser of one model in one training.
pub struct Adam {
    learning_rate: f64,
    l2: f64,
    steps: i32,
    /// The moments of each trained block.
    moments: Vec<Moments>,
}

impl Adam {
    /// The decay of the mean of the gradients, Adam's usual one.
    pub const BETA1: f64 = 0.9;
    /// The decay of the mean of their squares.
    pub const BETA2: f64 = 0.999;
    /// The addend of the root of that mean.
    pub const EPSILON: f64 = 1e-8;

    /// Creates the optimiser before the first step of a training.
    #[must_use]
    pub fn new(config: &TrainingConfig) -> Self {
        let v = config.values();
        Self::at(v.learning_rate).with_penalty(v.l2)
    }

    /// Creates an optimiser with this step size, without a penalty.
    #[must_use]
    pub fn at(learning_rate: f64) -> Self {
        Self { learning_rate, l2: 0.0, steps: 0, moments: Vec::new() }
    }

    /// Sets the penalty `l2 · Σ w²`, at least 0.
    #[must_use]
    pub fn with_penalty(self, l2: f64) -> Self {
        Self { l2, ..self }
    }

    /// Makes one step on `tensors` with the gradients of the mean loss, one for each block that is
    /// trained. The penalty's gradient, 2 l2 w, is added to that of each [`ParameterRole::Weight`].
    /// Nothing is changed on an error.
    ///
    /// # Errors
    /// [`ShapeError`] for gradients of other blocks, or values that are not finite.
    pub fn step(
        &mut self,
        tensors: Vec<Tensor<&mut [f64]>>,
        gradients: Vec<Vec<f64>>,
    ) -> Result<(), ShapeError> {
        let what = "gradient";
        let mut trained: Vec<_> =
            tensors.into_iter().filter(|tensor| tensor.used != ParameterRole::Statistic).collect();
        if trained.len() != gradients.len() {
            return Err(ShapeError::Size {
                what,
                unit: "blocks",
                expected: trained.len(),
                got: gradients.len(),
            });
        }
        let mut slopes = gradients;
        for (tensor, slope) in trained.iter().zip(&mut slopes) {
            if tensor.values.len() != slope.len() {
                let (expected, got) = (tensor.values.len(), slope.len());
                return Err(ShapeError::Size { what, unit: "entries", expected, got });
            }
            if tensor.used == ParameterRole::Weight {
                slope
                    .iter_mut()
                    .zip(tensor.values.iter())
                    .for_each(|(g, w)| *g += w * (2.0 * self.l2));
            }
            if !slope.iter().all(|v| v.is_finite()) {
                return Err(ShapeError::NotFinite { what, record: 0 });
            }
        }
        if self.moments.is_empty() {
            let zeros = |slope: &Vec<f64>| vec![0.0; slope.len()];
            self.moments =
                slopes.iter().map(|s| Moments { first: zeros(s), second: zeros(s) }).collect();
        }
        self.steps += 1;
        let (c1, c2) = (1.0 - Self::BETA1.powi(self.steps), 1.0 - Self::BETA2.powi(self.steps));
        for ((tensor, slope), moments) in trained.iter_mut().zip(&slopes).zip(&mut self.moments) {
            let (first, second) = (&mut moments.first, &mut moments.second);
            for (((p, g), m), v) in tensor.values.iter_mut().zip(slope).zip(first).zip(second) {
                *m = Self::BETA1 * *m + (1.0 - Self::BETA1) * g;
                *v = Self::BETA2 * *v + (1.0 - Self::BETA2) * g * g;
                *p -= self.learning_rate * (*m / c1) / ((*v / c2).sqrt() + Self::EPSILON);
            }
        }
        Ok(())
    }
}
