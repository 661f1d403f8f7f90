//! The text output of a run without known records: a table.

use comfy_table::{CellAlignment, Table};

use super::study::{AfterEpochs, OptimiserReport, TargetResults};
use crate::study::Report;
use crate::transcript::text::{attack_line, table};
use crate::transcript::{Accuracy, LabelReading};

impl Report for OptimiserReport {
    fn text(&self) -> String {
        let tables: String = self
            .targets
            .iter()
            .map(|target| {
                let (owners, features) = (&target.features_of, target.attacked_features);
                format!("{}\n{}\n", attack_line(self.chair, owners, features), table_of(target))
            })
            .collect();
        format!(
            "{}, {} training records, none of them known; batches of {}, step size {}\n{tables}{}\
             Every feature is in [0, 1]. The attack leaves the order of the features open: each is \
             compared with\nthe closest true one, and those that were not found count as ½. In the \
             control the gradients are handed\nto other records.\n",
            self.subject,
            self.training_records,
            self.training.batch_size,
            self.training.learning_rate,
            self.labels.map(LabelReading::line).unwrap_or_default(),
        )
    }
}

/// Returns the table of one target.
fn table_of(target: &TargetResults) -> Table {
    let mut table = table([
        "estimate",
        "features recovered",
        "their root mean square error",
        "values within 0.01",
        "records within 0.01",
        "features in the control",
    ]);
    let mut line = |what: String, a: &Accuracy, row: Option<&AfterEpochs>| {
        let counted = |n: usize| format!("{n} of {}", target.attacked_features);
        let error = row.and_then(|row| row.matching.root_mean_square_error);
        table.add_row([
            what,
            row.map_or_else(|| "-".into(), |row| counted(row.matching.features_recovered)),
            error.map_or_else(|| "-".into(), |error| format!("{error:.1e}")),
            format!("{:.1} %", 100.0 * a.values_within_0_01),
            format!("{:.1} %", 100.0 * a.records_within_0_01),
            row.map_or_else(|| "-".into(), |row| counted(row.control.features_recovered)),
        ]);
    };
    line("½".into(), &target.half, None);
    line("column means".into(), &target.column_means, None);
    for row in &target.attack {
        let unit = if row.steps == 1 { "step" } else { "steps" };
        line(format!("transcript of {} {unit}", row.steps), &row.accuracy, Some(row));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
