//! The truth in a case of kind `attack`. Estimates are measured against it after the attacks have
//! run.

use std::collections::HashMap;

use nalgebra::DMatrix;
use serde::Serialize;
use vfl_attack::KnownModel;
use vfl_core::metrics::{
    METRICS, MetricError, Reconstruction, active_correlation, half_error, mse,
};
use vfl_core::types::RecordIds;
use vfl_numerics::arg_max;

use super::case::columns;
use super::checked_case::{CheckedCase, TruthRecord};

/// The true features of all records, d × n, in the order of the records.
pub(super) struct Truth<'a> {
    x: DMatrix<f64>,
    model: &'a KnownModel,
}

/// The errors of estimates against the truth.
#[derive(Serialize)]
pub(super) struct Errors {
    /// R (7), of the estimates without clipping.
    mse: f64,
    mse_by_feature: Vec<f64>,
    /// The error of the estimate ½ everywhere.
    half: f64,
    /// The metrics of audits, for the estimates clipped to [0, 1]; null if a metric is not defined
    /// for these records.
    metrics: serde_json::Map<String, serde_json::Value>,
}

/// The correlation of the passive features with the active ones, J (25).
#[derive(Serialize)]
pub(super) struct ActiveCorrelation {
    mean: f64,
    by_feature: Vec<f64>,
}

impl<'a> Truth<'a> {
    /// Reads the truth and matches it to the case's records by id.
    pub(super) fn read(records: &[TruthRecord], given: &'a CheckedCase) -> Result<Self, String> {
        let ids =
            RecordIds::new(records.iter().map(|r| &r.id)).map_err(|e| format!("`truth`: {e}"))?;
        let by_id: HashMap<&str, &TruthRecord> = ids.iter().zip(records).collect();
        let of_record = |id: &str| {
            by_id.get(id).map(|record| &record.x_pas).ok_or_else(|| {
                format!(
                    "`truth` does not have record {id:?}: give all of `records`, or leave it out"
                )
            })
        };
        let values: Vec<_> = given.ids.iter().map(of_record).collect::<Result<_, _>>()?;
        if ids.len() != values.len() {
            return Err(format!(
                "`truth` has {} records, and `records` {}",
                ids.len(),
                values.len()
            ));
        }
        let x = columns("x_pas", given.model().target_features(), values.into_iter());
        Ok(Self { x: x.map_err(|e| format!("`truth`: {e}"))?, model: given.model() })
    }

    /// Measures the errors of estimates (d × n).
    pub(super) fn errors(&self, estimates: &DMatrix<f64>) -> Option<Errors> {
        let error = mse(estimates, &self.x).ok()?;
        let clipped = estimates.map(|v| v.clamp(0.0, 1.0));
        let of =
            Reconstruction { estimates: &clipped, truth: &self.x, classify: &|x| self.classes(x) };
        let metrics = METRICS.iter().map(|metric| {
            let figure = metric.measure(&of).ok().flatten();
            (
                metric.name().to_owned(),
                figure.map_or(serde_json::Value::Null, |v| serde_json::json!(v)),
            )
        });
        Some(Errors {
            mse: error.overall,
            mse_by_feature: error.by_feature,
            half: half_error(&self.x).ok()?.overall,
            metrics: metrics.collect(),
        })
    }

    /// Classifies records by the passive party's share of a linear model, as in an audit.
    fn classes(&self, x: &DMatrix<f64>) -> Result<Vec<u32>, MetricError> {
        let weights = self
            .model
            .passive_weights()
            .map_err(|e| MetricError::NoClasses { reason: e.to_string() })?;
        Ok((weights * x).column_iter().map(|z| arg_max(z.as_slice()) as u32).collect())
    }

    /// Returns J (25), a property of the data and not of an attack; `None` if the adversary has no
    /// feature.
    pub(super) fn active_correlation(&self, active: &DMatrix<f64>) -> Option<ActiveCorrelation> {
        let by_feature = active_correlation(&self.x, active).ok()?;
        Some(ActiveCorrelation {
            mean: by_feature.iter().sum::<f64>() / by_feature.len() as f64,
            by_feature,
        })
    }
}
