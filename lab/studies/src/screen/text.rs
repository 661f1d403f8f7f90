//! The text output of a screening: a table.

use super::ScreenReport;
use crate::study::Report;
use crate::table::plain_table;

impl Report for ScreenReport {
    fn text(&self) -> String {
        let header = ["column", "feature", "importance", "reach", "explained", "contributes"];
        let rows = self.features.iter().map(|row| {
            [
                row.column.to_string(),
                row.name.clone(),
                format!("{:.4} ± {:.4}", row.importance, row.standard_error),
                format!("{:.3}", row.reach),
                format!("{:.3}", row.explained),
                if row.contributes { "yes" } else { "not measurably" }.to_owned(),
            ]
        });
        let table = plain_table(header, &[1, 5], rows);
        format!(
            "{}, {} classes, {} training and {} test records\n\n{}\n{table}\n\n\
             importance: rise of the loss if the feature takes the value of another record, in nats, over {} test records; ±: standard error.\n\
             reach: length of its weights without their mean over classes, times its standard deviation.\n\
             explained: share of its variance that the other features explain linearly.\n",
            self.set,
            self.classes,
            self.training_records,
            self.test_records,
            self.conditions(),
            self.records
        )
    }
}

impl ScreenReport {
    /// Returns the three conditions, a line each.
    fn conditions(&self) -> String {
        let met = |met: bool| if met { "met    " } else { "not met" };
        let idle = self.idle().count();
        let of_idle = match idle {
            0 => "every feature contributes".to_owned(),
            1 => "1 feature does not measurably contribute".to_owned(),
            n => format!("{n} features do not measurably contribute"),
        };
        format!(
            "{}  accuracy {:.3}, at least {} is asked for (V section III)\n\
             {}  {of_idle} (V section III)\n\
             {}  the other features explain {:.1} % of a feature's variance on average, at least {:.0} % (V section III; the number is ours)\n",
            met(self.accurate()),
            self.accuracy,
            self.least_accuracy,
            met(idle == 0),
            met(self.dependent()),
            100.0 * self.mean_explained,
            100.0 * self.least_explained,
        )
    }
}
