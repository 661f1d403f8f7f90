//! The text output of a screening: a table.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::ScreenReport;

impl ScreenReport {
    /// Returns the settings of the training, V's three conditions, a table of the features, and a
    /// legend of its columns. Ends with a newline.
    #[must_use]
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(["column", "feature", "importance", "reach", "explained", "contributes"]);
        for row in &self.features {
            table.add_row([
                row.column.to_string(),
                row.name.clone(),
                format!("{:.4} ± {:.4}", row.importance, row.standard_error),
                format!("{:.3}", row.reach),
                format!("{:.3}", row.explained),
                if row.contributes { "yes" } else { "not measurably" }.to_owned(),
            ]);
        }
        for place in [0, 2, 3, 4] {
            if let Some(column) = table.column_mut(place) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        format!(
            "{}, {} classes, {} training and {} test records\n\n{}\n{}\n\n\
             importance: rise of the loss if the feature takes the value of another record, in nats, over {} test records; ±: standard error.\n\
             reach: length of its weights without their mean over classes, times its standard deviation.\n\
             explained: share of its variance that the other features explain linearly.\n",
            self.set,
            self.classes,
            self.training_records,
            self.test_records,
            self.conditions(),
            lines.join("\n"),
            self.records
        )
    }

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
