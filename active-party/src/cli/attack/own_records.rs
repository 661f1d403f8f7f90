//! What a case of kind `attack` may hold of the adversary's own beside the records: labelled ones, some it asked about before,
//! and some whose passive features it knows.

use nalgebra::DMatrix;
use serde::Deserialize;
use vfl_shared::types::{FeatureBlock, ReleasedScores};

use super::case::columns;
use crate::attack::{AuxiliaryRecords, Colluders, LabelledRecords, Replacement};

/// A record with its label. Nothing is told of it, so that its id may be missing, or come twice.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Labelled {
    #[serde(default, rename = "id")]
    _id: serde::de::IgnoredAny,
    y_act: Vec<f64>,
    label: u32,
}

/// A record asked about before.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Observed {
    #[serde(default, rename = "id")]
    _id: serde::de::IgnoredAny,
    y_act: Vec<f64>,
    c: Vec<f64>,
}

/// A record whose passive features the adversary knows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Auxiliary {
    #[serde(default, rename = "id")]
    _id: serde::de::IgnoredAny,
    y_act: Vec<f64>,
    x_pas: Vec<f64>,
    c: Vec<f64>,
}

fn block(field: &str, matrix: DMatrix<f64>) -> Result<FeatureBlock, String> {
    FeatureBlock::new(matrix).map_err(|e| format!("`{field}`: {e}"))
}

/// The labelled records, for a model of k classes and d_act active features.
pub(super) fn training(k: usize, d_act: usize, records: &[Labelled]) -> Result<LabelledRecords, String> {
    if let Some(at) = records.iter().position(|r| r.label as usize >= k) {
        return Err(format!("`label` of record {at} of `training` is no class, expected 0 to {}", k - 1));
    }
    let told = |e| format!("`training`: {e}");
    let y = block("training", columns("y_act", d_act, records.iter().map(|r| &r.y_act)).map_err(told)?)?;
    Ok(LabelledRecords { y, labels: records.iter().map(|r| r.label).collect() })
}

/// What was seen before: own features and scores.
pub(super) fn observed(k: usize, d_act: usize, records: &[Observed]) -> Result<(FeatureBlock, ReleasedScores), String> {
    let told = |e| format!("`observed`: {e}");
    let y = block("observed", columns("y_act", d_act, records.iter().map(|r| &r.y_act)).map_err(told)?)?;
    let c = columns("c", k, records.iter().map(|r| &r.c)).map_err(told)?;
    Ok((y, ReleasedScores::Numbers(c)))
}

/// The auxiliary records, of d passive features.
pub(super) fn auxiliary(
    (k, d_act, d): (usize, usize, usize),
    records: &[Auxiliary],
    replacement: Replacement,
) -> Result<AuxiliaryRecords, String> {
    let told = |e| format!("`auxiliary`: {e}");
    let y = block("auxiliary", columns("y_act", d_act, records.iter().map(|r| &r.y_act)).map_err(told)?)?;
    let x = block("auxiliary", columns("x_pas", d, records.iter().map(|r| &r.x_pas)).map_err(told)?)?;
    let c = columns("c", k, records.iter().map(|r| &r.c)).map_err(told)?;
    AuxiliaryRecords::new(y, x, ReleasedScores::Numbers(c), replacement).map_err(|e| told(e.to_string()))
}

/// What parties give that hold the passive features at these `positions`: `x` has their values, record by record.
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
