//! The text output of a run: a table.

use super::report::{AttackRow, LabelsReport, ModelRows};
use crate::estimate::Estimate;
use crate::study::Report;
use crate::table::plain_table;

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

impl Report for LabelsReport {
    fn text(&self) -> String {
        let tables: Vec<String> = self.models.iter().map(table).collect();
        format!("{}\n\n{}\n\n{}", self.heading(), tables.join("\n\n"), self.legend())
    }
}

impl LabelsReport {
    fn heading(&self) -> String {
        let seen = match self.passive_parties {
            1 => "The passive party".to_owned(),
            parties => format!("The first of {parties} passive parties"),
        };
        format!(
            "{}\n\
             {seen} has {} of them and infers the labels of the active party. {} trainings on {} records each.\n\
             Without a training: guessing {:.1} % of the labels (mean over classes {:.1} %); control {} (mean over classes {:.1} %).",
            self.subject,
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
    let header = ["attack", "labels", "epochs", "right", "added", "by class", "added", "verdict"];
    let attacks = plain_table(header, &[0, 1, 7], rows.attacks.iter().map(cells));
    format!(
        "{}: batches of {}, step size {}, penalty {}{privacy}\n{attacks}",
        rows.model, v.batch_size, v.learning_rate, v.l2,
    )
}
