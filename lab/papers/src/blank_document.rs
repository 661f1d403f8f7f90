//! The initial document of every figure.

use super::document::{Axis, Document, Measure};
use super::experiment_model::ExperimentModel;
use super::figure::Figure;
use super::version::SCHEMA_VERSION;

/// Returns a document with all facts and no curves.
pub(super) fn blank(
    figure: Figure,
    subject: &ExperimentModel,
    seed: u64,
    records: usize,
) -> Document {
    Document {
        schema_version: SCHEMA_VERSION,
        figure: figure.as_str().into(),
        title: figure.title().into(),
        source: figure.source().into(),
        program: concat!("cloison ", env!("CARGO_PKG_VERSION")).into(),
        dataset: subject.dataset.clone(),
        model: subject.model.clone(),
        seed,
        records,
        axis: Axis {
            label: String::new(),
            symbol: String::new(),
            points: Vec::new(),
            determined_up_to: None,
        },
        measure: Measure::default(),
        attacks: Vec::new(),
        curves: Vec::new(),
        added_risk: Vec::new(),
        heat_map: None,
        checks: Vec::new(),
        notes: Vec::new(),
    }
}
