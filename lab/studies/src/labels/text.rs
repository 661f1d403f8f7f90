//! The text output of a run: a table.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::report::{AttackRow, LabelsReport, ModelRows};
use crate::membership::Estimate;

fn percent(estimate: &Estimate) -> String {
    format!("{:.1} ± {:.1} %", 100.0 * estimate.mean, 100.0 * estimate.standard_error)
}

fn points(estimate: &Estimate) -> String {
    format!("{:+.1} ± {:.1}", 100.0 * estimate.mean, 100.0 * estimate.standard_error)
}

fn cells(row: &AttackRow) -> [String; 8] {
    let labels =
        if row.known_labels == 0 { "none".into() } else { format!("{} a class", row.known_labels) };
    [
        row.attack.as_str().into(),
        labels,
        row.epochs.to_string(),
        percent(&row.right.accuracy),
        points(&row.added.accuracy),
        format!("{:.1} %", 100.0 * row.right.balanced_accuracy.mean),
        points(&row.added.balanced_accuracy),
        row.verdict.as_str().into(),
    ]
}

impl LabelsReport {
    /// Returns the settings of the training, a table of the attacks on each model, and a legend of
    /// the columns. Ends with a newline.
    #[must_use]
    pub fn text(&self) -> String {
        let tables: Vec<String> = self.models.iter().map(table).collect();
        format!("{}\n\n{}\n\n{}", self.heading(), tables.join("\n\n"), self.legend())
    }

    fn heading(&self) -> String {
        let seen = match self.passive_parties {
            1 => "The passive party".to_owned(),
            parties => format!("The first of {parties} passive parties"),
        };
        format!(
            "{}, {} classes, {} active and {} passive features\n\
             {seen} has {} of them and infers the labels of the active party. {} trainings on {} records each.\n\
             Without a training: guessing {:.1} % of the labels (mean over classes {:.1} %); control {} (mean over classes {:.1} %).",
            self.set,
            self.classes,
            self.active_features,
            self.passive_features,
            self.adversary_features,
            self.trainings,
            self.records,
            100.0 * self.guessing.accuracy,
            100.0 * self.guessing.balanced_accuracy,
            percent(&self.control.accuracy),
            100.0 * self.control.balanced_accuracy.mean,
        )
    }

    fn legend(&self) -> String {
        format!(
            "Right: share of the labels that are named, of records that the steps were made on and whose label is not known.\n\
             By class: the same of each class, mean over classes. Labels: those that the adversary knows beforehand.\n\
             Guessing names the most frequent class. Control: a classifier on the adversary's own features from {} known records of each\n\
             class, without a training. Added: right less guessing, or less the control where it is better and labels are known; in points.\n\
             ±: standard error over trainings. all labels: every one in every training. leaks: the lower end of the 95 % interval of what\n\
             is added, to the share of labels or to the mean over classes, is above 0. nothing added: that is of this attack alone.\n",
            self.known_labels
        )
    }
}

fn table(rows: &ModelRows) -> String {
    let v = &rows.training;
    let privacy = rows.privacy.as_ref().map_or_else(String::new, |privacy| {
        format!("\nEvery party trained with differential privacy of its parameters: {privacy}.")
    });
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "attack", "labels", "epochs", "right", "added", "by class", "added", "verdict",
    ]);
    for row in &rows.attacks {
        table.add_row(cells(row));
    }
    for (place, column) in table.column_iter_mut().enumerate() {
        if ![0, 1, 7].contains(&place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    format!(
        "{}: batches of {}, step size {}, penalty {}{privacy}\n{}",
        rows.model,
        v.batch_size,
        v.learning_rate,
        v.l2,
        lines.join("\n")
    )
}
