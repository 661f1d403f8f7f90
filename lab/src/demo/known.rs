//! Records that the adversary of a demonstration knows whole.

use nalgebra::DMatrix;
use vfl_shared::data::{Dataset, FeatureTable, VerticalSplit};
use vfl_shared::data::{FeatureSchema, FeatureSpec};
use vfl_shared::types::{FeatureBlock, RecordIds};

/// The fewest records that are worth taking moments from.
const LEAST: usize = 20;

/// The ids of `wanted` test records beyond the first `audited`, as many as there are; `None` where they are too few.
pub(super) fn ids(dataset: &Dataset, audited: usize, wanted: usize) -> Option<RecordIds> {
    let test = dataset.ids().select(&dataset.split().test);
    let known = test.slice(audited.min(test.len()), (audited + wanted).min(test.len()));
    (known.len() >= LEAST).then_some(known)
}

/// The passive features of these records, those of all parties in the order of their names, as the adversary has them.
///
/// # Errors
/// If the features do not make a table.
pub(super) fn table(
    dataset: &Dataset,
    split: &VerticalSplit,
    audited: usize,
    ids: &RecordIds,
) -> anyhow::Result<FeatureTable> {
    let mut parties: Vec<_> = split.passive().iter().collect();
    parties.sort_by(|a, b| a.name.cmp(&b.name));
    let columns: Vec<usize> = parties.iter().flat_map(|p| p.columns.iter().copied()).collect();
    let positions = &dataset.split().test[audited..audited + ids.len()];
    let x = DMatrix::from_fn(columns.len(), positions.len(), |i, j| dataset.x()[(columns[i], positions[j])]);
    let features = columns.iter().map(|&c| FeatureSpec::numeric(&dataset.features()[c].name, 0.0, 1.0)).collect();
    Ok(FeatureTable::new(FeatureSchema::new(features, None)?, ids.clone(), FeatureBlock::new(x)?, None)?)
}
