//! What is inferred beside the features of records: who was in the training set, what the labels are, what the training records have in
//! common. Each row has its control.

use super::document::Report;
use super::inferred::{Inference, Inferred};
use super::number::significant;

/// One line for people.
pub(super) struct InferenceLine {
    /// What is inferred, in words.
    pub(super) of: &'static str,
    /// From what.
    pub(super) against: String,
    /// By which attack.
    pub(super) attack: String,
    /// The figure.
    pub(super) value: String,
    /// Its interval.
    pub(super) interval: String,
    /// What there is without it.
    pub(super) without: String,
    /// What it comes to.
    pub(super) verdict: String,
}

/// What the lines are of.
pub(super) const HEADING: &str = "What else is inferred, beside what is known without the release";

/// How to read them.
pub(super) const READING: &str = "Members: share of the training records that are named where so many of the others are; beside guessing. Labels: share \
     of the training labels that a passive party names; beside what it could say without the training. Mean of a feature: share of its \
     variance over training sets that is explained; beside an adversary that sees no parameters. The models are trained for this, as the \
     report's was; 95 % over trainings.";

impl Inferred {
    /// In words.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Members1Percent => "members, 1 % FPR",
            Self::Members01Percent => "members, 0.1 % FPR",
            Self::Labels => "labels",
            Self::FeatureMean => "mean of a feature",
        }
    }

    /// Its name in tables for programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Members1Percent => "membership_tpr_at_1_percent",
            Self::Members01Percent => "membership_tpr_at_0_1_percent",
            Self::Labels => "labels_right",
            Self::FeatureMean => "feature_mean_explained",
        }
    }
}

/// A line for each row.
pub(super) fn lines(report: &Report) -> Vec<InferenceLine> {
    report.inferences.iter().map(line).collect()
}

/// A sentence for each kind: its strongest row.
pub(super) fn sentences(report: &Report) -> Vec<String> {
    let kinds = [Inferred::Members1Percent, Inferred::Labels, Inferred::FeatureMean];
    let gain = |row: &Inference| row.value - row.without;
    let strongest = |kind: Inferred| {
        // Of equals the first.
        let rows = report.inferences.iter().rev().filter(|row| row.of == kind);
        rows.max_by(|a, b| gain(a).total_cmp(&gain(b)))
    };
    let sentence = |row: &Inference| {
        let InferenceLine { of, against, attack, value, without, verdict, .. } = line(row);
        format!("Inferred, {of}: {value} from {against} by {attack}, {without} without ({verdict}).")
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
