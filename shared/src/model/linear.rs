//! The parameters of a linear sub-model.

use std::fmt;

use nalgebra::{DMatrix, DVector};

use crate::types::{FeatureBlock, LogitShare, ShapeError};

/// From so many records on a product of matrices takes the blocked route, which adds in another order than the one for few.
const MANY: usize = 6;

/// One party's share of a softmax regression: weights k × d, and at the active party the bias (k).
///
/// It has no wire form and no `Serialize`; what leaves a party is decided by its release policy, what goes to its disk by
/// [`super::ShareStore`].
#[derive(Clone, PartialEq)]
pub struct LinearParameters {
    weights: DMatrix<f64>,
    bias: Option<DVector<f64>>,
}

impl fmt::Debug for LinearParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bias = if self.bias.is_some() { " + bias" } else { "" };
        write!(f, "LinearParameters({} × {}{bias}, values withheld)", self.weights.nrows(), self.weights.ncols())
    }
}

impl LinearParameters {
    /// Checks and wraps parameters.
    ///
    /// # Errors
    /// [`ShapeError`] for fewer than two classes, a bias of another length, or a value that is not finite.
    pub fn new(weights: DMatrix<f64>, bias: Option<DVector<f64>>) -> Result<Self, ShapeError> {
        let what = "parameters";
        if weights.nrows() < 2 {
            return Err(ShapeError::TooFewClasses { what, got: weights.nrows() });
        }
        if let Some(b) = &bias
            && b.len() != weights.nrows()
        {
            return Err(ShapeError::Size { what, unit: "bias entries", expected: weights.nrows(), got: b.len() });
        }
        let finite = weights.iter().chain(bias.iter().flat_map(|b| b.iter())).all(|v| v.is_finite());
        if !finite {
            return Err(ShapeError::NotFinite { what, record: 0 });
        }
        Ok(Self { weights, bias })
    }

    /// All zeros: where training starts.
    #[must_use]
    pub fn zeros(classes: usize, features: usize, bias: bool) -> Self {
        Self { weights: DMatrix::zeros(classes, features), bias: bias.then(|| DVector::zeros(classes)) }
    }

    /// Number of classes k.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.weights.nrows()
    }

    /// Number of features d.
    #[must_use]
    pub fn features(&self) -> usize {
        self.weights.ncols()
    }

    /// Weights, k × d.
    #[must_use]
    pub fn weights(&self) -> &DMatrix<f64> {
        &self.weights
    }

    /// The bias (k), at the active party.
    #[must_use]
    pub fn bias(&self) -> Option<&DVector<f64>> {
        self.bias.as_ref()
    }

    pub(in crate::model) fn parts_mut(&mut self) -> (&mut DMatrix<f64>, Option<&mut DVector<f64>>) {
        (&mut self.weights, self.bias.as_mut())
    }

    /// The logit share W x (+ b) of each record.
    ///
    /// # Errors
    /// [`ShapeError::Size`] if the block has another number of features; [`ShapeError::NotFinite`] if a logit overflows.
    pub fn logit_share(&self, block: &FeatureBlock) -> Result<LogitShare, ShapeError> {
        self.share_of(block.matrix())
    }

    /// The same for a block that is not wrapped.
    pub(in crate::model) fn share_of(&self, block: &DMatrix<f64>) -> Result<LogitShare, ShapeError> {
        if block.nrows() != self.features() {
            return Err(ShapeError::Size {
                what: "feature block",
                unit: "features",
                expected: self.features(),
                got: block.nrows(),
            });
        }
        LogitShare::new(self.affine(block))
    }

    /// W x (+ b), one record per column. A record's column is the same to the last bit, whichever others are beside it: the
    /// coordinator knows a share by its bits.
    fn affine(&self, block: &DMatrix<f64>) -> DMatrix<f64> {
        let records = block.ncols();
        if (1..MANY).contains(&records) {
            let padded = block.clone().resize_horizontally(MANY, 0.0);
            return self.affine(&padded).columns(0, records).into_owned();
        }
        let mut z = match &self.bias {
            Some(b) => DMatrix::from_fn(self.classes(), block.ncols(), |i, _| b[i]),
            None => DMatrix::zeros(self.classes(), block.ncols()),
        };
        if self.features() > 0 {
            z.gemm(1.0, &self.weights, block, 1.0);
        }
        z
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn a_share_does_not_depend_on_the_records_beside_it() {
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(5);
        for k in [2, 3, 5, 6, 7, 11, 26] {
            for d in [1, 4, 5, 6, 9, 36, 300] {
                let mut random = |rows, columns| DMatrix::from_fn(rows, columns, |_, _| rng.random::<f64>() - 0.3);
                let weights = random(k, d);
                let bias = DVector::from_fn(k, |i, _| 0.1 * i as f64);
                let parameters = LinearParameters { weights, bias: Some(bias) };
                let x = random(d, 70);
                let all = parameters.affine(&x);
                for (from, n) in
                    [(0, 1), (3, 1), (69, 1), (2, 2), (1, 3), (7, 4), (5, 5), (4, 6), (0, 7), (9, 13), (6, 64)]
                {
                    let part = parameters.affine(&x.columns(from, n).into_owned());
                    assert_eq!(part, all.columns(from, n).into_owned(), "{k} classes, {d} features, {n} records");
                }
            }
        }
    }
}
