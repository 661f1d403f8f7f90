//! A report in a few words, and all its figures as rows: what others list and lay side by side.

use super::brief::brief;
use super::defense::{self, DefenseLine};
use super::document::Report;
use super::facts::{self, Rows};
use super::level::Level;
use super::text::printable;
use super::thresholds::Compliance;

/// A report in a few words.
pub(crate) struct Digest {
    /// The verdict on the policy judged, in a sentence; `None` where nothing is told by attribute.
    pub(crate) headline: Option<String>,
    /// Each release surface, and what comes of it, without a full stop.
    pub(crate) surfaces: Vec<(&'static str, String)>,
    /// How the judged policy stands to each threshold.
    pub(crate) demands: Vec<(Compliance, String)>,
    /// What to do next, in a sentence.
    pub(crate) next: String,
    /// Whether adversaries with a control were audited, so that added risks are known.
    pub(crate) informed: bool,
    /// The policies.
    pub(crate) lines: Vec<Line>,
}

/// One policy: all figures in words.
pub(crate) struct Line {
    /// Its name with its parameters.
    pub(crate) policy: String,
    /// Whether it is the one in service.
    pub(crate) in_service: bool,
    /// How far the strongest attack got.
    pub(crate) level: Level,
    /// How it stands to the thresholds, if there are any.
    pub(crate) compliance: Option<Compliance>,
    /// The strongest attack.
    pub(crate) attack: String,
    /// Its error.
    pub(crate) error: String,
    /// The error of guessing the column mean.
    pub(crate) guess: String,
    /// The attribute that the scores tell most of.
    pub(crate) attribute: String,
    /// What the scores add, with its interval.
    pub(crate) added: String,
    /// The accuracy that it costs, in points.
    pub(crate) cost: String,
}

/// A report in a few words.
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
        demands: brief.demands.into_iter().map(|(compliance, words)| (compliance, printable(&words))).collect(),
        next: printable(&brief.next),
    }
}

/// All figures of one audit of a report, by their names.
pub(crate) struct Sheet {
    /// The policy and the adversary.
    pub(crate) title: String,
    /// What is measured, and the figure.
    pub(crate) rows: Vec<(String, String)>,
}

/// The audits of a report, in its order: of each what the policy costs, then the error of every attack and guess.
pub(crate) fn sheets(report: &Report) -> Vec<Sheet> {
    let sheet = |audit| {
        let rows = Rows::of(report, audit);
        let errors = rows.rows.iter().map(|row| (format!("error, {}", printable(&row.name)), row.mse.clone()));
        let costs = facts::utility(&audit.utility).into_iter().map(|(name, figure)| (name.to_owned(), figure));
        Sheet {
            title: format!("{}, {} adversary", printable(&audit.policy.label()), facts::adversary(audit)),
            rows: [("records".to_owned(), audit.records.to_string())].into_iter().chain(costs).chain(errors).collect(),
        }
    };
    report.audits.iter().map(sheet).collect()
}
