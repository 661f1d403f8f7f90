//! The evidence of records' scores about their passive features, as a value.
//!
//! An estimator with prior knowledge, such as moments of the features, combines it with this
//! evidence. It does not have to repeat the attack.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use vfl_defense::purifier::Purifier;

use super::Cells;
use super::second_order::Fit;

/// The evidence that an attack has derived from the scores.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Evidence {
    /// No evidence for another estimator: the estimates do not depend on the scores, or on no model
    /// of them.
    #[default]
    Nothing,
    /// Equations for each record.
    Equations(Equations),
    /// A set for each record, in which its features lie.
    Cells(Cells),
    /// Scores with noise of known size.
    NoisyScores(NoisyScores),
    /// Residuals of scores that are no softmax of linear outputs.
    Fits(Fits),
}

/// The residuals that a known defense leaves of the scores of each record, for models whose scores
/// are no softmax of linear outputs. `Debug` shows no value.
#[derive(Debug, Clone, PartialEq)]
pub struct Fits(pub(crate) Vec<Fit>);

impl Fits {
    /// Returns true if no defense changed the scores.
    pub(super) fn are_exact(&self) -> bool {
        self.0.iter().all(|fit| matches!(fit, Fit::Exact(_)))
    }

    /// Returns true if they are scores with noise, and false if they are intervals.
    #[must_use]
    pub fn are_noisy_scores(&self) -> bool {
        self.0.iter().any(|fit| matches!(fit, Fit::Scores { .. }))
    }
}

impl Evidence {
    /// Converts evidence on u = (x − lower) / (upper − lower) to evidence on the features x.
    /// Features whose range is a point are no part of u. `weights` (k × d) and `a` = J `weights`
    /// are those of x.
    pub(super) fn in_ranges(
        self,
        weights: &DMatrix<f64>,
        a: Arc<DMatrix<f64>>,
        lower: &DVector<f64>,
    ) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            // A_x x = A_u u + A_x lower
            Self::Equations(Equations { b_prime, .. }) => {
                let offset = &*a * lower;
                let mut b_prime = (*b_prime).clone();
                b_prime.column_iter_mut().for_each(|mut column| column += &offset);
                Self::Equations(Equations { a, b_prime: Arc::new(b_prime) })
            }
            // One-vs-rest models have no equations to carry to other ranges.
            Self::Fits(_) => Self::Nothing,
            Self::Cells(cells) => Self::Cells(cells.in_terms_of(weights, lower)),
            Self::NoisyScores(scores) => {
                let weights = weights.clone();
                let mut known = scores.known;
                let offset = &weights * lower;
                known.column_iter_mut().for_each(|mut column| column -= &offset);
                Self::NoisyScores(NoisyScores { weights, known, ..scores })
            }
        }
    }

    /// Returns its name, as in a result file: `nothing`, `equations`, `cells` or `noisy_scores`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Equations(_) => "equations",
            Self::Cells(_) => "cells",
            Self::NoisyScores(_) => "noisy_scores",
            Self::Fits(fits) if fits.are_noisy_scores() => "noisy_scores",
            Self::Fits(_) => "cells",
        }
    }
}

/// The equations A x = b', as the adversary knows both sides. `Debug` shows shapes.
#[derive(Clone, PartialEq)]
pub struct Equations {
    /// A = J W_pas of the model that the adversary believes in, (k − 1) × d.
    pub a: Arc<DMatrix<f64>>,
    /// b' of each record, (k − 1) × n.
    pub b_prime: Arc<DMatrix<f64>>,
}

impl std::fmt::Debug for Equations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ((k, d), n) = (self.a.shape(), self.b_prime.ncols());
        write!(f, "Equations({k} × {d}, {n} records, values withheld)")
    }
}

/// Scores of a linear model with independent Gaussian noise. `Debug` shows shapes.
#[derive(Clone, PartialEq)]
pub struct NoisyScores {
    /// The weights W_pas, k × d.
    pub weights: DMatrix<f64>,
    /// The known part of the logits, k × n.
    pub known: DMatrix<f64>,
    /// The divisor of the logits before the softmax.
    pub stretch: f64,
    /// The scores with their noise, k × n.
    pub scores: DMatrix<f64>,
    /// The standard deviation of the noise in each, k × n.
    pub deviation: DMatrix<f64>,
    /// The purifier that the scores went through before the noise.
    pub through: Option<Arc<Purifier>>,
}

impl std::fmt::Debug for NoisyScores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ((k, d), n) = (self.weights.shape(), self.scores.ncols());
        write!(f, "NoisyScores({k} × {d}, {n} records, values withheld)")
    }
}
