//! Models of the same data and split that were trained with differential privacy of their
//! parameters, compared with the report's own: the leakage of their exact scores, and the cost of
//! the privacy.

use vfl_present::ColumnKind::{Figure, Name, Number};
use vfl_present::{Table, figure, four, significant};

use super::document::{Audit, PrivateTraining, Report};
use super::facts::NONE;

/// The line of one training, as text.
pub(super) struct PrivateLine {
    /// The noise, in units of the clip.
    pub(super) noise: String,
    /// ε, rounded up.
    pub(super) epsilon: String,
    /// The accuracy on test records.
    pub(super) accuracy: String,
    /// The error of the strongest attack of an adversary that knows no record.
    pub(super) unaware: String,
    /// The error of the strongest attack of an adversary that knows some records.
    pub(super) with_scores: String,
    /// The error of the same adversary without scores.
    pub(super) control: String,
    /// 1 − `with_scores` / `control`.
    pub(super) added: String,
    /// The interval of the added risk.
    pub(super) interval: String,
}

/// The heading of the lines.
pub(super) const HEADING: &str = "The same data, split and model, trained with noise: exact scores";

/// The explanation of the lines.
pub(super) const READING: &str = "Noise: standard deviation over the clip. ε: differential privacy of one record's features at one party, for its \
     parameters. It promises nothing of scores: they are of the record that is asked for.";

/// Returns a line for each training.
pub(super) fn lines(report: &Report) -> Vec<PrivateLine> {
    report.private_trainings.iter().map(line).collect()
}

/// Returns the table of the models, a row for each. `with_scores` is the heading of the error with
/// scores.
pub(super) fn table(report: &Report, with_scores: &str) -> Table {
    let lines = lines(report);
    Table::new()
        .column("noise", Name, lines.iter().map(|line| &line.noise))
        .column("ε", Number, lines.iter().map(|line| &line.epsilon))
        .column("accuracy", Figure, lines.iter().map(|line| &line.accuracy))
        .column("unaware", Figure, lines.iter().map(|line| &line.unaware))
        .column(with_scores, Figure, lines.iter().map(|line| &line.with_scores))
        .column("without", Figure, lines.iter().map(|line| &line.control))
        .column("added risk", Figure, lines.iter().map(|line| &line.added))
        .column("95 %", Figure, lines.iter().map(|line| &line.interval))
}

fn line(training: &PrivateTraining) -> PrivateLine {
    // Adversaries that know only moments have a control of their own.
    let audits = || {
        training
            .audits
            .iter()
            .filter(|audit| audit.threat_model.sees_scores() && !audit.threat_model.moments)
    };
    let unaware =
        audits().filter(|audit| !audit.threat_model.informed()).filter_map(Audit::strongest);
    let unaware = unaware.min_by(|a, b| a.1.mse.total_cmp(&b.1.mse));
    let informed = audits().find_map(Audit::added_risk);
    let none = || NONE.to_owned();
    let percent = |share: f64| format!("{} %", significant(100.0 * share));
    PrivateLine {
        noise: training.privacy.noise.to_string(),
        epsilon: training.privacy.shown_epsilon(),
        accuracy: four(training.test_accuracy),
        unaware: unaware.map_or_else(none, |(_, errors)| figure(errors.mse, errors.sigma)),
        with_scores: informed
            .as_ref()
            .map_or_else(none, |(_, errors, _)| figure(errors.mse, errors.sigma)),
        control: informed.as_ref().map_or_else(none, |(_, _, risk)| significant(risk.control_mse)),
        added: informed.as_ref().and_then(|(_, _, risk)| risk.value).map_or_else(none, percent),
        interval: informed
            .and_then(|(_, _, risk)| Some((risk.low?, risk.high?)))
            .map_or_else(none, |(low, high)| {
                format!("{} to {}", significant(100.0 * low), significant(100.0 * high))
            }),
    }
}
