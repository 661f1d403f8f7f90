//! The share of each feature that the exact scores of a model tell, measured on this party's
//! records.

use std::fmt::Write as _;

use nalgebra::DMatrix;
use serde::Serialize;
use vfl_shared::data::FeatureTable;
use vfl_shared::model::{Parameters, SubModel, kinds};
use vfl_shared::numerics::row_differences;

use super::AssessError;
use crate::linear::row_space;

/// The most records that are measured, evenly spread over the table.
const MOST_RECORDS: usize = 5000;

/// The part of the features that the exact outputs of a sub-model tell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToldFeatures {
    /// Number of records that it was measured on.
    pub records: usize,
    /// Number of outputs, less one where a common shift of them does not show in the scores.
    pub outputs: usize,
    /// For each feature the share of its variance, 0 to 1, that the best affine function of the
    /// outputs explains: what an adversary takes away that knows the parameters, the moments and
    /// the other parties' parts.
    pub shares: Vec<f64>,
}

impl ToldFeatures {
    /// Measures parameters on the records of a table; `classes` of the whole model, which outputs
    /// are added to if there is one for each.
    ///
    /// # Errors
    /// [`AssessError`] for a table without records, parameters that do not fit it, and numbers that
    /// overflow.
    pub fn measure(
        parameters: &Parameters,
        classes: usize,
        table: &FeatureTable,
    ) -> Result<Self, AssessError> {
        let block = table.block().matrix();
        if block.ncols() == 0 {
            return Err(AssessError::NoRecord);
        }
        let step = block.ncols().div_ceil(MOST_RECORDS);
        let positions: Vec<usize> = (0..block.ncols()).step_by(step).collect();
        let model = kinds::restore(parameters).map_err(|e| AssessError::Model(e.to_string()))?;
        if model.features() != block.nrows() {
            return Err(AssessError::Features { expected: model.features(), got: block.nrows() });
        }
        Self::of(&*model, classes, &block.select_columns(&positions))
    }

    /// The same of records in columns, d × n.
    fn of(model: &dyn SubModel, classes: usize, x: &DMatrix<f64>) -> Result<Self, AssessError> {
        let outputs = model.outputs(x).map_err(|e| AssessError::Model(e.to_string()))?;
        let outputs = match outputs.matrix().nrows() == classes {
            true => row_differences(outputs.matrix()),
            false => outputs.matrix().clone(),
        };
        let seen = centred(&outputs);
        let basis =
            row_space(&seen).map_err(|_| AssessError::NoConvergence { what: "the outputs" })?;
        let x = centred(x);
        let explained = &x * &basis;
        let share = |row: usize| {
            let variance = x.row(row).norm_squared();
            if variance > 0.0 {
                (explained.row(row).norm_squared() / variance).clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        Ok(Self {
            records: x.ncols(),
            outputs: outputs.nrows(),
            shares: (0..x.nrows()).map(share).collect(),
        })
    }

    /// Returns the feature that is told most, with its share; `None` without features.
    #[must_use]
    pub fn worst(&self) -> Option<(usize, f64)> {
        self.shares.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Describes it for an operator: the features that are told most, and the bits of a label.
    #[must_use]
    pub fn lines(&self, names: &[String], classes: usize) -> String {
        let mut order: Vec<usize> = (0..self.shares.len()).collect();
        order.sort_by(|&a, &b| self.shares[b].total_cmp(&self.shares[a]));
        let mean = self.shares.iter().sum::<f64>() / self.shares.len().max(1) as f64;
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let told = order
            .iter()
            .take(3)
            .filter_map(|&at| Some(format!("{} of {}", percent(self.shares[at]), names.get(at)?)));
        let told = told.collect::<Vec<_>>().join(", ");
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "exact scores of it tell {told}; {} of a feature on average (variance explained, {} records)",
            percent(mean),
            self.records
        );
        let _ = writeln!(
            out,
            "a label of it tells up to {:.1} bits of a record",
            (classes.max(1) as f64).log2()
        );
        out
    }
}

fn centred(m: &DMatrix<f64>) -> DMatrix<f64> {
    let mean = m.column_mean();
    let mut centred = m.clone();
    centred.column_iter_mut().for_each(|mut column| column -= &mean);
    centred
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::assess;
    use vfl_shared::model::LinearParameters;
    use vfl_shared::types::FeatureBlock;

    fn records(n: usize) -> DMatrix<f64> {
        DMatrix::from_fn(3, n, |f, r| {
            ((r * (7 + 4 * f) + f * 13 + r * r * (f + 1)) % 101) as f64 / 100.0
        })
    }

    fn model(weights: DMatrix<f64>) -> Parameters {
        (&LinearParameters::new(weights, None).unwrap()).into()
    }

    /// For a linear part, the mean over features is the closed form of the informed adversary.
    #[test]
    fn shares_add_up_to_the_informed_adversary() {
        let x = records(400);
        for w in [
            DMatrix::from_row_slice(2, 3, &[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]),
            DMatrix::from_row_slice(3, 3, &[0.3, -1.0, 0.2, 0.0, 0.4, 0.1, 1.0, 1.0, -2.0]),
            DMatrix::from_fn(4, 3, |i, j| ((i * 5 + j * 3) % 7) as f64 - 3.0),
        ] {
            let classes = w.nrows();
            let told = ToldFeatures::of(&*kinds::restore(&model(w.clone())).unwrap(), classes, &x)
                .unwrap();
            let closed = assess(&w, &FeatureBlock::new(x.clone()).unwrap()).unwrap();
            let variances: Vec<f64> = (0..3).map(|f| x.row(f).variance()).collect();
            let left: f64 =
                told.shares.iter().zip(&variances).map(|(share, v)| (1.0 - share) * v).sum();
            assert!((left / 3.0 - closed.mse_informed_linear).abs() < 1e-12, "{left} {closed:?}");
        }
        let single = DMatrix::from_row_slice(2, 3, &[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]);
        let told = ToldFeatures::of(&*kinds::restore(&model(single)).unwrap(), 2, &x).unwrap();
        assert_eq!(told.worst().unwrap().0, 2);
        assert!(told.shares[2] > 1.0 - 1e-12 && told.shares[0] < 0.2, "{told:?}");
        let lines = told.lines(&["a", "b", "late_90d"].map(String::from), 2);
        assert!(lines.contains("100 % of late_90d") && lines.contains("1.0 bits"), "{lines}");
    }
}
