//! A digest of a report, and all its figures as rows, for lists and comparisons of reports.

use vfl_present::printable;

use super::brief::brief;
use super::defense::{self, DefenseLine};
use super::document::Report;
use super::facts::{self, Rows};
use super::level::Level;
use super::thresholds::Compliance;

/// The digest of a report.
pub(crate) struct Digest {
    /// The verdict on the judged policy, in a sentence; `None` if there are no figures by
    /// attribute.
    pub(crate) headline: Option<String>,
    /// Each release surface with its finding, without a full stop.
    pub(crate) surfaces: Vec<(&'static str, String)>,
    /// The judged policy's compliance with each threshold.
    pub(crate) demands: Vec<(Compliance, String)>,
    /// The next step, in a sentence.
    pub(crate) next: String,
    /// True if adversaries with a control were audited, so that added risks are known.
    pub(crate) informed: bool,
    pub(crate) lines: Vec<Line>,
}

/// The line of one policy, all figures as text.
pub(crate) struct Line {
    /// The policy's name with its parameters.
    pub(crate) policy: String,
    /// True if the policy is in service.
    pub(crate) in_service: bool,
    /// The success of the strongest attack.
    pub(crate) level: Level,
    /// The compliance with the thresholds, if there are any.
    pub(crate) compliance: Option<Compliance>,
    /// The strongest attack.
    pub(crate) attack: String,
    /// The error of the attack.
    pub(crate) error: String,
    /// The error of guessing the column mean.
    pub(crate) guess: String,
    /// The attribute that the scores reveal most about.
    pub(crate) attribute: String,
    /// The added risk, with its interval.
    pub(crate) added: String,
    /// The accuracy that the policy costs, in points.
    pub(crate) cost: String,
}

/// Returns the digest of a report.
pub(crate) fn digest(report: &Report) -> Digest {
    let brief = brief(report);
    let lines = defense::lines(report);
    let several = report.passive_parties().count() > 1;
    let line = |line: &DefenseLine<'_>| Line {
        policy: printable(&line.policy.label()),
        in_service: report.in_service.as_ref() == Some(line.policy),
        level: line.level,
        compliance: line.compliance(),
        attack: line.attack.map_or_else(|| facts::NONE.into(), printable),
        error: line.error(),
        guess: line.guess(),
        attribute: printable(&line.attribute(several)),
        added: line.added_with_interval(),
        cost: line.cost(),
    };
    Digest {
        headline: brief.headline.map(|headline| printable(&headline.text)),
        informed: lines.iter().any(|line| line.risk.is_some()),
        lines: lines.iter().map(line).collect(),
        surfaces: brief.surfaces.into_iter().map(|s| (s.surface, printable(&s.text))).collect(),
        demands: brief
            .demands
            .into_iter()
            .map(|(compliance, words)| (compliance, printable(&words)))
            .collect(),
        next: printable(&brief.next),
    }
}

/// All figures of one audit of a report, by name.
pub(crate) struct Sheet {
    /// The policy and the adversary.
    pub(crate) title: String,
    /// The names of the figures, with the figures.
    pub(crate) rows: Vec<(String, String)>,
}

/// Returns a sheet for each audit, in the order of the report: the cost of the policy, then the
/// error of every attack and guess.
pub(crate) fn sheets(report: &Report) -> Vec<Sheet> {
    let sheet = |audit| {
        let rows = Rows::of(report, audit);
        let errors = rows
            .rows
            .iter()
            .map(|row| (format!("error, {}", printable(&row.name)), row.mse.clone()));
        let costs = facts::utility(&audit.utility)
            .into_iter()
            .map(|(name, figure)| (name.to_owned(), figure));
        Sheet {
            title: format!(
                "{}, {} adversary",
                printable(&audit.policy.label()),
                facts::adversary(audit)
            ),
            rows: [("records".to_owned(), audit.records.to_string())]
                .into_iter()
                .chain(costs)
                .chain(errors)
                .collect(),
        }
    };
    report.audits.iter().map(sheet).collect()
}
