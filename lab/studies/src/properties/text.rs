//! The text output of a run: a table.

use super::report::{Interval, PropertiesReport};
use crate::study::Report;
use crate::table::plain_table;

fn interval(of: &Interval) -> String {
    format!("{:.3} ({:.3} to {:.3})", of.value, of.low, of.high)
}

impl Report for PropertiesReport {
    fn text(&self) -> String {
        let header = ["sees", "takes", "error", "explained", "added", "added to own", "verdict"];
        let rows = self.adversaries.iter().map(|row| {
            let dash = || "–".to_owned();
            [
                row.sees.clone(),
                row.takes.clone(),
                format!("{:.4}", row.error),
                interval(&row.explained),
                row.added.as_ref().map_or_else(dash, interval),
                row.added_to_own.as_ref().map_or_else(dash, interval),
                row.verdict.map_or_else(dash, |verdict| verdict.as_str().to_owned()),
            ]
        });
        let table = plain_table(header, &[0, 1, 6], rows);
        format!("{}\n\n{table}\n\n{LEGEND}", self.heading())
    }
}

impl PropertiesReport {
    fn heading(&self) -> String {
        let v = &self.training;
        format!(
            "{}\n\
             Property: mean of passive feature {} over the training records, group `{}`: {:.3} ± {:.3} (deviation over targets)\n\
             {} shadow models of the active party, {} targets, each of {} records; tilts up to {}; {} epochs, batches of {}, step size {}, \
             penalty {}",
            self.subject,
            self.feature,
            self.group,
            self.mean,
            self.deviation,
            self.shadows,
            self.targets,
            self.records,
            self.tilt,
            v.epochs,
            v.batch_size,
            v.learning_rate,
            v.l2,
        )
    }
}

/// The legend of the columns.
const LEGEND: &str = "\
Sees: what the active party sees beside its own features and the labels of the training set. Nothing: the control. Takes: what of that
did best between two halves of its shadow models, which are of different records. Error: root mean squared error of the property.
Explained: share of the property's variance over targets, R². Added: share of the control's mean squared error that is gone. Added to
own: the same beside an active party that sees its own trained parameters, which it has in any case. In brackets: 95 % interval over
targets, which are drawn from the same records.
leaks: the lower ends of both intervals are above 0. nothing added: that is of this regression alone.
";
