//! The knowledge of each party, and of each pair that joins hands, about everybody's data: who can
//! learn what of whom. It is derived from the rest of a report.

use super::brief;
use super::defense;
use super::document::{Report, Role, ScoringMode};
use super::inference_rows::InferredProperty;

/// The knowledge of one chair about one kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// It is the chair's own data.
    Own,
    /// The protocol hands it over, or what it hands over gives it.
    Told,
    /// This report measures what is learned.
    Measured,
    /// It may be learned from what the chair sees, and this report does not measure it.
    NotMeasured,
    /// Nothing that the chair receives depends on it.
    Excluded,
}

impl Knowledge {
    /// Returns the words for people.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Told => "told",
            Self::Measured => "measured",
            Self::NotMeasured => "not measured",
            Self::Excluded => "excluded",
        }
    }
}

/// One cell, with the reason in a few words. Both hold names as they stand in the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) knowledge: Knowledge,
    pub(super) reason: String,
}

/// The row of one party, or of two that join hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chair {
    pub(super) name: &'static str,
    /// In the order of [`COLUMNS`].
    pub(super) cells: [Cell; 5],
}

/// The headings of a chair's cells.
pub(super) const COLUMNS: [&str; 5] = [
    "features of the active party",
    "features of passive parties",
    "labels",
    "who was trained on",
    "parameters of others",
];

/// The explanation of the table.
pub(super) const READING: &str = "Every party follows the protocol. Told: the protocol hands it over, or gives it by arithmetic. \
     Measured: by this report. Not measured: something that arrives depends on it, and this report does not say how much it tells. \
     Excluded: nothing that arrives depends on it. With several passive parties, the second column is of those that are not in the row.";

/// The training of the model.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Training {
    Plain,
    Private,
    Imported,
}

fn cell(knowledge: Knowledge, reason: impl Into<String>) -> Cell {
    Cell { knowledge, reason: reason.into() }
}

fn own() -> Cell {
    cell(Knowledge::Own, "")
}

/// Returns a row for each kind of party and each kind of pair.
pub(super) fn chairs(report: &Report) -> Vec<Chair> {
    let facts = &report.deployment.training;
    let training = match (facts.imported, facts.private) {
        (true, _) => Training::Imported,
        (false, true) => Training::Private,
        (false, false) => Training::Plain,
    };
    let several = report.passive_parties().count() > 1;
    let mut chairs = vec![
        active(report, training),
        passive(report, training),
        coordinator(report, training),
        auditor(report, training),
        active_and_coordinator(training),
        active_and_passive(report, training),
        passive_and_coordinator(report, training),
    ];
    if several {
        let alone = passive(report, training);
        chairs.push(Chair { name: "two passive parties", ..alone });
    }
    chairs
}

/// Returns the finding on the judged policy for the features of all passive parties.
fn measured(report: &Report) -> Option<String> {
    let line = defense::lines(report).into_iter().find(|line| line.judged)?;
    Some(brief::sentence(&line, report.passive_parties().count() > 1))
}

fn active(report: &Report, training: Training) -> Chair {
    let by_training = "a plain training gives them without a known record (docs/protection.md)";
    let features = match (measured(report), training) {
        (Some(found), Training::Plain) => {
            cell(Knowledge::Told, format!("{by_training}; scores: {found}"))
        }
        (None, Training::Plain) => cell(Knowledge::Told, by_training),
        (Some(found), _) => cell(Knowledge::Measured, found),
        (None, _) => cell(Knowledge::NotMeasured, "no audit of scores"),
    };
    let shown = report.deployment.parties.iter().filter(|party| party.role == Role::Passive);
    let shown: Vec<&str> = shown
        .filter_map(|party| party.parameters_shown.as_deref())
        .filter(|shown| !shown.starts_with("nothing"))
        .collect();
    let parameters = match (shown.is_empty(), training) {
        (_, Training::Plain) => cell(Knowledge::Told, "with the features"),
        (false, _) => cell(Knowledge::Told, format!("as they are shown: {}", shown.join("; "))),
        (true, _) => cell(Knowledge::NotMeasured, "scores depend on them"),
    };
    Chair { name: "active party", cells: [own(), features, own(), own(), parameters] }
}

/// Returns the labels that a passive party knows, and how.
fn labels(report: &Report, training: Training) -> Cell {
    let measured = report.inferences.iter().find(|row| row.of == InferredProperty::Labels);
    match (training, measured) {
        (Training::Plain, _) => cell(Knowledge::Told, "the sign of a residual"),
        (_, Some(row)) => cell(Knowledge::Measured, format!("{}: {}", row.attack, row.verdict)),
        (_, None) => cell(Knowledge::Excluded, ""),
    }
}

/// Returns the knowledge of the training records' ids, which all parties of a training have.
fn records(training: Training) -> Cell {
    match training {
        Training::Imported => cell(Knowledge::Excluded, "no training took place here"),
        _ => cell(Knowledge::Told, "ids of the training records"),
    }
}

fn passive(report: &Report, training: Training) -> Chair {
    let features = match training {
        Training::Plain => cell(Knowledge::Told, "residuals of every step (docs/protection.md)"),
        _ => cell(Knowledge::Excluded, "it learns ids of scored records alone"),
    };
    let parameters = match training {
        Training::Plain => cell(Knowledge::Told, "with the features"),
        _ => cell(Knowledge::Excluded, ""),
    };
    let labels = labels(report, training);
    let others = if report.passive_parties().count() > 1 { features.clone() } else { own() };
    Chair {
        name: "a passive party",
        cells: [features, others, labels, records(training), parameters],
    }
}

/// The end of a cell on logit shares: where embeddings are measured, which stand in their place
/// under a top model.
const UNDER_CONCAT: &str = "; under concat an embedding, measured by cloison transcript --combiner concat \
     (docs/protection.md)";

fn coordinator(report: &Report, training: Training) -> Chair {
    let private = report.deployment.private_release;
    let on_shares = || cell(Knowledge::Excluded, "answers are computed on secret shares");
    let (features, labels) = match training {
        Training::Plain => (
            cell(Knowledge::Told, format!("shares of every step{UNDER_CONCAT}")),
            cell(Knowledge::Told, "for residuals"),
        ),
        _ if private => (on_shares(), cell(Knowledge::Excluded, "")),
        _ => (
            cell(
                Knowledge::NotMeasured,
                format!("a logit share of each party for every scored record{UNDER_CONCAT}"),
            ),
            cell(Knowledge::Excluded, ""),
        ),
    };
    let parameters = match private && training != Training::Plain {
        true => on_shares(),
        false => cell(Knowledge::NotMeasured, "logit shares depend on them"),
    };
    let cells = [features.clone(), features, labels, records(training), parameters];
    Chair { name: "coordinator", cells }
}

fn auditor(report: &Report, training: Training) -> Chair {
    let trusted = report.scoring.iter().any(|facts| facts.mode == ScoringMode::Trusted);
    let features = match (report.scoring.is_empty(), trusted) {
        (true, _) => cell(Knowledge::NotMeasured, "errors of the estimates that it sends"),
        (_, true) => cell(Knowledge::Told, "exact errors of estimates that it chooses"),
        (_, false) => {
            cell(Knowledge::Measured, "noise bounds what errors of chosen estimates tell")
        }
    };
    let trained = match training {
        Training::Imported => records(training),
        _ => cell(Knowledge::NotMeasured, "accuracies and errors depend on it"),
    };
    let labels = cell(Knowledge::NotMeasured, "accuracies depend on them");
    let parameters = cell(Knowledge::NotMeasured, "errors depend on them");
    let active = cell(Knowledge::NotMeasured, "estimates depend on them");
    Chair { name: "auditor", cells: [active, features, labels, trained, parameters] }
}

/// Returns the knowledge of two of the three parties that hold the shares of a private training.
fn all_shares() -> Cell {
    cell(Knowledge::Told, "two parties' shares of the training are all of it")
}

fn active_and_coordinator(training: Training) -> Chair {
    let features = match training {
        Training::Plain => cell(Knowledge::Told, "as the active party"),
        Training::Private => all_shares(),
        Training::Imported => {
            cell(Knowledge::NotMeasured, "undefended logit shares of every scored record")
        }
    };
    let parameters = match training {
        Training::Imported => cell(Knowledge::NotMeasured, "logit shares depend on them"),
        _ => features.clone(),
    };
    let name = "active party and coordinator";
    Chair { name, cells: [own(), features, own(), own(), parameters] }
}

fn active_and_passive(report: &Report, training: Training) -> Chair {
    let colluding = report.audits.iter().any(|audit| !audit.threat_model.colluding.is_empty());
    let several = report.passive_parties().count() > 1;
    let features = match (several, training) {
        (false, _) => own(),
        (_, Training::Plain) => cell(Knowledge::Told, "as the active party"),
        (_, Training::Private) => cell(
            Knowledge::Told,
            "with the party that computes: its shares and these are all of it",
        ),
        (_, Training::Imported) if colluding => {
            cell(Knowledge::Measured, "audits with colluding parties")
        }
        (_, Training::Imported) => cell(Knowledge::NotMeasured, "no audit with colluding parties"),
    };
    let parameters = features.clone();
    let name = "active and a passive party";
    Chair { name, cells: [own(), features, own(), own(), parameters] }
}

fn passive_and_coordinator(report: &Report, training: Training) -> Chair {
    let (features, labels) = match training {
        Training::Plain => {
            (cell(Knowledge::Told, "as the coordinator"), cell(Knowledge::Told, "as either"))
        }
        Training::Private => (
            cell(
                Knowledge::Told,
                "with the party that computes: two parties' shares are all of it",
            ),
            all_shares(),
        ),
        Training::Imported => (
            cell(Knowledge::NotMeasured, "a logit share of each party for every scored record"),
            cell(Knowledge::Excluded, ""),
        ),
    };
    let parameters = match training {
        Training::Imported => cell(Knowledge::NotMeasured, "logit shares depend on them"),
        _ => features.clone(),
    };
    let others = if report.passive_parties().count() > 1 { features.clone() } else { own() };
    let name = "a passive party and coordinator";
    Chair { name, cells: [features, others, labels, records(training), parameters] }
}
