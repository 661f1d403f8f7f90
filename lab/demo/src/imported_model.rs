//! A model that is put in service without a training.

use std::path::Path;

use anyhow::Context;
use vfl_core::model::ParameterFile;
use vfl_core::types::RecordIds;
use vfl_datasets::{Dataset, VerticalSplit};
use vfl_testbed::deployment::WholeModel;

/// Returns a model that was trained elsewhere.
pub(super) fn imported(parameters: &ParameterFile) -> anyhow::Result<WholeModel> {
    Ok(WholeModel {
        weights: parameters.weights().clone(),
        bias: parameters.bias().context("the parameters have no `bias`")?.clone(),
        class_names: parameters.class_names().to_vec(),
        summary: None,
        training_ids: RecordIds::default(),
    })
}

/// Stores a model, divided along a split, for a deployment that is about to start.
pub(super) fn publish(
    whole: &WholeModel,
    dataset: &Dataset,
    split: &VerticalSplit,
    state: &Path,
) -> anyhow::Result<()> {
    let name = |columns: &[usize]| {
        columns.iter().map(|&c| dataset.features()[c].name.clone()).collect::<Vec<_>>()
    };
    let passive: Vec<_> = split
        .passive()
        .iter()
        .map(|p| (p.name.clone(), p.columns.clone(), name(&p.columns)))
        .collect();
    whole.publish(state, (split.active(), &name(split.active())), &passive)
}
