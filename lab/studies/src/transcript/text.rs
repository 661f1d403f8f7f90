//! The text output of a run: a table.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::{Accuracy, TranscriptReport};
use crate::study::Report;

impl Report for TranscriptReport {
    fn text(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(110);
        table.set_header([
            "estimate",
            "mean squared error",
            "error / variance",
            "values within 0.01",
            "records within 0.01",
            "median largest error",
        ]);
        let mut line = |what: String, a: &Accuracy| {
            table.add_row([
                what,
                format!("{:.2e}", a.mean_squared_error),
                format!("{:.2e}", a.error_over_variance),
                format!("{:.1} %", 100.0 * a.values_within_0_01),
                format!("{:.1} %", 100.0 * a.records_within_0_01),
                format!("{:.1e}", a.median_largest_error),
            ]);
        };
        line("½".into(), &self.half);
        line("column means".into(), &self.column_means);
        line("means of the known records".into(), &self.known_means);
        line("regression from the known records, no training".into(), &self.without_training);
        for row in &self.attack {
            let unit = if row.epochs == 1 { "epoch" } else { "epochs" };
            line(format!("transcript of {} {unit}", row.epochs), &row.accuracy);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!(
            "{}, {} training records, {} of them known; batches of {}, step size {}\n{table}\n\
             Every feature is in [0, 1]; all training records that are not known are counted.\n",
            self.subject,
            self.training_records,
            self.known_records,
            self.training.batch_size,
            self.training.learning_rate,
        )
    }
}
