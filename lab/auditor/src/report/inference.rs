//! Inferences beside the features of records: membership in the training set, labels, and
//! properties of the training records. Each row has its control.

use vfl_present::ColumnKind::{Figure, Name, Text};
use vfl_present::{Table, significant};

use super::document::Report;
use super::inference_rows::{Inference, InferredProperty};

/// The line of one inference, as text.
struct InferenceLine {
    /// The inferred property.
    of: &'static str,
    /// The release that it is inferred from.
    against: String,
    attack: String,
    value: String,
    /// The interval of the figure.
    interval: String,
    /// The same figure without the release.
    without: String,
    verdict: String,
}

/// The heading of the lines.
pub(super) const HEADING: &str = "What else is inferred, beside what is known without the release";

/// The explanation of the lines.
pub(super) const READING: &str = "Members: share of the training records that are named where so many of the others are; beside guessing. Labels: share \
     of the training labels that a passive party names; beside what it could say without the training. Mean of a feature: share of its \
     variance over training sets that is explained; beside an adversary that sees no parameters. The models are trained for this, as the \
     report's was; 95 % over trainings.";

impl InferredProperty {
    /// Returns the name for people.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Members1Percent => "members, 1 % FPR",
            Self::Members01Percent => "members, 0.1 % FPR",
            Self::Labels => "labels",
            Self::FeatureMean => "mean of a feature",
        }
    }

    /// Returns the name in tables for programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Members1Percent => "membership_tpr_at_1_percent",
            Self::Members01Percent => "membership_tpr_at_0_1_percent",
            Self::Labels => "labels_right",
            Self::FeatureMean => "feature_mean_explained",
        }
    }
}

/// Returns the table of the inferences, a row for each attack.
pub(super) fn table(report: &Report) -> Table {
    let lines: Vec<InferenceLine> = report.inferences.iter().map(line).collect();
    Table::new()
        .column("inferred", Name, lines.iter().map(|line| line.of))
        .column("from", Text, lines.iter().map(|line| &line.against))
        .column("by", Text, lines.iter().map(|line| &line.attack))
        .column("comes to", Text, lines.iter().map(|line| &line.verdict))
        .column("share", Figure, lines.iter().map(|line| &line.value))
        .column("95 %", Figure, lines.iter().map(|line| &line.interval))
        .column("without", Figure, lines.iter().map(|line| &line.without))
}

/// Returns a sentence for each kind: its strongest row.
pub(super) fn sentences(report: &Report) -> Vec<String> {
    let kinds = [
        InferredProperty::Members1Percent,
        InferredProperty::Labels,
        InferredProperty::FeatureMean,
    ];
    let gain = |row: &Inference| row.value - row.without;
    let strongest = |kind: InferredProperty| {
        // Of equals the first is taken.
        let rows = report.inferences.iter().rev().filter(|row| row.of == kind);
        rows.max_by(|a, b| gain(a).total_cmp(&gain(b)))
    };
    let sentence = |row: &Inference| {
        let InferenceLine { of, against, attack, value, without, verdict, .. } = line(row);
        format!(
            "Inferred, {of}: {value} from {against} by {attack}, {without} without ({verdict})."
        )
    };
    kinds.into_iter().filter_map(strongest).map(sentence).collect()
}

fn line(row: &Inference) -> InferenceLine {
    let percent = |share: f64| format!("{} %", significant(100.0 * share));
    InferenceLine {
        of: row.of.label(),
        against: row.against.clone(),
        attack: row.attack.clone(),
        value: percent(row.value),
        interval: format!("{} to {}", significant(100.0 * row.low), significant(100.0 * row.high)),
        without: percent(row.without),
        verdict: row.verdict.clone(),
    }
}
