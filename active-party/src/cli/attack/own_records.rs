//! The adversary's own records in a case of kind `attack`: labelled ones, ones with scores from
//! earlier requests, and ones whose passive features it knows.

use nalgebra::{DMatrix, DVector};
use serde::Deserialize;
use vfl_attack::{AuxiliaryRecords, Colluders, LabelledRecords, Prior, PriorError, Replacement};
use vfl_core::types::{FeatureBlock, ReleasedScores};

use super::case::columns;

/// A record with its label. The output does not mention it, so its id may be missing or repeated.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabelledRecord {
    #[serde(default, rename = "id")]
    _id: serde::de::IgnoredAny,
    y_act: Vec<f64>,
    label: u32,
}

/// A record with scores from an earlier request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObservedRecord {
    #[serde(default, rename = "id")]
    _id: serde::de::IgnoredAny,
    y_act: Vec<f64>,
    c: Vec<f64>,
}

/// A record whose passive features the adversary knows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuxiliaryRecord {
    #[serde(default, rename = "id")]
    _id: serde::de::IgnoredAny,
    y_act: Vec<f64>,
    x_pas: Vec<f64>,
    c: Vec<f64>,
}

/// The moments of the passive features and of the active ones. The last three fields are given
/// together or not at all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Moments {
    mean: Vec<f64>,
    covariance: Vec<Vec<f64>>,
    #[serde(default)]
    active_mean: Option<Vec<f64>>,
    #[serde(default)]
    active_covariance: Option<Vec<Vec<f64>>>,
    #[serde(default)]
    cross_covariance: Option<Vec<Vec<f64>>>,
}

impl Moments {
    /// Builds the prior for d passive and d_act active features. Below the active features stand
    /// `outputs` of the adversary's own network. No moments of these are given: they are set to 0,
    /// so that the outputs carry no information.
    pub(super) fn read(self, d: usize, d_act: usize, outputs: usize) -> Result<Prior, String> {
        let vector = |name: &str, values: Vec<f64>, length: usize| {
            if values.len() == length {
                Ok(DVector::from_vec(values))
            } else {
                Err(format!("`prior.{name}` has {} entries, expected {length}", values.len()))
            }
        };
        let matrix = |name: &str, rows: Vec<Vec<f64>>, height: usize, width: usize| {
            if rows.len() != height {
                return Err(format!("`prior.{name}` has {} rows, expected {height}", rows.len()));
            }
            match rows.iter().position(|row| row.len() != width) {
                Some(at) => Err(format!(
                    "row {at} of `prior.{name}` has {} entries, expected {width}",
                    rows[at].len()
                )),
                None => {
                    Ok(DMatrix::from_row_iterator(height, width, rows.iter().flatten().copied()))
                }
            }
        };
        let told = |e: PriorError| format!("`prior`: {e}");
        let mean = vector("mean", self.mean, d)?;
        let prior = Prior::new(mean, matrix("covariance", self.covariance, d, d)?).map_err(told)?;
        match (self.active_mean, self.active_covariance, self.cross_covariance) {
            (None, None, None) => Ok(prior),
            (Some(mean), Some(covariance), Some(cross)) => {
                let all = d_act + outputs;
                let mean = vector("active_mean", mean, d_act)?.resize_vertically(all, 0.0);
                let covariance = matrix("active_covariance", covariance, d_act, d_act)?.resize(all, all, 0.0);
                let cross = matrix("cross_covariance", cross, d, d_act)?.resize_horizontally(all, 0.0);
                prior.with_active(mean, covariance, cross).map_err(told)
            }
            _ => {
                Err("`prior` needs `active_mean`, `active_covariance` and `cross_covariance` together, or none of them"
                    .into())
            }
        }
    }
}

fn block(field: &str, matrix: DMatrix<f64>) -> Result<FeatureBlock, String> {
    FeatureBlock::new(matrix).map_err(|e| format!("`{field}`: {e}"))
}

/// Reads the labelled records, for a model of k classes and d_act active features; `whole` as in
/// [`auxiliary`].
pub(super) fn training(
    k: usize,
    d_act: usize,
    records: &[LabelledRecord],
    whole: impl Fn(DMatrix<f64>) -> Result<DMatrix<f64>, String>,
) -> Result<LabelledRecords, String> {
    if let Some(at) = records.iter().position(|r| r.label as usize >= k) {
        return Err(format!(
            "`label` of record {at} of `training` is no class, expected 0 to {}",
            k - 1
        ));
    }
    let told = |e| format!("`training`: {e}");
    let y = columns("y_act", d_act, records.iter().map(|r| &r.y_act)).map_err(told)?;
    let y = block("training", whole(y)?)?;
    Ok(LabelledRecords { y, labels: records.iter().map(|r| r.label).collect() })
}

/// Reads the records of earlier requests: own features and scores; `whole` as in [`auxiliary`].
pub(super) fn observed(
    k: usize,
    d_act: usize,
    records: &[ObservedRecord],
    whole: impl Fn(DMatrix<f64>) -> Result<DMatrix<f64>, String>,
) -> Result<(FeatureBlock, ReleasedScores), String> {
    let told = |e| format!("`observed`: {e}");
    let y = columns("y_act", d_act, records.iter().map(|r| &r.y_act)).map_err(told)?;
    let y = block("observed", whole(y)?)?;
    let c = columns("c", k, records.iter().map(|r| &r.c)).map_err(told)?;
    Ok((y, ReleasedScores::Numbers(c)))
}

/// Reads the auxiliary records, with d passive features. `whole` returns the adversary's input for
/// records with these features (d_act × n).
pub(super) fn auxiliary(
    (k, d_act, d): (usize, usize, usize),
    records: &[AuxiliaryRecord],
    replacement: Replacement,
    whole: impl Fn(DMatrix<f64>) -> Result<DMatrix<f64>, String>,
) -> Result<AuxiliaryRecords, String> {
    let told = |e| format!("`auxiliary`: {e}");
    let y = columns("y_act", d_act, records.iter().map(|r| &r.y_act)).map_err(told)?;
    let y = block("auxiliary", whole(y)?)?;
    let x =
        block("auxiliary", columns("x_pas", d, records.iter().map(|r| &r.x_pas)).map_err(told)?)?;
    let c = columns("c", k, records.iter().map(|r| &r.c)).map_err(told)?;
    AuxiliaryRecords::new(y, x, ReleasedScores::Numbers(c), replacement)
        .map_err(|e| told(e.to_string()))
}

/// Returns the colluders who hold the passive features at `positions`, with their shares of the
/// logits. `x` has the values of these features, record by record.
pub(super) fn colluders<'a>(
    positions: &[usize],
    w_pas: &DMatrix<f64>,
    x: impl ExactSizeIterator<Item = &'a Vec<f64>>,
) -> Result<Colluders, String> {
    let mut features = vec![false; w_pas.ncols()];
    for &at in positions {
        match features.get_mut(at) {
            Some(held) if !*held => *held = true,
            Some(_) => return Err(format!("`colluders` names feature {at} twice")),
            None => {
                return Err(format!(
                    "`colluders` names feature {at}, expected 0 to {}",
                    w_pas.ncols().saturating_sub(1)
                ));
            }
        }
    }
    let x = columns("x_colluders", positions.len(), x)?;
    Ok(Colluders { features, shares: w_pas.select_columns(positions) * x })
}
