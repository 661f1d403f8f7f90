//! V table I: features, classes and records of a data set, as loaded.

use vfl_datasets::{DatasetName, Variant};

use super::document::{Axis, Check, CheckKind, Curve, CurveRole, Document, Measure};
use super::experiment_model::ExperimentModel;
use super::{Figure, Options, ReproduceError, blank};

/// Computes the table for one data set: each count is a curve of one point, and so is the number of
/// columns of each variant.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let records = subject.all_records().ncols();
    let mut document = blank(Figure::VTable1, subject, options.seed, records);
    document.axis = Axis {
        label: "the data set".into(),
        symbol: "set".into(),
        points: vec![1],
        determined_up_to: None,
    };
    document.measure = Measure::linear("count");
    let mut counts = vec![
        ("features".to_owned(), subject.features()),
        ("classes".to_owned(), subject.dataset.classes),
        ("records".to_owned(), records),
    ];
    let variants: Vec<(Variant, usize)> = match subject.dataset.name.parse::<DatasetName>() {
        Ok(name) => name
            .variants()
            .iter()
            .filter_map(|&variant| Some((variant, name.columns(variant)?)))
            .collect(),
        Err(_) => Vec::new(),
    };
    counts
        .extend(variants.iter().map(|(variant, columns)| (format!("columns_{variant}"), *columns)));
    for (name, count) in counts {
        document.curves.push(Curve {
            name,
            role: CurveRole::Measured,
            of: None,
            x: vec![1.0],
            mean: vec![count as f64],
            standard_error: None,
            spread: None,
        });
    }
    if let Some(columns) = subject.dataset.columns {
        let here = variants
            .iter()
            .find(|(variant, _)| Some(variant.as_str()) == subject.dataset.variant.as_deref());
        document.checks.push(Check {
            id: "columns_are_features".into(),
            kind: CheckKind::Ours,
            claim:
                "each column that was loaded is one feature, and they are as many as the variant is said to have (ours)"
                    .into(),
            holds: columns == subject.features() && here.is_none_or(|(_, said)| *said == columns),
            comparisons: 1,
            detail: format!("{columns} columns, {} features", subject.features()),
            violations: Vec::new(),
        });
    }
    let told: Vec<String> =
        variants.iter().map(|(variant, columns)| format!("{variant} {columns}")).collect();
    document.notes.push(format!(
        "`features` counts the columns of this run's variant, which is the one that V's figures take unless told; the variants of the set \
         have: {}",
        told.join(", ")
    ));
    Ok(document)
}
