//! The distance of released parameters from the true ones.

use rand::{Rng, RngExt};

use super::TransformError;

/// The checked interpretability level of V.
pub(super) struct Distance {
    pub(super) epsilon: f64,
    pub(super) randomised: bool,
}

impl Distance {
    pub(super) fn new(
        transform: &'static str,
        epsilon: f64,
        randomised: bool,
    ) -> Result<Self, TransformError> {
        if epsilon >= 0.0 && epsilon.is_finite() {
            return Ok(Self { epsilon, randomised });
        }
        Err(TransformError::Setting {
            transform,
            reason: format!("`epsilon` is {epsilon}, expected 0 or more"),
        })
    }

    /// Returns ε or, if it is secret, a uniform draw from [0, ε] (V remarks 10, 13).
    pub(super) fn draw(&self, rng: &mut dyn Rng) -> f64 {
        if self.randomised { self.epsilon * rng.random::<f64>() } else { self.epsilon }
    }

    /// Refuses a distance of `bound` or more, from which on the error has no bound.
    pub(super) fn below(
        &self,
        transform: &'static str,
        bound: f64,
        reached: &'static str,
    ) -> Result<(), TransformError> {
        if self.epsilon == 0.0 || self.epsilon < bound {
            return Ok(());
        }
        Err(TransformError::TooFar { transform, epsilon: self.epsilon, bound, reached })
    }
}
