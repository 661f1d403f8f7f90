//! The text output of a run under `concat`: a table for each party and occasion.

use comfy_table::{CellAlignment, Table};

use super::study::{AttackRow, EmbeddingReport, Occasion, OccasionResults};
use crate::study::Report;
use crate::transcript::Accuracy;
use crate::transcript::text::{attack_line, table};

impl Report for EmbeddingReport {
    fn text(&self) -> String {
        let mut text = format!(
            "{}, {} training records, {} of them known; batches of {}, step size {}\n",
            self.subject,
            self.training_records,
            self.known_records,
            self.training.batch_size,
            self.training.learning_rate,
        );
        for target in &self.targets {
            let owners = [target.features_of];
            let line = attack_line(self.chair, &owners, target.attacked_features);
            text += &format!("{line}, from embeddings of width {}\n", target.embedding_width);
            for results in &target.occasions {
                text += &format!("{}\n{}\n", heading(results), table_of(results));
            }
        }
        if self.known_records == 0 {
            text += "kernel_ridge and inverse_network need records whose features are known: --known \
                     N gives them. They were\nnot run.\n";
        }
        text + "Every feature is in [0, 1]; no record that is counted is known. The worst feature is \
                chosen on one half of\nthem; the share of the control's error that is removed there \
                is of the other half, with its 95 % interval.\nThe control has the known records and \
                no embedding: in a training the labels, for predictions nothing.\n"
    }
}

fn heading(results: &OccasionResults) -> String {
    let records = results.records;
    match results.occasion {
        Occasion::Training => format!("In the steps of the training, {records} other records:"),
        Occasion::Prediction => format!("In predictions, {records} test records:"),
    }
}

/// The width of a table, with the names of attacks and features on one line.
const WIDTH: u16 = 140;

/// Returns the table of one party and occasion.
fn table_of(results: &OccasionResults) -> Table {
    let mut table = table([
        "estimate",
        "mean squared error",
        "error / variance",
        "values within 0.01",
        "records within 0.01",
        "median largest error",
        "worst feature",
        "its error removed",
    ]);
    table.set_width(WIDTH);
    let figures = |a: &Accuracy| {
        [
            format!("{:.2e}", a.mean_squared_error),
            format!("{:.2e}", a.error_over_variance),
            format!("{:.1} %", 100.0 * a.values_within_0_01),
            format!("{:.1} %", 100.0 * a.records_within_0_01),
            format!("{:.1e}", a.median_largest_error),
        ]
    };
    let mut line = |what: String, a: &Accuracy, worst: [String; 2]| {
        table.add_row([vec![what], figures(a).to_vec(), worst.to_vec()].concat());
    };
    let none = || ["-".to_owned(), "-".to_owned()];
    line("½".into(), &results.half, none());
    line("column means".into(), &results.column_means, none());
    if let Some(means) = &results.known_means {
        line("means of the known records".into(), means, none());
    }
    if let (Some(control), Occasion::Training) = (&results.control, results.occasion) {
        line("regression on labels from the known records".into(), control, none());
    }
    for AttackRow { attack, epochs, result } in &results.attacks {
        let unit = if *epochs == 1 { "epoch" } else { "epochs" };
        let what = format!("{attack}, {epochs} {unit}");
        let Some(result) = result else {
            table.add_row([what, "needs --known".into()]);
            continue;
        };
        let worst = result.worst.as_ref().map_or_else(none, |worst| {
            let percent = |share: f64| format!("{:.1}", 100.0 * share);
            let (value, low, high) =
                (percent(worst.removed), percent(worst.low), percent(worst.high));
            [worst.feature.clone(), format!("{value} % [{low}, {high}]")]
        });
        let mut row = vec![what];
        row.extend(figures(&result.accuracy));
        row.extend(worst);
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
