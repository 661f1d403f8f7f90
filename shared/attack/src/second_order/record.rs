//! The residuals of one record at one point after the other.

use nalgebra::{DMatrix, DVector};
use vfl_core::model::{LANES, Lanes};

use super::Fit;
use crate::{Differentiable, LogitBlock};

/// A record under a model, with what its release says of the scores.
pub(crate) struct FittedRecord<'a> {
    block: Box<dyn LogitBlock + 'a>,
    fit: &'a Fit,
    x: Vec<Lanes>,
    logits: Vec<Lanes>,
    residuals: Vec<Lanes>,
    slopes: Vec<Lanes>,
    gradient: Vec<Lanes>,
}

impl<'a> FittedRecord<'a> {
    /// Opens a record of `features` features and `classes` classes.
    pub(crate) fn new(
        model: &'a dyn Differentiable,
        (record, fit): (usize, &'a Fit),
        (features, classes): (usize, usize),
    ) -> Self {
        let zeros = |n| vec![Lanes::all(0.0); n];
        Self {
            block: model.block([record; LANES]),
            fit,
            x: zeros(features),
            logits: zeros(classes),
            residuals: zeros(classes),
            slopes: zeros(classes),
            gradient: zeros(features),
        }
    }

    /// Returns the residuals at a point, k.
    pub(crate) fn residuals(&mut self, x: &DVector<f64>) -> DVector<f64> {
        self.x.iter_mut().zip(x).for_each(|(to, x)| *to = Lanes::all(*x));
        self.block.logits(&self.x, &mut self.logits);
        self.fit.residuals(&mut self.logits, &mut self.residuals);
        DVector::from_iterator(self.residuals.len(), self.residuals.iter().map(|r| r.0[0]))
    }

    /// Returns the residuals at a point, k, and their slopes in the features, k × d.
    pub(crate) fn tangent(&mut self, x: &DVector<f64>) -> (DVector<f64>, DMatrix<f64>) {
        let residuals = self.residuals(x);
        let mut slopes = DMatrix::zeros(residuals.len(), x.len());
        for (class, mut row) in slopes.row_iter_mut().enumerate() {
            self.fit.slopes(class, &self.logits, &mut self.slopes);
            self.block.pull_back(&self.slopes, &mut self.gradient);
            row.iter_mut().zip(&self.gradient).for_each(|(to, slope)| *to = slope.0[0]);
        }
        (residuals, slopes)
    }
}
