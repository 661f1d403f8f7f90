//! The text output of a run: a table.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::{Accuracy, Adversary, LabelReading, Owner, TranscriptReport};
use crate::study::Report;

/// Returns an empty table with these headings.
pub(super) fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(110)
        .set_header(headings);
    table
}

/// Returns a line that says who attacks whose features.
pub(super) fn attack_line(adversary: Adversary, owners: &[Owner], features: usize) -> String {
    let name = |owner: &Owner| match owner {
        Owner::Active => format!("the {owner}"),
        Owner::Passive(_) => owner.to_string(),
    };
    let owners: Vec<String> = owners.iter().map(name).collect();
    let plural = if features == 1 { "feature" } else { "features" };
    format!("Attack by {adversary} on {features} {plural} of {}", owners.join(" and "))
}

impl LabelReading {
    /// Returns the figures as a line of text, with its end.
    pub(super) fn line(self) -> String {
        format!(
            "Labels read from the gradients: {:.1} % (the most frequent class: {:.1} %).\n",
            100.0 * self.labels_read,
            100.0 * self.most_frequent_class,
        )
    }
}

impl Report for TranscriptReport {
    fn text(&self) -> String {
        let mut table = table([
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
            "{}, {} training records, {} of them known; batches of {}, step size {}\n{}\n{table}\n{}\
             Every feature is in [0, 1]; all training records that are not known are counted.\n",
            self.subject,
            self.training_records,
            self.known_records,
            self.training.batch_size,
            self.training.learning_rate,
            attack_line(self.chair, &self.features_of, self.attacked_features),
            self.labels.map(LabelReading::line).unwrap_or_default(),
        )
    }
}
