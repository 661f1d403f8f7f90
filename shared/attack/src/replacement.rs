//! The replacement of scores that say nothing.

use super::AttackError;

/// The replacement of a score that says nothing: exactly 0 (after rounding, or with a label) or
/// below (noise). Any other value, however small, is used as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replacement {
    pub(super) zero_floor: f64,
}

impl Replacement {
    /// Creates a replacement. Scores of 0 or below become `zero_floor`, in (0, 0.5]: half a step
    /// for rounded scores. A label becomes the vector with `zero_floor` everywhere but at the
    /// label, where it is 1 − (k − 1) · `zero_floor` (R figure 13's δ).
    ///
    /// # Errors
    /// [`AttackError::Floor`] out of range.
    pub fn new(zero_floor: f64) -> Result<Self, AttackError> {
        if zero_floor > 0.0 && zero_floor <= 0.5 {
            Ok(Self { zero_floor })
        } else {
            Err(AttackError::Floor { got: zero_floor })
        }
    }

    /// Returns a score, or its replacement.
    pub(super) fn of(self, score: f64) -> f64 {
        if score > 0.0 { score } else { self.zero_floor }
    }
}

impl Default for Replacement {
    /// Returns 1e-12, well below any score that a model gives in practice.
    fn default() -> Self {
        Self { zero_floor: 1e-12 }
    }
}
