//! The parameters of a linear sub-model.

use std::fmt;

use nalgebra::{DMatrix, DVector};

use super::affine::affine;
use crate::types::{FeatureBlock, LogitShare, ShapeError};

/// One party's share of a linear model: weights k × d, and at the active party the bias (k). A
/// softmax regression has an output per class, a model of a number has one.
///
/// It has no wire form and no `Serialize`. The release policy decides what leaves a party, and the
/// store of models what goes to its disk.
#[derive(Clone, PartialEq)]
pub struct LinearParameters {
    weights: DMatrix<f64>,
    bias: Option<DVector<f64>>,
}

impl fmt::Debug for LinearParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bias = if self.bias.is_some() { " + bias" } else { "" };
        write!(
            f,
            "LinearParameters({} × {}{bias}, values withheld)",
            self.weights.nrows(),
            self.weights.ncols()
        )
    }
}

impl LinearParameters {
    /// Checks and wraps parameters.
    ///
    /// # Errors
    /// [`ShapeError`] for no output, a bias of another length, or a value that is not finite.
    pub fn new(weights: DMatrix<f64>, bias: Option<DVector<f64>>) -> Result<Self, ShapeError> {
        let what = "parameters";
        if weights.nrows() == 0 {
            return Err(ShapeError::TooFewClasses { what, got: 0 });
        }
        if let Some(b) = &bias
            && b.len() != weights.nrows()
        {
            return Err(ShapeError::Size {
                what,
                unit: "bias entries",
                expected: weights.nrows(),
                got: b.len(),
            });
        }
        let finite =
            weights.iter().chain(bias.iter().flat_map(|b| b.iter())).all(|v| v.is_finite());
        if !finite {
            return Err(ShapeError::NotFinite { what, record: 0 });
        }
        Ok(Self { weights, bias })
    }

    /// Creates parameters that are all zero, with which training starts.
    #[must_use]
    pub fn zeros(classes: usize, features: usize, bias: bool) -> Self {
        Self {
            weights: DMatrix::zeros(classes, features),
            bias: bias.then(|| DVector::zeros(classes)),
        }
    }

    /// Returns the number of outputs k.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.weights.nrows()
    }

    /// Returns the number of features d.
    #[must_use]
    pub fn features(&self) -> usize {
        self.weights.ncols()
    }

    /// Returns the weights, k × d.
    #[must_use]
    pub fn weights(&self) -> &DMatrix<f64> {
        &self.weights
    }

    /// Returns the bias (k), at the active party.
    #[must_use]
    pub fn bias(&self) -> Option<&DVector<f64>> {
        self.bias.as_ref()
    }

    pub(in crate::model) fn parts_mut(&mut self) -> (&mut DMatrix<f64>, Option<&mut DVector<f64>>) {
        (&mut self.weights, self.bias.as_mut())
    }

    /// Computes the logit share W x (+ b) of each record.
    ///
    /// # Errors
    /// [`ShapeError::Size`] if the block has another number of features; [`ShapeError::NotFinite`]
    /// if a logit overflows.
    pub fn logit_share(&self, block: &FeatureBlock) -> Result<LogitShare, ShapeError> {
        self.share_of(block.matrix())
    }

    /// Does the same for a block that is not wrapped.
    pub(in crate::model) fn share_of(
        &self,
        block: &DMatrix<f64>,
    ) -> Result<LogitShare, ShapeError> {
        if block.nrows() != self.features() {
            return Err(ShapeError::Size {
                what: "feature block",
                unit: "features",
                expected: self.features(),
                got: block.nrows(),
            });
        }
        LogitShare::new(affine(&self.weights, self.bias.as_ref(), block))
    }
}
/// The error for a sub-model that is not W x + b, where a linear one is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this needs a linear model, and a sub-model of kind `{kind}` is none")]
pub struct NotLinear {
    /// The kind of sub-model.
    pub kind: String,
}
