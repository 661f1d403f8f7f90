//! The share of each feature that the exact scores of a model tell, measured on this party's
//! records.

use std::fmt::Write as _;

use nalgebra::{DMatrix, DVector};
use serde::Serialize;
use vfl_core::data::table::FeatureTable;
use vfl_core::model::{Link, Parameters, SubModel, kinds};
use vfl_numerics::determined_rows;

use super::AssessError;
use crate::linear::symmetric_eigen;

/// The records whose outputs are in memory at once.
const CHUNK: usize = 4096;

/// Eigenvalues of the outputs' covariance below this share of the greatest are round-off.
const FLAT: f64 = 1e-12;

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
    /// Measures parameters on all records of a table; `classes` are those of the whole model.
    ///
    /// # Errors
    /// [`AssessError`] for a table without records, parameters that do not fit it, and numbers that
    /// overflow.
    pub fn measure(
        parameters: &Parameters,
        classes: usize,
        table: &FeatureTable,
    ) -> Result<Self, AssessError> {
        let kind = kinds::find(parameters.spec.kind());
        // Outputs of a linear part are always added, one per class: a common shift of them does not
        // show in a softmax. It shows in sigmoids, and the outputs of a network may go into a top
        // model, which sees all of them.
        let softmax = parameters.spec.link().is_ok_and(|link| link == Link::Softmax);
        let added = softmax
            && kind.is_ok_and(|kind| kind.linear())
            && parameters.spec.width() as usize == classes;
        let model = kinds::restore(parameters).map_err(|e| AssessError::Model(e.to_string()))?;
        Self::of(&*model, added, table.block().matrix())
    }

    /// The same of records in columns, d × n.
    fn of(model: &dyn SubModel, added: bool, x: &DMatrix<f64>) -> Result<Self, AssessError> {
        let (d, n) = x.shape();
        if n == 0 {
            return Err(AssessError::NoRecord);
        }
        if model.features() != d {
            return Err(AssessError::Features { expected: model.features(), got: d });
        }
        // Outputs over features, m + d rows.
        let chunk = |from: usize| {
            let x = x.columns(from, CHUNK.min(n - from)).into_owned();
            let outputs = model.outputs(&x).map_err(|e| AssessError::Model(e.to_string()))?;
            let u =
                if added { determined_rows(outputs.matrix()) } else { outputs.matrix().clone() };
            Ok::<_, AssessError>(DMatrix::from_fn(u.nrows() + d, x.ncols(), |row, at| {
                if row < u.nrows() { u[(row, at)] } else { x[(row - u.nrows(), at)] }
            }))
        };
        let rows = chunk(0)?.nrows();
        let mut mean = DVector::zeros(rows);
        for from in (0..n).step_by(CHUNK) {
            mean += chunk(from)?.column_sum();
        }
        mean /= n as f64;
        let mut covariance = DMatrix::zeros(rows, rows);
        for from in (0..n).step_by(CHUNK) {
            let mut columns = chunk(from)?;
            columns.column_iter_mut().for_each(|mut column| column -= &mean);
            covariance.gemm(1.0 / n as f64, &columns, &columns.transpose(), 1.0);
        }
        let m = rows - d;
        let no_convergence =
            |_| AssessError::NoConvergence { what: "the covariance of the outputs" };
        let (values, vectors) = symmetric_eigen(&covariance.view((0, 0), (m, m)).into_owned())
            .map_err(no_convergence)?;
        let least = FLAT * values.amax();
        let along = vectors.tr_mul(&covariance.view((0, m), (m, d)));
        let share = |feature: usize| {
            let variance = covariance[(m + feature, m + feature)];
            let told = values.iter().enumerate().filter(|(_, value)| **value > least);
            let explained: f64 = told.map(|(at, value)| along[(at, feature)].powi(2) / value).sum();
            // Adding 0 removes the sign of a negative zero.
            if variance > 0.0 { (explained / variance).clamp(0.0, 1.0) + 0.0 } else { 0.0 }
        };
        Ok(Self { records: n, outputs: m, shares: (0..d).map(share).collect() })
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
            "exact answers of it tell {told}; {} of a feature on average (variance explained, {} records)",
            percent(mean),
            self.records
        );
        let _ = match classes {
            0 | 1 => writeln!(
                out,
                "its answers are numbers, which tell a record without a bound unless the coordinator releases `bins`"
            ),
            _ => writeln!(
                out,
                "a label of it tells up to {:.1} bits of a record",
                (classes as f64).log2()
            ),
        };
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::assess;
    use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
    use vfl_core::model::{LinearParameters, ParameterFile};
    use vfl_core::types::{FeatureBlock, RecordIds};

    fn records(n: usize) -> DMatrix<f64> {
        DMatrix::from_fn(3, n, |f, r| {
            ((r * (7 + 4 * f) + f * 13 + r * r * (f + 1)) % 101) as f64 / 100.0
        })
    }

    fn model(weights: DMatrix<f64>) -> Parameters {
        (&LinearParameters::new(weights, None).unwrap()).into()
    }

    fn of(weights: &DMatrix<f64>, x: &DMatrix<f64>) -> ToldFeatures {
        let model = kinds::restore(&model(weights.clone())).unwrap();
        ToldFeatures::of(&*model, true, x).unwrap()
    }

    /// A number tells what two classes do whose logits differ by its predictor.
    #[test]
    fn a_number_tells_as_much_as_a_score_of_two_classes() {
        let x = records(500);
        let w = DMatrix::from_row_slice(1, 3, &[0.3, -1.0, 0.2]);
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let part = ParameterFile::of_link(Link::Log, vec!["n".into()], names, w.clone(), None);
        let number = kinds::restore(&part.unwrap().stored().unwrap()).unwrap();
        let told = ToldFeatures::of(&*number, true, &x).unwrap();
        let scores = of(&w.insert_row(0, 0.0), &x);
        assert!(scores.shares.iter().any(|share| *share > 0.1));
        for (number, score) in told.shares.iter().zip(&scores.shares) {
            assert!((number - score).abs() < 1e-12, "{number} {score}");
        }
    }

    /// Equal weights of all classes do not show in a softmax, and do in sigmoids.
    #[test]
    fn a_common_shift_shows_in_sigmoids() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let features = names.clone().map(|name| FeatureSpec::numeric(name, 0.0, 1.0));
        let schema = FeatureSchema::new(features.into(), None).unwrap();
        let ids = RecordIds::new((0..200).map(|at| format!("r{at}"))).unwrap();
        let block = FeatureBlock::new(records(200)).unwrap();
        let table = FeatureTable::new(schema, ids, block, None).unwrap();
        let classes = ["x", "y", "z"].map(str::to_owned).to_vec();
        let weights = DMatrix::from_fn(3, 3, |_, feature| if feature == 0 { 3.0 } else { 0.0 });
        let told = |link| {
            let (classes, names) = (classes.clone(), names.to_vec());
            let part = ParameterFile::of_link(link, classes, names, weights.clone(), None);
            ToldFeatures::measure(&part.unwrap().stored().unwrap(), 3, &table).unwrap()
        };
        assert_eq!(told(Link::Softmax).shares[0], 0.0);
        assert!(told(Link::OneVsRest).shares[0] > 0.999);
    }

    /// For a linear part, the mean over features is the closed form of the informed adversary.
    #[test]
    fn shares_add_up_to_the_informed_adversary() {
        // More than a chunk, and a flag that few records have.
        let mut x = records(CHUNK + 400);
        x.row_mut(2).fill(0.0);
        (0..3).for_each(|at| x[(2, 1500 * at)] = 1.0);
        for w in [
            DMatrix::from_row_slice(2, 3, &[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]),
            DMatrix::from_row_slice(3, 3, &[0.3, -1.0, 0.2, 0.0, 0.4, 0.1, 1.0, 1.0, -2.0]),
            DMatrix::from_fn(4, 3, |i, j| ((i * 5 + j * 3) % 7) as f64 - 3.0),
        ] {
            let told = of(&w, &x);
            let closed = assess(&w, &FeatureBlock::new(x.clone()).unwrap()).unwrap();
            let variances: Vec<f64> = (0..3).map(|f| x.row(f).variance()).collect();
            let left: f64 =
                told.shares.iter().zip(&variances).map(|(share, v)| (1.0 - share) * v).sum();
            assert!((left / 3.0 - closed.mse_informed_linear).abs() < 1e-10, "{left} {closed:?}");
        }
        let single = DMatrix::from_row_slice(2, 3, &[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]);
        let told = of(&single, &x);
        assert_eq!(told.worst().unwrap().0, 2);
        assert!(told.shares[2] > 1.0 - 1e-9 && told.shares[0] < 0.2, "{told:?}");
        let lines = told.lines(&["a", "b", "late_90d"].map(String::from), 2);
        assert!(lines.contains("100 % of late_90d") && lines.contains("1.0 bits"), "{lines}");
    }
}
